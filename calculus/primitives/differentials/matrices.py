"""How rows speak of matrices: masks, diagonals and solves, as text of `calculus.formulas`.

`of` is the name of a value whose last two dims are a matrix; a mask is made where it stands, cut alike, so that no
device needs another's.
"""

from __future__ import annotations

from typing import Final

from calculus.formulas import spelled
from calculus.primitives.declaration import Site, complex_dtype
from calculus.programs import Parameters, Value
from calculus.schemes import Shape
from calculus.types import DTYPES, dtype_class

BELOW: Final = "places({of}, -2) > places({of}, -1)"
ON: Final = "places({of}, -2) == places({of}, -1)"
ABOVE: Final = "places({of}, -2) < places({of}, -1)"


def where(mask: str, of: str, other: str = "") -> str:
    """The matrix where the mask says so, zero or another value elsewhere."""
    return f"select_n({mask.format(of=of)}, {other or f'full(0, {of})'}, {of})"


def on_diagonal(of: str, there: str) -> str:
    """The matrix, and on its diagonal another value."""
    return f"select_n({ON.format(of=of)}, {of}, {there})"


def lower(of: str) -> str:
    """The lower triangle, with the diagonal."""
    return f"select_n({ABOVE.format(of=of)}, {of}, full(0, {of}))"


def upper(of: str) -> str:
    """The upper triangle, with the diagonal."""
    return f"select_n({BELOW.format(of=of)}, {of}, full(0, {of}))"


def halved(of: str, mask: str = BELOW) -> str:
    """A triangle with half of the diagonal: h of h + hᴴ, a Hermitian matrix with this triangle."""
    return f"select_n({ON.format(of=of)}, {where(mask, of)}, 0.5 * {of})"


def diagonal(of: str, rank: int) -> str:
    """The elements on the diagonal."""
    return f"reduce_sum({where(ON, of)}, axes=({rank - 1},), out_sharding=None)"


def row(of: str, shape: Shape) -> str:
    """A vector of this shape, one element for each column."""
    return _shaped(of, (*shape[:-1], 1, shape[-1]))


def column(of: str, shape: Shape) -> str:
    """A vector of this shape, one element for each row."""
    return _shaped(of, (*shape, 1))


def _shaped(of: str, shape: Shape) -> str:
    return f"reshape({of}, dimensions=None, new_sizes={shape}, sharding=None)"


def solved(a: str, b: str, left: bool = True, lower: bool = False, turned: bool = False, unit: bool = False) -> str:
    """x of a x = b, or of x a = b, for a triangular matrix, or its conjugate transpose."""
    return (
        f"triangular_solve({a}, {b}, left_side={left}, lower={lower}, transpose_a={turned}, conjugate_a={turned}, "
        f"unit_diagonal={unit})"
    )


def moved_rows(of: str, by: int, rank: int) -> str:
    """The rows (of vectors: the elements) moved down by a place, or up; zero where none comes."""
    config = ((0, 0, 0),) * (rank - 2) + ((by, -by, 0), (0, 0, 0))
    return f"pad({of}, 0, padding_config={config[-rank:]})"


def resized(of: str, rows: int, columns: int, rank: int, first: bool = False) -> str:
    """The matrix with so many more rows and columns of zeros, or so many less: the last ones, or the first."""
    ends = tuple((more, 0, 0) if first else (0, more, 0) for more in (rows, columns))
    return f"pad({of}, 0, padding_config={((0, 0, 0),) * (rank - 2) + ends})"


def chosen(of: str, order: str, site: Site, dim: int) -> str:
    """The rows (dim -2) or columns (-1) of a matrix of the first operand's shape in an order that a batch of
    permutations says."""
    shape = site.shapes[0]
    rank = len(shape)
    at, batch = rank + dim, tuple(range(rank - 2))
    offsets = (rank - 1,) if dim == -2 else (rank - 2,)
    numbers = f"offset_dims={offsets}, collapsed_slice_dims=({at},), start_index_map=({at},)"
    if batch:
        numbers += f", operand_batching_dims={batch}, start_indices_batching_dims={batch}"
    sizes = tuple(size if place in offsets else 1 for place, size in enumerate(shape))
    places = column(order, (*shape[:-2], shape[at]))
    return (
        f"gather({of}, {places}, dimension_numbers=GatherDimensionNumbers({numbers}), fill_value=None, "
        f"mode='GatherScatterMode.PROMISE_IN_BOUNDS', slice_sizes={sizes}, indices_are_sorted=False, "
        "unique_indices=True)"
    )


def said(parameters: Parameters, **changed: Value) -> str:
    """The parameters of an equation, some of them changed, as a formula says them."""
    return ", ".join(f"{name}={spelled(changed.get(name, value))}" for name, value in parameters.items_in_order)


def is_complex(site: Site) -> bool:
    """Whether the first operand is complex."""
    return dtype_class(site.dtypes[0] or "f32") == "c"


def as_complex(of: str, site: Site) -> str:
    """Complex numbers, of the first operand's precision."""
    return f"convert_element_type({of}, new_dtype={DTYPES[complex_dtype(site.dtypes[0] or 'f32')][0]}, weak_type=False)"


def like_operand(of: str, site: Site) -> str:
    """Real numbers at the first operand's dtype."""
    return as_complex(of, site) if is_complex(site) else of


def real_part(of: str, site: Site) -> str:
    """The real part of numbers of the first operand's dtype."""
    return f"real({of})" if is_complex(site) else of
