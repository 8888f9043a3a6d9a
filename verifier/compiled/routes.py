"""Collectives that are compiled to others, by another route: in steps, along other axes, or as the compiler finds."""

from __future__ import annotations

import math
from collections.abc import Mapping

from calculus.communication import COMPILER, ESTIMATE
from verifier.compiled.classes import SEARCHED, Class
from verifier.compiled.derived import Said
from verifier.compiled.groups import NO_AXES
from verifier.compiled.module import Frame
from verifier.compiled.pairs import Loops, Matching, Pair, payload_in, remove, same
from verifier.compiled.reading import Moved, product


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
    """Sums that are cut along an axis that is idle, and put together along it."""
    for one in [one for one in found.said if one.kind == "all-reduce" and one.payload]:
        for part in [other for other in found.moved if same(one, other) and (one.payload or 0) % other.payload == 0]:
            parts = (one.payload or 0) // part.payload
            whole = next((other for other in found.moved if _puts_together(one, other, parts)), None)
            if parts > 1 and whole is not None:
                remove(found.moved, [part, whole])
                remove(found.said, [one])
                found.pairs.append(Pair((one,), (part, whole), class_))
                break


def _puts_together(one: Said, other: Moved, parts: int) -> bool:
    return (
        other.kind == "all-gather"
        and other.group == parts
        and {*other.axes}.isdisjoint(one.axes)
        and (other.payload, other.loops) == (one.payload, one.loops)
    )


def renumbered(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Gathers that go over another axis of the same size, along which devices were renumbered first."""
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


def left_open(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """What the types leave open, with what is compiled from the same lines, in those loops, over those axes or others
    of their sizes."""
    exactness = ESTIMATE if class_ is SEARCHED else COMPILER
    groups: dict[tuple[tuple[Frame, ...], Loops], list[Said]] = {}
    for one in found.said:
        if one.exactness == exactness:
            groups.setdefault((one.frames[:1] and one.frames[:1] + one.made, one.loops), []).append(one)
    for (lines, loops), those in groups.items():
        axes = {axis for one in those for axis in one.axes}
        axes |= {axis for axis, size in sizes.items() if size in {sizes.get(one) for one in axes}}
        taken = [
            other
            for other in found.moved
            if other.loops == loops
            and (other.axes == NO_AXES or {*other.axes} <= axes)
            and (not lines or not other.frames or not {*lines}.isdisjoint(other.frames))
        ]
        remove(found.moved, taken)
        remove(found.said, those)
        found.pairs.append(Pair(tuple(those), tuple(taken), class_))
