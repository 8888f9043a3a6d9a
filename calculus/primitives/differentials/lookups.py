"""Rows of lookups, and of updates where an index says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calculus.parameters import required, whole_numbers
from calculus.primitives.declaration import Site, Unfold
from calculus.programs import Call


def looked_up(site: Site, position: int) -> str:
    """Of a lookup: what comes to each place is added up there."""
    numbers = required(site.parameters, "dimension_numbers")
    if not isinstance(numbers, Call):
        return ""
    renamed = ", ".join(
        f"{there}={whole_numbers(found, there)}"
        for here, there in _PLACES.items()
        if (found := numbers.keyword(here)) is not None
    )
    flags = ", ".join(f"{name}={site.parameters.get(name, False)}" for name in ("indices_are_sorted", "unique_indices"))
    return (
        f"x: scatter_add(zeros(x, indices), indices, g, dimension_numbers=ScatterDimensionNumbers({renamed}), "
        f"mode='{site.parameters.get('mode')}', {flags}, update_consts=(), update_jaxpr=sum_of({site.dtypes[0]}))"
    )


_PLACES: Final = {
    "offset_dims": "update_window_dims",
    "collapsed_slice_dims": "inserted_window_dims",
    "start_index_map": "scatter_dims_to_operand_dims",
    "operand_batching_dims": "operand_batching_dims",
    "start_indices_batching_dims": "scatter_indices_batching_dims",
}
"""The dims of a gather, and the same dims of a scatter."""


def added_up(site: Site, position: int) -> str:
    """Of updates that are added: the array's own is passed on, that of an update is looked up where it went."""
    numbers = required(site.parameters, "dimension_numbers")
    if not isinstance(numbers, Call):
        return ""
    said = {here: numbers.keyword(there) for here, there in _PLACES.items()}
    renamed = ", ".join(f"{here}={whole_numbers(found, here)}" for here, found in said.items() if found is not None)
    shape, _, update = site.shapes
    lone = {
        *whole_numbers(said["collapsed_slice_dims"] or (), ""),
        *whole_numbers(said["operand_batching_dims"] or (), ""),
    }
    windowed = iter(whole_numbers(said["offset_dims"] or (), "update_window_dims"))
    taken = tuple(1 if dim in lone else update[next(windowed)] for dim in range(len(shape)))
    flags = ", ".join(f"{name}={site.parameters.get(name, False)}" for name in ("indices_are_sorted", "unique_indices"))
    return (
        f"x: g; u: gather(g, indices, dimension_numbers=GatherDimensionNumbers({renamed}), fill_value=0, "
        f"mode='{site.parameters.get('mode')}', slice_sizes={taken}, {flags})"
    )


UNFOLDED: Final[Mapping[str, Unfold]] = {}

DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    "gather": looked_up,
    "scatter-add": added_up,
}
