"""What changed between two programs, as data and as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from calculus.collectives import PLACING
from calculus.effects import Charge
from calculus.programs import Equation
from calculus.repairs import priced
from calculus.types import Type, same
from verifier.differing.alignment import Aligned, Change, align
from verifier.differing.sides import Side, Stuck, stuck
from verifier.report import count

MOST: Final = 20
"""The most of one kind that are shown; `--json` lists all."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A collective that only one of the two programs has, in words: where, kind, axes, bytes each time, how often."""

    where: str
    primitive: str
    kind: str
    axes: tuple[str, ...]
    bytes: int | None
    times: int | None
    wire: float | None

    def __str__(self) -> str:
        size = "?" if self.bytes is None else f"{self.bytes:,}"
        times = "?" if self.times is None else f"{self.times:,}"
        return f"{self.where}: {self.primitive}: {self.kind} over {','.join(self.axes)} of {size} bytes x{times}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two programs. signature: the inputs and results whose types changed, by name, or that only one of them has.
    appeared, went: the collectives. stuck: the results of the new one that are not free to go into its next step, and
    whether those of the old one were."""

    old: Side
    new: Side
    aligned: Aligned
    signature: list[tuple[str, Type | None, Type | None]]
    appeared: list[Moved]
    went: list[Moved]
    stuck: list[Stuck]
    was_stuck: frozenset[str]

    @property
    def equal(self) -> bool:
        """Whether types and communication are the same."""
        return not (self.signature or self.aligned.changed or self.appeared or self.went)

    def lines(self) -> Iterator[str]:
        """As people read it."""
        old, new = self.old, self.new
        changed = self.aligned.changed
        verdict = "the same types and communication" if self.equal else ", ".join(filter(None, (
            count(len(self.signature), "input or result") + " changed" if self.signature else "",
            count(len(changed), "type") + " changed inside" if changed else "",
            f"{count(len(self.appeared), 'collective')} appeared" if self.appeared else "",
            f"{len(self.went)} went" if self.went else "",
        )))  # fmt: skip
        yield f"{old.name} -> {new.name}: {verdict}"
        if not self.equal:
            yield f"  on the wire, bytes per device: {_total(old)} -> {_total(new)}"
        yield from _some(
            "inputs and results", [f"{name}: {_or(one)} -> {_or(two)}" for name, one, two in self.signature]
        )
        first = [one for one in changed if one.first]
        yield from _some("types that change here", [self._line(one) for one in first])
        rest = len(changed) - len(first)
        if rest:
            yield f"  and {count(rest, 'type')} that follow{'s' if rest == 1 else ''}"
        for title, equations, side in (("added", self.aligned.added, new), ("removed", self.aligned.removed, old)):
            moves = [one for one in equations if one.primitive in PLACING]
            yield from _some(
                f"{title}, casts", [f"{side.where(one.line)}: {one.primitive} to {_or(one.types[0])}" for one in moves]
            )
            if len(equations) > len(moves):
                yield f"  {title}: {count(len(equations) - len(moves), 'other equation')}"
        yield from _some("communication that appeared", list(map(str, self.appeared)))
        yield from _some("communication that went", list(map(str, self.went)))
        yield from _some("results that are not free to go into the next step", [self._stuck(one) for one in self.stuck])

    def _line(self, one: Change) -> str:
        before, after = self.old.where(one.old.line), self.new.where(one.new.line)
        place = after if before == after else f"{before} -> {after}"
        return f"{place}: {one.new.primitive}: {one.before} -> {one.after}"

    def _stuck(self, one: Stuck) -> str:
        before = "as before" if one.output in self.was_stuck else "new"
        return (
            f"{one.output} is {one.type}, and {one.input}, which it replaces, {one.wanted}: {priced(one.moved)} to "
            f"cast it back ({before})"
        )

    def data(self) -> dict[str, object]:
        """As plain data."""
        return {
            "old": self.old.name,
            "new": self.new.name,
            "equal": self.equal,
            "wire_bytes": {"old": _wire(self.old), "new": _wire(self.new)},
            "signature": [
                {"name": name, "old": None if one is None else str(one), "new": None if two is None else str(two)}
                for name, one, two in self.signature
            ],
            "types": [
                {
                    "old_where": self.old.where(one.old.line), "new_where": self.new.where(one.new.line),
                    "primitive": one.new.primitive, "old": str(one.before), "new": str(one.after),
                    "first": one.first,
                }
                for one in self.aligned.changed
            ],
            "added": [_equation(one, self.new) for one in self.aligned.added],
            "removed": [_equation(one, self.old) for one in self.aligned.removed],
            "appeared": [_moved(one) for one in self.appeared],
            "went": [_moved(one) for one in self.went],
            "not_free_to_go_into_the_next_step": [
                {
                    "result": one.output, "type": str(one.type), "input": one.input, "wanted": str(one.wanted),
                    "price": priced(one.moved), "new": one.output not in self.was_stuck,
                }
                for one in self.stuck
            ],
        }  # fmt: skip


def compare(old: Side, new: Side) -> Comparison:
    """Compare two programs."""
    aligned = align(old.program, new.program)
    signature = [*_named(old.inputs, new.inputs), *_named(old.outputs, new.outputs)]
    before, after = _rows(old, aligned.partners), _rows(new, {})
    went, appeared = before - after, after - before
    return Comparison(
        old, new, aligned, signature, [_words(row, new) for row in appeared.elements()],
        [_words(row, old) for row in went.elements()], stuck(new),
        frozenset(one.output for one in stuck(old)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Row:
    """A collective as one of a program: at which equation, of the new program where it has a partner there."""

    key: Hashable
    charge: Charge

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Row) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _rows(side: Side, partners: dict[int, Equation]) -> Counter[_Row]:
    found: Counter[_Row] = Counter()
    for charge in side.charges:
        equation = partners.get(id(charge.equation), charge.equation)
        one = charge.collective
        found[_Row((id(equation), one.kind, one.axes, one.payload, charge.times), charge)] += 1
    return found


def _words(row: _Row, side: Side) -> Moved:
    charge, one = row.charge, row.charge.collective
    wire = None if one.wire is None or charge.times is None else float(one.wire) * charge.times
    where = side.where(charge.equation.line)
    return Moved(where, charge.equation.primitive, one.kind, one.axes, one.payload, charge.times, wire)


def _named(
    old: Sequence[tuple[str, Type | None]], new: Sequence[tuple[str, Type | None]]
) -> Iterator[tuple[str, Type | None, Type | None]]:
    """The names whose types changed: by name where both have paths, by position where they have letters."""
    if len(old) == len(new):
        for (name, one), (other, two) in zip(old, new, strict=True):
            if one is not None and two is not None and not same(one, two):
                yield name if name == other else f"{name} -> {other}", one, two
        return
    before, after = dict(old), dict(new)
    for name in dict.fromkeys((*before, *after)):
        one, two = before.get(name), after.get(name)
        if one is None or two is None or not same(one, two):
            yield name, one, two


def _or(type: Type | None) -> str:
    return "nothing" if type is None else str(type)


def _wire(side: Side) -> int:
    return round(sum(float(one.collective.wire or 0) * (one.times or 1) for one in side.charges))


def _total(side: Side) -> str:
    return f"{_wire(side):,} ({count(sum(one.times or 1 for one in side.charges), 'collective')})"


def _some(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"  {title}"
        yield from (f"    {line}" for line in lines[:MOST])
        if len(lines) > MOST:
            yield f"    and {len(lines) - MOST} more: --json lists all"


def _equation(one: Equation, side: Side) -> dict[str, object]:
    return {"where": side.where(one.line), "primitive": one.primitive, "types": [_or(type) for type in one.types]}


def _moved(one: Moved) -> dict[str, object]:
    return {
        "where": one.where, "primitive": one.primitive, "kind": one.kind, "axes": list(one.axes), "bytes": one.bytes,
        "times": one.times, "wire_bytes": one.wire,
    }  # fmt: skip
