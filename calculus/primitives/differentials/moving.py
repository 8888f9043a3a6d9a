"""Rows of what moves elements, and leaves each what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calculus.parameters import dims, integer, integers, sequence
from calculus.primitives.declaration import Site


def unsliced(site: Site, position: int) -> str:
    """Zeros around the slice, and between its elements."""
    shape, start, limit = site.shapes[0], dims(site.parameters, "start_indices"), dims(site.parameters, "limit_indices")
    strides = (1,) * len(shape) if site.parameters.get("strides") is None else dims(site.parameters, "strides")
    rows = []
    for size, low, high, step in zip(shape, start, limit, strides, strict=True):
        if not (isinstance(size, int) and isinstance(low, int) and isinstance(high, int) and isinstance(step, int)):
            return ""
        count = -(-(high - low) // step)
        rows.append((low, size - low - max(0, count - 1) * step - min(count, 1), step - 1))
    return f"pad(g, 0, padding_config={tuple(rows)})"


def unpadded(site: Site, position: int) -> str:
    """What was padded is cut out again; the padding's is the sum of the rest."""
    shape = site.shapes[0]
    config = [
        tuple(integer(item, "padding_config") for item in sequence(row, "padding_config"))
        for row in sequence(site.parameters["padding_config"], "padding_config")
    ]
    cut = f"pad(g, 0, padding_config={tuple((-low, -high, 0) for low, high, _ in config)})"
    if any(inner for _, _, inner in config):
        if any(isinstance(size, str) for size in shape):
            return ""
        spread = tuple(
            size + inner * max(0, size - 1)  # type: ignore[operator]
            for size, (_, _, inner) in zip(shape, config, strict=True)
        )
        strides = tuple(inner + 1 for _, _, inner in config)
        cut = f"slice({cut}, start_indices={(0,) * len(shape)}, limit_indices={spread}, strides={strides})"
    every = f"axes={tuple(range(len(shape)))}, out_sharding=None"
    return f"x: {cut}; p: reduce_sum(g, {every}) - reduce_sum({cut}, {every})"


def taken_apart(site: Site, position: int) -> str:
    """Of a concatenation: the operand's part."""
    dim = integer(site.parameters["dimension"], "dimension")
    parts = tuple(shape[dim] for shape in site.shapes)
    return f"split(g, axis={dim}, sizes={parts})[{position}]"


def put_together(site: Site, position: int) -> str:
    """Of a split: the parts, concatenated."""
    return f"concatenate(*g, dimension={site.parameters['axis']})"


def turned(site: Site, position: int) -> str:
    """Of a reversal: itself."""
    return f"rev(g, dimensions={integers(site.parameters, 'dimensions')})"


def updated(site: Site, position: int) -> str:
    """Of an update: zeros where it went, and what was there."""
    return f"x: dynamic_update_slice(g, zeros(u), *i); u: dynamic_slice(g, *i, slice_sizes={site.shapes[1]})"


def repeated(site: Site, position: int) -> str:
    """Of what is repeated: the sum of all copies."""
    shape, reps = site.shapes[0], integers(site.parameters, "reps")
    apart = tuple(size for pair in zip(reps, shape, strict=True) for size in pair)
    placed = tuple(one for dim in range(len(shape)) for one in (None, dim))
    copies = f"reshape(g, dimensions=None, new_sizes={apart}, sharding=sharding(x, {placed}))"
    return f"reduce_sum({copies}, axes={tuple(range(0, 2 * len(shape), 2))}, out_sharding=None)"


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    "slice": unsliced,
    "pad": unpadded,
    "concatenate": taken_apart,
    "split": put_together,
    "rev": turned,
    "tile": repeated,
    "stack": lambda site, position: f"unstack(g, axis={site.parameters['axis']})[{position}]",
    "unstack": lambda site, position: f"stack(*g, axis={site.parameters['axis']})",
    "dynamic_slice": "x: dynamic_update_slice(zeros(x), g, *i)",
    "dynamic_update_slice": updated,
}
