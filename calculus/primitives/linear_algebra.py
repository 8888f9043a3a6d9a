"""Linear algebra on the last dims of batches of matrices: the batch dims pass through, and a matrix is needed whole.

So are its columns where the primitive treats each by itself (the right-hand sides of a solve, what a product of
reflectors is applied to): they pass through. A factorization is linear in nothing; a solve is linear in its right-hand
sides, and a product of reflectors in what it is applied to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from calculus.parameters import bad, flag, integer, required, whole_numbers
from calculus.primitives import factorizations as kernels
from calculus.primitives.declaration import (
    INEXACT,
    DtypesOf,
    Primitive,
    SchemeOf,
    Site,
    complex_dtype,
    like_operands,
    real_dtype,
    same_dtype,
)
from calculus.refusals import Place, refuse
from calculus.schemes import Factor, Scheme, Shape
from calculus.types import Dim, dtype_class

_Sizes: TypeAlias = "dict[str, Dim]"
_Made: TypeAlias = "Callable[[Site, _Sizes], None]"


def on_matrices(site: Site, operands: str, results: str, made: _Made | None = None, batched: bool = True) -> Scheme:
    """`([b,M,M], [b,M,c]) -> [b,M,c]` of `MM Mc` and `Mc`: each array's last dims, a letter for each. Capital letters
    are needed whole, small ones pass through; one letter is one size. made: what adds the
    sizes of letters that only results have. Refuses `shape` where sizes do not fit."""
    taken = operands.split()
    rank = len(site.shapes[0]) - len(taken[0])
    batch = site.shapes[0][: max(rank, 0)]
    found: _Sizes = {}
    for index, (letters, shape) in enumerate(zip(taken, site.shapes, strict=True)):
        fits = len(shape) == rank + len(letters) and rank >= 0 and shape[:rank] == batch and (batched or not rank)
        sizes = shape[rank:] if fits else ()
        if not fits or any(found.setdefault(name, size) != size for name, size in zip(letters, sizes, strict=True)):
            before = " beside " + ", ".join(str(list(other)) for other in site.shapes[:index]) if index else ""
            raise refuse(
                "shape",
                f"operand {index} has shape {list(shape)}{before}",
                because=f"the last dims of the operands are {', '.join(map(_shown, taken))}, one letter one size"
                + (", and the dims before them are the same" if batched else ", and there are none before them"),
                help="reshape or broadcast it first",
                place=Place("operand", index),
            )
    if made is not None:
        made(site, found)
    return _scheme(batch, taken, results.split(), found)


def _shown(letters: str) -> str:
    return f"[{','.join(letters.upper())}]"


def _scheme(batch: Shape, operands: Sequence[str], results: Sequence[str], sizes: Mapping[str, Dim]) -> Scheme:
    all_sizes: list[Dim] = list(batch)
    roles: dict[Factor, str] = {}
    passed: dict[str, Factor] = {}

    def factor(letter: str) -> tuple[Factor, ...]:
        if letter in passed:
            return (passed[letter],)
        all_sizes.append(sizes[letter])
        if letter.isupper():
            roles[len(all_sizes) - 1] = "whole"
        else:
            passed[letter] = len(all_sizes) - 1
        return (len(all_sizes) - 1,)

    leading = tuple((dim,) for dim in range(len(batch)))
    indices = [(*leading, *map(factor, letters)) for letters in (*operands, *results)]
    return Scheme(tuple(indices[: len(operands)]), tuple(indices[len(operands) :]), all_sizes, roles)


def _numbers(sizes: Sequence[Dim]) -> list[int]:
    """The sizes, which are numbers. Refuses `unmodelled-construct` otherwise."""
    found = [size for size in sizes if isinstance(size, int)]
    if len(found) != len(sizes):
        raise refuse(
            "unmodelled-construct",
            f"a factorization of a matrix of {' by '.join(map(str, sizes))}",
            because="the lesser of two symbolic sizes, or a part of one, is not computed",
            help="use numbers for the sizes of the matrix",
        )
    return found


def _least(site: Site, sizes: _Sizes) -> None:
    """K is the lesser of M and N."""
    sizes["K"] = sizes["M"] if sizes["M"] == sizes["N"] else min(_numbers([sizes["M"], sizes["N"]]))


def _one_less(site: Site, sizes: _Sizes) -> None:
    (size,) = _numbers([sizes["N"]])
    if not size:
        raise refuse(
            "shape",
            "a matrix without elements",
            because="beside the diagonal stands one number less than on it",
            place=Place("operand", 0),
        )
    sizes["E"] = size - 1


def _fixed(operands: str, results: str, made: _Made | None = None, batched: bool = True) -> SchemeOf:
    return lambda site: on_matrices(site, operands, results, made, batched)


def _subset(site: Site, most: Dim) -> Dim:
    """How many of the eigenvalues or singular values are asked for."""
    subset = site.parameters.get("subset_by_index")
    if subset is None:
        return most
    numbers = whole_numbers(subset, "subset_by_index")
    (size,) = _numbers([most])
    if len(numbers) != 2 or not 0 <= numbers[0] <= numbers[1] <= size:
        raise bad("subset_by_index", str(numbers), f"first and last of 0 to {size}, the last excluded")
    return numbers[1] - numbers[0]


def _eig_scheme(site: Site) -> Scheme:
    return on_matrices(site, "NN", " ".join(["N", *["NN"] * _vectors(site)]))


def _vectors(site: Site) -> int:
    return flag(site.parameters, "compute_left_eigenvectors") + flag(site.parameters, "compute_right_eigenvectors")


def _eigh_scheme(site: Site) -> Scheme:
    return on_matrices(site, "NN", "ND D", lambda site, sizes: sizes.update(D=_subset(site, sizes["N"])))


def _svd_scheme(site: Site) -> Scheme:
    full = flag(site.parameters, "full_matrices")

    def made(site: Site, sizes: _Sizes) -> None:
        _least(site, sizes)
        least = sizes["K"]
        sizes["K"] = _subset(site, least)
        if full and sizes["K"] != least:
            raise bad("subset_by_index", str(site.parameters["subset_by_index"]), "None, as full_matrices is True")

    uv = ("K MM NN" if full else "K MK KN") if flag(site.parameters, "compute_uv") else "K"
    return on_matrices(site, "MN", uv, made)


def _qr_scheme(site: Site) -> Scheme:
    factors = "MM MN" if flag(site.parameters, "full_matrices") else "MK KN"
    return on_matrices(site, "MN", f"{factors} N" if flag(site.parameters, "pivoting") else factors, _least)


def _schur_scheme(site: Site) -> Scheme:
    return on_matrices(site, "NN", "NN NN" if flag(site.parameters, "compute_schur_vectors") else "NN")


def _reflectors(site: Site, sizes: _Sizes) -> None:
    rows, columns, count = _numbers([sizes["M"], sizes["N"], sizes["K"]])
    if rows < columns or count > columns:
        raise refuse(
            "shape",
            f"{count} reflectors in a matrix of {rows} by {columns}",
            because="each reflector is a column, and a product of them has at most as many columns as rows",
            place=Place("operand", 0),
        )


def _product_scheme(site: Site) -> Scheme:
    """The columns of c, or its rows where it stands on the left, pass through."""

    def enough(site: Site, sizes: _Sizes) -> None:
        rows, columns, count = _numbers([sizes["M"], sizes["N"], sizes["K"]])
        if count > min(rows, columns):
            raise refuse(
                "shape",
                f"{count} reflectors in a matrix of {rows} by {columns}",
                because="each reflector is a column, from the diagonal down",
                place=Place("operand", 1),
            )

    applied = "Mc" if flag(site.parameters, "left") else "cM"
    return on_matrices(site, f"MN K {applied}", applied, enough)


def _solve_scheme(site: Site) -> Scheme:
    """Each right-hand side is solved by itself: the columns of b, or its rows where a stands on the right."""
    sides = "Mc" if flag(site.parameters, "left_side") else "cM"
    return on_matrices(site, f"MM {sides}", sides)


def _permutation_scheme(site: Site) -> Scheme:
    size = integer(required(site.parameters, "permutation_size"), "permutation_size")

    def made(site: Site, sizes: _Sizes) -> None:
        if _numbers([sizes["K"]])[0] > size:
            raise bad("permutation_size", str(size), f"{sizes['K']} or more, as there are as many pivots")
        sizes["P"] = size

    return on_matrices(site, "K", "P", made)


def _dtypes(*classes: str) -> DtypesOf:
    """A dtype for each result: `x` the operands', `r` its real part's, `c` the complex one, or a dtype's name."""

    def dtypes(site: Site) -> tuple[str, ...]:
        (found,) = like_operands(0)(site)
        return tuple(_dtype(name, found) for name in classes)

    return dtypes


def _dtype(name: str, operand: str) -> str:
    return {"x": operand, "r": real_dtype(operand), "c": complex_dtype(operand)}.get(name, name)


def _eig_dtypes(site: Site) -> tuple[str, ...]:
    return _dtypes(*"c" * (1 + _vectors(site)))(site)


def _svd_dtypes(site: Site) -> tuple[str, ...]:
    return _dtypes(*("rxx" if flag(site.parameters, "compute_uv") else "r"))(site)


def _qr_dtypes(site: Site) -> tuple[str, ...]:
    return _dtypes("x", "x", *(["i32"] if flag(site.parameters, "pivoting") else []))(site)


def _schur_dtypes(site: Site) -> tuple[str, ...]:
    return _dtypes(*("xx" if flag(site.parameters, "compute_schur_vectors") else "x"))(site)


def _pivoted_dtypes(site: Site) -> tuple[str, ...]:
    (found,), pivots = like_operands(0, 1)(site), site.dtypes[1]
    if pivots is None or dtype_class(pivots) not in "iu":
        raise _not_integers(pivots, 1)
    return found, pivots, found


def _pivot_dtype(site: Site) -> tuple[str, ...]:
    if site.dtypes[0] != "i32":
        raise _not_integers(site.dtypes[0], 0)
    return ("i32",)


def _not_integers(dtype: str | None, index: int) -> Exception:
    return refuse(
        "dtype",
        f"the pivots are {dtype}",
        because="a pivot is the number of a row or column",
        help="insert a convert_element_type",
        place=Place("operand", index),
    )


def _row(
    name: str,
    operands: str,
    linearity: str,
    scheme: SchemeOf,
    dtypes: DtypesOf,
    kernel: tuple[Callable[..., object], list[int]],
    accepts: str = INEXACT,
) -> Primitive:
    function, ranks = kernel
    return Primitive(
        name,
        tuple(operands.split()),
        linearity,
        scheme,
        dtypes,
        kernel=kernels.each_matrix(function, *ranks),
        accepts=accepts,
    )


_PIVOTED: Final = _fixed("MN N", "MN N K", _least)

# fmt: off
LINEAR_ALGEBRA = (
    # linear in the right-hand sides, or in what is multiplied
    _row("triangular_solve", "a b", "b / a", _solve_scheme, same_dtype, (kernels.triangular_solve, [2, 2])),
    _row("tridiagonal_solve", "lower diagonal upper b", "b / lower diagonal upper", _fixed("M M M Mc", "Mc"),
         same_dtype, (kernels.tridiagonal_solve, [1, 1, 1, 2])),
    _row("ormqr", "a taus c", "c / a taus", _product_scheme, same_dtype, (kernels.times_reflectors, [2, 1, 2])),
    # quadratic in a; to c a matrix is added, so it is not linear in c either
    _row("symmetric_product", "a c", "/ a c", _fixed("NK NN", "NN"), same_dtype,
         (kernels.symmetric_product, [2, 2]), "f"),
    # factorizations, and what their parts make
    _row("cholesky", "x", "/ x", _fixed("NN", "NN"), same_dtype, (kernels.cholesky, [2])),
    _row("cholesky_update", "r w", "/ r w", _fixed("NN N", "NN", batched=False), same_dtype,
         (kernels.cholesky_update, [2, 1]), "f"),
    _row("eig", "x", "/ x", _eig_scheme, _eig_dtypes, (kernels.eigenvectors, [2])),
    _row("eigh", "x", "/ x", _eigh_scheme, _dtypes("x", "r"), (kernels.hermitian_eigenvectors, [2])),
    _row("geqp3", "x pivots", "/ x ; pivots", _PIVOTED, _pivoted_dtypes, (kernels.pivoted_columns, [2, 1])),
    _row("geqrf", "x", "/ x", _fixed("MN", "MN K", _least), _dtypes("x", "x"), (kernels.reflected_columns, [2])),
    _row("hessenberg", "x", "/ x", _fixed("NN", "NN E", _one_less), _dtypes("x", "x"), (kernels.hessenberg, [2])),
    _row("householder_product", "a taus", "/ a taus", _fixed("MN K", "MN", _reflectors), same_dtype,
         (kernels.product_of_reflectors, [2, 1])),
    _row("lu", "x", "/ x", _fixed("MN", "MN K M", _least), _dtypes("x", "i32", "i32"), (kernels.lu, [2])),
    _row("lu_pivots_to_permutation", "pivots", "; pivots", _permutation_scheme, _pivot_dtype,
         (kernels.order_of_swaps, [1]), "i"),
    _row("qr", "x", "/ x", _qr_scheme, _qr_dtypes, (kernels.qr, [2])),
    _row("schur", "x", "/ x", _schur_scheme, _schur_dtypes, (kernels.schur, [2])),
    _row("svd", "x", "/ x", _svd_scheme, _svd_dtypes, (kernels.svd, [2])),
    _row("tridiagonal", "x", "/ x", _fixed("NN", "NN N E E", _one_less), _dtypes("x", "r", "r", "x"),
         (kernels.tridiagonal, [2])),
)
# fmt: on
