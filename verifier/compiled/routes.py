"""Collectives that are compiled to others, by another route: in steps, along other axes, or as the compiler finds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, TypeAlias

from calculus.communication import COMPILER, ESTIMATE, Collective
from verifier.compiled.classes import MORE, Class
from verifier.compiled.derived import Said
from verifier.compiled.groups import NO_AXES
from verifier.compiled.module import Frame
from verifier.compiled.pairs import Loops, Matching, Pair, alike, payload_in, remove, same
from verifier.compiled.reading import Moved, product

_Place: TypeAlias = "tuple[tuple[Frame, ...], Loops]"


def turned(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Contractions that are computed while blocks go round."""
    groups: dict[object, list[Said]] = {}
    for one in found.said:
        if one.primitive == "dot_general" and one.kind in ("all-gather", "reduce-scatter") and one.frames and one.group:
            groups.setdefault((one.frames[0], one.axes, one.loops), []).append(one)
    for those in groups.values():
        first = those[0]
        steps = [
            other
            for other in found.moved
            if other.kind == "collective-permute"
            and (other.axes, other.loops[: len(first.loops)]) == (first.axes, first.loops)
            and any(other.payload == (payload_in(one, other.dtype) or 0) // (one.group or 1) for one in those)
            and other.frames[:1] == first.frames[:1]
        ]
        runs = sum(product(other.loops[len(first.loops) :]) or 0 for other in steps)
        if runs >= sum((one.group or 1) - 1 for one in those):
            remove(found.moved, steps)
            remove(found.said, those)
            found.pairs.append(Pair(tuple(those), tuple(steps), class_))


def rings(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Gathers, block by block."""
    for one in [one for one in found.said if one.kind == "all-gather" and one.payload and one.group]:
        group = one.group or 1
        steps = [
            other
            for other in found.moved
            if other.kind == "collective-permute"
            and {*other.axes} <= {*one.axes}
            and other.loops[: len(one.loops)] == one.loops
            and other.payload in (block := (payload_in(one, other.dtype) or 0) // group, block // 2)
        ]
        runs = [math.prod(trips or 0 for trips in other.loops[len(one.loops) :]) for other in steps]
        sent = (payload_in(one, steps[0].dtype) or 0) // group * (group - 1) if steps else -1
        if sum(other.payload * count for other, count in zip(steps, runs, strict=True)) == sent:
            remove(found.moved, steps)
            remove(found.said, [one])
            found.pairs.append(Pair((one,), tuple(steps), class_))


def spread(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Sums that are computed in parts along an axis that is idle."""
    for one in [one for one in found.said if one.kind in ("all-reduce", "reduce-scatter") and one.payload]:
        for part in [other for other in found.moved if _is_part(one, other)]:
            parts = (payload_in(one, part.dtype) or 0) // part.payload
            after = next((other for other in found.moved if _ends(one, part, other, parts, sizes)), None)
            if parts > 1 and after is not None:
                remove(found.moved, [part, after])
                remove(found.said, [one])
                found.pairs.append(Pair((one,), (part, after), class_))
                break


def _is_part(one: Said, other: Moved) -> bool:
    """Whether this may be the sum of a part."""
    kinds = other.kind == "all-reduce" and (other.axes, other.loops) == (one.axes, one.loops)
    return kinds and (payload_in(one, other.dtype) or 0) % other.payload == 0


def _ends(one: Said, part: Moved, other: Moved, parts: int, sizes: Mapping[str, int]) -> bool:
    """Whether this brings the parts to where they should be: all of them together, or each to another device."""
    idle = {axis for axis, size in sizes.items() if size == parts} - {*one.axes}
    if other.loops != one.loops:
        return False
    if one.kind == "all-reduce":
        gathered = (other.kind, other.group) == ("all-gather", parts) and {*other.axes} <= idle
        return gathered and other.payload == payload_in(one, other.dtype)
    sent = other.kind == "collective-permute" and {*other.axes} <= {*one.axes} | idle
    return sent and parts == one.group and (other.payload, other.dtype) == (part.payload, part.dtype)


_MARGIN: Final = Fraction(1, 32)
"""Of an array: the most by which it is made longer."""


def margin(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Scattered sums of arrays that are made longer, and what is sent to a neighbour then."""
    for one in [one for one in found.said if one.kind == "reduce-scatter" and one.payload and one.group]:
        group = one.group or 1
        for wide in [other for other in found.moved if (other.kind, *_way(other)) == (one.kind, *_way(one))]:
            payload = payload_in(one, wide.dtype) or 0
            more = wide.payload - payload
            step = next(
                (
                    other
                    for other in found.moved
                    if (other.kind, *_way(other)) == ("collective-permute", *_way(one))
                    and other.payload * group == more * (group - 1)
                ),
                None,
            )
            if step is not None and 0 < more <= payload * _MARGIN:
                remove(found.moved, [wide, step])
                remove(found.said, [one])
                found.pairs.append(Pair((one,), (wide, step), class_))
                break


def _way(one: Said | Moved) -> tuple[object, ...]:
    return one.axes, one.loops


def at_once(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Sums over one axis after the other, of one equation."""
    chains: dict[object, list[Said]] = {}
    for one in found.said:
        if one.kind == "all-reduce" and isinstance(one.site, tuple):
            equation, _, *rest = one.site
            chains.setdefault((equation, *rest, one.payload, one.loops), []).append(one)
    for those in chains.values():
        axes = tuple(sorted(axis for one in those for axis in one.axes))
        at_once = replace(those[0], axes=axes)
        whole = next((other for other in found.moved if same(at_once, other) and alike(at_once, other)), None)
        if len(those) > 1 and whole is not None:
            remove(found.moved, [whole])
            remove(found.said, those)
            found.pairs.append(Pair(tuple(those), (whole,), class_))


def renumbered(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Gathers that go over another axis of the same size, along which devices were renumbered first; and permutes for
    which they are numbered by all axes of the value."""
    for one in [one for one in found.said if one.kind == "all-gather" and one.payload and one.group]:
        whole = next(
            (
                other
                for other in found.moved
                if (other.kind, other.group, other.loops) == ("all-gather", one.group, one.loops)
                and other.payload == payload_in(one, other.dtype)
                and other.axes != one.axes
                and other.axes != NO_AXES
            ),
            None,
        )
        if whole is None:
            continue
        ends = {*one.axes, *whole.axes}
        sent = whole.payload // (one.group or 1)
        step = next(
            (
                other
                for other in found.moved
                if (other.kind, other.payload, other.loops) == ("collective-permute", sent, one.loops)
                and {*other.axes} <= ends
            ),
            None,
        )
        if step is not None:
            remove(found.moved, [step, whole])
            remove(found.said, [one])
            found.pairs.append(Pair((one,), (step, whole), class_))

    for one in [one for one in found.said if one.kind == "collective-permute" and one.payload]:
        wide = next(
            (
                other
                for other in found.moved
                if (other.kind, other.loops) == (one.kind, one.loops)
                and other.payload == payload_in(one, other.dtype)
                and {*one.axes} < {*other.axes} <= {*one.axes, *one.along}
            ),
            None,
        )
        if wide is not None:
            remove(found.moved, [wide])
            remove(found.said, [one])
            found.pairs.append(Pair((one,), (wide,), class_))


def searched(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Estimates, with what is compiled from the same lines; also with what is compiled beside one that is equal."""
    paired = [pair for pair in found.pairs if pair.said and all(one.exactness == ESTIMATE for one in pair.said)]
    every = [one for pair in paired for one in pair.said if one.frames] + found.said
    for key, those in _by_place(every, ESTIMATE).items():
        taken = _from_there(found.moved, key, those, sizes)
        if taken:
            beside = [pair for pair in paired if any(one in those for one in pair.said)]
        else:
            beside, those = [], [one for one in those if any(one is other for other in found.said)]
        if those:
            found.pairs = [pair for pair in found.pairs if pair not in beside]
            moved = [other for pair in beside for other in pair.moved] + taken
            remove(found.moved, taken)
            remove(found.said, those)
            found.pairs.append(Pair(tuple(those), tuple(moved), MORE if _sent(moved) > _sent(those) else class_))


def chosen(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """What is left to the compiler, with what is compiled from the same lines."""
    for key, those in _by_place(found.said, COMPILER).items():
        taken = _from_there(found.moved, key, those, sizes)
        remove(found.moved, taken)
        remove(found.said, those)
        found.pairs.append(Pair(tuple(those), tuple(taken), class_))


def _by_place(said: Sequence[Said], exactness: str) -> dict[_Place, list[Said]]:
    """Those of this exactness by their lines and loops."""
    groups: dict[_Place, list[Said]] = {}
    for one in said:
        if one.exactness == exactness:
            groups.setdefault((one.frames[:1] and one.frames[:1] + one.made, one.loops), []).append(one)
    return groups


def _from_there(moved: Sequence[Moved], key: _Place, those: Sequence[Said], sizes: Mapping[str, int]) -> list[Moved]:
    """What is compiled from these lines in these loops, over axes of these, or along which what they move is cut, or
    others of their sizes."""
    lines, loops = key
    axes = {axis for one in those for axis in (*one.axes, *one.along)}
    axes |= {axis for axis, size in sizes.items() if size in {sizes.get(one) for one in axes}}
    return [
        other
        for other in moved
        if other.loops == loops
        and (other.axes == NO_AXES or {*other.axes} <= axes)
        and (not lines or not other.frames or not {*lines}.isdisjoint(other.frames))
    ]


def _sent(those: Sequence[Said] | Sequence[Moved]) -> Fraction:
    """The bytes that a device sends on a ring, each time."""
    every = (Collective(one.kind, one.axes, one.payload, one.group).wire for one in those)
    return sum((Fraction(one) for one in every if one is not None), Fraction(0))
