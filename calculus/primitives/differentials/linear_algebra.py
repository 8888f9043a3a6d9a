"""Rows of solves and of products with reflectors: linear in the right-hand sides, or in what is multiplied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final

from calculus.parameters import flag
from calculus.primitives.declaration import Site
from calculus.primitives.differentials.matrices import ABOVE, BELOW, column, lower, moved_rows, said, upper, where


def triangular(site: Site) -> str:
    """Of the matrix a of a x = b, where only a triangle of a is looked at: a ∂x = -∂a x. Of the two products of three
    the one with fewer multiplications."""
    left, low = flag(site.parameters, "left_side"), flag(site.parameters, "lower")
    if flag(site.parameters, "unit_diagonal"):
        triangle = where(BELOW if low else ABOVE, "g")
    else:
        triangle = lower("g") if low else upper("g")
    matrix = "t.T" if flag(site.parameters, "transpose_a") else "t"
    matrix = f"conj({matrix})" if flag(site.parameters, "conjugate_a") else matrix
    solve = f"triangular_solve(a, {{}}, {said(site.parameters)})"
    rows, columns = site.shapes[1][-2:]
    beside = rows if left else columns
    sides = columns if left else rows
    few = isinstance(beside, int) and isinstance(sides, int) and beside > sides
    if left:
        found = solve.format("m @ result") if few else f"{solve.format('m')} @ result"
    else:
        found = solve.format("result @ m") if few else f"result @ {solve.format('m')}"
    return f"t = {triangle}; m = -{matrix}; a: {found}"


def triangular_back(site: Site, position: int) -> str:
    """Of the right-hand sides: solved with the transpose."""
    turned = not flag(site.parameters, "transpose_a")
    return f"b: triangular_solve(a, g, {said(site.parameters, transpose_a=turned)})"


def tridiagonal(site: Site) -> str:
    """Of each diagonal of A x = b: A ∂x = -∂A x."""
    shape = site.shapes[0]
    rank = len(shape) + 1

    def solved(by: int) -> str:
        x = moved_rows("result", by, rank) if by else "result"
        return f"tridiagonal_solve(lower, diagonal, upper, -({column('g', shape)} * {x}), {said(site.parameters)})"

    return f"lower: {solved(1)}; diagonal: {solved(0)}; upper: {solved(-1)}"


def tridiagonal_back(site: Site, position: int) -> str:
    """Of the right-hand sides: the outer diagonals change places. What stands outside of the matrix is not looked
    at."""
    batch = ((0, 0, 0),) * (len(site.shapes[0]) - 1)
    low = f"pad(upper, 0, padding_config={(*batch, (1, -1, 0))})"
    high = f"pad(lower, 0, padding_config={(*batch, (-1, 1, 0))})"
    return f"b: tridiagonal_solve({low}, diagonal, {high}, g, {said(site.parameters)})"


def reflected_back(site: Site, position: int) -> str:
    """Of what is multiplied by Q: multiplied by its transpose, which is the conjugate of Qᴴ."""
    turned = not flag(site.parameters, "transpose")
    return f"c: conj(ormqr(a, taus, conj(g), {said(site.parameters, transpose=turned)}))"


def symmetric(site: Site) -> str:
    """Of α a aᵀ + β c, two numbers."""
    try:
        alpha, beta = (float(str(site.parameters[name])) for name in ("alpha", "beta"))
    except (KeyError, ValueError):
        return ""
    return f"a: {alpha} * (g @ a.T + a @ g.T); c: {beta} * g" if isfinite(alpha) and isfinite(beta) else ""


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    "triangular_solve": triangular,
    "tridiagonal_solve": tridiagonal,
    "symmetric_product": symmetric,
}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    "triangular_solve": triangular_back,
    "tridiagonal_solve": tridiagonal_back,
    "ormqr": reflected_back,
}
