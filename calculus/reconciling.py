"""Two types that meet and must be one: the cast or reshard that takes a value of the one to the other, priced forward
and backward. What branches, loop carries and calls offer beside the two types. Seed A47."""

from __future__ import annotations

from typing import Final, NamedTuple

from calculus.communication import ALL_REDUCE, Collective, move, over
from calculus.cotangents import cotangent
from calculus.meshes import AxisMode, Mesh
from calculus.refusals import Refused
from calculus.repairs import priced
from calculus.types import ArrayType, Type
from calculus.volumes import volume

_CASTS: Final = {
    ("N", "V"): "pvary",
    ("R", "V"): "reduced_vary_cast",
    ("N", "R"): "preduced",
    ("U", "N"): "unreduced_psum",
}
"""What keeps a value along a manual axis. Nothing makes one value of several (V) but choosing one, which no cast is."""


class Way(NamedTuple):
    """How a value of one type becomes one of another. casts: what does it along manual axes, with the axis; along
    explicit ones it is a reshard. forward, backward: what that communicates; `None` where there is no derivative."""

    casts: tuple[str, ...]
    resharded: bool
    forward: tuple[Collective, ...]
    backward: tuple[Collective, ...] | None

    def of(self, what: str, type: Type) -> str:
        """This way, taken by a value: `reshard the initial value to f32[4]{U:X} (free forward, free backward)`."""
        verb = " and ".join((*(["cast"] if self.casts else []), *(["reshard"] if self.resharded else [])))
        by = f" with {' and '.join(self.casts)}" if self.casts else ""
        back = "with no derivative" if self.backward is None else f"{priced(self.backward)} backward"
        return f"{verb} {what} to {type}{by} ({priced(self.forward)} forward, {back})"


def reconciled(one: Type | None, other: Type | None, first: str, second: str, mesh: Mesh) -> str:
    """The ways to give two values one type: how the `first`, of type `one`, becomes an `other`, and how the `second`
    becomes a `one`; where there is neither, that they must be computed alike."""
    ways = [
        way.of(what, after)
        for before, after, what in ((one, other, first), (other, one, second))
        if isinstance(before, ArrayType) and isinstance(after, ArrayType)
        for way in [turned(before, after, mesh)]
        if way is not None
    ]
    return "; or ".join(ways) or f"compute {first} and {second} at one type: {one}, or {other}"


def turned(before: ArrayType, after: ArrayType, mesh: Mesh) -> Way | None:
    """How a value of one type becomes one of another that says something else of placement only; `None` where there is
    no way that keeps the value."""
    if (before.dtype, before.shape, before.memory) != (after.dtype, after.shape, after.memory):
        return None
    if after.unreduced and after.kind != "sum" and (before.kind, before.unreduced) != (after.kind, after.unreduced):
        return None
    casts: list[str] = []
    forward: tuple[Collective, ...] = ()
    backward: tuple[Collective, ...] = ()
    manual = [axis.name for axis in mesh.axes if axis.mode is AxisMode.MANUAL]
    for axis in manual:
        states = before.state(axis), after.state(axis)
        if states[0] == states[1]:
            continue
        name = _CASTS.get(states)
        if name is None:
            return None
        casts.append(f"{name} over {axis}")
        summed = over(ALL_REDUCE, (axis,), volume(before), mesh)
        forward += summed if states[0] == "U" else ()
        backward += () if states in (("U", "N"), ("R", "V")) else summed
    source, target = before.without(manual), after.without(manual)
    if source.canonical is target.canonical:
        return Way(tuple(casts), False, forward, backward)
    forward += move(source, target, mesh)
    try:
        back, forth = cotangent(target), cotangent(source)
    except Refused:
        return Way(tuple(casts), True, forward, None)
    if not isinstance(back, ArrayType) or not isinstance(forth, ArrayType):
        return Way(tuple(casts), True, forward, None)
    return Way(tuple(casts), True, forward, backward + move(back, forth, mesh))
