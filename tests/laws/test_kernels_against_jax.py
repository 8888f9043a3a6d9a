"""What kernels of primitives with parameters compute, beside JAX's own, which are bound directly.

Eigenvectors and singular vectors are compared up to their phase. Schur forms are not unique: both must be forms of the
same matrix.
"""

from __future__ import annotations

import gc
import importlib
from contextlib import suppress
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import Primitive

from calculus.primitives.fourier import FOURIER
from calculus.primitives.generators import GENERATORS
from calculus.primitives.linear_algebra import LINEAR_ALGEBRA
from calculus.programs import Call, Real, Word
from verifier.samples import Sample, samples
from verifier.trials.cases import Case

NAMES = [
    *(one.name for one in (*LINEAR_ALGEBRA, *FOURIER, *GENERATORS)),
    *("top_k", "approx_top_k", "cumlogsumexp", "conj", "tile", "ragged_dot_general"),
]

UP_TO_PHASE = {"eig", "eigh", "svd"}

#: parameters that an older JAX does not have
NEWER = {"top_k": "is_stable"}


#: where JAX keeps generators, in one release or another
for module in ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "prng"):
    with suppress(ImportError):
        importlib.import_module(f"jax._src.random.{module}")

PRIMITIVES = {one.name: one for one in gc.get_objects() if isinstance(one, Primitive)}


def test_jax_has_them() -> None:
    newer = {"threefry4x32", "philox2x32", "philox4x32"} if jax.__version_info__ < (0, 12) else set()
    assert {*NAMES} - newer <= {*PRIMITIVES}


def bound(sample: Sample, operands: list[Any]) -> list[Any]:
    """What JAX computes."""
    values = {name: native(value) for name, value in sample.parameters.items()}
    if sample.primitive == "fft":
        values["fft_type"] = jax.lax.FftType(values["fft_type"])
    if jax.__version_info__ < (0, 12):
        values.pop(NEWER.get(sample.primitive, ""), None)
    part = values.get("subset_by_index")
    if part is not None:  # JAX has no part of them on a CPU: cut from all
        values["subset_by_index"] = None
    with jax.enable_x64(True):
        found = jax.jit(lambda *x: PRIMITIVES[sample.primitive].bind(*x, **values))(*operands)
    arrays = [np.asarray(one) for one in (found if isinstance(found, (list, tuple)) else [found])]
    if part is None:
        return arrays
    kept = slice(*part)
    rows = 2 if sample.primitive == "svd" else -1  # of the right singular vectors
    return [one[:, kept] if number == rows else one[..., kept] for number, one in enumerate(arrays)]


def native(value: Any) -> Any:
    if isinstance(value, Call):
        return getattr(jax.lax, value.name)(**dict(value.keywords))
    if isinstance(value, Real):
        return float(value)
    return np.dtype(str(value)) if isinstance(value, Word) else value


CASES = [sample for name in NAMES if name in PRIMITIVES for sample in samples(name)]


@pytest.mark.parametrize("sample", CASES, ids=str)
def test_kernels_compute_what_jax_computes(sample: Sample) -> None:
    case = Case(sample)
    name = sample.primitive
    operands = [case.draw(position) for position in range(len(case.names))]
    ours, theirs = case.run(operands), bound(sample, operands)
    assert [one.shape for one in ours] == [one.shape for one in theirs]
    assert [one.dtype for one in ours] == [one.dtype for one in theirs]
    if name == "schur":
        schur_form(operands[0], ours)
        schur_form(operands[0], theirs)
        return
    for one, other in zip(ours, theirs, strict=True):
        if name == "cholesky":  # above the diagonal stands anything
            one, other = np.tril(one), np.tril(other)
        if name in UP_TO_PHASE and one.ndim == 3:
            one, other = abs(one), abs(other)
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def schur_form(x: Any, found: list[Any]) -> None:
    """T is triangular, of a real matrix but for pairs of rows, and x = Q T Qᴴ."""
    t = found[0]
    assert not np.tril(t, -2).any()
    assert x.dtype.kind == "f" or not np.tril(t, -1).any()
    np.testing.assert_allclose(np.trace(t, axis1=1, axis2=2), np.trace(x, axis1=1, axis2=2), atol=1e-9)
    if len(found) == 2:
        q = found[1]
        adjoint = np.conj(np.swapaxes(q, 1, 2))
        np.testing.assert_allclose(q @ adjoint, np.broadcast_to(np.eye(q.shape[1]), q.shape), atol=1e-9)
        np.testing.assert_allclose(q @ t @ adjoint, x, atol=1e-9)
