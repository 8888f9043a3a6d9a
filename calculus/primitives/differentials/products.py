"""Rows of products of groups, each of whose transposes is a product of groups again; and the dtypes of cotangents that
come from products.

Rows that are in groups meet the matrix of their group. In the matrices' cotangent these rows are contracted, group by
group; and where contracted elements are in groups, it is the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from calculus.formulas import spelled
from calculus.primitives.contraction import product_dtype
from calculus.primitives.declaration import Site
from calculus.primitives.grouped_products import ragged_of
from calculus.programs import Value
from calculus.schemes import Indices
from calculus.types import DTYPES


def said(**parameters: Value) -> str:
    """Parameters as a formula has them."""
    return ", ".join(f"{name}={spelled(value)}" for name, value in parameters.items())


def at_products(site: Site, array: str, position: int) -> str:
    """An operand in the dtype of the products."""
    (dtype,) = _product_dtype(site)
    return array if site.dtypes[position] == dtype else _converted(array, dtype)


def at_own(site: Site, array: str, position: int) -> str:
    """A cotangent in the dtype of its operand; it is computed in that of the products."""
    dtype = site.dtypes[position] or "f32"
    return array if _product_dtype(site)[0] == dtype else _converted(array, dtype)


def _product_dtype(site: Site) -> tuple[str, ...]:
    return product_dtype(site._replace(dtypes=site.dtypes[:2]))


def _converted(array: str, dtype: str) -> str:
    return f"convert_element_type({array}, new_dtype={DTYPES[dtype][0]}, weak_type=False)"


def grouped(site: Site, position: int) -> str:
    """Of a product of groups."""
    if position == 2 or any(isinstance(size, str) for shape in site.shapes for size in shape):
        return ""
    found = ragged_of(site.parameters, site.shapes)
    x, y, sizes = found.scheme.operands
    (ct,) = found.scheme.results
    other = at_products(site, "xy"[1 - position], 1 - position)
    if position:
        left, right, names = x, ct, (other, "g")
    elif found.mode == "contracted":
        left, right, names = y, ct, (other, "g")
    else:
        left, right, names = ct, y, ("g", other)
    after, group = (x, y)[position], (found.groups,)
    both = [dim for dim in ct if dim in left and dim in right]
    batch, contracted = [dim for dim in both if dim in after], [dim for dim in both if dim not in after]
    rest = [dim for side in (left, right) for dim in side if dim not in both and dim != group]
    if sizes[:-1] and list(sizes[:-1]) != _before((found.ragged,), left, contracted, batch):
        return ""  # the sizes are those for each of other dims
    natural = [*([group] if group in after else []), *batch, *rest]

    def places(dims: list[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(side.index(dim) for dim in dims) for side in (left, right))

    numbers = said(
        dot_dimension_numbers=(places(contracted), places(batch)),
        lhs_ragged_dimensions=(left.index((found.ragged,)),),
        rhs_group_dimensions=(right.index(group),) if group in right else (),
    )
    kept = said(**{name: site.parameters.get(name) for name in ("precision", "preferred_element_type", "group_offset")})
    order = tuple(after.index(dim) for dim in natural)
    row = (
        f"ragged_dot_general({', '.join(names)}, sizes, {kept}, "
        f"ragged_dot_dimension_numbers=RaggedDotDimensionNumbers({numbers}), "
        f"out_sharding=sharding({'xy'[position]}, {order}))"
    )
    if order != tuple(range(len(order))):
        row = f"transpose({row}, permutation={tuple(natural.index(dim) for dim in after)})"
    return f"{'xy'[position]}: {at_own(site, row, position)}"


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {}


def _before(
    ragged: tuple[int, ...], left: Indices, contracted: Sequence[tuple[int, ...]], batch: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """The dims of the left operand that sizes of groups are given for one by one."""
    if ragged in batch:
        return list(batch[: batch.index(ragged)])
    free = [dim for dim in left if dim not in contracted and dim not in batch]
    among = contracted if ragged in contracted else free
    return [*batch, *among[: among.index(ragged)]]


ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    "ragged_dot_general": grouped,
}
