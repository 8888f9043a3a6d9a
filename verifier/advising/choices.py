"""The types that a value may have instead of its own, along one mesh axis, or along several at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from calculus.communication import Collective, move
from calculus.cotangents import cotangent
from calculus.meshes import Mesh
from calculus.repairs import restated
from calculus.types import ArrayType, Axes, Type, array_type

CASTS: Final = ("N", "R", "U")


def choices(type: Type | None, axes: Axes, mesh: Mesh, cut: bool) -> tuple[Type | None, ...]:
    """The types that a value of this type may have, its own first, in one state along all these axes. What is cut along
    them, or in several states, stays as it is: no device may come to hold more. What is not may be replicated, reduced,
    unreduced (kind sum), or, where `cut`, cut on a dim, after the axes that cut it already. Numbers that have no
    cotangent, and what is pending by another monoid, stay."""
    if not isinstance(type, ArrayType) or type.dtype_class not in "fc" or type.varying or type.memory:
        return (type,)
    own = state(type, axes)
    if own not in CASTS or type.kind != "sum":
        return (type,)
    found = [type, *(_restated(type, axes, other) for other in CASTS if other != own)]
    bare = _restated(type, axes, "N")
    for dim, size in enumerate(bare.shape if cut else ()):
        lists = (*bare.axes[:dim], (*bare.axes[dim], *axes), *bare.axes[dim + 1 :])
        parts = mesh.size(lists[dim])
        if isinstance(size, int) and parts is not None and size and size % parts == 0:
            found.append(
                array_type(bare.dtype, bare.shape, lists, (), bare.unreduced, bare.reduced, bare.kind, bare.memory)
            )
    return tuple(dict.fromkeys(found))


def state(type: object, axes: Axes) -> str:
    """The state that an array has along all these axes; nothing where it has several."""
    states = {type.state(axis) for axis in axes} if isinstance(type, ArrayType) else set()
    return states.pop() if len(states) == 1 else ""


def closed(
    types: Sequence[Type | None], free: Callable[[Type | None, Type | None], bool]
) -> list[frozenset[Type | None]]:
    """Sets of several of these types that none outside of is cast into for nothing: what one or two of them can be cast
    from, and what one of them cannot be cast to. free: whether a cast costs nothing."""
    below = {target: frozenset(source for source in types if free(source, target)) for target in types}
    above = [frozenset(other for other in types if one not in below[other]) for one in types]
    pairs = (below[one] | below[other] for one, other in itertools.combinations(types, 2))
    return [some for some in dict.fromkeys((*below.values(), *pairs, *above)) if 1 < len(some) < len(types)]


def _restated(type: ArrayType, axes: Axes, state: str) -> ArrayType:
    for axis in axes:
        type = restated(type, axis, state)
    return type


def moving(source: Type | None, target: Type | None, mesh: Mesh, active: bool) -> float:
    """Wire bytes per device of a cast, and, where a cotangent comes back, of its transpose."""
    if source is target or not isinstance(source, ArrayType) or not isinstance(target, ArrayType):
        return 0.0
    total = sent(move(source, target, mesh))
    if active:
        back, forth = cotangent(target), cotangent(source)
        assert isinstance(back, ArrayType)
        assert isinstance(forth, ArrayType)
        total += sent(move(back, forth, mesh))
    return total


def sent(collectives: Iterable[Collective]) -> float:
    """Wire bytes per device of collectives whose sizes are known."""
    return float(sum(one.wire or 0 for one in collectives))
