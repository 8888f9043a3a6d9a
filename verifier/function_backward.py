"""The backward program of a function: derived from what JAX traces of the function alone, and told in the words of its
author. Nothing is differentiated by JAX, and nothing runs.

    report = verifier.check(loss, params, batch).backward()
    print(report); report.gradients; report.communication; report.refusals; report.text
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from calculus.gradients import gradient, vjp
from calculus.linear_programs import transposed
from calculus.linearization import differentiable
from calculus.programs import Document, Program
from calculus.refusals import Refusal, Refused
from calculus.types import ArrayType, Type
from grammar.print import print_document
from verifier.backward import KINDS, Derive, Facts, Made, UnknownInput, linear_part, linearized, made, within
from verifier.examine import Examined, counted, notes
from verifier.functions import FunctionReport, Source
from verifier.report import verdict_on
from verifier.wording import Words


@dataclass(slots=True)
class BackwardReport(FunctionReport):
    """The report on a program that was derived from a function. gradients: the type of each gradient (of a
    linearization, of each tangent of a result), by the path of what it belongs to. text: the program, as JAX would
    print it, empty where there is none."""

    kind: str = ""
    gradients: dict[str, Type] = field(default_factory=dict)
    text: str = field(default="", repr=False)

    @property
    def what(self) -> str:
        """What this is: `gradient`, `vjp`, `transpose` or `linearization`."""
        return self.kind

    def backward(self, wrt: Any = None) -> BackwardReport:
        """A derived program is not derived again from its report. Raises `UnknownInput`, which says what to do."""
        raise UnknownInput(
            f"this is the report on a {self.kind} already: for a second derivative, check the first, "
            "verifier.check(jax.grad(f), ...).backward()"
        )

    def data(self) -> dict[str, object]:
        """The report as plain data."""
        found = FunctionReport.data(self)
        return {**found, "gradients": {path: str(type) for path, type in self.gradients.items()}}


def backward(report: FunctionReport, wrt: Any = None) -> BackwardReport:
    """The report on the gradient of a function, or, where its result is not one floating number, on its vjp. See
    `FunctionReport.backward`."""
    types = list(_results(report))
    lone = len(types) == 1 and isinstance(types[0], ArrayType) and not types[0].shape and differentiable(types[0])
    return derive_function(report, gradient if lone else vjp, wrt)


def _results(report: FunctionReport) -> Iterable[Type | None]:
    source = report.source
    return [report.types.get(path) for path in source.outputs] if source is not None else []


def derive_function(report: FunctionReport, make: Derive, wrt: Any = None) -> BackwardReport:
    """The report on a program derived from a function, with respect to some of its inputs. Of a function that is
    refused, the same refusals. Raises `UnknownInput`."""
    source = report.source
    kind = KINDS[make]
    if report.verdict != "ok":
        return BackwardReport(
            report.file, report.verdict, report.equations, report.refusals, report.communication, report.notes,
            report.assumed, report.types, report.unsharded, source, kind,
        )  # fmt: skip
    assert source is not None, "a report that was not made by `check` has no program"
    positions = chosen(source, wrt)
    try:
        found = made(source.program, source.checker, make, positions)
    except Refused as refused:
        refusal = _in_their_words(source, refused.refusal, make)
        return BackwardReport(
            report.file, verdict_on([refusal]), report.equations, [refusal], unsharded=report.unsharded, source=source,
            kind=kind,
        )  # fmt: skip
    return _report(report, source, found, make, positions)


def _report(
    report: FunctionReport, source: Source, found: Made, make: Derive, positions: Sequence[int]
) -> BackwardReport:
    inputs, outputs, gradients = names(report, source, make, positions, found.document.program)
    program, examined = found.document.program, found.examined
    words = Words(program, examined, inputs, outputs, source.lines, derived=True)
    facts = Facts(Document((), source.program)) if examined.charges else None
    rows = [
        words.row(charge)._replace(forward=facts.of(charge) if facts and found.backward(charge) else "")
        for charge in examined.charges
    ]
    refusals = [words.refusal(refusal, site) for refusal, site in examined.checker.refusals]
    first = report.notes[: report.unsharded + bool(source.note)]  # how the function was read
    said = [*first, *notes(examined, lambda sizes: f"give mesh='{sizes}'", words.place), *found.notes]
    given = (*program.constant_types, *program.input_types)
    types = {
        **{path: type for path, type in zip(inputs, given, strict=True) if path and type is not None},
        **{path: type for path, type in zip(outputs, words.types, strict=True) if type is not None},
    }
    return BackwardReport(
        report.file, verdict_on(refusals), examined.checker.equations, counted(refusals), rows, said,
        examined.assumed + len(found.assumed) + bool(source.note), types, report.unsharded, source, KINDS[make],
        {path: types[output] for path, output in gradients.items() if output in types},
        print_document(found.document),
    )  # fmt: skip


def names(
    report: FunctionReport, source: Source, make: Derive, positions: Sequence[int], program: Program
) -> tuple[list[str | None], list[str], dict[str, str]]:
    """What the inputs and outputs of a derived program are called; and of each path that has a gradient, which output
    that is."""
    known = source.known
    held = len(known) - len(source.inputs)
    paths = [source.inputs[position] for position in positions]
    pairs = zip(source.outputs, _results(report), strict=True)
    results = [path for path, type in pairs if type is not None and differentiable(type)]
    if make in (gradient, vjp):
        word, of = "gradient", paths
        inputs = [*known, *(f"cotangent of {path}" for path in results if make is vjp)]
        outputs = [*source.outputs] if make is vjp else []
    elif make is transposed:
        word, of = "cotangent", paths
        rest = [path for position, path in enumerate(known) if position - held not in positions]
        inputs, outputs = [*rest, *(f"cotangent of {path}" for path in results)], []
    elif make is linear_part:
        word, of = "tangent", results
        count = len(program.inputs) - len(paths)
        inputs, outputs = [*_residuals(count), *(f"tangent of {path}" for path in paths)], []
    elif make is linearized:
        word, of = "tangent", results
        inputs, outputs = [*known, *(f"tangent of {path}" for path in paths)], [*source.outputs]
    else:
        word, of = "", []
        count = len(program.outputs) - len(source.outputs)
        inputs, outputs = known, [*source.outputs, *_residuals(count)]
    return inputs, [*outputs, *(f"{word} of {path}" for path in of)], {path: f"{word} of {path}" for path in of}


def _residuals(count: int) -> list[str]:
    return [f"residual {number}" for number in range(count)]


def _in_their_words(source: Source, refusal: Refusal, make: Derive) -> Refusal:
    """A refusal of a derived program, at the user's line of the forward equation that it comes from."""
    examined = Examined(source.checker, None, [])
    words = Words(source.program, examined, source.known, source.outputs, source.lines)
    refusal.message = f"{within(make)}{refusal.message}"
    place = refusal.place
    if place.part == "input" and place.index < len(source.known) and source.known[place.index]:
        refusal.message = f"{refusal.message} ({source.known[place.index]})"
    elif place.part == "output" and place.index < len(source.outputs):
        refusal.message = f"{refusal.message} ({source.outputs[place.index]})"
    site = Facts(Document((), source.program)).equation(refusal.line) if refusal.line else source.program
    return words.refusal(refusal, site)


def chosen(source: Source, wrt: Any) -> list[int]:
    """The positions of the inputs that are asked for, those that are not floating left out. Raises `UnknownInput` where
    one names no input, or nothing floating."""
    asked = [0] if wrt is None else list(wrt) if isinstance(wrt, (tuple, list, set, frozenset)) else [wrt]
    found: dict[int, None] = {}
    for one in asked:
        if isinstance(one, bool) or not isinstance(one, (int, str)):
            raise UnknownInput(f"{one!r} is neither the number of an argument nor the path of an input")
        start = _argument(source, one) if isinstance(one, int) else _quoted(one.strip())
        named = [position for position, path in enumerate(source.inputs) if _begins(path, start)]
        if not named:
            raise UnknownInput(_unknown(source, one, start))
        types = [source.program.input_types[position] for position in named]
        floating = [position for position, type in zip(named, types, strict=True) if type and differentiable(type)]
        if not floating:
            said = ", ".join(sorted({str(type) for type in types if type is not None})[:_FEW])
            raise UnknownInput(f"{start} has nothing floating to differentiate, it is {said}: {_choices(source)}")
        found.update(dict.fromkeys(floating))
    if not found:
        raise UnknownInput(f"nothing is named to differentiate: {_choices(source)}")
    return list(found)


def floating(source: Source) -> int | None:
    """The first argument that has something floating; `None` where none has."""
    for number in range(len(source.arguments)):
        with contextlib.suppress(UnknownInput):
            chosen(source, number)
            return number
    return None


_FEW: Final = 8


def _argument(source: Source, number: int) -> str:
    count = len(source.arguments)
    if not -count <= number < count:
        raise UnknownInput(f"there is no argument {number}: the function has {count}, counted from 0")
    return source.arguments[number]


def _quoted(path: str) -> str:
    return re.sub(r'\["([^"\']*)"\]', r"['\1']", path)


def _begins(path: str, start: str) -> bool:
    """Whether a path is this one, or of something inside it."""
    return bool(start) and path.startswith(start) and path[len(start) :][:1] in ("", "[", ".")


def _unknown(source: Source, asked: Any, start: str) -> str:
    if start in source.arguments:
        return f"{start} holds no array: a Python number is part of the program; pass it as jnp.float32(...)"
    near = difflib.get_close_matches(start, (*source.arguments, *source.inputs), 3)
    meant = f"; did you mean {' or '.join(near)}?" if near else f": {_choices(source)}"
    return f"{asked if asked != '' else 'nothing'} is no input of the function{meant}"


def _choices(source: Source) -> str:
    types = zip(source.inputs, source.program.input_types, strict=True)
    paths = [path for path, type in types if type is not None and differentiable(type)]
    if not paths:
        return "no input is floating"
    more = f" and {len(paths) - _FEW} more" if len(paths) > _FEW else ""
    return f"the floating inputs are {', '.join(paths[:_FEW])}{more}"
