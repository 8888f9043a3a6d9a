"""Stored arrays and their types: the laws of the order, over all placements of a vector and a matrix on three axes."""

from __future__ import annotations

import itertools

import pytest

from calculus.concrete import refines, type_of
from calculus.meshes import Axis, AxisMode, Mesh
from calculus.types import ArrayType, array_type
from calculus.wellformed import well_formed

MESH = Mesh([Axis("X", 2), Axis("A", 2, AxisMode.AUTO), Axis("B", 2, AxisMode.AUTO)])
EXPLICIT = Mesh([Axis("X", 2), Axis("A", 2), Axis("B", 2)])


def placements() -> list[ArrayType]:
    """Every way to store a matrix: each axis on no dim, on one of two, pending or reduced, in every order."""
    found = []
    for where in itertools.product(("none", 0, 1, "U", "R"), repeat=3):
        places = dict(zip(("X", "A", "B"), where, strict=True))
        lists = [[axis for axis, place in places.items() if place == dim] for dim in (0, 1)]
        pending, kept = (tuple(axis for axis, place in places.items() if place == state) for state in ("U", "R"))
        for rows, columns in itertools.product(*map(itertools.permutations, lists)):
            found.append(array_type("f32", (8, 8), (rows, columns), (), pending, kept))
    return found


STORED = placements()


def test_the_types_are_the_placements_without_auto_axes() -> None:
    assert (
        len(STORED) == 5**3 + 30 + 4
    )  # 3 pairs on one of 2 dims (5 places for the third: 30 more), 6 orders of all: 2 * 2
    types = {type_of(stored, MESH) for stored in STORED}
    assert {str(type) for type in types} == {"f32[8,8]", "f32[8@X,8]", "f32[8,8@X]", "f32[8,8]{U:X}", "f32[8,8]{R:X}"}
    for type in types:
        well_formed(type, MESH)


def test_each_is_consistent_with_its_type_and_no_other() -> None:
    types = {type_of(stored, MESH) for stored in STORED}
    for stored in STORED:
        assert [type for type in types if refines(stored, type, MESH)] == [type_of(stored, MESH)]


def test_order() -> None:
    above = {one: [other for other in STORED if refines(one, other, MESH)] for one in STORED}
    for one, others in above.items():
        assert one in others
        for other in others:
            assert other is one or one not in above[other]
            assert set(above[other]) <= set(others)


def test_without_auto_axes_nothing_is_hidden() -> None:
    assert all((one is other) == refines(one, other, EXPLICIT) for one in STORED for other in STORED)


@pytest.mark.parametrize(
    ("finer", "coarser"),
    [
        (("f32", (8,), (("A",),)), ("f32", (4,))),
        (("f32", (8,), (("A",),)), ("bf16", (8,))),
        (("f32", (8, 8), (("A", "X"), ())), ("f32", (8, 8), (("X", "A"), ()))),
        (("f32", (8, 8), (("X",), ())), ("f32", (8, 8), (("X", "A"), ()))),
    ],
)
def test_what_does_not_refine(finer: tuple[object, ...], coarser: tuple[object, ...]) -> None:
    assert not refines(array_type(*finer), array_type(*coarser), MESH)  # type: ignore[arg-type]


def test_kinds() -> None:
    pending = array_type("f32", (8,), unreduced=("A",), kind="max")
    assert refines(pending, array_type("f32", (8,)), MESH)
    assert not refines(pending, array_type("f32", (8,), unreduced=("A",)), MESH)
