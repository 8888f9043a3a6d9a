"""The promises of the backward program, on every program of the pages that is well typed (statements A2, A13).

Its backward program is well typed too, unless something on the way has no cotangent or is not written; each cotangent
has the type that the cotangent map says. And a linear program that is transposed twice is itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.collectives import COLLECTIVES
from calculus.cotangents import cotangent
from calculus.equivalence import difference
from calculus.gradients import vjp
from calculus.linearization import differentiable, linearize
from calculus.meshes import Mesh
from calculus.programs import Equation, Literal, Program
from calculus.refusals import Refused
from calculus.transposition import transpose
from calculus.types import ArrayType, Type, same
from grammar.meshes import parse_meshes
from grammar.read import read
from tests.spec.test_documents import SECTIONS
from verifier.backward import derive
from verifier.texts import meshes_of

#: why a well-typed program may have no backward program
ALLOWED = {"no-cotangent", "unmodelled-construct", "unmodelled-primitive"}

BLOCKS = [
    pytest.param(block.text, block.options.get("mesh"), id=f"{section.document}:{block.line}")
    for section in SECTIONS
    for block in section.blocks
    if block.language == "jaxpr" and not any(said.text.startswith("malformed") for said in block.said)
]


def well_typed() -> Iterator[tuple[str, Program, list[Mesh]]]:
    """Every well-typed program of the pages, with its place and its meshes."""
    for block in BLOCKS:
        text, mesh = str(block.values[0]), block.values[1]
        try:
            document = read(text)
            meshes = parse_meshes(str(mesh)) if mesh else meshes_of(document)
        except Refused:
            continue
        checker = Checker(meshes)
        checker.check(document.program)
        if not checker.refusals:
            yield str(block.id), document.program, meshes


def test_a_well_typed_program_has_a_well_typed_backward_program() -> None:
    wrong, right = [], 0
    for block in BLOCKS:
        text, mesh = str(block.values[0]), block.values[1]
        found = derive(text, parse_meshes(str(mesh)) if mesh else [], "it", vjp)
        if found.backward is None:
            continue
        codes = {refusal.code for refusal in found.backward.refusals}
        if not codes <= ALLOWED:
            wrong.append((block.id, [refusal.message for refusal in found.backward.refusals]))
        right += not codes
    assert wrong == []
    assert right >= 250


def test_cotangents_have_their_types() -> None:
    tried = 0
    for place, program, meshes in well_typed():
        wrt = [number for number, type in enumerate(program.input_types) if type is not None and differentiable(type)]
        try:
            made = vjp(program, Workbench(Checker(meshes)), wrt)
        except Refused:
            continue
        types = dict(zip(made.inputs, made.input_types, strict=True))
        for equation in made.equations:
            types.update(zip(equation.binders, equation.types, strict=True))
        for number, atom in zip(wrt, made.outputs[len(program.outputs) :], strict=True):
            primal = program.input_types[number]
            found = atom.type if isinstance(atom, Literal) else types[atom]
            assert primal is not None
            assert found is not None
            assert same(found, cotangent(primal)), place
            tried += 1
    assert tried >= 300


#: what is transposed by swapping index lists, or states, so that twice is once
SWAPPED = {
    "dot_general", "transpose", "reduce_sum", "broadcast_in_dim", "mul", "neg", "add_any", "reshard", *COLLECTIVES,
}  # fmt: skip


def _swapped(equation: Equation, types: dict[str, Type | None]) -> bool:
    """Whether a linear equation is one of those, and no dim of size 1 is widened on the way: a sum undoes that."""
    shapes = [type.shape for atom in equation.inputs if isinstance(type := types.get(str(atom)), ArrayType)]
    alike = equation.primitive not in ("mul", "add_any") or len(set(shapes)) == 1
    return equation.primitive in SWAPPED and alike


def _moves(program: Program) -> int:
    return sum(equation.primitive == "reshard" for equation in program.equations)


def test_transposing_twice_is_the_same_program() -> None:
    same_again = 0
    for place, program, meshes in well_typed():
        bench = Workbench(Checker(meshes))
        scope = bench.checker.scope
        types = (*(None for _ in program.constants), *program.input_types)
        flows = [type is not None and differentiable(type) for type in types]
        try:
            found = linearize(bench, scope, program, flows)
            held = len(found.residuals)
            count, results = len(found.linear.inputs) - held, len(found.linear.outputs)
            once = transpose(bench, scope, found.linear, [False] * held + [True] * count, [True] * results)
            if not (count and results and all(once.nonzero)):
                continue
            twice = transpose(bench, scope, once.program, [False] * held + [True] * results, [True] * count)
        except Refused:
            continue
        types_of = dict(zip(found.linear.inputs, found.linear.input_types, strict=True))
        for equation in found.linear.equations:
            types_of.update(zip(equation.binders, equation.types, strict=True))
        if not all(twice.nonzero) or not all(_swapped(equation, types_of) for equation in found.linear.equations):
            continue
        if _moves(once.program) > _moves(found.linear):  # what is cut or gathered unasked forward is asked for backward
            continue
        assert difference(found.linear, twice.program) == "", place
        same_again += 1
    assert same_again >= 50
