"""Engine J: what the installed JAX says of a section's blocks.

A program is handed to JAX as Python. Every equation must have the type in JAX that is printed; where the document
expects a refusal, JAX must refuse that equation, or type it otherwise. Where it does not, or differs besides, an entry
of the ledger says why. A program that must be the derivative of another has JAX's beside it; what a `run` block leaves
on devices, JAX's devices must hold; a type must be that of an array of JAX's, and what is no type must be none there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import jax

from calculus.checking import Checker
from calculus.meshes import AxisMode, Mesh
from calculus.programs import Program
from calculus.refusals import Refused
from calculus.typed import typed
from calculus.types import ArrayType, Type, same
from grammar.meshes import parse_meshes
from grammar.read import read, read_type
from tests.spec.document import Block, Section
from tests.spec.engines import REFUSAL, Outcome
from tests.spec.runs import GIVEN
from verifier.backward_agreement import compared
from verifier.cells import Refusal, Verdict
from verifier.equation_cells import cell_of
from verifier.execution.texts import run_text
from verifier.generated.pruning import distinct, without
from verifier.ledger import Entry, ledger
from verifier.texts import meshes_of
from verifier.with_jax import meshes as jax_meshes
from verifier.with_jax.blocks import difference
from verifier.with_jax.gradients import traced
from verifier.with_jax.probe import evaluate_manual, of_aval, struct
from verifier.with_jax.programs import types_of
from verifier.with_jax.python import Watched, as_python, bodies_of
from verifier.with_jax.python_values import Unwritten
from verifier.with_jax.running import VERSION, Says, callable_of, first_difference, inputs_of, of_program

NEWEST: Final = jax.__version_info__ >= (0, 12)
"""The documents are about this release; an older one is only asked about what is well typed, in words that it has."""


@cache
def entries() -> Sequence[Entry]:
    """The entries of the ledger that speak of this release."""
    return [entry for entry in ledger() if VERSION in entry.versions] or ledger()


def ask(section: Section) -> Outcome:
    """Ask JAX about every block of a section."""
    found = Outcome()
    for block in section.blocks:
        asker = ASKED.get(block.language)
        if asker is None:
            continue
        try:
            outcome = asker(block, section)
        except Unwritten:  # what is not written as Python is not asked
            continue
        found.ran |= outcome.ran
        found.problems += ((line or block.line, f"JAX {VERSION}: {sentence}") for line, sentence in outcome.problems)
    return found


# --- programs ---------------------------------------------------------------------------------------------------------


def jaxpr(block: Block, section: Section) -> Outcome:
    """A program, and what the document expects of it."""
    found = Outcome()
    expected = [(said.line, match[1], match[2]) for said in block.said if (match := REFUSAL.fullmatch(said.text))]
    try:
        program, meshes = _program(block)
    except Refused:
        return found
    if any(axis.size is None for mesh in meshes for axis in mesh.axes):
        return found
    if not NEWEST and (expected or _KIND.search(block.text)):
        return found
    mesh, others = (meshes[0], meshes[1:]) if meshes else (Mesh(()), [])
    if any(family == "malformed" for _, family, _ in expected):
        if _refuses(program, mesh, others):
            found.ran.add("J")
        return found
    _compare(program, mesh, others, expected, found)
    if "compiled" in block.options and NEWEST and not found.problems:
        _compare_compiled(program, mesh, found)
    for how in ("gradient", "vjp"):
        if how in block.options and NEWEST:
            _compare_derivatives(block.options[how], section, found)
    return found


_KIND: Final = re.compile(r"\bU_m|unreduced_kind=m")
"""Of pending maxima and minima, which the older release does not have."""


def _program(block: Block) -> tuple[Program, list[Mesh]]:
    document = read(block.text)
    text = block.options.get("mesh")
    meshes = parse_meshes(text) if text else meshes_of(document)
    checker = Checker(meshes)
    checked = checker.check(document.program)
    return distinct(document.program if checker.refusals else typed(checked)), meshes


def _refuses(program: Program, mesh: Mesh, others: Sequence[Mesh]) -> bool:
    """Whether JAX does not take a program that is malformed here; it may not hear of what is."""
    try:
        return first_difference(program, mesh, others) is not None
    except Unwritten:
        return False
    except Exception:  # noqa: BLE001  # whatever JAX raises is its answer
        return True


def _compare(
    program: Program, mesh: Mesh, others: Sequence[Mesh], expected: Sequence[tuple[int, str, str]], found: Outcome
) -> None:
    """The equations of which JAX says something else are those that are refused, or an entry covers them."""
    spans = {where.path: where for where in as_python(program, mesh, watch=True, others=others).watched}
    answered: set[int] = set()
    rest = program
    for _ in range(len(spans)):
        says = first_difference(rest, mesh, others)
        found.ran.add("J")
        if says is None:
            break
        lines = _lines(says.where, spans)
        refused = [at for at, (line, _, _) in enumerate(expected) if line in lines]
        answered.update(refused)
        if not refused and not _covered(says, rest, None):
            types = says.verdict.types
            said = says.verdict.refusal if types is None else ", ".join(map(str, types))
            found.problems.append((0, f"line {says.where.equation.line} of the block: {said}"))
        rest = without(rest, says.where.path[:1], mesh)
    for at, (line, family, code) in enumerate(expected):
        if at not in answered:
            where = _innermost(line, spans)
            accepts = Says(where, Verdict(tuple(type for type in where.equation.types if type is not None)))
            if not _covered(accepts, program, Verdict(None, Refusal(code, ""))):
                found.problems.append((0, f"line {line} of the block: accepted, where {family}: {code} is expected"))


def _lines(where: Watched, spans: dict[tuple[tuple[int, int], ...], Watched]) -> range:
    """The lines of an equation, its bodies included."""
    start = where.equation.line
    after = [
        one.equation.line for path, one in spans.items() if one.equation.line > start and _beyond(path, where.path)
    ]
    return range(start, min(after, default=10**9))


def _beyond(path: tuple[tuple[int, int], ...], of: tuple[tuple[int, int], ...]) -> bool:
    """Whether a place is not inside the equation that stands at another."""
    return tuple(at for at, _ in path[: len(of)]) != tuple(at for at, _ in of)


def _innermost(line: int, spans: dict[tuple[tuple[int, int], ...], Watched]) -> Watched:
    holding = [one for one in spans.values() if line in _lines(one, spans)]
    return max(holding, key=lambda one: (len(one.path), one.equation.line))


def _covered(says: Says, program: Program, ours: Verdict | None) -> bool:
    inner = program
    for (at, number), _ in zip(says.where.path, says.where.path[1:], strict=False):
        inner = bodies_of(inner.equations[at])[number]
    found = cell_of(says.where.equation, types_of(inner), says.where.mesh, says.verdict, ours)
    return any(entry.covers(found) for entry in entries())


def _compare_derivatives(file: str, section: Section, found: Outcome) -> None:
    """JAX's derivative communicates as ours, and gives results of the same types, or an entry says why not."""
    block = next(one for one in section.blocks if one.options.get("file") == file)
    program, meshes = _program(block)
    mesh = meshes[0] if meshes else Mesh(())
    where = jax_meshes.abstract(mesh)
    inputs = [struct(type, where) for type in inputs_of(program)]
    try:
        comparison = compared(file, traced(callable_of(program, mesh, meshes[1:]), inputs, where))
    except Exception:  # noqa: BLE001  # it refuses the program itself, of which the program's own block speaks
        return
    found.ran.add("J")
    if not comparison.agree and not any(entry.explains(comparison) for entry in entries()):
        theirs = comparison.theirs.refusal or comparison.theirs.objection or comparison.theirs.moves
        found.problems.append((0, f"the derivative of {file} is another: {theirs}; ours: {comparison.ours.moves}"))


def _compare_compiled(program: Program, mesh: Mesh, found: Outcome) -> None:
    """What XLA partitions for CPU devices moves what is derived, or differs in a class with a name."""
    from verifier.compiled.matching import matched
    from verifier.compiled.reading import read as moves_of
    from verifier.compiled.targets import CPU, target
    from verifier.with_jax.compiling import compile_, mesh_on, trace_on
    from verifier.with_jax.deriving import derived

    where = mesh_on(target(CPU), mesh)
    made = trace_on(where, callable_of(program, mesh), [struct(type, where) for type in inputs_of(program)], {})
    (text,) = compile_(made, target(CPU), where, quick=True).texts.values()
    sizes = dict(where.shape)
    pairs = matched(derived(made), moves_of(text, sizes), sizes)
    found.need(not pairs.unexplained, 0, f"compiled, it moves {pairs.moved} beside {pairs.said}")


# --- runs, types ----------------------------------------------------------------------------------------------


def run(block: Block, section: Section) -> Outcome:
    """What the devices of JAX hold, given what the block gives."""
    found = Outcome()
    program = next(one for one in section.blocks if one.options.get("file") == block.options.get("file"))
    given = {
        match[1]: json.loads(match[2]) for line in block.text.splitlines() if (match := GIVEN.fullmatch(line.strip()))
    }
    written, meshes = _program(program)
    if not NEWEST or first_difference(written, meshes[0], meshes[1:]) is not None or "different: " in block.text:
        return found
    outcome = run_text(program.text, meshes, "", given=given).outcome
    assert outcome is not None
    ran = of_program(written, meshes[0], inputs_of(written), None, meshes[1:]).run(
        [one.blocks for one in outcome.inputs]
    )
    found.ran.add("J")
    for at, (shown, theirs) in enumerate(zip(outcome.results, ran.blocks, strict=True)):
        said = difference(shown, theirs, outcome, gradient=False)
        found.need(not said, 0, f"result {at}, {said}")
    return found


def types(block: Block, section: Section) -> Outcome:
    """Types, one a line: an array of JAX's has it, or none does."""
    found = Outcome()
    (mesh,) = parse_meshes(block.options["mesh"])
    refused = {said.line for said in block.said}
    for index, line in enumerate(block.text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            type = read_type(re.split(r"\s+->\s*", line.strip())[0])
        except Refused:
            continue
        if not isinstance(type, ArrayType) or (not NEWEST and type.kind != "sum"):
            continue
        given = list(_typed(type, mesh))
        found.ran.add("J")
        if index in refused:
            claims = "->" in line  # then the line refuses what it claims, not the type
            found.need(claims or not any(same(type, one) for one in given), block.line + index, f"{type} is a type")
        else:
            found.need(any(same(type, one) for one in given), block.line + index, f"{type} is {given}")
    return found


def _typed(type: ArrayType, mesh: Mesh) -> Iterator[Type]:
    """The type in JAX of what stands for an array of a type; none where JAX refuses it."""
    given: list[Type] = []

    def traced(value: jax.Array) -> tuple[()]:
        given.append(of_aval(jax.typeof(value)))
        return ()

    try:
        if any(axis.mode is AxisMode.MANUAL for axis in mesh.axes):
            evaluate_manual(traced, [type], mesh)
        else:
            where = jax_meshes.abstract(mesh)
            with jax.sharding.use_abstract_mesh(where):
                jax.jit(traced).trace(struct(type, where))
    except Exception:  # noqa: BLE001  # whatever JAX raises is its answer
        return
    yield from given


ASKED: Final = {"jaxpr": jaxpr, "run": run, "type": types}
"""What is asked about the blocks of each language."""
