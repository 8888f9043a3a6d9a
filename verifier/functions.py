"""Check a function of one's own: trace it, convert the program, type and price it, and say everything in the words of
its author: values by their path, equations by their line.

    report = verifier.check(train_step, params, opt_state, batch)
    print(report); report.communication; report.refusals; report.types; report.to_json()

The door that needs JAX. Nothing here runs the function on devices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from calculus.communication import ALL_GATHER
from calculus.effects import Charge
from calculus.programs import Document, Equation, Literal, Program
from calculus.refusals import Refusal
from calculus.types import Type
from verifier.attribution import destinations, input_of, origin
from verifier.examine import Examined, counted, examine, notes, row
from verifier.report import Report, Row, as_json, summary, table, verdict_on

if TYPE_CHECKING:
    from verifier.with_jax.lines import Lines
    from verifier.with_jax.trace import Trace

_KEY: Final = re.compile(r"\[[^\[\]]*\]|\.\w+")


@dataclass(slots=True)
class FunctionReport(Report):
    """The report on a function. types: of every input and output, by its path. title: the function's name."""

    types: dict[str, Type] = field(default_factory=dict)
    unsharded: bool = False

    def __str__(self) -> str:
        return "\n".join(self._paragraphs())

    def _paragraphs(self) -> list[str]:
        found = [summary(self)]
        found += [f"  note: {note}" for note in self.notes]
        if self.communication:
            found += table(self.communication)
        if self.refusals:
            found += ["", self.explained("", len(self.refusals))]
        return found

    def explained(self, text: str, most: int) -> str:
        """The first refusals, each with the user's line instead of a place in a text."""
        return "\n\n".join("\n".join(_shown(refusal)) for refusal in self.refusals[:most])

    def _repr_html_(self) -> str:
        from verifier.html import as_html

        return as_html(self)

    def to_json(self, indent: int | None = 2) -> str:
        """The report as JSON: what `shardproof check --json` prints for one file, and the types."""
        return json.dumps(self.data(), indent=indent)

    def data(self) -> dict[str, object]:
        """The report as plain data."""
        return {**as_json(self), "types": {path: str(type) for path, type in self.types.items()}}


def check(f: Any, *args: Any, mesh: Any = None, **kwargs: Any) -> FunctionReport:
    """Check a function at these arguments.

    f: a function, a jitted function, a `jax.stages.Traced`, or a jaxpr. args, kwargs: arrays or
    `jax.ShapeDtypeStruct`, in any pytree. mesh: a mesh of JAX's (abstract ones need no devices), or text such as
    `data=512,model=8`; without it the mesh in context, else that of the arguments.

    Raises `TypeError` for what cannot be traced, `calculus.refusals.Refused` for an impossible mesh, and what JAX
    raises when it traces. What the types refuse is in the report.
    """
    from verifier.with_jax.convert import convert_with_origins
    from verifier.with_jax.lines import Lines
    from verifier.with_jax.trace import trace

    traced = trace(f, *args, mesh=mesh, **kwargs)
    converted = convert_with_origins(traced.program)
    examined = examine(converted.document, traced.meshes)
    return _report(_name(f), traced, converted.document, examined, Lines(converted))


def _name(f: Any) -> str:
    found = getattr(f, "__name__", None) or getattr(f, "fun_name", None) or type(f).__name__
    return str(found)


def _report(name: str, traced: Trace, document: Document, examined: Examined, lines: Lines) -> FunctionReport:
    program = document.program
    known = [None] * len(program.constants) + list(traced.inputs)
    rows: list[tuple[int, Row]] = []
    for charge in examined.charges:
        where = _where(lines, charge.equation.line)
        rows.append(
            (
                charge.equation.line,
                row(charge, _user_line(lines, charge.equation.line), where, _value(charge, known, traced)),
            )
        )
    rows.sort(key=lambda pair: pair[0])
    refusals = [_in_their_words(refusal, site, examined, known, lines) for refusal, site in examined.checker.refusals]
    unsharded = not traced.meshes or all(_plain(type) for type in (*program.input_types, *_all_types(program)))
    said = notes(examined, lambda sizes: f"give mesh='{sizes}'")
    if unsharded:
        said.insert(
            0,
            "no array carries an explicit sharding, so this is read as auto mode: types are checked, and communication "
            "is chosen by the compiler",
        )
    types = {
        **{path: type for path, type in zip(traced.inputs, program.input_types, strict=False) if type is not None},
        **{
            path: type
            for path, type in zip(traced.outputs, examined.checked.types if examined.checked else (), strict=False)
            if type is not None
        },
    }
    verdict = verdict_on(refusals)
    return FunctionReport(
        name, verdict, examined.checker.equations, counted(refusals), [one for _, one in rows], said, types, unsharded
    )


def _plain(type: Type | None) -> bool:
    return getattr(type, "plain", True)


def _all_types(program: Program) -> list[Type | None]:
    return [type for equation in program.equations for type in equation.types]


def _where(lines: Lines, place: int) -> str:
    """The user's line, or lines: `train.py:42`, with the library's line beside it where it is not their own."""
    if place < 1:
        return ""
    sites = lines.at(place)
    shown = str(sites[0])
    return shown if len(sites) == 1 else f"{shown} and {len(sites) - 1} more"


def _user_line(lines: Lines, place: int) -> int:
    if place < 1:
        return 0
    user = lines.at(place)[0].user
    return 0 if user is None else user.line


def _value(charge: Charge, inputs: Sequence[str | None], traced: Trace) -> str:
    """The input that is moved, or what the result becomes: the gradient (or, of a gather, the update) of the input
    whose keys end the paths of all these outputs, else the outputs' own paths."""
    found = origin(charge)
    if found is not None and found < len(inputs):
        return inputs[found] or ""
    paths = [traced.outputs[index] for index in sorted(destinations(charge)) if index < len(traced.outputs)]
    if not paths:
        return ""
    ends = [_keys(path) for path in paths]
    twins = [
        path
        for path in inputs
        if path and (keys := _keys(path)) and all(end[-len(keys) :] == keys and len(end) > len(keys) for end in ends)
    ]
    if twins:
        what = "update" if charge.collective.kind == ALL_GATHER else "gradient"
        return f"{what} of {max(twins, key=lambda path: len(_keys(path)))}"
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _keys(path: str) -> tuple[str, ...]:
    """The keys of a path, in order: `params['up'].kernel.value` has `['up']` and `.kernel`, since a variable's value is
    the variable."""
    found = _KEY.findall(path)
    return tuple(found[:-1] if found and found[-1] == ".value" else found)


def _in_their_words(
    refusal: Refusal,
    site: Equation | Program | None,
    examined: Examined,
    inputs: Sequence[str | None],
    lines: Lines,
) -> Refusal:
    """A refusal with the user's line, and with the names of operands that are inputs."""
    place = site.line if site is not None else 0
    refusal.line = _user_line(lines, place)
    refusal.column = 0
    where = _where(lines, place)
    if where:
        refusal.trail = (*refusal.trail, f"at {where}")
    if isinstance(site, Equation) and examined.checked is not None:
        program = _holder(examined, site)
        named = []
        for index, atom in enumerate(site.inputs):
            if isinstance(atom, Literal) or program is None or f"operand {index}" not in refusal.message + refusal.help:
                continue
            found = input_of(examined.checked, program, atom)
            if found is not None and found < len(inputs) and inputs[found]:
                named.append(f"operand {index} is {inputs[found]}")
        if named:
            refusal.message = f"{refusal.message} ({', '.join(named)})"
    return refusal


def _holder(examined: Examined, equation: Equation) -> Program | None:
    waiting = [examined.checked]
    seen: set[int] = set()
    while waiting:
        body = waiting.pop()
        if body is None or id(body) in seen:
            continue
        seen.add(id(body))
        if any(one is equation for one in body.program.equations):
            return body.program
        waiting += [inner.body for effect in body.effects for inner in effect.inner]
    return None


def _shown(refusal: Refusal) -> list[str]:
    where = next((words.removeprefix("at ") for words in refusal.trail if words.startswith("at ")), "")
    found = [
        f"{where or 'somewhere'}: {refusal.family.value}: {refusal.message}",
        f"  rule: {refusal.rule} [{refusal.code}]",
    ]
    found += [f"  {label}: {words}" for label, words in (("because", refusal.because), ("help", refusal.help)) if words]
    return found
