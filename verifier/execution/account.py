"""What was executed, beside what was derived: every collective that ran, the bytes that it moved, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from calculus.communication import AT_MOST, EXACT, Collective
from calculus.effects import Charge
from calculus.programs import Equation


class Place(NamedTuple):
    """Which collective of which equation."""

    equation: Equation
    slot: int


@dataclass(slots=True)
class Executed:
    """The runs of one collective of one equation. sizes: the bytes per device that were moved, each time."""

    collective: Collective
    sizes: list[int] = field(default_factory=list)
    skipped: int = 0

    @property
    def times(self) -> int:
        """How often it ran."""
        return len(self.sizes)


class Account:
    """All collectives of one run."""

    def __init__(self) -> None:
        self.executed: dict[tuple[int, int], Executed] = {}
        self._equations: dict[int, Equation] = {}

    def _of(self, place: Place, collective: Collective) -> Executed:
        key = (id(place.equation), place.slot)
        if key not in self.executed:
            self.executed[key] = Executed(collective)
            self._equations[id(place.equation)] = place.equation
        return self.executed[key]

    def ran(self, place: Place, collective: Collective, size: int) -> None:
        """Record that a collective ran, and moved blocks of this size."""
        self._of(place, collective).sizes.append(size)

    def skipped(self, place: Place, collective: Collective) -> None:
        """Record that a collective which the types do not determine was not needed."""
        self._of(place, collective).skipped += 1


class Line(NamedTuple):
    """One collective of an equation, as derived and as executed. derived, executed: how often; derived is `None` where
    the data decide. expected, moved: bytes per device each time; of what ran at several sizes, the largest. problem:
    why the two do not agree, empty where they do."""

    equation: Equation
    collective: Collective
    exactness: str
    derived: int | None
    executed: int
    expected: int | None
    moved: int
    problem: str = ""


def compared(charges: Sequence[Charge], account: Account) -> list[Line]:
    """What was derived beside what was executed, in the order of the text. A collective that is an estimate, at most
    that, or the compiler's choice may be more than was needed; an exact one is executed as it is derived."""
    derived: dict[tuple[int, int], list[Charge]] = {}
    for charge in charges:
        derived.setdefault((id(charge.equation), charge.slot), []).append(charge)
    lines = []
    for key, each in derived.items():
        executed = account.executed.get(key, Executed(each[0].collective))
        times = None if any(charge.times is None for charge in each) else sum(charge.times or 0 for charge in each)
        exactness = next((charge.exactness for charge in each if charge.exactness != EXACT), EXACT)
        collective = each[0].collective
        problem = ""
        if exactness == EXACT and times is not None and executed.times != times:
            problem = f"derived {times} times, executed {executed.times}"
        elif exactness == AT_MOST and times is not None and executed.times > times:
            problem = f"derived at most {times} times, executed {executed.times}"
        elif (
            collective.exactness == EXACT
            and collective.payload is not None
            and {*executed.sizes} - {collective.payload}
        ):
            sizes = ", ".join(map(str, sorted({*executed.sizes})))
            problem = f"derived {collective.payload} bytes, moved {sizes}"
        moved = max(executed.sizes, default=0)
        lines.append(
            Line(each[0].equation, collective, exactness, times, executed.times, collective.payload, moved, problem)
        )
    for key, executed in account.executed.items():
        if key not in derived and executed.times:
            equation, one = account._equations[key[0]], executed.collective
            lines.append(
                Line(
                    equation, one, one.exactness, 0, executed.times, 0, max(executed.sizes), "executed, and not derived"
                )
            )
    return lines
