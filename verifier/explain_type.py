"""What `shardproof type` says about a type on a mesh, as text and as JSON."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod

from calculus.cotangents import cotangent
from calculus.meshes import Mesh
from calculus.refusals import Refused
from calculus.types import ArrayType, Type
from verifier.picture import (
    LISTED,
    Device,
    along,
    block_shape,
    bytes_each,
    bytes_in_all,
    devices,
    grid,
    picture,
)
from verifier.report import count

MOST_IN_JSON = 4096
"""The most devices that `--json` lists one by one."""


def described(type: Type, mesh: Mesh) -> Iterator[str]:
    """Lines of text: the cotangent, the blocks, the states in words, the devices, the picture."""
    yield f"{type} on {f'the mesh ({mesh})' if mesh.axes else 'one device'}"
    yield ""
    yield f"  cotangent  {_cotangent(type)}"
    if not isinstance(type, ArrayType):
        yield "  block      not an array: it has no blocks"
        return
    yield f"  block      {_block(type, mesh)} on each device, {_amount(type, mesh)}"
    for name, words in along(type, mesh):
        yield f"  along {name:<5}{words}"
    number = prod(axis.size or 1 for axis in mesh.axes)
    yield ""
    yield from _listing(type, mesh)
    if number > LISTED:
        all_of = "all" if number <= MOST_IN_JSON else f"the first {MOST_IN_JSON:,}"
        yield f"  and {count(number - LISTED, 'more device')}: --json lists {all_of}"
    elif type.rank <= 2 and mesh.axes:
        yield ""
        yield from (f"  {line}" for line in picture(type, mesh))


def _cotangent(type: Type) -> str:
    try:
        return str(cotangent(type))
    except Refused as refused:
        return f"none: {refused.refusal.message} ({refused.refusal.because})"


def _block(type: ArrayType, mesh: Mesh) -> str:
    return f"{type.dtype}[{','.join(map(str, block_shape(type, mesh)))}]"


def _amount(type: ArrayType, mesh: Mesh) -> str:
    part, whole = bytes_each(type, mesh), bytes_in_all(type, mesh)
    if part is None or whole is None:
        return "bytes not known"
    return count(part, "byte") if part == whole else f"{count(part, 'byte')} of {whole:,}"


def _listing(type: ArrayType, mesh: Mesh) -> Iterator[str]:
    listed = itertools.islice(devices(type, mesh), LISTED)
    rows = [
        ("device", *(axis.name for axis in mesh.axes), "holds"),
        *((str(device.number), *map(str, device.place), _holds(device, type)) for device in listed),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        *numbers, holds = row
        yield f"  {'  '.join(cell.rjust(width) for cell, width in zip(numbers, widths, strict=False))}  {holds}"


def _holds(device: Device, type: ArrayType) -> str:
    indices = ", ".join(
        f"block {block} of {size}" if span is None else f"{span[0]}:{span[1]}"
        for span, block, size in zip(device.ranges, device.block, type.shape, strict=True)
    )
    what = f"[{indices}]" if type.rank else "the scalar"
    if type.unreduced:
        what = f"a piece of {what}"
    return f"its own {what}" if type.varying else what


def type_as_json(type: Type, mesh: Mesh) -> dict[str, object]:
    """The same as plain data. `devices` lists at most `MOST_IN_JSON`; `grid` holds the numbers of the devices of
    each block, row by row, and is `None` for arrays of rank 3 and more."""
    found: dict[str, object] = {
        "type": str(type),
        "mesh": str(mesh),
        "verdict": "ok",
        "refusals": [],
        "cotangent": None,
        "why_no_cotangent": None,
    }
    try:
        found["cotangent"] = str(cotangent(type))
    except Refused as refused:
        found["why_no_cotangent"] = refused.refusal.message
    if not isinstance(type, ArrayType):
        return found
    number = prod(axis.size or 1 for axis in mesh.axes)
    small = number <= MOST_IN_JSON
    return {
        **found,
        "long": type.long,
        "block": {"shape": list(block_shape(type, mesh)), "bytes": bytes_each(type, mesh)},
        "bytes": bytes_in_all(type, mesh),
        "along": dict(along(type, mesh)),
        "device_count": number,
        "devices": [
            {
                "device": device.number,
                "place": dict(zip(mesh.by_name, device.place, strict=True)),
                "block": list(device.block),
                "indices": [None if span is None else list(span) for span in device.ranges],
                "holds": _holds(device, type),
            }
            for device in itertools.islice(devices(type, mesh), MOST_IN_JSON)
        ],
        "grid": [[[device.number for device in cell] for cell in row] for row in grid(type, mesh)]
        if type.rank <= 2 and small
        else None,
    }
