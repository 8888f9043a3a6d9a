"""Which device holds what: the meaning of one type on one mesh, as data and as a picture. Seeds A16, A42, B3, B12-B16.

Devices are numbered in the order of the mesh, major axis first. A dim sharded on axes (X, Y) is cut into consecutive
blocks, numbered by the coordinates along X, then Y.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from calculus.communication import block_bytes
from calculus.meshes import AxisMode, Mesh
from calculus.types import DTYPES, ArrayType, Dim

LISTED: Final = 36
"""The most devices that the text lists one by one, and that the picture shows."""

Range: TypeAlias = "tuple[int, int] | None"
"""Indices start:stop of a dim; `None` where the dim is symbolic and cut."""


@dataclass(frozen=True, slots=True)
class Device:
    """What one device holds. place: its coordinate along each mesh axis. block: for each dim, the number of its
    block. ranges: for each dim, the indices of its block."""

    number: int
    place: tuple[int, ...]
    block: tuple[int, ...]
    ranges: tuple[Range, ...]


def parts(type: ArrayType, mesh: Mesh) -> tuple[int, ...]:
    """Into how many blocks each dim is cut."""
    return tuple(mesh.size(axes) or 1 for axes in type.axes)


def block_shape(type: ArrayType, mesh: Mesh) -> tuple[Dim, ...]:
    """The shape of every device's block; a symbolic dim that is cut reads `(b + 1)/4`."""
    return tuple(map(_share, type.shape, parts(type, mesh)))


def _share(size: Dim, count: int) -> Dim:
    if isinstance(size, int):
        return size // count
    return size if count == 1 else f"{size if size.isidentifier() else f'({size})'}/{count}"


def bytes_each(type: ArrayType, mesh: Mesh) -> int | None:
    """The bytes of one device's block, whole bytes; `None` for symbolic dims and unknown dtypes."""
    return block_bytes(type, mesh) if type.dtype in DTYPES else None


def bytes_in_all(type: ArrayType, mesh: Mesh) -> int | None:
    """The bytes of the whole array, stored once; `None` for symbolic dims and unknown dtypes."""
    return block_bytes(type, mesh, ((),) * type.rank) if type.dtype in DTYPES else None


def devices(type: ArrayType, mesh: Mesh) -> Iterator[Device]:
    """Every device of the mesh, in order. The type must be well formed on the mesh."""
    sizes = [axis.size or 1 for axis in mesh.axes]
    position = {axis.name: index for index, axis in enumerate(mesh.axes)}
    shape = block_shape(type, mesh)
    for number, place in enumerate(itertools.product(*map(range, sizes))):
        block = []
        for axes in type.axes:
            index = 0
            for axis in axes:
                index = index * sizes[position[axis]] + place[position[axis]]
            block.append(index)
        ranges = (
            (index * size, (index + 1) * size) if isinstance(size, int) else None
            for index, size in zip(block, shape, strict=True)
        )
        yield Device(number, place, tuple(block), tuple(ranges))


def grid(type: ArrayType, mesh: Mesh) -> list[list[list[Device]]]:
    """For an array of rank 2 at most: rows of cells, a cell for each block, holding the devices that hold it. A
    vector is one row."""
    counts = parts(type, mesh)
    rows, columns = ((1, 1), (1, *counts), counts)[type.rank]
    cells: list[list[list[Device]]] = [[[] for _ in range(columns)] for _ in range(rows)]
    for device in devices(type, mesh):
        row, column = (0,) * (2 - type.rank) + device.block
        cells[row][column].append(device)
    return cells


def along(type: ArrayType, mesh: Mesh) -> Iterator[tuple[str, str]]:
    """For each mesh axis, its state in the type and in words."""
    for axis in mesh.axes:
        n, name = axis.size or 1, axis.name
        state = type.state(name)
        if axis.mode is AxisMode.AUTO:
            words = "auto: the compiler decides, the type does not say"
        elif state == "S":
            dim = next(index for index, axes in enumerate(type.axes) if name in axes)
            axes = type.axes[dim]
            order = f", numbered by {' then '.join(axes)}" if len(axes) > 1 else ""
            words = f"sharded: dim {dim} is cut into {mesh.size(axes)} blocks{order}"
        elif state == "U":
            words = f"unreduced: {n} pieces, one on each device, whose {type.kind} is the value"
        elif state == "R":
            words = f"reduced: the same on {n} devices, and the cotangent stays unreduced"
        elif state == "V":
            words = f"varying: {n} unrelated values, one on each device"
        else:
            words = f"replicated: the same on {n} devices"
        yield name, words


#: how the devices of one cell are joined, weakest bond first: the axes' role, the sign, what it says
_BONDS: Final = (
    ("auto", "?", "0?1 devices whose contents the compiler decides"),
    ("varying", "|", "0|1 devices with unrelated values"),
    ("unreduced", "+", "0+1 devices with pieces of one value"),
    ("same", ",", "0,1 devices with the same block"),
)


def _roles(type: ArrayType, mesh: Mesh) -> dict[str, list[int]]:
    roles: dict[str, list[int]] = {"auto": [], "varying": [], "unreduced": [], "same": []}
    for index, axis in enumerate(mesh.axes):
        state = {"V": "varying", "U": "unreduced", "S": ""}.get(type.state(axis.name), "same")
        if axis.mode is AxisMode.AUTO:
            state = "auto"
        if state and axis.size != 1:
            roles[state].append(index)
    return roles


def label(cell: list[Device], type: ArrayType, mesh: Mesh) -> str:
    """The devices of one cell: `0,1` hold the same, `0+1` pieces of one value, `0|1` unrelated values."""
    roles = _roles(type, mesh)

    def join(group: list[Device], level: int) -> str:
        if level == len(_BONDS) - 1:
            return ",".join(str(device.number) for device in group)
        role, sign, _ = _BONDS[level]
        apart: dict[tuple[int, ...], list[Device]] = {}
        for device in group:
            apart.setdefault(tuple(device.place[index] for index in roles[role]), []).append(device)
        joined = (join(part, level + 1) for part in apart.values())
        if role == "unreduced" and type.kind != "sum" and len(apart) > 1:
            return f"{type.kind}({'; '.join(joined)})"
        return sign.join(joined)

    return join(cell, 0)


def picture(type: ArrayType, mesh: Mesh) -> Iterator[str]:
    """Lines that draw the grid, and a legend of the signs in it."""
    labels = [[label(cell, type, mesh) for cell in row] for row in grid(type, mesh)]
    width = max(len(text) for row in labels for text in row) + 2

    def border(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * width for _ in labels[0]) + right

    yield border("┌", "┬", "┐")
    for index, row in enumerate(labels):
        if index:
            yield border("├", "┼", "┤")
        yield f"│{'│'.join(text.center(width) for text in row)}│"
    yield border("└", "┴", "┘")
    roles = _roles(type, mesh)
    for role, _, words in _BONDS:
        if roles[role] and not (role == "unreduced" and type.kind != "sum"):
            yield words
