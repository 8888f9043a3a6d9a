"""Rows of reductions and of what accumulates along a dim."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calculus.parameters import integers
from calculus.primitives.declaration import Site
from calculus.types import DTYPES


def extreme(site: Site) -> str:
    """Of a maximum or minimum over dims: the mean of the tangents of the elements that are it."""
    shape, axes = site.shapes[0], integers(site.parameters, "axes")
    ones = tuple(1 if dim in axes else size for dim, size in enumerate(shape))
    found = f"x == reshape(result, dimensions=None, new_sizes={ones}, sharding=None)"
    where = f"convert_element_type({found}, new_dtype={DTYPES[site.dtypes[0] or 'f32'][0]}, weak_type=False)"
    over = f"axes={axes}, out_sharding=None"
    return f"reduce_sum(g * {where}, {over}) / reduce_sum({where}, {over})"


def from_the_other_end(site: Site, position: int) -> str:
    """Of a cumulated sum."""
    return f"cumsum(g, axis={site.parameters['axis']}, reverse={not site.parameters['reverse']})"


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    "reduce_max": extreme,
    "reduce_min": extreme,
}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    "cumsum": from_the_other_end,
}
