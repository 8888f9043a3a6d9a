"""How sample calls are written (`verifier/samples.py`), and those of linear algebra and of products of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from calculus.programs import Call, Parameters, Real, Word


class Row(NamedTuple):
    """Types with `?` for the dtype at hand, each with a range, `i32[6]:-2:9`, or without; of the results `_` where a
    text need not print one; the classes that the call makes sense on, all usual ones where none is named."""

    operands: str
    results: str
    classes: str
    parameters: Parameters


def call(operands: str, results: str = "", classes: str = "", /, **parameters: Any) -> Row:
    """One sample call, written as `Row` says."""
    return Row(operands, results, classes, Parameters(tuple(parameters.items())))


def _ragged_call(operands: str, contracting: Any, batch: Any, ragged: int, groups: tuple[int, ...]) -> Row:
    numbers = Call(
        "RaggedDotDimensionNumbers",
        (),
        (
            ("dot_dimension_numbers", (contracting, batch)),
            ("lhs_ragged_dimensions", (ragged,)),
            ("rhs_group_dimensions", groups),
        ),
    )
    return call(
        operands, "", "fi",
        group_offset=None, out_sharding=None, precision=None, preferred_element_type=None,
        ragged_dot_dimension_numbers=numbers,
    )  # fmt: skip


MATRIX_CALLS: Final[Mapping[str, tuple[Row, ...]]] = {
    "triangular_solve": tuple(
        [
            call(
                operands,
                conjugate_a=turned, left_side=left, lower=not turned, transpose_a=turned, unit_diagonal=unit,
            )
            for operands, left, turned, unit in (
                ("?[4,3,3] ?[4,3,8]", True, False, False),
                ("?[4,3,3] ?[4,3,8]", True, True, True),
                ("?[4,3,3] ?[4,8,3]", False, True, False),
                ("?[3,3] ?[8,3]", False, False, True),
            )
        ]
    ),
    "tridiagonal_solve": (call("?[4,3] ?[4,3] ?[4,3] ?[4,3,8]", perturb_singular=False),),
    "ormqr": (
        call("?[4,6,3] ?[4,3] ?[4,6,8]", left=True, transpose=False),
        call("?[4,6,3] ?[4,2] ?[4,6,8]", left=True, transpose=True),
        call("?[4,6,3] ?[4,3] ?[4,8,6]", left=False, transpose=False),
        call("?[4,6,3] ?[4,3] ?[4,8,6]", left=False, transpose=True),
    ),
    "symmetric_product": (call("?[4,3,8] ?[4,3,3]", alpha=Real("0.5"), beta=Real("2.0")),),
    "cholesky": (call("?[4,2,2]:1:3"),),
    "cholesky_update": (call("?[3,3] ?[3]"),),
    "eig": (
        call(
            "?[4,3,3]", "_ _ _",
            compute_left_eigenvectors=True, compute_right_eigenvectors=True,
            enable_eigvec_derivs=False, implementation=None,
        ),
        call(
            "?[4,3,3]",
            compute_left_eigenvectors=False, compute_right_eigenvectors=False,
            enable_eigvec_derivs=False, implementation=None,
        ),
    ),
    "eigh": (
        call("?[4,3,3]", "_ _", algorithm=None, lower=True, sort_eigenvalues=True, subset_by_index=None),
        call("?[4,3,3]", "_ _", algorithm=None, lower=False, sort_eigenvalues=True, subset_by_index=(1, 3)),
    ),
    "geqp3": (
        call("?[4,6,3] i32[4,3]:0:2", "_ _ _", use_magma=None),
        call("?[4,3,6] i32[4,6]:0:1", "_ _ _", use_magma=None),
    ),
    "geqrf": (call("?[4,6,3]", "_ _"), call("?[4,3,6]", "_ _")),
    "hessenberg": (call("?[4,3,3]", "_ _"),),
    "householder_product": (call("?[4,6,3] ?[4,3]"), call("?[4,6,3] ?[4,2]")),
    "lu": (call("?[4,6,3]", "_ _ _"), call("?[4,3,6]", "_ _ _")),
    "lu_pivots_to_permutation": (call("i32[4,3]:0:6", "", "i", permutation_size=6),),
    "qr": tuple(
        [
            call(operands, "_ _ _" if pivoting else "_ _", full_matrices=full, pivoting=pivoting, use_magma=None)
            for operands, full, pivoting in (
                ("?[4,6,3]", False, False), ("?[4,3,6]", False, True),
                ("?[4,6,3]", True, False), ("?[4,3,6]", True, False),
            )
        ]
    ),
    "schur": (
        call("?[4,3,3]", "_ _", compute_schur_vectors=True, select_callable=None, sort_eig_vals=False),
        call("?[4,3,3]", compute_schur_vectors=False, select_callable=None, sort_eig_vals=False),
    ),
    "svd": tuple(
        [
            call(
                "?[4,6,3]", "_ _ _" if uv else "_",
                algorithm=None, compute_uv=uv, full_matrices=full, subset_by_index=part,
            )
            for uv, full, part in ((True, True, None), (True, False, (0, 2)), (False, False, None))
        ]
    )
    + tuple(
        [
            call(operands, "_ _ _", algorithm=None, compute_uv=True, full_matrices=False, subset_by_index=None)
            for operands in ("?[4,6,3]", "?[4,3,6]")
        ]
    ),
    "tridiagonal": (call("?[4,3,3]", "_ _ _ _", lower=True), call("?[4,3,3]", "_ _ _ _", lower=False)),
    "ragged_dot_general": (
        _ragged_call("?[8,4] ?[2,4,6] i32[2]:0:5", ((1,), (1,)), ((), ()), 0, (0,)),
        _ragged_call("?[3,8,4] ?[3,2,4,6] i32[3,2]:0:5", ((2,), (2,)), ((0,), (0,)), 1, (1,)),
        _ragged_call("?[8,4] ?[8,6] i32[2]:0:5", ((0,), (0,)), ((), ()), 0, ()),
        _ragged_call("?[3,8,4] ?[3,4,6] i32[2]:0:2", ((2,), (1,)), ((0,), (0,)), 0, ()),
    ),
    "scaled_dot": (
        call(
            "?[2,4,6] ?[2,8,6] ?[2,4,3] ?[2,8,1]", "", "f",
            dimension_numbers=(((2,), (2,)), ((0,), (0,))), preferred_element_type=Word("float64"),
        ),
    ),
}  # fmt: skip
"""By primitive."""
