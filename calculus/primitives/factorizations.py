"""What the linear algebra computes, in numpy: kernels of `calculus.primitives.linear_algebra`.

Factorizations are packed as LAPACK packs them: below the diagonal stand reflectors v of H = 1 - τ v vᴴ, whose first
element is 1. A factorization is one of several that multiply to the same matrix, so another library may choose other
signs; where there is none, the result is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

_Matrices: TypeAlias = Callable[..., Any]


def each_matrix(function: _Matrices, *ranks: int) -> _Matrices:
    """The kernel that takes a function of one matrix (or several arrays of these ranks) over all batch dims."""

    def kernel(np: Any, p: Any, *operands: Any) -> Any:
        batch = operands[0].shape[: operands[0].ndim - ranks[0]]
        flat = [one.reshape(-1, *one.shape[one.ndim - rank :]) for one, rank in zip(operands, ranks, strict=True)]
        found = [_matrices(np, p, function, each) for each in zip(*flat, strict=True)]
        return [np.stack(each).reshape(*batch, *each[0].shape) for each in zip(*found, strict=True)]

    return kernel


def _matrices(np: Any, p: Any, function: _Matrices, operands: Sequence[Any]) -> tuple[Any, ...]:
    try:
        found = function(np, p, *(one.copy() for one in operands))
    except np.linalg.LinAlgError:  # of unit matrices there is one
        units = [np.eye(*one.shape, dtype=one.dtype) if one.ndim == 2 else np.ones_like(one) for one in operands]
        found = function(np, p, *units)
        found = tuple(one * np.nan for one in (found if isinstance(found, tuple) else (found,)))
    return found if isinstance(found, tuple) else (found,)


def _reflector(np: Any, x: Any) -> tuple[Any, Any, Any]:
    """β, v and τ such that Hᴴ x = (β, 0, …, 0), with v₀ = 1."""
    alpha, rest = x[0], np.linalg.norm(x[1:])
    if rest == 0 and alpha.imag == 0:
        return alpha, np.concatenate([np.ones_like(x[:1]), 0 * x[1:]]), 0 * alpha
    beta = -np.copysign(np.hypot(abs(alpha), rest), alpha.real).astype(x.dtype)
    return beta, np.concatenate([np.ones_like(x[:1]), x[1:] / (alpha - beta)]), (beta - alpha) / beta


def _reflected(np: Any, v: Any, tau: Any, c: Any) -> Any:
    """H c."""
    return c - tau * np.outer(v, v.conj() @ c)


def _vectors(np: Any, a: Any, k: int) -> list[Any]:
    """The first k reflectors packed in a."""
    return [np.concatenate([0 * a[:i, i], np.ones_like(a[i : i + 1, i]), a[i + 1 :, i]]) for i in range(k)]


def reflected_columns(np: Any, p: Any, a: Any) -> Any:
    """`geqrf`: R on and above the diagonal, the reflectors of Q below."""
    taus = np.zeros(min(a.shape), a.dtype)
    for i in range(len(taus)):
        beta, v, taus[i] = _reflector(np, a[i:, i])
        a[i:, i:] = _reflected(np, v, taus[i].conj(), a[i:, i:])
        a[i, i], a[i + 1 :, i] = beta, v[1:]
    return a, taus


def pivoted_columns(np: Any, p: Any, a: Any, pivots: Any) -> Any:
    """`geqp3`: the same of columns in another order, those that are marked first, then the longest; counted from 1."""
    marked = [column for column in range(a.shape[1]) if pivots[column]]
    order = [*marked, *(column for column in range(a.shape[1]) if not pivots[column])]
    a = a[:, order]
    taus = np.zeros(min(a.shape), a.dtype)
    for i in range(len(taus)):
        if i >= len(marked):
            longest = i + int(np.argmax(np.linalg.norm(a[i:, i:], axis=0)))
            a[:, [i, longest]] = a[:, [longest, i]]
            order[i], order[longest] = order[longest], order[i]
        beta, v, taus[i] = _reflector(np, a[i:, i])
        a[i:, i:] = _reflected(np, v, taus[i].conj(), a[i:, i:])
        a[i, i], a[i + 1 :, i] = beta, v[1:]
    return a, np.array(order, pivots.dtype).reshape(pivots.shape) + pivots.dtype.type(1), taus


def product_of_reflectors(np: Any, p: Any, a: Any, taus: Any) -> Any:
    """The first columns of H₁ H₂ … Hₖ."""
    found = np.eye(*a.shape, dtype=a.dtype)
    for v, tau in reversed(list(zip(_vectors(np, a, len(taus)), taus, strict=True))):
        found = _reflected(np, v, tau, found)
    return found


def times_reflectors(np: Any, p: Any, a: Any, taus: Any, c: Any) -> Any:
    """`ormqr`: Q c, Qᴴ c, c Q or c Qᴴ, with Q = H₁ H₂ … Hₖ."""
    if not p["left"]:  # c Q is (Qᴴ cᴴ)ᴴ
        flipped = {"left": True, "transpose": not p["transpose"]}
        return times_reflectors(np, flipped, a, taus, c.conj().T).conj().T
    steps = list(zip(_vectors(np, a, len(taus)), taus, strict=True))
    for v, tau in steps if p["transpose"] else reversed(steps):
        c = _reflected(np, v, tau.conj() if p["transpose"] else tau, c)
    return c


def qr(np: Any, p: Any, x: Any) -> Any:
    """Q and R, and the order of the columns, if they are pivoted, counted from 0."""
    if p["pivoting"]:
        packed, pivots, taus = pivoted_columns(np, p, x, np.zeros(x.shape[1], np.int32))
    else:
        packed, taus = reflected_columns(np, p, x)
    k = x.shape[0] if p["full_matrices"] else len(taus)
    square = np.zeros((x.shape[0], k), x.dtype)
    square[:, : len(taus)] = packed[:, : len(taus)]
    found = product_of_reflectors(np, p, square, taus), np.triu(packed)[:k]
    return (*found, pivots - np.int32(1)) if p["pivoting"] else found


def hessenberg(np: Any, p: Any, a: Any) -> Any:
    """`gehrd`: Qᴴ a Q, zero below the first subdiagonal, where the reflectors stand."""
    taus = np.zeros(len(a) - 1, a.dtype)
    for i in range(len(a) - 1):
        beta, v, taus[i] = _reflector(np, a[i + 1 :, i])
        a[:, i + 1 :] = _reflected(np, v, taus[i].conj(), a[:, i + 1 :].conj().T).conj().T
        a[i + 1 :, i:] = _reflected(np, v, taus[i].conj(), a[i + 1 :, i:])
        a[i + 1, i], a[i + 2 :, i] = beta, v[1:]
    return a, taus


def tridiagonal(np: Any, p: Any, a: Any) -> Any:
    """`hetrd`: of the Hermitian matrix with this triangle, the packed reflectors, both diagonals, and τ."""
    if not p["lower"]:  # the lower triangle of the matrix turned by half a turn, turned back
        packed, d, e, taus = tridiagonal(np, {"lower": True}, a[::-1, ::-1])
        return packed[::-1, ::-1], d[::-1], e[::-1], taus[::-1]
    n = len(a)
    kept = np.triu(a, 1)
    whole = np.tril(a, -1) + np.tril(a, -1).conj().T + np.diag(np.diag(a).real)
    packed, taus, e = np.zeros_like(a), np.zeros(n - 1, a.dtype), np.zeros(n - 1, a.real.dtype)
    for i in range(n - 1):
        beta, v, taus[i] = _reflector(np, whole[i + 1 :, i])
        turned = np.eye(n, dtype=a.dtype)
        turned[i + 1 :, i + 1 :] -= taus[i] * np.outer(v, v.conj())
        whole = turned.conj().T @ whole @ turned
        e[i] = beta.real
        packed[i + 1, i], packed[i + 2 :, i] = beta, v[1:]
    d = np.diag(whole).real
    return packed + kept + np.diag(d), d, e, taus


def lu(np: Any, p: Any, a: Any) -> Any:
    """The triangles of L and U, the row that each row changed places with, and the order that makes of the rows."""
    pivots, order = np.arange(min(a.shape), dtype=np.int32), np.arange(len(a), dtype=np.int32)
    for i in range(len(pivots)):
        pivots[i] = best = i + int(np.argmax(abs(a[i:, i].real) + abs(a[i:, i].imag)))
        a[[i, best]], order[[i, best]] = a[[best, i]], order[[best, i]]
        if a[i, i] != 0:
            a[i + 1 :, i] /= a[i, i]
        a[i + 1 :, i + 1 :] -= np.outer(a[i + 1 :, i], a[i, i + 1 :])
    return a, pivots, order


def order_of_swaps(np: Any, p: Any, pivots: Any) -> Any:
    """The order that the swaps of rows make, one after the other."""
    order = np.arange(p["permutation_size"], dtype=pivots.dtype)
    for i, other in enumerate(pivots):
        order[i], order[other] = order[other], order[i]
    return order


def cholesky(np: Any, p: Any, x: Any) -> Any:
    """L of x = L Lᴴ, of the lower triangle of x."""
    return np.linalg.cholesky(x)


def cholesky_update(np: Any, p: Any, r: Any, w: Any) -> Any:
    """R of RᵀR + w wᵀ, by one rotation for each row."""
    for i in range(len(w)):
        length = np.hypot(r[i, i], w[i])
        c, s = (r[i, i] / length, w[i] / length) if w[i] else (1, 0)
        r[i], w = c * r[i] + s * w, c * w - s * r[i]
    return r


def eigenvectors(np: Any, p: Any, x: Any) -> Any:
    """`eig`: eigenvalues, then left and right eigenvectors as asked for, each of length 1, its largest part real."""
    values, right = (found.astype(np.result_type(x, np.complex64)) for found in np.linalg.eig(x))
    left = np.linalg.pinv(right).conj().T

    def scaled(vectors: Any) -> Any:
        vectors = vectors / np.linalg.norm(vectors, axis=0)
        largest = np.take_along_axis(vectors, np.argmax(abs(vectors), axis=0)[None], 0)
        return vectors * (largest.conj() / abs(largest))

    asked = ((left, p["compute_left_eigenvectors"]), (right, p["compute_right_eigenvectors"]))
    return (values, *(scaled(vectors).astype(values.dtype) for vectors, wanted in asked if wanted))


def hermitian_eigenvectors(np: Any, p: Any, x: Any) -> Any:
    """`eigh`: eigenvectors and eigenvalues of the Hermitian matrix with this triangle, the least first."""
    values, vectors = np.linalg.eigh(x, "L" if p["lower"] else "U")
    kept = slice(*(p["subset_by_index"] or (None,)))
    return vectors[:, kept], values[kept]


def svd(np: Any, p: Any, x: Any) -> Any:
    """Singular values, the greatest first, and where asked for the left and right singular vectors."""
    kept = slice(*(p["subset_by_index"] or (None,)))
    if not np.isfinite(x).all():  # some libraries search for ever
        x = np.full_like(x, np.nan)
    if not p["compute_uv"]:
        return np.linalg.svd(x, compute_uv=False)[kept]
    left, values, right = np.linalg.svd(x, full_matrices=p["full_matrices"])
    if p["full_matrices"]:
        return values, left, right
    return values[kept], left[:, kept], right[kept]


def schur(np: Any, p: Any, x: Any) -> Any:
    """T and Q of x = Q T Qᴴ: an invariant subspace of dimension 1 is split off at a time, of real matrices 2 where an
    eigenvalue is not real."""
    q, t, first = np.eye(len(x), dtype=x.dtype), x, 0
    while first < len(x):
        values, vectors = np.linalg.eig(t[first:, first:])
        real = x.dtype.kind == "f" and values[0].imag != 0
        basis = np.stack([vectors[:, 0].real, vectors[:, 0].imag], 1) if real else vectors[:, :1]
        turned = np.eye(len(x), dtype=x.dtype)
        whole, _ = np.linalg.qr(basis.astype(np.result_type(x) if real else basis.dtype), mode="complete")
        turned[first:, first:] = whole.real if x.dtype.kind == "f" else whole
        q, t = q @ turned, turned.conj().T @ t @ turned
        t[first + basis.shape[1] :, first : first + basis.shape[1]] = 0
        first += basis.shape[1]
    return (t, q) if p["compute_schur_vectors"] else t


def triangular_solve(np: Any, p: Any, a: Any, b: Any) -> Any:
    """x of op(a) x = b, or of x op(a) = b, row by row."""
    a = np.tril(a) if p["lower"] else np.triu(a)
    if p["unit_diagonal"]:
        np.fill_diagonal(a, 1)
    a = a.conj() if p["conjugate_a"] else a
    lower = p["lower"] != p["transpose_a"]
    a = a.T if p["transpose_a"] else a
    if not p["left_side"]:
        a, b, lower = a.T, b.T, not lower
    x = np.zeros_like(b)
    for i in range(len(a)) if lower else reversed(range(len(a))):
        x[i] = (b[i] - a[i] @ x) / a[i, i]
    return x if p["left_side"] else x.T


def tridiagonal_solve(np: Any, p: Any, lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
    """x of A x = b: the first of the lower diagonal and the last of the upper stand outside of A."""
    a = np.diag(diagonal) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return np.full_like(b, np.nan)


def symmetric_product(np: Any, p: Any, a: Any, c: Any) -> Any:
    """α a aᵀ + β c."""
    return float(p["alpha"]) * (a @ a.T) + float(p["beta"]) * c
