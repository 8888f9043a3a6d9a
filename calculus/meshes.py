"""Meshes: named axes with sizes and modes.

A mesh axis is *explicit* (it appears in types), *auto* (hidden from types, the compiler's) or *manual* (per-device
code; types say `V`, `U` or `R`). Seed B6, B7; A42.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from calculus.refusals import Place, refuse

LARGEST: Final = 1_000_000
"""The most devices of a mesh: more than anyone has."""

MOST_AXES: Final = 64
"""The most axes of a mesh, and of all that the types of one program mention."""


class AxisMode(enum.Enum):
    """Who decides what happens along a mesh axis."""

    EXPLICIT = "explicit"
    AUTO = "auto"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Axis:
    """One mesh axis. `size` counts devices; `None` where it is not known (then nothing is priced along it)."""

    name: str
    size: int | None
    mode: AxisMode = AxisMode.EXPLICIT


class Mesh:
    """A grid of devices with named axes, major first.

    `tracked` is False inside a `shard_map` with `check_vma=False`: there, types say nothing about manual axes.
    Raises `Refused` (`bad-mesh`) on a repeated name, a size below 1, and more axes or devices than anyone has.
    """

    __slots__ = ("axes", "by_name", "tracked")

    def __init__(self, axes: Iterable[Axis], tracked: bool = True) -> None:
        self.axes: tuple[Axis, ...] = tuple(axes)
        self.by_name: dict[str, Axis] = {axis.name: axis for axis in self.axes}
        self.tracked = tracked
        if len(self.axes) > MOST_AXES:
            raise refuse("bad-mesh", f"there are more than {MOST_AXES} mesh axes", help="leave out axes of size 1")
        if len(self.by_name) != len(self.axes):
            names = [axis.name for axis in self.axes]
            twice = next(name for name in names if names.count(name) > 1)
            raise refuse("bad-mesh", f"the mesh names axis {twice} twice", help="give each axis one name")
        for axis in self.axes:
            if axis.size is not None and axis.size < 1:
                raise refuse("bad-mesh", f"axis {axis.name} has size {axis.size}", help="sizes are at least 1")
        if prod(axis.size or 1 for axis in self.axes) > LARGEST:
            raise refuse("bad-mesh", f"the mesh has more than {LARGEST:,} devices", help="correct the sizes")

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self.axes == other.axes and self.tracked == other.tracked

    def __hash__(self) -> int:
        return hash((self.axes, self.tracked))

    def __str__(self) -> str:
        def show(axis: Axis) -> str:
            mode = "" if axis.mode is AxisMode.EXPLICIT else f":{axis.mode.value}"
            return f"{axis.name}={'?' if axis.size is None else axis.size}{mode}"

        return ", ".join(map(show, self.axes))

    def __repr__(self) -> str:
        return f"Mesh({self})"

    def size(self, names: Iterable[str]) -> int | None:
        """The number of devices along the given axes together; `None` if one of the sizes is not known."""
        product = 1
        for name in names:
            axis = self.by_name.get(name)
            if axis is None or axis.size is None:
                return None
            product *= axis.size
        return product

    def mode(self, name: str) -> AxisMode:
        """The mode of an axis; an axis the mesh does not have counts as explicit."""
        axis = self.by_name.get(name)
        return AxisMode.EXPLICIT if axis is None else axis.mode

    @property
    def grid(self) -> tuple[tuple[str, int | None], ...]:
        """The axes without their modes: which device has which coordinates."""
        return tuple((axis.name, axis.size) for axis in self.axes)

    def shows(self, names: Iterable[str]) -> bool:
        """Whether types may mention these axes: none of them is auto."""
        return all(self.mode(name) is not AxisMode.AUTO for name in names)

    def in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """The given axes in the mesh's order; axes the mesh lacks come last, in the order given."""
        names = tuple(names)
        known = [axis.name for axis in self.axes if axis.name in names]
        return (*known, *(name for name in names if name not in self.by_name))

    def with_modes(self, modes: Mapping[str, AxisMode], tracked: bool | None = None) -> Mesh:
        """This mesh with the modes of some axes replaced."""
        axes = (Axis(axis.name, axis.size, modes.get(axis.name, axis.mode)) for axis in self.axes)
        return Mesh(axes, self.tracked if tracked is None else tracked)


def same_devices(one: Mesh, other: Mesh) -> None:
    """Two meshes of one program number the same devices, so a mesh that renames or regroups the axes of another has as
    many. A mesh that only lists more axes than the other, or one of unknown size, says nothing against it. Seed B9.

    Refuses `bad-mesh`.
    """
    names = set(one.by_name), set(other.by_name)
    sizes = one.size(one.by_name), other.size(other.by_name)
    if None in sizes or sizes[0] == sizes[1] or names[0] <= names[1] or names[1] <= names[0]:
        return
    raise refuse(
        "bad-mesh",
        f"the mesh ({one}) has {sizes[0]} devices, and ({other}) has {sizes[1]}",
        because="one program runs on one number of devices: a mesh may rename and regroup its axes, not add devices",
        help="give both meshes the same number of devices",
    )


def as_given(printed: Mesh, given: Sequence[Mesh], name: str) -> Mesh:
    """A mesh that a parameter prints, whose axes have the sizes that the given meshes (the one in context first) say.
    Refuses `bad-mesh`."""
    same_devices(printed, given[0])
    known = set(given[0].by_name) if given[0].size(given[0].by_name) is not None else set()
    beside = [axis.name for axis in printed.axes if known and not any(axis.name in mesh for mesh in given)]
    if beside and known < set(printed.by_name):
        raise refuse(
            "bad-mesh",
            f"{name} has the axis {beside[0]}, and the mesh given, ({given[0]}), does not",
            because="a program runs on one number of devices, and they lie along all of its axes",
            help=f"give the mesh {printed}",
            place=Place("parameter", name=name),
        )
    for axis in printed.axes:
        sizes = [mesh.by_name[axis.name].size for mesh in given if axis.name in mesh]
        if sizes and axis.size not in sizes and None not in sizes:
            raise refuse(
                "bad-mesh",
                f"{name} says axis {axis.name} has size {axis.size}; the mesh given says {sizes[0]}",
                because="a program runs on one number of devices",
                help=f"give the mesh {printed}",
                place=Place("parameter", name=name),
            )
    return printed


def one_size_each(meshes: Iterable[Mesh]) -> None:
    """A type names axes, not meshes, so an axis has one size in all of them. Refuses `bad-mesh`."""
    sizes: dict[str, int] = {}
    for name, size in ((axis.name, axis.size) for mesh in meshes for axis in mesh.axes):
        if size is not None and sizes.setdefault(name, size) != size:
            raise refuse(
                "bad-mesh",
                f"axis {name} has size {sizes[name]} in one mesh and {size} in another",
                because="a type says only the axis's name, so what a device holds would be anyone's guess",
                help="give the axes of one of the meshes other names",
            )


def open_mesh(names: Sequence[str]) -> Mesh:
    """A mesh of axes whose sizes are not known: types are checked on it, and nothing is priced."""
    return Mesh(Axis(name, None, AxisMode.EXPLICIT) for name in names)
