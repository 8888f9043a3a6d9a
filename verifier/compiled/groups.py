"""Which devices take part in one instance of a collective, and along which mesh axes they lie."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from verifier.compiled.module import BadModule, Instruction

NO_AXES: Final = ("?",)
"""For groups that are no axes of the mesh."""


class Group(NamedTuple):
    """The mesh axes along which the devices of one instance lie, sorted by name, and how many they are; of a permute,
    the axes along which the ends of some pair differ."""

    axes: tuple[str, ...]
    size: int


def group(one: Instruction, mesh: Mapping[str, int]) -> Group:
    """Of a collective. mesh: the axes of the devices with their sizes, major first."""
    sizes = tuple(mesh.items())
    pairs = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", one.text)
    if pairs is not None:
        return _permuted(pairs[1], sizes)
    listed = re.search(r"replica_groups=\{([\d,{}\s]*)\}(?=,|$|\s)", one.text)
    if listed is not None:
        return _listed(listed[1], sizes)
    tiled = re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", one.text)
    if tiled is not None:
        return _tiled(tiled[1], tiled[2], tiled[3] or "", sizes)
    named = re.search(
        r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((\[[\d,]+\](?:T\([\d,]+\))?|[\d,]+)\))? \{([^}]*)\}",
        one.text,
    )
    if named is not None:
        return _named(named[1], named[2] or "", named[3], sizes)
    raise BadModule(f"the devices of {one.name} are written in a way that is not known: {one.text[:200]}")


Sizes = tuple[tuple[str, int], ...]


@lru_cache(maxsize=256)
def _permuted(text: str, mesh: Sizes) -> Group:
    numbers = np.array([int(one) for one in re.findall(r"\d+", text)], dtype=np.int64).reshape(-1, 2)
    shape = tuple(size for _, size in mesh)
    here, there = (np.unravel_index(numbers[:, side], shape) for side in (0, 1))
    turned = [name for (name, _), a, b in zip(mesh, here, there, strict=True) if (a != b).any()]
    return Group(tuple(sorted(turned)), math.prod(dict(mesh)[name] for name in turned))


@lru_cache(maxsize=256)
def _listed(text: str, mesh: Sizes) -> Group:
    rows = [[int(one) for one in row.split(",")] for row in re.findall(r"\{([\d,\s]+)\}", text)]
    if not rows:
        return _of(np.arange(math.prod(size for _, size in mesh)).reshape(1, -1), mesh)
    if len({len(row) for row in rows}) > 1:
        return Group(NO_AXES, max(map(len, rows)))
    return _of(np.array(rows), mesh)


@lru_cache(maxsize=256)
def _tiled(shape: str, before: str, turned: str, mesh: Sizes) -> Group:
    dims = [int(one) for one in before.split(",")]
    numbers = np.arange(math.prod(dims)).reshape(dims)
    if turned:
        numbers = np.transpose(numbers, [int(one) for one in turned.split(",")])
    rows = [int(one) for one in shape.split(",")]
    return _of(numbers.reshape(rows[0], -1), mesh)


@lru_cache(maxsize=256)
def _named(axes: str, devices: str, chosen: str, mesh: Sizes) -> Group:
    """Over axes that XLA names; `'a':(2)4` is the part of size 4 of axis a, whose major part has size 2. devices: in
    the order of those axes, as a list or as a grid that is turned, empty where they are in order."""
    sizes = [(name, int(size)) for name, size in re.findall(r"'([^']+)'=(\d+)", axes)]
    parts: list[tuple[str, int]] = []
    wanted: list[str] = []
    asked = re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", chosen)
    for name, size in sizes:
        split = sorted({(int(major), int(part)) for one, major, part in asked if one == name and part})
        cuts = sorted({1, size, *(major for major, _ in split), *(major * part for major, part in split)})
        for low, high in itertools.pairwise(cuts):
            parts.append((f"{name}:{low}", high // low))
        if size == 1:
            parts.append((f"{name}:1", 1))
    for name, major, part in asked:
        low = int(major) if part else 1
        high = low * int(part) if part else dict(sizes)[name]
        wanted += [
            one for one, _ in parts if one.rpartition(":")[0] == name and low <= int(one.rpartition(":")[2]) < high
        ]
    names = [name for name, _ in parts]
    numbers = _in_order(devices, math.prod(size for _, size in parts)).reshape([size for _, size in parts])
    dims = [names.index(name) for name in dict.fromkeys(wanted)]
    rest = [dim for dim in range(len(parts)) if dim not in dims]
    count = math.prod(numbers.shape[dim] for dim in dims)
    return _of(np.transpose(numbers, (*rest, *dims)).reshape(-1, count), mesh)


def _in_order(devices: str, count: int) -> npt.NDArray[np.int64]:
    if not devices:
        return np.arange(count)
    grid, _, turned = devices.partition("T")
    numbers = [int(one) for one in re.findall(r"\d+", grid)]
    if not grid.startswith("["):
        return np.array(numbers)
    order = [int(one) for one in re.findall(r"\d+", turned)] or range(len(numbers))
    return np.transpose(np.arange(count).reshape(numbers), tuple(order)).reshape(-1)


def _of(rows: npt.NDArray[np.int64], mesh: Sizes) -> Group:
    """The axes that these groups run over: those whose groups are the same sets of devices."""
    places = np.arange(math.prod(size for _, size in mesh)).reshape([size for _, size in mesh])
    size = rows.shape[1]
    wanted = _sorted(rows)
    real = [dim for dim, (_, extent) in enumerate(mesh) if extent > 1]
    for count in range(1, len(real) + 1):
        for chosen in itertools.combinations(real, count):
            if math.prod(places.shape[dim] for dim in chosen) != size:
                continue
            rest = [dim for dim in range(places.ndim) if dim not in chosen]
            ours = np.transpose(places, (*rest, *chosen)).reshape(-1, size)
            if ours.shape == wanted.shape and (_sorted(ours) == wanted).all():
                return Group(tuple(sorted(mesh[dim][0] for dim in chosen)), size)
    return Group(NO_AXES, size)


def _sorted(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    inside = np.sort(rows, axis=1)
    found: npt.NDArray[np.int64] = inside[np.argsort(inside[:, 0])]
    return found
