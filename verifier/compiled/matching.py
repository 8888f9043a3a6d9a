"""The collectives that the types say beside those that are compiled: which stand for which, and by which class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from verifier.compiled.classes import (
    ADDED,
    AGAIN,
    ALIKE,
    AT_ONCE,
    BLOCKS,
    CHOSEN,
    CONSTANT,
    FOLDED,
    HOISTED,
    LATER,
    MARGIN,
    NARROWED,
    PADDED,
    RENUMBERED,
    RING,
    SCATTERED,
    SEARCHED,
    SHARED,
    SPREAD,
    TURNED,
    UNCUT,
    WIDENED,
    Class,
)
from verifier.compiled.derived import Said
from verifier.compiled.module import BITS
from verifier.compiled.pairs import (
    Explain,
    Fits,
    Loops,
    Matching,
    Pair,
    alike,
    dtype_of,
    payload_in,
    remove,
    same,
)
from verifier.compiled.reading import Moved
from verifier.compiled.routes import at_once, chosen, margin, renumbered, rings, searched, spread, turned
from verifier.compiled.targets import PARTITIONED


def matched(
    said: Sequence[Said], moved: Sequence[Moved], sizes: Mapping[str, int], stage: str = PARTITIONED
) -> Matching:
    """Set the two sides beside each other: first what is equal, then class by class, the narrowest first. sizes: of the
    mesh axes. stage: at which the program was compiled so far."""
    copies = [replace(one) for one in _first_of_each(said)]  # told apart by identity
    found = Matching(said=copies, moved=[replace(one) for one in moved])
    _one_to_one(found, _equal, None)
    for class_, explain in _EXPLAIN:
        if stage in class_.stages:
            explain(found, class_, sizes)
    return found


def _first_of_each(said: Sequence[Said]) -> list[Said]:
    """The same, each value for the first time before any for the second: what is compiled once is each value's once."""
    seen = Counter[object]()
    turns: list[tuple[int, Said]] = []
    for one in said:
        turns.append((seen[_value(one)], one))
        seen[_value(one)] += 1
    return [one for _, one in sorted(turns, key=lambda turn: turn[0])]


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
            remove(found.moved, [chosen])
            remove(found.said, [one])
            found.pairs.append(Pair((one,), (chosen,), class_))


def _near(one: Said, other: Moved) -> tuple[bool, bool, bool]:
    """How near two are: whether a block is cut out of what is compiled only where a block is all that is asked for;
    whether the innermost lines are one; whether some line is."""
    innermost = bool(one.frames and other.frames and one.frames[0] == other.frames[0])
    cut = one.kind == "all-reduce" and other.sliced
    return not cut, innermost, not set(one.frames).isdisjoint(other.frames)


def _equal(one: Said, other: Moved) -> bool:
    return same(one, other) and alike(one, other)


def _scattered(one: Said, other: Moved) -> bool:
    return (
        (one.kind, other.kind) == ("reduce-scatter", "all-reduce")
        and other.sliced
        and (one.axes, one.loops) == (other.axes, other.loops)
        and alike(one, other)
    )


def _later(one: Said, other: Moved) -> bool:
    levels, stacked = one.later
    if not levels or one.kind != "all-reduce" or (one.kind, one.axes) != (other.kind, other.axes):
        return False
    return other.loops == one.loops[: len(one.loops) - levels] and other.payload == (one.payload or 0) * stacked


def _blocks(one: Said, other: Moved) -> bool:
    kinds = (one.kind, other.kind) == ("all-reduce", "reduce-scatter")
    return kinds and one.cut and (one.axes, one.loops) == (other.axes, other.loops) and alike(one, other)


def _padded(one: Said, other: Moved) -> bool:
    kinds = (one.kind, other.kind) == ("all-gather", "all-reduce")
    there = (one.axes, one.loops) == (other.axes, other.loops)
    return kinds and other.padded and there and other.payload == payload_in(one, other.dtype)


def _widened(one: Said, other: Moved) -> bool:
    return _converted(one, other) > 1


def _narrowed(one: Said, other: Moved) -> bool:
    return 0 < _converted(one, other) < 1


def _converted(one: Said, other: Moved) -> float:
    """How much wider the compiled dtype is, where all else is the same; 0 elsewhere."""
    width = BITS.get(dtype_of(one), 0)
    as_if = replace(one, payload=other.payload, dtype=other.dtype)
    if not any(fits(as_if, other) for fits in (same, _scattered, _blocks)):
        return 0
    ratio = BITS.get(other.dtype, 0) / width if width else 0
    return ratio if ratio != 1 and one.payload is not None and one.payload * ratio == other.payload else 0


def _hoisted(one: Said, other: Moved) -> bool:
    kinds = (one.kind, other.kind)
    if kinds[0] != kinds[1] and not (kinds == ("reduce-scatter", "all-reduce") and other.sliced):
        return False
    if one.axes != other.axes or not alike(one, other):
        return False
    return any(one.loops[: len(one.loops) - count] == other.loops for count in range(1, one.invariant + 1))


def _shared(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """What is moved already, for another equation, in the same loops or outside of those that do not change it."""
    known: dict[object, list[tuple[object, Loops]]] = {}
    for pair in found.pairs:
        for one in pair.said:
            if one.source is not None and pair.moved:
                loops = one.loops if pair.class_ in (RING, TURNED) else pair.moved[0].loops
                known.setdefault(_value(one), []).append((one.site, loops))

    def again(one: Said) -> bool:
        outside = {one.loops[: len(one.loops) - count] for count in range(one.invariant + 1)}
        those = known.get(_value(one), ()) if one.source is not None else ()
        return any(loops in outside for _, loops in those) and all(
            _equation(site) != _equation(one.site) for site, _ in those
        )

    _take(found, again, class_)


def _equation(site: object) -> object:
    """The equation of a site, and in which iteration: what one equation moves twice is two values."""
    return (site[0], *site[2:]) if isinstance(site, tuple) else site


def _value(one: Said) -> tuple[object, ...]:
    return one.source, one.kind, one.axes, one.payload


def _added(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Sums that are added to others first: of each group that is added up, at least one is compiled."""
    whole = [one for pair in found.pairs if pair.class_ in _ONE_FOR_ONE for one in pair.said]
    paired = Counter(map(_key, whole))
    sums: dict[tuple[object, ...], list[Said]] = {}
    for one in [*whole, *found.said]:
        if one.kind in ("all-reduce", "reduce-scatter"):
            sums.setdefault(_key(one), []).append(one)
    for key, those in sums.items():
        groups: list[set[object]] = []
        for one in those:
            joined = [group for group in groups if not group.isdisjoint(one.terms)]
            groups = [group for group in groups if group not in joined] + [set(one.terms).union(*joined)]
        if paired[key] >= len(groups) and len({one.site for one in those}) == len(those):
            _take(found, lambda one, key=key: _key(one) == key and bool(one.terms), class_)  # type: ignore[misc]


_ONE_FOR_ONE: Final = (None, SCATTERED, BLOCKS, WIDENED, NARROWED)


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
            remove(found.moved, [one])
            found.pairs.append(Pair((), (one,), class_))


def _uncut(found: Matching, class_: Class, sizes: Mapping[str, int]) -> None:
    """Gathers for operations that the partitioner does not cut, and that could do with a block."""
    for one in [one for one in found.moved if one.uncut]:
        remove(found.moved, [one])
        found.pairs.append(Pair((), (one,), class_))


def _take(found: Matching, which: Callable[[Said], bool], class_: Class) -> None:
    """What is not compiled at all."""
    for one in [one for one in found.said if which(one)]:
        remove(found.said, [one])
        found.pairs.append(Pair((one,), (), class_))


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
    (FOLDED, _without(lambda one: one.masked and one.kind.endswith(("reduce", "scatter")))),
    (ALIKE, _without(lambda one: one.spread and not one.kind.endswith(("reduce", "scatter")))),
    (CONSTANT, _without(lambda one: one.constant)),
    (RENUMBERED, renumbered),
    (RING, rings),
    (TURNED, turned),
    (SPREAD, spread),
    (MARGIN, margin),
    (AT_ONCE, at_once),
    (SHARED, _shared),
    (AGAIN, _again),
    (UNCUT, _uncut),
    (SEARCHED, searched),
    (CHOSEN, chosen),
)
