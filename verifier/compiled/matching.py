"""The collectives that the types say beside those that are compiled: which stand for which, and by which class."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from calculus.communication import COMPILER, ESTIMATE
from verifier.compiled.classes import (
    ADDED,
    AGAIN,
    BLOCKS,
    CHOSEN,
    CONSTANT,
    FOLDED,
    HOISTED,
    LATER,
    NARROWED,
    PADDED,
    RENUMBERED,
    RING,
    SCATTERED,
    SEARCHED,
    SHARED,
    SPREAD,
    TURNED,
    WIDENED,
    Class,
)
from verifier.compiled.derived import Said
from verifier.compiled.groups import NO_AXES
from verifier.compiled.module import BITS, Frame
from verifier.compiled.reading import Moved, product
from verifier.compiled.targets import PARTITIONED

_XLAS: Final = {"bool": "pred", "i2": "s2", "i4": "s4", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64"}
"""XLA's names of dtypes that have others in printed programs."""


class Pair(NamedTuple):
    """Collectives that stand for each other. class_: how they differ; `None` where they do not."""

    said: tuple[Said, ...]
    moved: tuple[Moved, ...]
    class_: Class | None = None

    @property
    def placed(self) -> bool:
        """Whether the compiled ones come from a line of the equation."""
        lines = {frame for one in self.said for frame in one.frames}
        return not lines or all(not one.frames or not lines.isdisjoint(one.frames) for one in self.moved)


@dataclass
class Matching:
    """What two sides have in common. unexplained: what each has besides."""

    pairs: list[Pair] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)

    @property
    def unexplained(self) -> int:
        """How many collectives no class explains."""
        return len(self.said) + len(self.moved)

    @property
    def equal(self) -> list[Pair]:
        """Those that are the same on both sides."""
        return [pair for pair in self.pairs if pair.class_ is None]

    @property
    def classes(self) -> Counter[str]:
        """How many differences of each class there are."""
        return Counter(pair.class_.name for pair in self.pairs if pair.class_ is not None)


Loops: TypeAlias = "tuple[int | None, ...]"
Fits: TypeAlias = Callable[[Said, Moved], bool]
Explain: TypeAlias = "Callable[[Matching, Class, Mapping[str, int]], None]"
"""Takes what a class explains out of what is unexplained."""


def matched(
    said: Sequence[Said], moved: Sequence[Moved], sizes: Mapping[str, int], stage: str = PARTITIONED
) -> Matching:
    """Set the two sides beside each other: first what is equal, then class by class, the narrowest first. sizes: of the
    mesh axes. stage: at which the program was compiled so far."""
    found = Matching(
        said=[replace(one) for one in said], moved=[replace(one) for one in moved]
    )  # told apart by identity
    _one_to_one(found, _equal, None)
    for class_, explain in _EXPLAIN:
        if stage in class_.stages:
            explain(found, class_, sizes)
    return found


def _fitting(fits: Fits) -> Explain:
    """What explains one by one."""
    return lambda found, class_, sizes: _one_to_one(found, fits, class_)


def _without(which: Callable[[Said], bool]) -> Explain:
    """What explains that nothing is compiled."""
    return lambda found, class_, sizes: _take(found, which, class_)


def _one_to_one(found: Matching, fits: Fits, class_: Class | None) -> None:
    """Pair off what fits; of several, that which comes from a line of the equation."""
    for one in [*found.said]:
        if one.payload is None:
            continue
        candidates = [other for other in found.moved if fits(one, other)]
        if candidates:
            chosen = max(candidates, key=lambda other: _near(one, other))
            _remove(found.moved, [chosen])
            _remove(found.said, [one])
            found.pairs.append(Pair((one,), (chosen,), class_))


def _near(one: Said, other: Moved) -> tuple[bool, bool, bool]:
    """How near two are: whether a block is cut out of what is compiled only where a block is all that is asked for;
    whether the innermost lines are one; whether some line is."""
    innermost = bool(one.frames and other.frames and one.frames[0] == other.frames[0])
    cut = one.kind == "all-reduce" and other.sliced
    return not cut, innermost, not set(one.frames).isdisjoint(other.frames)


def _same(one: Said, other: Moved) -> bool:
    return (one.kind, one.axes, one.loops) == (other.kind, other.axes, other.loops)


def _dtype(one: Said) -> str:
    """As XLA calls it; empty where it is not known."""
    return _XLAS.get(one.dtype, one.dtype.replace("_", ""))


def _alike(one: Said, other: Moved) -> bool:
    """Whether as many elements of the same dtype are moved."""
    return one.payload == other.payload and (_dtype(one) not in BITS or _dtype(one) == other.dtype)


def _equal(one: Said, other: Moved) -> bool:
    return _same(one, other) and _alike(one, other)


def _scattered(one: Said, other: Moved) -> bool:
    return (
        (one.kind, other.kind) == ("reduce-scatter", "all-reduce")
        and other.sliced
        and (one.axes, one.loops) == (other.axes, other.loops)
        and _alike(one, other)
    )


def _later(one: Said, other: Moved) -> bool:
    levels, stacked = one.later
    if not levels or one.kind != "all-reduce" or (one.kind, one.axes) != (other.kind, other.axes):
        return False
    return other.loops == one.loops[: len(one.loops) - levels] and other.payload == (one.payload or 0) * stacked


def _blocks(one: Said, other: Moved) -> bool:
    kinds = (one.kind, other.kind) == ("all-reduce", "reduce-scatter")
    return kinds and one.cut and (one.axes, one.loops) == (other.axes, other.loops) and _alike(one, other)


def _padded(one: Said, other: Moved) -> bool:
    kinds = (one.kind, other.kind) == ("all-gather", "all-reduce")
    return kinds and other.padded and (one.axes, one.loops) == (other.axes, other.loops) and _alike(one, other)


def _widened(one: Said, other: Moved) -> bool:
    return _converted(one, other) > 1


def _narrowed(one: Said, other: Moved) -> bool:
    return 0 < _converted(one, other) < 1


def _converted(one: Said, other: Moved) -> float:
    """How much wider the compiled dtype is, where all else is the same; 0 elsewhere."""
    width = BITS.get(_dtype(one), 0)
    as_if = replace(one, payload=other.payload, dtype=other.dtype)
    if not any(fits(as_if, other) for fits in (_same, _scattered, _blocks)):
        return 0
    ratio = BITS.get(other.dtype, 0) / width if width else 0
    return ratio if ratio != 1 and one.payload is not None and one.payload * ratio == other.payload else 0


def _hoisted(one: Said, other: Moved) -> bool:
    kinds = (one.kind, other.kind)
    if kinds[0] != kinds[1] and not (kinds == ("reduce-scatter", "all-reduce") and other.sliced):
        return False
    if one.axes != other.axes or not _alike(one, other):
        return False
    return any(one.loops[: len(one.loops) - count] == other.loops for count in range(1, one.invariant + 1))


def _shared(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """What is moved already, for another equation, in the same loops or outside of those that do not change it."""
    known: dict[object, list[tuple[object, Loops]]] = {}
    for pair in found.pairs:
        for one in pair.said:
            if one.source is not None and pair.moved:
                known.setdefault(_value(one), []).append((one.site, pair.moved[0].loops))

    def again(one: Said) -> bool:
        outside = {one.loops[: len(one.loops) - count] for count in range(one.invariant + 1)}
        those = known.get(_value(one), ()) if one.source is not None else ()
        return any(loops in outside for _, loops in those) and all(site != one.site for site, _ in those)

    _take(found, again, class_)


def _value(one: Said) -> tuple[object, ...]:
    return one.source, one.kind, one.axes, one.payload


def _added(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Sums that are added to others first: of each group that is added up, at least one is compiled."""
    paired = Counter(_key(one) for pair in found.pairs for one in pair.said if pair.class_ is None)
    every = [one for pair in found.pairs if pair.class_ is None for one in pair.said] + found.said
    sums: dict[tuple[object, ...], list[Said]] = {}
    for one in every:
        if one.kind == "all-reduce":
            sums.setdefault(_key(one), []).append(one)
    for key, those in sums.items():
        groups: list[set[int]] = []
        for one in those:
            joined = [group for group in groups if not group.isdisjoint(one.terms)]
            groups = [group for group in groups if group not in joined] + [set(one.terms).union(*joined)]
        if paired[key] >= len(groups) and len({one.site for one in those}) == len(those):
            _take(found, lambda one, key=key: _key(one) == key and bool(one.terms), class_)  # type: ignore[misc]


def _key(one: Said) -> tuple[object, ...]:
    return one.kind, one.axes, one.payload, one.dtype, one.loops


def _again(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """What is compiled again, of a value that was moved to that place already."""
    known = {(one.source, one.kind, one.axes, one.payload, one.loops) for pair in found.pairs for one in pair.moved}
    for one in [*found.moved]:
        if (
            one.kind == "all-gather"
            and one.source[1]
            and (one.source, one.kind, one.axes, one.payload, one.loops) in known
        ):
            _remove(found.moved, [one])
            found.pairs.append(Pair((), (one,), class_))


def _turned(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Contractions that are computed while blocks go round."""
    groups: dict[object, list[Said]] = {}
    for one in found.said:
        if one.primitive == "dot_general" and one.kind in ("all-gather", "reduce-scatter") and one.frames and one.group:
            groups.setdefault((one.frames[0], one.axes, one.loops), []).append(one)
    for those in groups.values():
        first = those[0]
        blocks = {(one.payload or 0) // (one.group or 1) for one in those}
        steps = [
            other
            for other in found.moved
            if other.kind == "collective-permute"
            and (other.axes, other.loops[: len(first.loops)]) == (first.axes, first.loops)
            and other.payload in blocks
            and other.frames[:1] == first.frames[:1]
        ]
        runs = sum(product(other.loops[len(first.loops) :]) or 0 for other in steps)
        if runs >= sum((one.group or 1) - 1 for one in those):
            _remove(found.moved, steps)
            _remove(found.said, those)
            found.pairs.append(Pair(tuple(those), tuple(steps), class_))


def _take(found: Matching, which: Callable[[Said], bool], class_: Class) -> None:
    """What is not compiled at all."""
    for one in [one for one in found.said if which(one)]:
        _remove(found.said, [one])
        found.pairs.append(Pair((one,), (), class_))


def _rings(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    for one in [one for one in found.said if one.kind == "all-gather" and one.payload and one.group]:
        group, payload = one.group or 1, one.payload or 0
        sent = payload // group * (group - 1)
        steps = [
            other
            for other in found.moved
            if other.kind == "collective-permute"
            and {*other.axes} <= {*one.axes}
            and other.loops[: len(one.loops)] == one.loops
            and other.payload in (payload // group, payload // group // 2)
        ]
        runs = [math.prod(trips or 0 for trips in other.loops[len(one.loops) :]) for other in steps]
        if sum(other.payload * count for other, count in zip(steps, runs, strict=True)) == sent:
            _remove(found.moved, steps)
            _remove(found.said, [one])
            found.pairs.append(Pair((one,), tuple(steps), class_))


def _spread(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    for one in [one for one in found.said if one.kind == "all-reduce" and one.payload]:
        for part in [other for other in found.moved if _same(one, other) and (one.payload or 0) % other.payload == 0]:
            parts = (one.payload or 0) // part.payload
            whole = next((other for other in found.moved if _puts_together(one, other, parts)), None)
            if parts > 1 and whole is not None:
                _remove(found.moved, [part, whole])
                _remove(found.said, [one])
                found.pairs.append(Pair((one,), (part, whole), class_))
                break


def _puts_together(one: Said, other: Moved, parts: int) -> bool:
    return (
        other.kind == "all-gather"
        and other.group == parts
        and {*other.axes}.isdisjoint(one.axes)
        and (other.payload, other.loops) == (one.payload, one.loops)
    )


def _renumbered(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Gathers that go over another axis of the same size, along which devices were renumbered first."""
    for one in [one for one in found.said if one.kind == "all-gather" and one.payload and one.group]:
        whole = next(
            (
                other
                for other in found.moved
                if (other.kind, other.payload, other.group, other.loops)
                == ("all-gather", one.payload, one.group, one.loops)
                and other.axes != one.axes
                and other.axes != NO_AXES
            ),
            None,
        )
        if whole is None:
            continue
        ends = {*one.axes, *whole.axes}
        sent = (one.payload or 0) // (one.group or 1)
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
            _remove(found.moved, [step, whole])
            _remove(found.said, [one])
            found.pairs.append(Pair((one,), (step, whole), class_))


def _open(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """What the types leave open, with what is compiled from the same lines, in those loops, over those axes, or, of
    estimates, others of their sizes."""
    exactness = ESTIMATE if class_ is SEARCHED else COMPILER
    groups: dict[tuple[tuple[Frame, ...], Loops], list[Said]] = {}
    for one in found.said:
        if one.exactness == exactness:
            groups.setdefault((one.frames[:1] and one.frames[:1] + one.made, one.loops), []).append(one)
    for (lines, loops), those in groups.items():
        axes = {axis for one in those for axis in one.axes}
        if class_ is SEARCHED:
            axes |= {axis for axis, size in sizes.items() if size in {sizes.get(one) for one in axes}}
        taken = [
            other
            for other in found.moved
            if other.loops == loops
            and (other.axes == NO_AXES or {*other.axes} <= axes)
            and (not lines or not other.frames or not {*lines}.isdisjoint(other.frames))
        ]
        _remove(found.moved, taken)
        _remove(found.said, those)
        found.pairs.append(Pair(tuple(those), tuple(taken), class_))


def _remove(everything: list[Said] | list[Moved], those: Sequence[object]) -> None:
    """Without these, each by identity."""
    identities = {id(one) for one in those}
    everything[:] = [one for one in everything if id(one) not in identities]  # type: ignore[misc]


_EXPLAIN: Final[tuple[tuple[Class, Explain], ...]] = (
    (SCATTERED, _fitting(_scattered)),
    (WIDENED, _fitting(_widened)),
    (NARROWED, _fitting(_narrowed)),
    (HOISTED, _fitting(_hoisted)),
    (LATER, _fitting(_later)),
    (BLOCKS, _fitting(_blocks)),
    (PADDED, _fitting(_padded)),
    (SHARED, _shared),
    (ADDED, _added),
    (AGAIN, _again),
    (FOLDED, _without(lambda one: one.masked and one.kind == "all-reduce")),
    (CONSTANT, _without(lambda one: one.constant)),
    (RENUMBERED, _renumbered),
    (RING, _rings),
    (TURNED, _turned),
    (SPREAD, _spread),
    (SEARCHED, _open),
    (CHOSEN, _open),
)
