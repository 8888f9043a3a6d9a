"""Linear algebra, Fourier transforms, special functions and complex numbers, on batches in each placement.

Each function is one primitive, or nearly so; what it is differentiated with are cotangents of all its results. Where
JAX refuses a placement there is no program: the rest is the family.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.lax import linalg
from jax.sharding import PartitionSpec as P

from verifier.with_jax.gradients import Array, Sample


class Case(NamedTuple):
    """A function and the shapes of its arguments, written `4,3,3` or, of complex numbers, `4,3,3i`."""

    function: Callable[..., Any]
    shapes: str


def _solved(left: bool = True, lower: bool = True, turned: bool = False, unit: bool = False) -> Callable[..., Any]:
    return lambda a, b: linalg.triangular_solve(
        a, b, left_side=left, lower=lower, transpose_a=turned, conjugate_a=turned, unit_diagonal=unit
    )


def _smooth(x: Any) -> Any:
    """A sum of functions that are smooth on complex numbers."""
    functions = (lax.asinh, lax.acosh, lax.atanh, lax.tan, lax.expm1, lax.log1p, lax.rsqrt, lax.logistic, lax.square)
    return functools.reduce(lambda found, function: found + function(x), functions, x)


def _eigenvalues(x: Any) -> Any:
    return linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)


# fmt: off
CASES: Final[dict[str, Case]] = {
    "Cholesky factor": Case(linalg.cholesky, "4,3,3"),
    "Cholesky factor, complex": Case(linalg.cholesky, "4,3,3i"),
    "LU factors": Case(linalg.lu, "4,3,3"),
    "LU factors, tall": Case(linalg.lu, "4,6,3"),
    "LU factors, wide": Case(linalg.lu, "4,3,6i"),
    "QR factors": Case(lambda x: linalg.qr(x, full_matrices=False), "4,6,3"),
    "QR factors, complex": Case(lambda x: linalg.qr(x, full_matrices=False), "4,6,3i"),
    "QR factors, wide": Case(lambda x: linalg.qr(x, full_matrices=False), "4,3,6"),
    "QR factors, full": Case(lambda x: linalg.qr(x, full_matrices=True), "4,6,3"),
    "QR factors, pivoted": Case(lambda x: linalg.qr(x, full_matrices=False, pivoting=True), "4,6,3"),
    "Hermitian eigenvectors": Case(linalg.eigh, "4,3,3"),
    "Hermitian eigenvectors, complex": Case(linalg.eigh, "4,3,3i"),
    "eigenvalues": Case(_eigenvalues, "4,3,3"),
    "eigenvalues, complex": Case(_eigenvalues, "4,3,3i"),
    "singular vectors": Case(lambda x: linalg.svd(x, full_matrices=False), "4,6,3"),
    "singular vectors, wide": Case(lambda x: linalg.svd(x, full_matrices=False), "4,3,6i"),
    "singular values": Case(lambda x: linalg.svd(x, compute_uv=False), "4,6,3"),
    "triangular solution": Case(_solved(), "4,3,3 4,3,8"),
    "triangular solution, turned": Case(_solved(lower=False, turned=True, unit=True), "4,3,3i 4,3,8i"),
    "triangular solution, from the right": Case(_solved(left=False), "4,3,3 4,8,3"),
    "tridiagonal solution": Case(linalg.tridiagonal_solve, "4,3 4,3 4,3 4,3,8"),
    "Fourier transform": Case(lambda x: lax.fft(x, "FFT", (8,)), "4,8i"),
    "Fourier transform, inverse": Case(lambda x: lax.fft(x, "IFFT", (3, 8)), "4,3,8i"),
    "real Fourier transform": Case(lambda x: lax.fft(x, "RFFT", (8,)), "4,8"),
    "real Fourier transform, odd": Case(lambda x: lax.fft(x, "RFFT", (2, 9)), "4,2,9"),
    "real Fourier transform, inverse": Case(lambda x: lax.fft(x, "IRFFT", (9,)), "4,5i"),
    "digamma": Case(lax.digamma, "4,8"),
    "polygamma": Case(lambda x: lax.polygamma(jnp.ones_like(x), x), "4,8"),
    "incomplete gamma": Case(lax.igamma, "4,8 4,8"),
    "incomplete gamma, from above": Case(lax.igammac, "4,8 4,8"),
    "incomplete beta": Case(lambda x: lax.betainc(jnp.ones_like(x), jnp.ones_like(x), x), "4,8"),
    "Bessel": Case(lambda x: lax.bessel_i0e(x) + lax.bessel_i1e(x), "4,8"),
    "inverse error function": Case(lax.erf_inv, "4,8"),
    "next number": Case(lax.nextafter, "4,8 4,8"),
    "gamma sample": Case(lambda a: jax.random.gamma(jax.random.key(0), a), "4,8"),
    "gamma sample, logarithm": Case(lambda a: jax.random.loggamma(jax.random.key(0), a), "4,8"),
    "absolute value": Case(lax.abs, "4,8i"),
    "direction": Case(lax.sign, "4,8i"),
    "complex number": Case(lax.complex, "4,8 4,8"),
    "complex power": Case(lax.pow, "4,8i 4,8i"),
    "complex functions": Case(_smooth, "4,8i"),
}
# fmt: on


def _placements(rank: int) -> dict[str, P]:
    none = (None,) * rank
    cut = {f"dim {dim}": P(*none[:dim], "X") for dim in range(rank)}
    return {"whole": P(), **cut, **({"reduced": P(*none, reduced={"X"})} if jax.__version_info__ >= (0, 12) else {})}


def matrices() -> Iterator[tuple[str, Callable[[], Sample]]]:
    """Every function at every placement of its arguments, by name; of four arguments the first three lie alike."""
    for name, case in CASES.items():
        texts = case.shapes.split()
        shapes = [tuple(map(int, text.removesuffix("i").split(","))) for text in texts]
        dtypes = ["complex64" if text.endswith("i") else "float32" for text in texts]
        for placed in itertools.product(*(_placements(len(shape)).items() for shape in shapes)):
            if len(placed) > 2 and len({where for where, _ in placed[:3]}) > 1:
                continue
            arrays = tuple(
                Array(shape, spec, dtype) for shape, (_, spec), dtype in zip(shapes, placed, dtypes, strict=True)
            )
            where = " and ".join(dict.fromkeys(where for where, _ in placed[-2:]))
            yield f"{name} ({where})", functools.partial(Sample, case.function, arrays, "X=2")
