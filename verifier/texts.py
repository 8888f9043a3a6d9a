"""Check the text of a program: read it, type every body, price what is alive, and say where it stands in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from calculus.checking import Checker
from calculus.meshes import AxisMode, Mesh, open_mesh
from calculus.parameters import mesh as mesh_of
from calculus.programs import Call, Document, Program, Value, bodies
from calculus.refusals import Refusal, Refused
from calculus.types import ArrayType, Type, held
from grammar.meshes import parse_meshes
from grammar.read import read
from verifier.examine import counted, examine, notes, row
from verifier.report import Report, malformed, verdict_on


def check_text(text: str, meshes: Sequence[Mesh], file: str) -> Report:
    """The report about a program's text. `meshes` are those the caller gives; without any, the text's first line, the
    meshes that it prints inside, and, last, axes of unknown sizes (then types are checked and nothing is priced)."""
    try:
        document = read(text)
        given = list(meshes) or meshes_of(document)
    except Refused as refused:
        return malformed(file, first_line(refused.refusal))
    examined = examine(document.program, Checker(given))
    refusals = counted(_located(text, examined.checker))
    rows = sorted((row(one, one.equation.line) for one in examined.charges), key=lambda one: one.line)
    said = notes(examined, lambda sizes: f"give --mesh {sizes}", lambda equation: f"line {equation.line}")
    report = Report(file, verdict_on(refusals), examined.checker.equations, refusals, rows, said, examined.assumed)
    tell_known(report, examined.checker)
    return report


def tell_known(report: Report, checker: Checker) -> None:
    """Say in a report on a text what of it is well typed and goes wrong in JAX."""
    from verifier.known import known

    for one in known(checker) if report.verdict == "ok" else ():
        report.notes.append(f"line {one.equation.line}: {one.says}")
        report.known.append(one.data(one.equation.line))


def first_line(refusal: Refusal) -> Refusal:
    """A refusal that points nowhere points at the beginning of the text."""
    refusal.line = refusal.line or 1
    refusal.column = refusal.column or 1
    return refusal


def _located(text: str, checker: Checker) -> list[Refusal]:
    """Every refusal with its line and column, in the order of the text."""
    if not checker.refusals:
        return []
    from grammar.source import Source, locate

    source = Source(text)
    for refusal, site in checker.refusals:
        if site is not None and not refusal.column:
            refusal.line, refusal.column = locate(source, site, refusal.place)
    found = [refusal for refusal, _ in checker.refusals]
    found.sort(key=lambda refusal: (refusal.line, refusal.column))
    return found


def meshes_of(document: Document) -> list[Mesh]:
    """The meshes that the text itself says: its first line, else those printed in parameters, completed by axes that
    only types mention."""
    if document.mesh is not None:
        return parse_meshes(document.mesh)
    programs = list(programs_of(document))
    found: list[Mesh] = []
    for program in programs:
        for equation in program.equations:
            for name, value in equation.parameters.items_in_order:
                for mesh in _meshes_in(value, name):
                    if not any(set(mesh.by_name) <= set(other.by_name) for other in found):
                        found.append(mesh)
    mentioned = dict.fromkeys(axis for program in programs for axis in _axes_of(program))
    missing = [axis for axis in mentioned if not any(axis in mesh for mesh in found)]
    if not found:
        return [open_mesh(missing)]
    explicit = [
        mesh.with_modes({axis.name: AxisMode.EXPLICIT for axis in mesh.axes if axis.name in mentioned})
        for mesh in found
    ]
    return [*explicit, open_mesh(missing)] if missing else explicit


def programs_of(document: Document) -> Iterator[Program]:
    """Every body once, the main program first."""
    seen: set[int] = set()
    waiting = [document.program]
    while waiting:
        program = waiting.pop()
        if id(program) in seen:
            continue
        seen.add(id(program))
        yield program
        for equation in program.equations:
            waiting += (inner for _, inner in bodies(equation.parameters))


def _meshes_in(value: Value, name: str) -> Iterator[Mesh]:
    if isinstance(value, Call):
        found = mesh_of(value, name)
        if found is not None:
            yield found
            return
        for _, inner in value.keywords:
            yield from _meshes_in(inner, name)
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _meshes_in(inner, name)


def _axes_of(program: Program) -> Iterator[str]:
    def of(types: Iterable[Type | None]) -> Iterator[str]:
        for type in types:
            array = held(type)
            if isinstance(array, ArrayType) and not array.plain:
                yield from array.mentioned

    yield from of((*program.constant_types, *program.input_types))
    for equation in program.equations:
        yield from of(equation.types)
