"""The mesh language, which the command line and the first line of a file share: `X=4, Y=2; A=8`.

    meshes ::= mesh [; mesh]*
    mesh   ::= axis [, axis]*
    axis   ::= name = size [: mode]      mode is explicit (where none is written), auto or manual

Axes are listed major first, as in the mesh that the program was traced under. Seed B6, B10.
"""

from __future__ import annotations

import re
from typing import Final

from calculus.meshes import LARGEST, MOST_AXES, Axis, AxisMode, Mesh
from calculus.refusals import Refused, refuse

_AXIS: Final = re.compile(r"(\s*)([^\s=:,;]*)\s*(?:([=:])\s*([^\s:,;]*)\s*(?::\s*([^\s,;]*)\s*)?)?", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_EXAMPLE: Final = "write a mesh as name=size, major axis first: X=4,Y=2"


def parse_meshes(text: str) -> list[Mesh]:
    """The meshes that a text names, at least one.

    Raises `Refused` (`bad-mesh`) with the column, counted from 1, where the text goes wrong.
    """
    meshes: list[Mesh] = []
    start = 0
    for part in text.split(";"):
        meshes.append(_mesh(part, start))
        start += len(part) + 1
    return meshes


def _mesh(text: str, start: int) -> Mesh:
    if not text.strip():
        raise _bad("a mesh without axes", start, _EXAMPLE)
    axes: dict[str, Axis] = {}
    devices = 1
    for part in text.split(","):
        axis = _axis(part, start)
        if axis.name in axes:
            raise _bad(f"the mesh names axis {axis.name} twice", start, "give each axis one name")
        axes[axis.name] = axis
        devices *= axis.size or 1
        if len(axes) > MOST_AXES:
            raise _bad(f"the mesh has more than {MOST_AXES} axes", start, "leave out axes of size 1")
        if devices > LARGEST:
            raise _bad(f"the mesh has more than {LARGEST:,} devices", start, "give the sizes of the mesh at hand")
        start += len(part) + 1
    return Mesh(axes.values())


def _axis(text: str, start: int) -> Axis:
    found = _AXIS.fullmatch(text)
    column = start + len(text) - len(text.lstrip())
    if found is None:
        raise _bad(f"{_shown(text)} is not an axis", column, _EXAMPLE)
    _, name, sign, size, mode = found.groups()
    if not _NAME.fullmatch(name):
        what = f"{_shown(name)} is not the name of an axis" if name else "the name of an axis is missing"
        raise _bad(what, column, _EXAMPLE)
    if sign != "=" or not size:
        raise _bad(f"axis {_shown(name)} has no size", column, f"write {_shown(name)}=4 for an axis of 4 devices")
    column = start + found.start(4)
    digits = size.lstrip("0")
    if not (size.isascii() and size.isdigit()):
        raise _bad(f"the size of axis {_shown(name)} is {_shown(size)}", column, "a size is a whole number, at least 1")
    if not digits:
        raise _bad(f"the size of axis {_shown(name)} is 0", column, "a mesh has at least one device along each axis")
    if len(digits) > len(str(LARGEST)) or int(digits) > LARGEST:
        raise _bad(
            f"the size of axis {_shown(name)} is more than {LARGEST:,}", column, "give the sizes of the mesh at hand"
        )
    if mode is None:
        return Axis(name, int(digits))
    if mode not in AxisMode._value2member_map_:
        modes = ", ".join(f"{name}={digits}:{mode.value}" for mode in AxisMode)
        raise _bad(
            f"the mode of axis {_shown(name)} is {_shown(mode)}", start + found.start(5), f"write one of {modes}"
        )
    return Axis(name, int(digits), AxisMode(mode))


def _shown(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= 40 else text[:39] + "…") if not _NAME.fullmatch(text) or len(text) > 40 else text


def _bad(message: str, offset: int, help: str) -> Refused:
    refused = refuse("bad-mesh", message, help=help)
    refused.refusal.column = offset + 1
    return refused
