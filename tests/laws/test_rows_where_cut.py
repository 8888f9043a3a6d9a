"""Rows where arrays are cut, pending or varying (statements A2, A13): of every sample call, at every combination of
states along one axis, the backward program is well typed if the call is. JAX is not asked, as it refuses many of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.gradients import vjp
from calculus.linearization import differentiable
from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.programs import Equation, Program
from calculus.refusals import Refused
from calculus.types import ArrayType, array_type, same
from grammar.meshes import parse_meshes
from verifier.samples import Sample
from verifier.trials.cases import every_sample

EXPLICIT, MANUAL = parse_meshes("X=2"), parse_meshes("X=2:manual")


def program(sample: Sample, types: tuple[ArrayType, ...]) -> Program:
    names = tuple(f"x{number}" for number in range(len(types)))
    binders = tuple(f"y{number}" for number in range(len(sample.results)))
    equation = Equation(sample.primitive, sample.parameters, names, binders, sample.results)
    return Program((), (), names, types, (equation,), binders)


def moving(sample: Sample) -> list[int]:
    """The operands whose derivative is written, on one device."""
    types = [one for one, type in enumerate(sample.operands) if differentiable(type)]
    return [one for one in types if not refusal(sample, sample.operands, EXPLICIT, [one])]


def refusal(sample: Sample, types: tuple[ArrayType, ...], meshes: list[Mesh], wrt: list[int]) -> str | None:
    """Why there is no backward program, empty where there is one; `None` where the call itself is not well typed."""
    made, checker = program(sample, types), Checker(meshes)
    checker.check(made)
    if checker.refusals:
        return None
    try:
        found = vjp(made, Workbench(Checker(meshes)), wrt)
    except Refused as refused:
        return f"{', '.join(map(str, types))}: {refused.refusal.message}"
    again = Checker(meshes)
    again.check(found)
    return "".join(refused.message for refused, *_ in again.refusals)


def states(type: ArrayType, meshes: list[Mesh]) -> Iterator[ArrayType]:
    """The type in each of the states along X."""
    yield type
    yield array_type(type.dtype, type.shape, reduced=("X",))
    if type.dtype_class in "fc":
        yield array_type(type.dtype, type.shape, unreduced=("X",))
    if meshes is MANUAL:
        yield array_type(type.dtype, type.shape, varying=("X",))
        return
    for dim, size in enumerate(type.shape):
        if isinstance(size, int) and size % 2 == 0:
            yield array_type(type.dtype, type.shape, tuple(("X",) if one == dim else () for one in range(type.rank)))


SAMPLES = [one for one in every_sample() if one.kind != "c" or TABLE[one.primitive].accepts == "c"]
MOVING = [sample for sample in SAMPLES if moving(sample)]


def test_the_samples_are_most_of_the_table() -> None:
    assert len({sample.primitive for sample in MOVING}) > 100


@pytest.mark.parametrize("sample", MOVING, ids=str)
def test_the_backward_program_is_well_typed_where_the_call_is(sample: Sample) -> None:
    wrt, tried = moving(sample), 0
    for meshes in (EXPLICIT, MANUAL):
        for types in itertools.product(*(states(type, meshes) for type in sample.operands)):
            found = refusal(sample, types, meshes, wrt)
            if found is not None:
                assert found == ""
                tried += 1
    assert tried >= 2


def test_what_flows_from_a_slice_is_padded() -> None:
    """A reduced operand that meets a cut dim is sliced; its cotangent is pending, as that of a reduced value is."""
    sample = next(one for one in SAMPLES if str(one) == "triangular_solve-f")
    a, b = sample.operands
    types = array_type(a.dtype, a.shape, reduced=("X",)), array_type(b.dtype, b.shape, (("X",), (), ()))
    found = vjp(program(sample, types), Workbench(Checker(EXPLICIT)), [0, 1])
    ends = dict(zip(found.inputs, found.input_types, strict=True))
    for one in found.equations:
        ends.update(zip(one.binders, one.types, strict=True))
    _, ct, _ = (ends[str(atom)] for atom in found.outputs)
    assert ct is not None
    assert same(ct, array_type(a.dtype, a.shape, unreduced=("X",)))
