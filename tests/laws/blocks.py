"""What the states mean, by numpy: families of blocks on a grid of devices. An engine of its own, which shares nothing
with the calculus.

A *placement* says, per mesh axis, the state: `N`, `R`, `U`, `Umax`, `Umin` or `("S", dim)`; a dim that several axes
shard lists them major first. A *family* maps each device's coordinates to its block.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Device: TypeAlias = "tuple[int, ...]"
State: TypeAlias = "str | tuple[str, int | str]"
Family: TypeAlias = "dict[Device, Array]"

MERGE = {"U": np.add, "Umax": np.maximum, "Umin": np.minimum}


class Indivisible(Exception):
    """A dim does not divide by the axes that shard it."""


def devices(mesh: Sequence[int]) -> list[Device]:
    return list(itertools.product(*map(range, mesh)))


def pieces(value: Array, count: int, state: str, rng: np.random.Generator) -> list[Array]:
    """Random arrays, one per device, that add up (or maximise, minimise) to the value."""
    owner = rng.integers(0, count, value.shape)
    if state == "U":
        if value.dtype == np.bool_:  # counted as 0 and 1
            return [value & (owner == device) for device in range(count)]
        parts = [rng.integers(-9, 10, value.shape) for _ in range(count - 1)]
        return [*parts, value - sum(parts)]
    if value.dtype == np.bool_:
        low = rng.integers(0, 2, (count, *value.shape)) > 0
        below = value & low if state == "Umax" else value | low
        return [np.where(owner == device, value, below[device]) for device in range(count)]
    away = rng.integers(1, 9, (count, *value.shape)) * (-1 if state == "Umax" else 1)
    return [np.where(owner == device, value, value + away[device]) for device in range(count)]


def blocks_of(dim_axes: Sequence[Sequence[int]], mesh: Sequence[int], device: Device, shape: Sequence[int]) -> Any:
    """The slices that a device holds; `dim_axes` lists per dim the mesh axes that shard it, major first."""
    found = []
    for size, axes in zip(shape, dim_axes, strict=True):
        index, count = 0, 1
        for axis in axes:
            index, count = index * mesh[axis] + device[axis], count * mesh[axis]
        if size % count:
            raise Indivisible
        found.append(slice(index * size // count, (index + 1) * size // count))
    return tuple(found)


def place(
    value: Array,
    states: Sequence[str],
    dim_axes: Sequence[Sequence[int]],
    mesh: Sequence[int],
    rng: np.random.Generator,
) -> Family:
    """A random legal family that reads back the value. `states` per mesh axis; `S` where `dim_axes` mentions it."""
    pending = [axis for axis, state in enumerate(states) if state in MERGE]
    kind = states[pending[0]] if pending else "U"
    keys = devices([mesh[axis] for axis in pending])
    parts = dict(zip(keys, pieces(value, len(keys), kind, rng), strict=True))
    return {
        device: parts[tuple(device[axis] for axis in pending)][blocks_of(dim_axes, mesh, device, value.shape)]
        for device in devices(mesh)
    }


def read(
    family: Family,
    states: Sequence[str],
    dim_axes: Sequence[Sequence[int]],
    mesh: Sequence[int],
    shape: tuple[int, ...],
) -> Array | None:
    """The value of a family, or `None` where the family is not legal: copies that differ, blocks of a wrong shape."""
    value: Array | None = None
    copies = [axis for axis, state in enumerate(states) if state in ("N", "R")]
    pending = [axis for axis, state in enumerate(states) if state in MERGE]
    for device in devices(mesh):
        block = family[device].astype(int) if family[device].dtype == np.bool_ else family[device]
        twin = family[tuple(0 if axis in copies else index for axis, index in enumerate(device))]
        if twin.shape != block.shape or not np.allclose(twin, block):
            return None
        if any(device[axis] for axis in copies):
            continue
        try:
            where = blocks_of(dim_axes, mesh, device, shape)
        except Indivisible:
            return None
        if block.shape != tuple(part.stop - part.start for part in where):
            return None
        if value is None:
            value = np.zeros(shape, block.dtype)
        first = all(device[axis] == 0 for axis in pending)
        value[where] = block if first else MERGE[states[pending[0]]](value[where], block)
    return value
