"""Rows of factorizations, from the textbooks: what the equation of the factors says of their tangents.

Eigenvalues and singular values are taken to be distinct: where two meet, the vectors have no derivative, and what comes
is not finite. A vector is one up to a phase: the tangent of one of `eigh` and `svd` has no part that turns it, that of
one of `eig` has what its largest part, which stays real, asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calculus.parameters import flag, whole_numbers
from calculus.primitives.declaration import Site
from calculus.primitives.differentials.matrices import (
    ABOVE,
    BELOW,
    ON,
    as_complex,
    chosen,
    column,
    diagonal,
    halved,
    is_complex,
    like_operand,
    lower,
    on_diagonal,
    real_part,
    resized,
    row,
    said,
    solved,
    upper,
    where,
)


def cholesky(site: Site) -> str:
    """x = L Lᴴ, of which the lower triangle is looked at: ∂L = L φ(L⁻¹ ∂x L⁻ᴴ), φ the lower triangle with half of the
    diagonal."""
    return (
        f"h = {halved('g')}; s = {solved('result0', 'h + h.H', left=False, lower=True, turned=True)}; "
        f"m = {solved('result0', 's', lower=True)}; {lower('result0')} @ {halved('m')}"
    )


def lu(site: Site) -> str:
    """P x = L U, packed into one array: L⁻¹ ∂(P x) U⁻¹ = L⁻¹ ∂L + ∂U U⁻¹, a part below the diagonal and one above. Both
    are made square, by parts of the unit matrix."""
    rows, columns = site.shapes[0][-2:]
    if not (isinstance(rows, int) and isinstance(columns, int)):
        return ""
    rank = len(site.shapes[0])
    left = resized("result0", 0, rows - columns, rank) if rows != columns else "result0"
    right = resized("result0", columns - rows, 0, rank) if rows != columns else "result0"
    beyond = f"({ON.format(of='r')}) & (places(r, -2) >= {rows})"
    return (
        f"p = {left}; k = {where(BELOW, 'p')}; l = {on_diagonal('k', 'full(1, k)')}; r = {right}; "
        f"w = {f'select_n({beyond}, r, full(1, r))' if columns > rows else 'r'}; u = {upper('w')}; "
        f"d = {solved('l', chosen('g', 'result2', site, -2), lower=True, unit=True)}; "
        f"m = {solved('u', 'd', left=False)}; l @ {where(BELOW, 'm')} + {upper('m')} @ u"
    )


def qr(site: Site) -> str:
    """x = Q R: of Qᴴ ∂Q, which is skew, what stands below the diagonal of Qᴴ ∂x R⁻¹; and ∂R = Qᴴ ∂x - (Qᴴ ∂Q) R."""
    rows, columns = site.shapes[0][-2:]
    if not (isinstance(rows, int) and isinstance(columns, int)):
        return ""
    rank, full = len(site.shapes[0]), flag(site.parameters, "full_matrices") and rows > columns
    wide = columns > rows
    tangent = chosen("g", "result2", site, -1) if flag(site.parameters, "pivoting") else "g"
    square = resized("result1", 0, rows - columns, rank) if wide else "result1"
    thin = (
        f"q = {resized('result0', 0, columns - rows, rank) if full else 'result0'}; "
        f"r = {resized('result1', columns - rows, 0, rank) if full else square}; "
        f"d = {tangent}; c = {solved('r', resized('d', 0, rows - columns, rank) if wide else 'd', left=False)}; "
        f"m = q.H @ c; h = {halved('m')}; s = h - h.H; "
    )
    if site.number == 1:
        change = "e = q.H @ d - s @ result1; " if wide else "e = (m - s) @ r; "
        found = upper("e")
        return thin + change + (f"f = {found}; {resized('f', rows - columns, 0, rank)}" if full else found)
    thin += "v = q @ (s - m) + c; "
    if not full:
        return thin + "v"

    # The other columns of Q = 1 - V T Vᴴ are (Q - 1) Zᴴ beside ones, with Z = V₂ V₁⁻¹ of the first columns.
    def first(of: str) -> str:
        return resized(of, columns - rows, 0, rank)

    def rest(of: str) -> str:
        return resized(of, -columns, 0, rank, first=True)

    order = f"places(b, -1) == {column('lu(b)[2]', (*site.shapes[0][:-2], columns))}"
    return thin + (
        f"a = {first('q')}; b = {on_diagonal('a', 'a - 1')}; "
        f"y = {solved('lu(b)[0]', solved('lu(b)[0]', rest('q'), left=False), left=False, lower=True, unit=True)}; "
        f"z = y @ select_n({order}, full(0, b), full(1, b)); "
        f"o = {resized('result0', 0, -columns, rank, first=True)}; "
        f"n = v @ z.H - (q + o @ z) @ ({rest('v')} - z @ {first('v')}).H; "
        f"concatenate(v, n, dimension={rank - 1})"
    )


def eigh(site: Site) -> str:
    """x v = v w of a Hermitian matrix, of which a triangle is looked at: vᴴ ∂x v has the changes of the eigenvalues on
    its diagonal, and beside it those of the vectors, times differences of eigenvalues."""
    shape = site.shapes[0]
    subset = site.parameters.get("subset_by_index")
    if subset is not None and whole_numbers(subset, "subset_by_index") != (0, shape[-1]):
        return ""
    seen = BELOW if flag(site.parameters, "lower") else ABOVE
    product = f"h = {halved('g', seen)}; p = result0.H @ (h + h.H) @ result0; "
    if site.number == 1:
        return f"{product}{real_part(diagonal('p', len(shape)), site)}"
    return f"{product}w = {like_operand('result1', site)}; {_apart(site)}; result0 @ (f * p)"


def _apart(site: Site, change: str = "") -> str:
    """f, the inverse differences of the eigenvalues w, zero on the diagonal."""
    shape = site.shapes[0][:-1]
    return (
        f"d = {row('w', shape)} - {column('w', shape)}; e = {on_diagonal('d', 'full(1, d)')}; "
        f"i = 1 / e; f = {on_diagonal('i', 'full(0, i)')}"
    )


def eig(site: Site) -> str:
    """x v = v w of any matrix: with left vectors u beside the right ones v, v⁻¹ ∂x v = uᴴ ∂x v / uᴴ v has the changes
    of the eigenvalues on its diagonal. Of the left vectors the same, of xᴴ and its eigenvalues w̄."""
    shape = site.shapes[0]
    rank = len(shape)
    both = f"eig(x, {said(site.parameters, compute_left_eigenvectors=True, compute_right_eigenvectors=True)})"
    left_asked = flag(site.parameters, "compute_left_eigenvectors")
    over = f"axes=({rank - 2},), out_sharding=None"
    lefts = site.number == 1 and left_asked
    tangent = "g" if is_complex(site) else as_complex("g", site)
    ours, other = ("1", "2") if lefts else ("2", "1")
    start = (
        f"v = {both}[{ours}]; u = {both}[{other}]; c = {tangent}; a = {'c.H' if lefts else 'c'} @ v; "
        f"n = reduce_sum(conj(u) * v, {over}); "
    )
    if site.number == 0:
        return f"{start}reduce_sum(conj(u) * a, {over}) / n"
    vector = shape[:-1]
    return (
        f"{start}w = {'conj(result0)' if lefts else 'result0'}; {_apart(site)}; p = (u.H @ a) / {column('n', vector)}; "
        f"t = v @ (f * p); s = abs(v); "
        f"k = argmax(s, axes=({rank - 2},), index_dtype=int32); "
        f"m = places(v, -2) == {row('k', vector)}; "
        f"b = reduce_sum(select_n(m, full(0, t), t), {over}); y = reduce_sum(select_n(m, full(0, v), v), {over}); "
        f"r = -real(reduce_sum(conj(v) * t, {over})); j = -(imag(b) / real(y)); "
        f"t + v * {row('complex(r, j)', vector)}"
    )


def svd(site: Site) -> str:
    """x = u s vᴴ: uᴴ ∂x v has the changes of the singular values on its diagonal, and beside it those of both vectors,
    times differences of squares. What u or v do not span of ∂x turns them too."""
    shape = site.shapes[0]
    rows, columns = shape[-2:]
    rank, vectors = len(shape), flag(site.parameters, "compute_uv")
    if not (isinstance(rows, int) and isinstance(columns, int)):
        return ""
    subset = site.parameters.get("subset_by_index")
    if vectors and (
        (flag(site.parameters, "full_matrices") and rows != columns)
        or (subset is not None and whole_numbers(subset, "subset_by_index") != (0, min(rows, columns)))
    ):
        return ""
    again = f"svd(x, {said(site.parameters, compute_uv=True, full_matrices=False)})"
    u, t = ("result1", "result2") if vectors else (f"{again}[1]", f"{again}[2]")
    start = f"u = {u}; v = {t}.H; p = u.H @ g @ v; "
    if site.number == 0:
        return f"{start}{real_part(diagonal('p', rank), site)}"
    values = (*shape[:-2], min(rows, columns))
    start += (
        f"w = {like_operand('result0', site)}; a = {row('w', values)}; b = {column('w', values)}; "
        f"d = (a + b) * (a - b); e = {on_diagonal('d', 'full(1, d)')}; i = 1 / e; "
        f"f = {on_diagonal('i', 'full(0, i)')}; "
    )
    if site.number == 2:
        beyond = "q = g.H @ u; n = n + (q - v @ (v.H @ q)) / a; " if columns > rows else ""
        return f"{start}c = b * p; n = v @ (f * (c + c.H)); {beyond}n.H"
    zero = "a == full(0, a)"
    turn = (
        f"k = select_n({zero}, a, full(1, a)); l = select_n({zero}, 1 / k, full(0, k)); "
        f"j = 0.5 * (p - p.H) * l; o = {where(ON, 'j')}; "
    )
    beyond = "q = g @ v; n = n + (q - u @ (u.H @ q)) / a; " if rows > columns else ""
    return f"{start}{turn}c = a * p; n = u @ (f * (c + c.H) + o); {beyond}n"


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    "cholesky": cholesky,
    "lu": lu,
    "qr": qr,
    "eigh": eigh,
    "eig": eig,
    "svd": svd,
}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {}
