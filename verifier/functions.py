"""Check a function of one's own: trace it, convert the program, type and price it, and say everything in the words of
its author: values by their path, equations by their line.

    report = verifier.check(train_step, params, opt_state, batch)
    print(report); report.communication; report.refusals; report.types; report.to_json()

The door that needs JAX. Nothing here runs the function on devices.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from calculus.bodies import settle
from calculus.checking import Checker
from calculus.communication import ALL_GATHER
from calculus.effects import Charge
from calculus.meshes import AxisMode
from calculus.primitives import TABLE
from calculus.programs import Document, Equation, Program
from calculus.refusals import Family, Refusal, Refused
from calculus.types import Type
from verifier.attribution import Attribution
from verifier.examine import Examined, counted, examine, notes, row
from verifier.report import Report, Row, as_json, summary, table, verdict_on

if TYPE_CHECKING:
    from verifier.with_jax.lines import Lines
    from verifier.with_jax.trace import Trace

_KEY: Final = re.compile(r"\[[^\[\]]*\]|\.\w+")


@dataclass(slots=True)
class FunctionReport(Report):
    """The report on a function; `file` is its name. types: of every input and output, by its path. unsharded: whether
    no array carries an explicit sharding."""

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
    `data=512,model=8`; without it the mesh in context, else that of the arguments. Declarations of the project at hand
    (`verifier.rules_files`) join the table first.

    A function that JAX refuses at these types, and traces where the arguments are copies on every device, is checked as
    traced there, its types inferred from the arguments on: the report says so, and refuses in our words, or does not.

    Raises `TypeError` for what cannot be traced, `calculus.refusals.Refused` for an impossible mesh, `BadRules`, and
    what else JAX raises when it traces. What the types refuse is in the report.
    """
    from verifier.rules_files import load_rules
    from verifier.with_jax.lines import Lines
    from verifier.with_jax.objects import ObjectChecker, Objects
    from verifier.with_jax.trace import trace

    load_rules()
    try:
        traced = trace(f, *args, mesh=mesh, **kwargs)
    except Refused as refused:
        if refused.refusal.help:
            refused.add_note(f"help: {refused.refusal.help}")
        raise refused.with_traceback(None) from None
    except Exception as error:
        report = _inferred(f, args, kwargs, mesh, error)
        if report is not None:
            return report
        error.__traceback__ = _theirs(error.__traceback__)
        raise
    objects = Objects(traced.program)
    program = objects.program(objects.main)
    examined = examine(program, ObjectChecker(traced.meshes, objects))
    return _report(_name(f), traced, program, examined, Lines(objects.as_converted()))


def _inferred(f: Any, args: Any, kwargs: Any, mesh: Any, error: Exception) -> FunctionReport | None:
    """The report on a function that JAX refuses at its arguments' types: see `verifier.with_jax.untyped`."""
    from verifier.with_jax.convert import Converted
    from verifier.with_jax.lines import Lines
    from verifier.with_jax.untyped import untyped

    found = untyped(f, args, kwargs, mesh)
    if found is None:
        return None
    examined = examine(found.program, Checker(found.trace.meshes))
    lines = Lines(Converted(Document((), found.program), found.conversion.origins))
    report = _report(_name(f), found.trace, found.program, examined, lines)
    said = ": ".join(filter(None, (type(error).__name__, str(error).strip().partition("\n")[0])))
    report.notes.insert(
        0,
        f"JAX does not trace this at these types ({said}); it was traced with copies for arguments, gradients inside "
        "included, and the types are inferred from the arguments on; it is assumed to do the same at both",
    )
    report.assumed += report.verdict == "ok"
    return report


def _theirs(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without our own frames: what went wrong stands in the user's code, or in JAX's."""
    if traceback is None:
        return None
    rest = _theirs(traceback.tb_next)
    if traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


_OURS: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _name(f: Any) -> str:
    found = getattr(f, "__name__", None) or getattr(f, "fun_name", None) or type(f).__name__
    return str(found)


def _report(name: str, traced: Trace, program: Program, examined: Examined, lines: Lines) -> FunctionReport:
    known = [None] * len(program.constants) + list(traced.inputs)
    attribution = Attribution(examined.checked, program)
    twins = _Twins(known, (*program.constant_types, *program.input_types))
    found = examined.checked.types if examined.checked is not None else ()
    results = [settle(examined.checker, result, None) for result in found]
    rows: list[Row] = []
    for charge in examined.charges:
        place = charge.equation.line
        where, library = _where(lines, place)
        value = _value(charge, attribution, known, traced, twins, results)
        rows.append(row(charge, _user_line(lines, place), where, value, library))
    refusals = [
        _in_their_words(refusal, site, attribution, known, lines) for refusal, site in examined.checker.refusals
    ]
    seen = (*program.input_types, *examined.checker.scope.chosen)
    explicit = any(axis.mode is AxisMode.EXPLICIT for mesh in traced.meshes for axis in mesh.axes)
    unsharded = not explicit and all(getattr(type, "plain", True) for type in seen)
    said = notes(
        examined, lambda sizes: f"give mesh='{sizes}'", lambda equation: _where(lines, equation.line)[0] or "somewhere"
    )
    if unsharded:
        said.insert(
            0,
            "no array carries an explicit sharding, so this is read as auto mode: types are checked, and communication "
            "is chosen by the compiler",
        )
    types = {
        **{path: type for path, type in zip(traced.inputs, program.input_types, strict=False) if type is not None},
        **{path: type for path, type in zip(traced.outputs, results, strict=False) if type is not None},
    }
    verdict = verdict_on(refusals)
    return FunctionReport(
        name, verdict, examined.checker.equations, counted(refusals), rows, said, examined.assumed, types, unsharded
    )


def _where(lines: Lines, place: int) -> tuple[str, str]:
    """The user's line, or the first of several, `train.py:42`; and the library's function and line that it calls."""
    if place < 1:
        return "", ""
    first, *more = lines.at(place)
    where = str(first.user) if first.user is not None else str(first)
    inside = first.library if first.user is not None else None
    return (
        f"{where} and {len(more)} more" if more else where,
        "" if inside is None else f"{inside.function}, {inside}",
    )


def _user_line(lines: Lines, place: int) -> int:
    if place < 1:
        return 0
    user = lines.at(place)[0].user
    return 0 if user is None else user.line


class _Twins:
    """The inputs that outputs belong to: those whose keys end the outputs' paths, and which have their shape."""

    def __init__(self, inputs: Sequence[str | None], types: Sequence[Type | None]) -> None:
        self._by_keys: dict[tuple[str, ...], list[tuple[str, object]]] = {}
        for path, type in zip(inputs, types, strict=False):
            if path:
                self._by_keys.setdefault(_keys(path), []).append((path, getattr(type, "shape", None)))

    def of(self, paths: Sequence[str], types: Sequence[Type | None]) -> str | None:
        """The input that all these outputs belong to, by the longest keys. Keys that are the whole of an output's path
        tell something only if one of them is a name."""
        ends = [_keys(path) for path in paths]
        shapes = {getattr(type, "shape", None) for type in types}
        for count in range(min(map(len, ends)), 0, -1):
            keys = ends[0][-count:]
            if any(end[-count:] != keys for end in ends):
                continue
            if count == min(map(len, ends)) and all(key[1:-1].isdigit() for key in keys):
                continue
            for path, shape in self._by_keys.get(keys, ()):
                if shapes == {shape}:
                    return path
        return None


def _value(
    charge: Charge, attribution: Attribution, inputs: Sequence[str | None], traced: Trace, twins: _Twins,
    types: Sequence[Type | None],
) -> str:  # fmt: skip
    """The input that is moved, or what the result becomes: the gradient (or, of a gather, the update) of the input
    that these outputs belong to, else the outputs' own paths."""
    found = attribution.origin(charge)
    if found is not None and found < len(inputs):
        return inputs[found] or ""
    places = [index for index in sorted(attribution.destinations(charge)) if index < len(traced.outputs)]
    paths = [traced.outputs[index] for index in places]
    if not paths:
        return ""
    twin = twins.of(paths, [types[index] for index in places])
    if twin is not None:
        return f"{'update' if charge.collective.kind == ALL_GATHER else 'gradient'} of {twin}"
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


@functools.cache
def _keys(path: str) -> tuple[str, ...]:
    """The keys of a path, in order: `params['up'].kernel.value` has `['up']` and `.kernel`, since a variable's value is
    the variable."""
    found = _KEY.findall(path)
    return tuple(found[:-1] if found and found[-1] == ".value" else found)


def _in_their_words(
    refusal: Refusal,
    site: Equation | Program | None,
    attribution: Attribution,
    inputs: Sequence[str | None],
    lines: Lines,
) -> Refusal:
    """A refusal with the user's line, and with what its operands are."""
    place = site.line if site is not None else 0
    refusal.line = _user_line(lines, place)
    refusal.column = 0
    where, library = _where(lines, place)
    if where:
        refusal.trail = (*refusal.trail, f"at {where} (in {library})" if library else f"at {where}")
    if isinstance(site, Equation) and refusal.family is not Family.UNMODELLED:
        spoken_of = [index for index in range(len(site.inputs)) if _mentions(refusal, index, len(site.inputs))]
        named = [_operand(refusal, site, index, attribution, inputs, lines) for index in spoken_of]
        if any(named):
            refusal.message = f"{refusal.message} ({'; '.join(filter(None, named))})"
    return refusal


_FEW: Final = 3


def _mentions(refusal: Refusal, index: int, count: int) -> bool:
    """Whether to say what this operand is: one of few, or one that the refusal speaks of."""
    if count <= _FEW or (refusal.place.part == "operand" and refusal.place.index == index):
        return True
    return re.search(rf"\boperand {index}\b", " ".join((refusal.message, refusal.because, refusal.help))) is not None


def _operand(
    refusal: Refusal,
    equation: Equation,
    index: int,
    attribution: Attribution,
    inputs: Sequence[str | None],
    lines: Lines,
) -> str:
    """What people know of an operand: which argument it is or is made from, else the line that makes it."""
    name = _declared(equation, index)
    called = f"operand {index}"
    if name and re.search(rf"\b{re.escape(name)}\b", refusal.because):
        called += f", {name},"
    found = attribution.of_operand(equation, index)
    if found.literal is not None:
        return f"{called} is the number {found.literal.text}"
    if found.input is not None and found.input < len(inputs) and inputs[found.input]:
        return f"{called} is {'made from ' if found.moved else ''}{inputs[found.input]}"
    if found.maker is not None:
        where, _ = _where(lines, found.maker.line)
        return f"{called} is made by {found.maker.primitive} at {where}" if where else ""
    return ""


def _declared(equation: Equation, index: int) -> str:
    """What the declaration of an equation's primitive calls an operand: `x`, or `x1` of several."""
    primitive = TABLE.get(equation.primitive)
    names: list[str] = []
    for name in primitive.operands if primitive is not None else ():
        many = len(equation.inputs) - len(primitive.operands) + 1 if primitive is not None else 0
        stem = name.removesuffix("...")
        names += [name] if stem == name else [f"{stem}{number}" for number in range(many)] if many > 1 else [stem]
    return names[index] if index < len(names) else ""


def _shown(refusal: Refusal) -> list[str]:
    where = next((words.removeprefix("at ") for words in refusal.trail if words.startswith("at ")), "")
    found = [
        f"{where or 'somewhere'}: {refusal.family.value}: {refusal.message}",
        f"  rule: {refusal.rule} [{refusal.code}]",
    ]
    found += [f"  {label}: {words}" for label, words in (("because", refusal.because), ("help", refusal.help)) if words]
    return found
