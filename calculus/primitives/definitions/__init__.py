"""What primitives compute, element by element (`calculus.elements`), by name. A row becomes a field of the declaration.

No row is needed for what computes element by element alone: its kernel runs on terms as it does on numbers. Of a kernel
without a row it is only known along which dims it looks, from its scheme: it is *opaque* to proofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from calculus.elements import Element
from calculus.primitives.declaration import Primitive
from calculus.primitives.definitions import folding, lookups, moving, windows

_ROWS: Final[Mapping[str, Element]] = {
    name: row for room in (moving, folding, lookups, windows) for name, row in room.ELEMENTS.items()
}


def defined(primitive: Primitive) -> Primitive:
    """A declaration with its definition, if there is one."""
    row = _ROWS.get(primitive.name)
    return primitive if row is None else replace(primitive, element=row)
