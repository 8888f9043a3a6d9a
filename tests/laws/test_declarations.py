"""Declarations against the kernels they stand beside: a wrong line in the table must not survive.

Each kernel runs on arrays of random numbers. Linear operands must be additive, exactly (the numbers are small powers of
two and whole numbers, for which floating point is exact); operands declared nonlinear must not be; the shape and the
dtype that come out are those the declaration derives; and what a kernel computes is what JAX computes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from calculus.primitives import TABLE
from calculus.primitives.generators import GENERATORS
from calculus.primitives.linear_algebra import LINEAR_ALGEBRA
from calculus.types import DTYPES
from verifier.samples import Sample, samples
from verifier.trials.cases import RUN, Case, numbers

each_sample = pytest.mark.parametrize("sample", RUN, ids=str)


@pytest.mark.parametrize("name", TABLE)
def test_every_declaration_has_a_sample_call(name: str) -> None:
    for sample in samples(name):
        scheme = TABLE[name].scheme(sample.site)
        assert len(TABLE[name].dtypes(sample.site)) == len(scheme.results) == len(sample.results)
        for type, indices in zip(sample.operands, scheme.operands, strict=True):
            assert scheme.shape(indices) == type.shape


@each_sample
def test_linear_operands_are_additive_and_others_are_not(sample: Sample) -> None:
    for number in numbers(sample):
        _additive(Case(sample, number), sample.kind)


def _additive(case: Case, kind: str) -> None:
    for group in case.signature.groups:
        for left, right in zip(*case.sums(group, whole=True), strict=True):
            rounds = case.primitive.name in ROUNDING
            np.testing.assert_allclose(
                left, right, rtol=1e-12 if kind == "c" else 0, atol=1e-9 * abs(right).max() if rounds else 0
            )
    for operands in subsets(case.signature.nonlinear) if kind != "b" else ():  # truth values have no sum
        assert any(differs(case, operands) for _ in range(20)), "additive after all"
    if case.signature.unseen:
        these = [case.draw(position) for position in range(len(case.names))]
        those = [
            case.draw(position) if position in case.signature.unseen else one for position, one in enumerate(these)
        ]
        np.testing.assert_array_equal(case.run(those), case.run(these), "what is not looked at matters")


#: whose intermediate results are no longer powers of two
ROUNDING = {"fft", "tridiagonal_solve", "triangular_solve", "ormqr"}


def subsets(operands: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every set of operands but the empty one: where none is additive alone, several may be."""
    for count in range(1, len(operands) + 1):
        yield from itertools.combinations(operands, count)


def differs(case: Case, operands: tuple[int, ...]) -> bool:
    """Whether a sum of these operands is not mapped to the sum, where both are defined."""
    pairs = list(zip(*case.sums(operands, whole=False), strict=True))
    defined = [np.isfinite(left) & np.isfinite(right) for left, right in pairs]
    close = np.array_equal if case.primitive.name == "nextafter" else np.allclose  # its last bit counts
    return any(not close(a[at], b[at]) for (a, b), at in zip(pairs, defined, strict=True))


@each_sample
def test_shapes_and_dtypes_are_those_derived(sample: Sample) -> None:
    case = Case(sample)
    name = sample.primitive
    found = case.run([case.draw(position) for position in range(len(case.names))])
    scheme = case.primitive.scheme(case.site)
    assert [one.shape for one in found] == [scheme.shape(indices) for indices in scheme.results]
    if name not in ("argmax", "argmin"):  # numpy's index dtype is its own
        declared = case.primitive.dtypes(case.site)
        assert [one.dtype for one in found] == [np.dtype(DTYPES[dtype][0]) for dtype in declared]


#: how `jax.lax` says what a primitive without parameters computes, where it does not say it under the same name
SAID_BY_JAX: dict[str, Any] = {
    "and": jax.lax.bitwise_and,
    "or": jax.lax.bitwise_or,
    "xor": jax.lax.bitwise_xor,
    "dynamic_update_slice": jax.lax.dynamic_update_slice_p.bind,
    "not": jax.lax.bitwise_not,
    "add_any": jax.lax.add,
    "copy": lambda x: x,
    "copy_p": lambda x: x,
    "stop_gradient": lambda x: x,
    "one_minus_square": lambda x: 1 - x * x,
    "select_n": jax.lax.select_n,
    "regularized_incomplete_beta": jax.lax.betainc,
    "log2": jax.numpy.log2,
    "polynomial": lambda x, *coefficients: jax.numpy.polyval(
        jax.numpy.stack(jax.numpy.broadcast_arrays(*coefficients)[::-1]), x
    ),
    **{name: getattr(jax.lax, f"{name}_p").bind for name in ("eq_to", "le_to", "lt_to")},
}


#: not in `jax.lax`: compared in tests/laws/test_kernels_against_jax.py
BOUND = {one.name for one in (*LINEAR_ALGEBRA, *GENERATORS)}


@pytest.mark.parametrize(
    "sample",
    [
        one
        for one in RUN
        if not one.parameters and (one.primitive, one.kind) != ("add_any", "b") and one.primitive not in BOUND
    ],
    ids=str,
)
def test_kernels_compute_what_jax_computes(sample: Sample) -> None:
    case = Case(sample)
    name, kind = sample.primitive, sample.kind
    operands = [case.draw(position) for position in range(len(case.names))]
    if name.startswith("shift"):
        operands[1] = operands[1] % 8
    if name in ("div", "rem") and kind in "iu":
        operands[1] = np.where(operands[1] == 0, 3, operands[1]).astype(operands[1].dtype)
    with jax.enable_x64(True):
        theirs = SAID_BY_JAX.get(name) or getattr(jax.lax, name)
        expected = np.asarray(theirs(*map(jax.numpy.asarray, operands)))
    (found,) = case.run(operands)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("erf", "x"),
        ("neg", "/ x"),
        ("mul", "x y"),
        ("sub", "x | y"),
        ("div", "x | y"),
        ("gather", "/ x ; indices"),
        ("conj", "/ x"),
        ("polynomial", "x c..."),
        ("erfc", "x"),
        ("nextafter", "x y"),
        ("igamma", "a | x"),
        ("add", "/ x y"),
        ("scatter-add", "x | u ; indices"),
        ("scatter", "/ x u ; indices"),
        ("scatter-mul", "x | u ; indices"),
        ("scatter-max", "x u ; indices"),
    ],
)
def test_a_wrong_declaration_is_seen(name: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws can fail: each of these lines would claim what the kernel does not do, or hide what it does."""
    monkeypatch.setitem(TABLE, name, replace(TABLE[name], linearity=wrong))
    found = [sample for sample in samples(name) if sample.kind == "f"]
    with pytest.raises(AssertionError):
        test_linear_operands_are_additive_and_others_are_not(found[0])
