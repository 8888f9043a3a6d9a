"""Devices, modelled: each holds one block of every array. What a type means is what `place` and `read_back` do.

    state of the type along an axis      the devices along it hold           reading back
    sharded on dim d                     consecutive blocks of dim d         concatenates
    replicated, reduced                  the same                            must find them the same
    unreduced, kind sum, max, min        pieces                              adds, maximises, minimises
    varying                              arrays of their own                 stacks

A family of blocks has one block for each device. It is *legal* for a type if the devices hold what the table says, each
a block of the type's local shape: then it reads back one value. Along a varying axis there is no one array, so there a
value is a stack: it has one more dim for each varying axis, before its own, in the order of the mesh. Seeds A1, A26,
A42, B19: the numbers of the statements of the two pages of documentation that this calculus is of.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from calculus.meshes import Mesh
from calculus.types import DTYPES, ArrayType

Array: TypeAlias = "npt.NDArray[Any]"
Device: TypeAlias = "tuple[int, ...]"
"""A device's coordinates, one along each axis of the mesh."""
Family: TypeAlias = "Mapping[Device, Array]"

MERGE: Final[Mapping[str, Any]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


_KEPT_AS: Final = {"key<fry>": "uint64", "float0": "bool"}


class NotAFamily(ValueError):
    """Blocks that no array of this type has: copies that disagree, or a block of another shape. The message says which
    device holds it."""


@lru_cache(maxsize=256)
def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Numpy's dtype for one of ours: of threefry's keys, the two words as one number; of what has no tangent, a truth
    value. Raises `ValueError` where it has none."""
    try:
        return np.dtype(_KEPT_AS.get(dtype) or DTYPES[dtype][0])
    except (KeyError, TypeError):
        raise ValueError(f"numpy knows no {dtype}") from None


@lru_cache(maxsize=256)
def devices(mesh: Mesh) -> tuple[Device, ...]:
    """All devices of a mesh, the last axis the minor one. The sizes of its axes must be known."""
    return tuple(itertools.product(*(range(_size(mesh, axis.name)) for axis in mesh.axes)))


def _size(mesh: Mesh, *axes: str) -> int:
    found = mesh.size(axes)
    if found is None:
        raise ValueError(f"the sizes of the axes {', '.join(axes)} are not known")
    return found


@lru_cache(maxsize=4096)
def part(type: ArrayType, mesh: Mesh, device: Device) -> tuple[slice, ...]:
    """The part of an array that a device holds, per dim: its block along the dim's axes, major first. Raises
    `ValueError` where a dim does not divide."""
    at = dict(zip(mesh.by_name, device, strict=True))
    found = []
    for size, axes in zip(type.shape, type.axes, strict=True):
        index, count = 0, 1
        for axis in axes:
            index, count = index * _size(mesh, axis) + at[axis], count * _size(mesh, axis)
        if not isinstance(size, int) or size % count:
            raise ValueError(f"a dim of size {size} is not cut evenly into {count}")
        found.append(slice(index * size // count, (index + 1) * size // count))
    return tuple(found)


def place(value: Array, type: ArrayType, mesh: Mesh, random: np.random.Generator) -> dict[Device, Array]:
    """A family of blocks that reads back as the value. Where the type is unreduced the pieces are drawn at random, no
    two alike: of a sum they have both signs, and none is 0 but by chance; of a maximum one device has the value and
    the others have anything below it, or beside NaN anything.

    Raises `ValueError` where the value has another shape or dtype than the type, or a dim does not divide.
    """
    varying = mesh.in_order(type.varying)
    shape = (*(_size(mesh, axis) for axis in varying), *type.shape)
    if value.shape != shape or value.dtype != numpy_dtype(type.dtype):
        raise ValueError(f"{value.dtype}{list(value.shape)} is no value of {type}, which has {list(shape)}")
    pending = mesh.in_order(type.unreduced)
    parts = pieces(value, _size(mesh, *pending), type.kind, random) if pending else [value]
    found = {}
    for device in devices(mesh):
        at = dict(zip(mesh.by_name, device, strict=True))
        own = 0
        for axis in pending:
            own = own * _size(mesh, axis) + at[axis]
        found[device] = parts[own][tuple(at[axis] for axis in varying)][part(type, mesh, device)]
    return found


def pieces(value: Array, count: int, kind: str, random: np.random.Generator) -> list[Array]:
    """Random arrays, one for each of `count` devices, whose sum (or maximum, or minimum) is the value."""
    owner = random.integers(0, count, value.shape)
    if value.dtype == np.bool_:
        drawn = random.random((count, *value.shape)) < 0.5
        other = drawn | value if kind == "min" else drawn & value
        return [np.where(owner == device, value, other[device]) for device in range(count)]
    if kind == "sum":
        found = [_numbers(value, random) for _ in range(count - 1)]
        with np.errstate(all="ignore"):
            last = value
            for piece in found:
                last = last - piece
        return [*found, last]
    found = []
    for device in range(count):
        drawn = _anything(value, random)
        beside = MERGE["min" if kind == "max" else "max"](value, drawn)
        if value.dtype.kind in "fc":
            beside = np.where(np.isnan(value), drawn, np.where(np.isnan(beside), value, beside))
        found.append(np.where(owner == device, value, beside).astype(value.dtype))
    return found


def _numbers(value: Array, random: np.random.Generator) -> Array:
    """Random numbers of both signs, halves and quarters among them, small enough that sums of floats are exact; of
    integers any at all."""
    if value.dtype.kind in "iu":
        ends = np.iinfo(value.dtype)
        return random.integers(ends.min, ends.max, value.shape, value.dtype, endpoint=True)
    found = random.integers(1, 33, value.shape) * random.choice([-0.25, 0.25], value.shape)
    if value.dtype.kind == "c":
        return (found + 0.25j * random.integers(-32, 33, value.shape)).astype(value.dtype)
    return found.astype(value.dtype)


def _anything(value: Array, random: np.random.Generator) -> Array:
    """Random numbers of a dtype, its ends among them."""
    if value.dtype.kind in "iu":
        near = random.integers(0, 4, value.shape, value.dtype)
        with np.errstate(all="ignore"):
            near = value + near - 2 if value.dtype.kind == "i" else value ^ near
        return np.where(random.random(value.shape) < 0.5, near, _numbers(value, random))
    found = random.normal(0, 3, value.shape)
    ends = random.choice([-np.inf, -0.0, 0.0, np.inf, np.nan], value.shape)
    return np.where(random.random(value.shape) < 0.25, ends, found).astype(value.dtype)


def read_back(family: Family, type: ArrayType, mesh: Mesh) -> Array:
    """The value that a family of blocks has at this type. Sums are those of the dtype's own arithmetic, in which
    integers wrap, and truth values add up by `or`.

    Raises `NotAFamily` where copies disagree or a block has another shape, `ValueError` where a dim does not divide.
    """
    varying, pending = mesh.in_order(type.varying), mesh.in_order(type.unreduced)
    lead = [_size(mesh, axis) for axis in varying]
    distinct = {*type.sharded, *varying, *pending}
    value: Array | None = None
    for device in devices(mesh):
        block, at = family[device], dict(zip(mesh.by_name, device, strict=True))
        where = part(type, mesh, device)
        if block.shape != tuple(one.stop - one.start for one in where):
            raise NotAFamily(f"device {device} holds a block of shape {list(block.shape)} of {type}")
        twin = tuple(index if name in distinct else 0 for name, index in at.items())
        if twin != device:
            if block is not family[twin] and not _same(block, family[twin]):
                raise NotAFamily(f"devices {twin} and {device} hold different copies of {type}")
            continue
        if value is None:
            value = np.zeros((*lead, *(int(size) for size in type.shape)), block.dtype)
        place: tuple[int | slice, ...] = (*(at[axis] for axis in varying), *where)
        first = all(at[axis] == 0 for axis in pending)
        with np.errstate(all="ignore"):
            value[place] = block if first else MERGE[type.kind](value[place], block)
    assert value is not None
    return value


def _same(one: Array, other: Array) -> bool:
    """Whether two copies are one array: NaN is itself, and zero has no sign."""
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and bool(np.all((one == other) | ((one != one) & (other != other))))
    )
