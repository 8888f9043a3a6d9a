"""Reshapes of all small shapes: taken where the numbers of elements agree, and what passes through keeps its stride."""

from __future__ import annotations

import itertools
import math

from calculus.refusals import Refused
from calculus.schemes import Indices, Scheme, regrouping
from calculus.types import Dim

SIZES: tuple[Dim, ...] = (0, 1, 2, 3, 4, 6, "n")
SHAPES = [shape for rank in range(4) for shape in itertools.product(SIZES, repeat=rank)]


def strides(scheme: Scheme, indices: Indices) -> dict[int, int]:
    """How far apart neighbours along each factor lie, in elements, row-major, where n is 7."""
    found: dict[int, int] = {}
    stride = 1
    for factor in reversed([factor for dim in indices for factor in dim]):
        found[factor] = stride
        size = scheme.sizes[factor]
        stride *= size if isinstance(size, int) else 7
    return found


def test_the_elements_of_a_reshape_stay_where_they_are() -> None:
    taken = 0
    for shape, result in itertools.product(SHAPES, SHAPES):
        counts = [math.prod(size if isinstance(size, int) else 7 for size in each) for each in (shape, result)]
        try:
            scheme = regrouping(shape, result)
        except Refused as refused:
            assert refused.refusal.code == "shape", (shape, result)
            assert counts[0] != counts[1], (shape, result)
            continue
        assert counts[0] == counts[1] or "n" in (*shape, *result), (shape, result)
        (operand,), (target,) = scheme.operands, scheme.results
        assert scheme.shape(operand) == shape, (shape, result)
        assert scheme.shape(target) == result, (shape, result)
        if counts[0] != counts[1] or not counts[0]:
            continue
        before, after = strides(scheme, operand), strides(scheme, target)
        passing = before.keys() - scheme.roles.keys()
        assert passing == after.keys() - scheme.roles.keys(), (shape, result)
        assert all(before[factor] == after[factor] for factor in passing), (shape, result)
        taken += 1
    assert taken > len(SHAPES)
