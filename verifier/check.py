"""Check the text of a program: read it, type every body, price what is alive, and say where it stands in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from calculus.checking import Checked, Checker, open_mesh
from calculus.communication import COMPILER
from calculus.effects import charges
from calculus.meshes import AxisMode, Mesh
from calculus.parameters import mesh as mesh_of
from calculus.programs import Call, Document, Program, Value, bodies
from calculus.refusals import Refusal, Refused
from calculus.types import ArrayType, RefType
from grammar.meshes import parse_meshes
from grammar.read import read
from verifier.report import Report, Row, malformed, verdict_on


def check_text(text: str, meshes: Sequence[Mesh], file: str) -> Report:
    """The report about a program's text. `meshes` are those the caller gives; without any, the text's first line, the
    meshes that it prints inside, and, last, axes of unknown sizes (then types are checked and nothing is priced)."""
    notes: list[str] = []
    try:
        document = read(text)
        given = list(meshes) or _meshes_of(document, notes)
    except Refused as refused:
        return malformed(file, _first_line(refused.refusal))
    checker = Checker(given)
    try:
        checked: Checked | None = checker.check(document.program)
    except Refused as refused:
        checker.refuse(refused.refusal, document.program)
        checked = None
    refusals = _located(text, checker)
    verdict = verdict_on(refusals)
    rows = _rows(checked) if checked is not None and verdict != "malformed" else []
    notes += _notes(checker, rows, checked)
    return Report(file, verdict, checker.equations, refusals, rows, notes)


def _first_line(refusal: Refusal) -> Refusal:
    refusal.line = refusal.line or 1
    refusal.column = refusal.column or 1
    return refusal


def _rows(checked: Checked) -> list[Row]:
    rows = [
        Row(
            charge.equation.line,
            charge.collective.kind,
            charge.collective.axes,
            charge.collective.payload,
            charge.collective.wire,
            charge.times,
            charge.exactness,
            charge.equation.primitive,
            charge.inside,
        )
        for charge in charges(checked)
    ]
    rows.sort(key=lambda row: row.line)
    return rows


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
    return _counted(found)


def _counted(refusals: Sequence[Refusal]) -> list[Refusal]:
    """What is not modelled comes last, each primitive once, with the number of its equations."""
    found = [refusal for refusal in refusals if refusal.code != "unmodelled-primitive"]
    counts: dict[str, int] = {}
    first: dict[str, Refusal] = {}
    for refusal in refusals:
        if refusal.code == "unmodelled-primitive":
            counts[refusal.message] = counts.get(refusal.message, 0) + 1
            first.setdefault(refusal.message, refusal)
    for message, refusal in first.items():
        if counts[message] > 1:
            refusal.message = f"{message}: {counts[message]} equations, this the first"
    return [*found, *first.values()]


def _notes(checker: Checker, rows: Sequence[Row], checked: Checked | None) -> list[str]:
    found: list[str] = []
    if checker.assumed:
        kernels = ", ".join(f"{name} ({number})" for name, number in sorted(checker.assumed.items()))
        found.append(f"assumed, not checked: the printed types of opaque kernels: {kernels}")
    if checker.assumptions:
        found.append(
            f"check_vma=False: {checker.assumptions} claims of out_specs that a result is the same along an axis are "
            "assumed, not checked"
        )
    hidden = [axis.name for axis in checker.scope.mesh.axes if axis.mode is AxisMode.AUTO]
    hidden += sorted(checker.compiler_axes.difference(hidden))
    if hidden:
        found.append(f"along the auto axes {', '.join(hidden)} communication is {COMPILER}")
    unknown = [axis.name for axis in checker.scope.mesh.axes if axis.size is None]
    if unknown and any(row.bytes is None or row.wire_bytes is None for row in rows):
        sizes = ",".join(f"{name}=…" for name in unknown)
        found.append(f"sizes of {', '.join(unknown)} are not known, so bytes are not either: give --mesh {sizes}")
    return found


def _meshes_of(document: Document, notes: list[str]) -> list[Mesh]:
    """The meshes that the text itself says: its first line, else those printed in parameters, completed by axes that
    only types mention."""
    if document.mesh is not None:
        return parse_meshes(document.mesh)
    programs = list(_programs(document))
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


def _programs(document: Document) -> Iterator[Program]:
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
    def of(types: Iterable[object]) -> Iterator[str]:
        for type in types:
            array = type.inner if isinstance(type, RefType) else type
            if isinstance(array, ArrayType) and not array.plain:
                yield from array.mentioned

    yield from of((*program.constant_types, *program.input_types))
    for equation in program.equations:
        yield from of(equation.types)
