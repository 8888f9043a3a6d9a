"""Devices that part: some enter a branch, or go on with a loop, and others do not. Types rule out that a collective
stands there along an axis along which they part, except in a shard_map with check_vma=False, where they say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from calculus.types import Axes
from verifier.execution.grid import Grid


class Parting(NamedTuple):
    """Which devices are here, by number; and what they entered, as text for one and for several of them."""

    entered: tuple[bool, ...]
    one: str
    several: str


class Partings:
    """Where devices have parted, the outermost first; each only of those that had not parted before."""

    def __init__(self) -> None:
        self._open: list[Parting] = []

    def present(self, count: int) -> tuple[bool, ...]:
        """Which of so many devices are here."""
        return self._open[-1].entered if self._open else (True,) * count

    @contextmanager
    def entering(self, which: Sequence[bool], what: str) -> Iterator[None]:
        """While it lasts, only these of the devices here run what is run. what: what they enter, `branch 1`."""
        here = self.present(len(which))
        entered = tuple(now and one for now, one in zip(here, which, strict=True))
        if entered == here:
            yield
            return
        self._open.append(Parting(entered, f"enters {what}", f"enter {what}"))
        try:
            yield
        finally:
            self._open.pop()

    @contextmanager
    def inside(self, owner: Sequence[int]) -> Iterator[None]:
        """While it lasts, devices are numbered as in a shard_map. owner: of each, the one outside."""
        before = self._open
        self._open = [one._replace(entered=tuple(one.entered[number] for number in owner)) for one in before]
        try:
            yield
        finally:
            self._open = before

    def awaited(self, grid: Grid, axes: Axes, collective: str) -> str:
        """Who waits in a collective for devices that never come; empty where all of every group come, or none."""
        if not self._open:
            return ""
        here = self.present(grid.count)
        for group in grid.groups(axes):
            if len({here[number] for number in group}) == 1:
                continue
            parting = next(one for one in self._open if len({one.entered[number] for number in group}) > 1)
            come, away = ([n for n in sorted(group) if parting.entered[n] is there] for there in (True, False))
            enter, wait = (parting.one, "waits") if len(come) == 1 else (parting.several, "wait")
            return (
                f"{_devices(come)} {enter} and {wait} in {collective} over {', '.join(axes)} for {_devices(away)}, "
                f"which {'does' if len(away) == 1 else 'do'} not"
            )
        return ""


def _devices(numbers: Sequence[int]) -> str:
    return f"device{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
