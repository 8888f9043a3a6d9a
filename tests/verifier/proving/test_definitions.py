"""Each definition, element by element, against the kernel of the same primitive, on every sample call."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from calculus.elements import NotDefined
from calculus.primitives import TABLE
from verifier.kernels import compute
from verifier.proving.numbers import computed
from verifier.samples import Sample
from verifier.trials.cases import Case, every_sample

DEFINED = sorted(name for name, primitive in TABLE.items() if primitive.element is not None)
SAMPLES = {name: [sample for sample in every_sample() if sample.primitive == name] for name in DEFINED}


def small(name: str) -> list[tuple[Sample, list[Any]]]:
    """Random whole numbers, so that sums in any order are one number; places around where the array is."""
    random = np.random.default_rng(5)
    found = []
    for sample in SAMPLES[name]:
        case = Case(sample)
        values: list[Any] = []
        for position, about in enumerate(sample.ranges):
            dtype, shape = case.numpy_dtype(position), case.shapes[position]
            low, high = about or ((0, 2) if dtype.kind == "b" else (0, 5) if dtype.kind == "u" else (-4, 5))
            values.append(random.integers(low, high, shape).astype(dtype))
        found.append((sample, values))
    return found


@pytest.mark.parametrize("name", DEFINED)
def test_a_definition_is_its_kernel(name: str) -> None:
    said = 0
    for sample, values in small(name):
        wanted = compute(TABLE[name], sample.site, values)
        for number, one in enumerate(wanted):
            with suppress(NotDefined):
                found = computed(TABLE[name], sample, values, number)
                assert found.shape == one.shape, f"{sample} {number}"
                np.testing.assert_array_equal(found, one.astype(found.dtype), f"{sample} {number}")
                said += 1
    assert said


def test_all_that_moves_or_gathers_up_is_defined() -> None:
    """What is left is element by element, is opaque for a reason, or makes numbers of keys."""
    left = {name for name, one in TABLE.items() if one.element is None and one.kernel is not None}
    shaped = {
        sample.primitive
        for sample in every_sample()
        if sample.primitive in left and not TABLE[sample.primitive].scheme(sample.site).elementwise
    }
    linear_algebra = """
        triangular_solve tridiagonal_solve ormqr symmetric_product cholesky cholesky_update eig eigh geqp3 geqrf
        hessenberg householder_product lu lu_pivots_to_permutation qr schur svd tridiagonal fft
    """
    by_programs = {"reduce", "reduce_window", "select_and_scatter"}
    others = {
        "approx_top_k",
        "cumlogsumexp",
        "iota_2x32_shape",
        "threefry2x32",
        "threefry4x32",
        "philox2x32",
        "philox4x32",
    }
    assert shaped == {*linear_algebra.split()} | by_programs | others
