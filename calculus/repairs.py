"""Repairs: which reshard of an operand makes a refused use acceptable. Each is re-checked against Q before it is
offered, and priced forward and backward (its transpose is the reshard between the cotangent types)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, NamedTuple

from calculus.communication import Collective, move
from calculus.cotangents import State, cotangent
from calculus.linearity import KIND, Relation
from calculus.meshes import AxisMode, Mesh
from calculus.types import ArrayType, array_type

_CASTS: Final = ("N", "R", "U")
_FIRM: Final = (*_CASTS, *KIND)
_BY_HAND: Final[Mapping[object, str]] = {
    ("N", "R"): "preduced",
    ("U", "N"): "unreduced_psum",
    ("U", "R"): "unreduced_psum and preduced",
}
_OFFERED: Final = 2
_FEW: Final = 4


class Repair(NamedTuple):
    """Operands resharded to other types (or cast, by what is named), with what that costs in the forward and in the
    backward pass (`None` where an operand has no cotangent: a pending maximum)."""

    casts: tuple[tuple[int, ArrayType, str], ...]
    forward: tuple[Collective, ...]
    backward: tuple[Collective, ...] | None

    def __str__(self) -> str:
        steps = " and ".join(f"operand {index} to {type}{by}" for index, type, by in self.casts)
        verb = "cast" if any(by for _, _, by in self.casts) else "reshard"
        back = "with no derivative" if self.backward is None else f"{priced(self.backward)} backward"
        return f"{verb} {steps} ({priced(self.forward)} forward, {back})"

    @property
    def wire(self) -> tuple[int, float]:
        """How many operands it touches, and what it sends; the fewer the better."""
        sent = [collective.wire or 0 for collective in (*self.forward, *(self.backward or ()))]
        return len(self.casts), float(sum(sent))


def restated(type: ArrayType, axis: str, state: str) -> ArrayType:
    """The type with another state (N, R or U) along an axis that cuts no dim."""
    unreduced = tuple(name for name in type.unreduced if name != axis) + ((axis,) if state == "U" else ())
    reduced = tuple(name for name in type.reduced if name != axis) + ((axis,) if state == "R" else ())
    kind = type.kind if unreduced else "sum"
    return array_type(type.dtype, type.shape, type.axes, type.varying, unreduced, reduced, kind, type.memory)


def repairs(
    axis: str,
    states: Sequence[State | frozenset[State]],
    arrays: Sequence[ArrayType | None],
    wanted: State | None,
    q: Relation,
    mesh: Mesh,
) -> list[Repair]:
    """The cheapest few ways to restate operands along an axis so that Q allows a result, the wanted one if it can. A
    literal may become a pending sum, of which one device has it. Along a manual axis there are casts and collectives
    instead of reshards, and not for every way."""
    manual = mesh.mode(axis) is AxisMode.MANUAL
    movable = [
        index
        for index, (state, type) in enumerate(zip(states, arrays, strict=True))
        if type is not None and not isinstance(state, tuple) and state != "V"
    ]
    found: list[Repair] = []
    for changed in _choices(movable):
        if found and len(changed) > 1:
            break
        for ends in product(_CASTS, repeat=len(changed)):
            trial = list(states)
            for index, end in zip(changed, ends, strict=True):
                trial[index] = end
            if any(trial[index] == states[index] for index in changed):
                continue
            if any(isinstance(states[index], frozenset) and trial[index] != "U" for index in changed):
                continue
            if any(trial[index] == "U" and _not_a_sum(arrays[index]) for index in changed):
                continue
            ways = [_BY_HAND.get((states[index], trial[index]), "") if manual else "" for index in changed]
            if manual and not all(ways):
                continue
            results = q.results(trial)
            if results and (wanted is None or wanted in results or wanted not in _FIRM):
                found.append(_priced(axis, zip(changed, ends, ways, strict=True), arrays, mesh))
    return sorted(found, key=lambda repair: repair.wire)[:_OFFERED]


def _not_a_sum(type: ArrayType | None) -> bool:
    """Whether something else than a sum is pending in an array: then a type has no place for a pending sum."""
    return type is not None and bool(type.unreduced) and type.kind != "sum"


def _choices(movable: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """One operand at a time, then all together (of many, no more than a few)."""
    one = [(index,) for index in movable]
    yield from one
    if 1 < len(movable) <= _FEW:
        yield tuple(movable)


def _priced(axis: str, casts: Iterable[tuple[int, str, str]], arrays: Sequence[ArrayType | None], mesh: Mesh) -> Repair:
    steps: list[tuple[int, ArrayType, str]] = []
    forward: tuple[Collective, ...] = ()
    backward: tuple[Collective, ...] | None = ()
    for index, end, by in casts:
        before = arrays[index]
        assert before is not None
        after = restated(before, axis, end)
        steps.append((index, after, by and f" with {by} over {axis}"))
        forward += move(before, after, mesh)
        if _not_a_sum(before):
            backward = None
        elif backward is not None:
            back, forth = cotangent(after), cotangent(before)
            if isinstance(back, ArrayType) and isinstance(forth, ArrayType):
                backward += move(back, forth, mesh)
    return Repair(tuple(steps), forward, backward)


def priced(collectives: Sequence[Collective]) -> str:
    """What these collectives cost, in words: `all-reduce over X of 64 bytes`, or `free`."""
    if not collectives:
        return "free"
    return " and ".join(
        f"{collective.kind} over {','.join(collective.axes)}"
        + ("" if collective.payload is None else f" of {collective.payload:,} bytes")
        for collective in collectives
    )
