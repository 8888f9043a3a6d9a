"""Devices by number, in the order of a mesh: the last axis is the minor one. Several meshes over the same devices
number them alike, so blocks are kept by number, and each type is read on its own mesh."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TypeAlias

from calculus.meshes import Mesh
from calculus.types import ArrayType, Axes, array_type
from verifier.devices import Array, Device, devices, part
from verifier.execution.arithmetic import CannotRun

Blocks: TypeAlias = "list[Array]"
"""One block for each device, by number."""

Region: TypeAlias = "tuple[slice, ...]"


class Grid:
    """A mesh over `count` devices; one whose axes are all of size 1 has each of them at its only place."""

    def __init__(self, mesh: Mesh, count: int) -> None:
        self.mesh = mesh
        self.count = count
        total = mesh.size(mesh.by_name)
        if total is None:
            unknown = ", ".join(axis.name for axis in mesh.axes if axis.size is None)
            raise CannotRun(f"the sizes of {unknown} are not known")
        if total not in (1, count):
            raise CannotRun(f"the mesh ({mesh}) has {total} devices, and the program runs on {count}")
        places = list(devices(mesh))
        self.places: list[Device] = places if total == count else places * count
        self.coordinates = [dict(zip(mesh.by_name, place, strict=True)) for place in self.places]
        self._groups: dict[Axes, list[tuple[int, ...]]] = {}

    def named(self, blocks: Blocks) -> list[tuple[str, Array]]:
        """What each device holds, by its coordinates: `X=1, Y=0`."""
        return [
            (", ".join(f"{axis}={index}" for axis, index in at.items()) or str(number), block)
            for number, (at, block) in enumerate(zip(self.coordinates, blocks, strict=True))
        ]

    def real(self, axes: Axes) -> Axes:
        """These axes without those of size 1, along which nothing is cut."""
        return tuple(axis for axis in axes if self.mesh.size((axis,)) != 1)

    def bare(self, type: ArrayType) -> ArrayType:
        """A type without the axes of size 1: the same blocks."""
        ones = [axis for axis in type.mentioned if self.mesh.size((axis,)) == 1]
        return type.without(ones) if ones else type

    def index(self, number: int, axes: Axes) -> int:
        """A device's number along some axes, the first one the major one."""
        found = 0
        for axis in axes:
            found = found * (self.mesh.size((axis,)) or 1) + self.coordinates[number][axis]
        return found

    def groups(self, axes: Axes) -> list[tuple[int, ...]]:
        """The devices that differ along these axes only, in the order of their numbers along them."""
        found = self._groups.get(axes)
        if found is None:
            by_rest: dict[tuple[int, ...], list[int]] = {}
            for number, at in enumerate(self.coordinates):
                rest = tuple(index for name, index in at.items() if name not in axes)
                key = rest if self.count == len(set(self.places)) else (*rest, number)
                by_rest.setdefault(key, []).append(number)
            found = [tuple(sorted(group, key=lambda one: self.index(one, axes))) for group in by_rest.values()]
            self._groups[axes] = found
        return found

    def region(self, type: ArrayType, number: int) -> Region:
        """The part of an array of this type that a device holds."""
        return part(type, self.mesh, self.places[number])


def extent(region: Region) -> tuple[int, ...]:
    """The sizes of a part."""
    return tuple(one.stop - one.start for one in region)


def volume(region: Region) -> int:
    """The number of elements of a part."""
    return prod(extent(region))


def common(one: Region, other: Region) -> Region:
    """What two parts share; of no elements where they are apart."""
    starts = [max(a.start, b.start) for a, b in zip(one, other, strict=True)]
    stops = [min(a.stop, b.stop) for a, b in zip(one, other, strict=True)]
    return tuple(slice(start, max(start, stop)) for start, stop in zip(starts, stops, strict=True))


def inside(part: Region, whole: Region) -> Region:
    """Where a part lies in the block of a whole."""
    return tuple(slice(a.start - b.start, a.stop - b.start) for a, b in zip(part, whole, strict=True))


@cache
def local_shape(type: ArrayType, mesh: Mesh) -> tuple[int, ...]:
    """The shape of each device's block."""
    first = devices(mesh)[0]
    return extent(part(type, mesh, first))


def laid(type: ArrayType, lists: tuple[Axes, ...], unreduced: Axes, kind: str) -> ArrayType:
    """The type of an array of this shape and dtype that lies so."""
    return array_type(type.dtype, type.shape, lists, (), unreduced, (), kind)
