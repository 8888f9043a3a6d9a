"""Derivatives and adjoints of the primitives, by name, in the notation of `calculus.formulas`.

A row is written where a declaration does not say it already: for operands in which a primitive is not linear, for those
that are linear beside others (a sum of which one summand flows), and for transposes that no scheme tells. It becomes a
field of the declaration. Rows stand in the room named like that of the primitives. `tests/laws/test_derivative_rows.py`
holds each against its kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from calculus.primitives.declaration import Primitive, Site, Unfold
from calculus.primitives.differentials import (
    elementwise,
    factorizations,
    fourier,
    linear_algebra,
    lookups,
    moving,
    products,
    reductions,
    special,
    windows,
)

_ROOMS: Final = (
    elementwise,
    factorizations,
    fourier,
    linear_algebra,
    lookups,
    moving,
    products,
    reductions,
    special,
    windows,
)

DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    name: row for room in _ROOMS for name, row in room.DERIVATIVES.items()
}
"""What is not written is not differentiated."""

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    name: row for room in _ROOMS for name, row in room.ADJOINTS.items()
}

UNFOLDED: Final[Mapping[str, Unfold]] = {
    name: unfold for room in (lookups, reductions, windows) for name, unfold in room.UNFOLDED.items()
}
"""What is differentiated as equations that compute the same."""


def differentiable(primitive: Primitive) -> Primitive:
    """A declaration with its rows."""
    name = primitive.name
    return replace(
        primitive, derivative=DERIVATIVES.get(name, primitive.derivative),
        adjoint=ADJOINTS.get(name, primitive.adjoint), unfold=UNFOLDED.get(name, primitive.unfold),
    )  # fmt: skip
