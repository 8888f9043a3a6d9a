"""The backward program of a text: derived, printed, priced, and held against the forward program.

A derived equation stands where the forward equation does that it comes from, so that what the backward pass refuses or
communicates points into the text that was handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.gradients import gradient
from calculus.linearization import differentiable
from calculus.meshes import Mesh
from calculus.naming import tidy
from calculus.programs import Document, Equation, Program
from calculus.refusals import Place, Refusal, Refused
from grammar.meshes import parse_meshes
from grammar.print import print_document
from grammar.read import read
from grammar.source import Source, locate
from verifier.examine import counted, examine, notes, row
from verifier.report import Report, verdict_on
from verifier.texts import check_text, first_line, meshes_of, programs_of

Derive = Callable[[Program, Workbench, Sequence[int]], Program]
"""`gradient` or `vjp`."""


class Backward(NamedTuple):
    """forward: the report about the program itself. backward: that about the derived program, forward equations
    included; `None` where the program is refused already. text: the derived program, empty where there is none."""

    forward: Report
    backward: Report | None = None
    text: str = ""


class UnknownInput(Exception):
    """A name that is no input of the program. The message says which are."""


def derive(
    text: str, meshes: Sequence[Mesh], file: str, make: Derive = gradient, wrt: Sequence[str] | None = None
) -> Backward:
    """The derived program of a text, with respect to the inputs that are named: by default to all that can change.
    Raises `UnknownInput`."""
    forward = check_text(text, meshes, file)
    if forward.verdict != "ok":
        return Backward(forward)
    document = read(text)
    given = list(meshes) or meshes_of(document)
    program = document.program
    positions = _positions(program, wrt)
    checker = Checker(given)
    checker.check(program)
    bench = Workbench(checker)
    try:
        found = tidy(make(program, bench, positions))
    except Refused as refused:
        return Backward(forward, _refused(refused.refusal, document, text, file, checker.equations))
    found.mesh = _first_line(given)
    examined = examine(found.program, Checker(given))
    refusals = counted(examined.refusals)
    for refusal in refusals:
        _point(refusal, document, text)
    rows = sorted((row(one, one.equation.line) for one in examined.charges), key=lambda one: one.line)
    said = notes(examined, lambda sizes: f"give --mesh {sizes}", lambda equation: f"line {equation.line}")
    assumed = sorted(bench.assumed)
    if assumed:
        said.append(
            f"assumed: the rules of {', '.join(assumed)} are not printed, and taken to be those of their bodies"
        )
    report = Report(
        file, verdict_on(refusals), examined.checker.equations, refusals, rows, said, examined.assumed + len(assumed)
    )
    return Backward(forward, report, print_document(found))


def _first_line(given: Sequence[Mesh]) -> str | None:
    """What the first line of a text says of its meshes; `None` where they cannot be read from there again."""
    written = "; ".join(map(str, given))
    try:
        return written if parse_meshes(written) == list(given) else None
    except Refused:
        return None


def _positions(program: Program, wrt: Sequence[str] | None) -> list[int]:
    names = {name: position for position, name in enumerate(program.inputs)}
    if wrt is None:
        types = program.input_types
        return [position for position, type in enumerate(types) if type is not None and differentiable(type)]
    unknown = [name for name in wrt if name not in names]
    if unknown:
        said = ", ".join(name or "nothing" for name in unknown)
        raise UnknownInput(f"{said} is no input of the program, whose inputs are {', '.join(names) or 'none'}")
    return [names[name] for name in wrt]


def _refused(refusal: Refusal, document: Document, text: str, file: str, equations: int) -> Report:
    _point(refusal, document, text)
    return Report(file, verdict_on([refusal]), equations, [refusal])


def _point(refusal: Refusal, document: Document, text: str) -> None:
    """Let a refusal of the backward pass point at the forward equation that it comes from."""
    refusal.message = f"in the backward pass: {refusal.message}"
    if not refusal.line:
        if refusal.place.part in ("input", "output"):
            refusal.line, refusal.column = locate(Source(text), document.program, refusal.place)
        first_line(refusal)
        return
    site = next((one for one in _equations(document) if one.line == refusal.line), None)
    if site is not None:
        refusal.line, refusal.column = locate(Source(text), site, Place("primitive"))


def _equations(document: Document) -> list[Equation]:
    return [equation for program in programs_of(document) for equation in program.equations]
