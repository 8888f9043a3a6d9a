"""By which monoid a dim is reduced, recovered from the kernel: halves of the dim are computed apart and merged in every
way there is. What a scheme says must be among the ways that give the whole; where it says none, none may."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np
import pytest

from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.refusals import Refused
from verifier.kernels import on_blocks
from verifier.samples import Sample
from verifier.trials.cases import RUN, Case
from verifier.trials.executions import ignored

MONOIDS: Final[Mapping[str, Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
TRIALS: Final = 8


@cache
def recovered(sample: Sample, cut: tuple[tuple[int, int], ...]) -> frozenset[str]:
    """The monoids that make the whole of two halves, when these dims of these operands are halved together."""
    case = Case(sample)
    left = set(MONOIDS)
    for _ in range(TRIALS):
        operands = [case.draw(position, whole=True) for position in range(len(case.shapes))]
        halves = []
        for half in range(2):
            blocks = list(operands)
            for position, dim in cut:
                blocks[position] = np.split(blocks[position], 2, dim)[half]
            halves.append(blocks)
        whole = case.run(operands)[0]
        try:
            parts = [
                case.compute(on_blocks(case.primitive, case.site, blocks, whole.shape), blocks)[0] for blocks in halves
            ]
        except (ValueError, IndexError, TypeError, Refused):
            return frozenset()
        left = {name for name in left if _makes(MONOIDS[name], parts, whole)}
    return frozenset(left)


def _makes(merge: Any, parts: list[Any], whole: Any) -> bool:
    with np.errstate(all="ignore"):
        try:
            found = merge(*parts)
        except TypeError:  # bits of floats
            return False
        return found.shape == whole.shape and bool(np.allclose(found, whole, equal_nan=True))


def unlike(primitive: Primitive, sample: Sample) -> list[str]:
    """The factors that leave, with another role than the kernel shows."""
    scheme = primitive.scheme(sample.site)
    kept = {factor for indices in scheme.results for dim in indices for factor in dim}
    found = []
    for factor in {factor for indices in scheme.operands for dim in indices for factor in dim} - kept:
        dims = [
            (position, dim)
            for position, indices in enumerate(scheme.operands)
            for dim, factors in enumerate(indices)
            if factors == (factor,)
        ]
        size = scheme.sizes[factor]
        beside = any(factor in factors != (factor,) for indices in scheme.operands for factors in indices)
        if beside or scheme.accumulator is not None or not dims or not isinstance(size, int) or size % 2:
            continue  # halves of it are no blocks; what starts from an accumulator is in the law of local soundness
        merges, role = recovered(sample, tuple(dims)), scheme.roles.get(factor, "whole")
        if role in MONOIDS and role not in merges:
            found.append(f"a factor of size {size} is not reduced by {role}")
        looked = any(position not in ignored(sample) for position, _ in dims)
        if role not in MONOIDS and merges and looked:
            found.append(f"a factor of size {size} is {role}, and reduced by {' or '.join(sorted(merges))}")
    return found


@pytest.mark.parametrize("sample", RUN, ids=str)
def test_roles_are_those_of_the_kernel(sample: Sample) -> None:
    assert not unlike(TABLE[sample.primitive], sample)
