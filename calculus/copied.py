"""Copies of pieces, in a program: what a run of equations contributes stands there as one item, and equations are made
of it when they are looked at.

Whatever of a copy is a function of its piece alone (which of its equations are needed, what it reads, what may
communicate in it) is found once for the piece, and holds of all copies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

from calculus.pieces import Steps, about
from calculus.programs import Atom, Equation, Program, Variable
from calculus.types import Type


class Copied:
    """Equations that are judged already, on values and under names of their own. values: those from outside, then the
    names that they bind. line: gives the line of the equation of the run at a place, that some of them come from."""

    __slots__ = ("_made", "line", "names", "steps", "values")

    def __init__(
        self, steps: Steps, values: tuple[Atom, ...], names: tuple[Variable, ...], line: Callable[[int], int]
    ) -> None:
        self.steps = steps
        self.values = values
        self.names = names
        self.line = line
        self._made: dict[int, Equation] = {}

    def __len__(self) -> int:
        return len(self.steps.steps)

    @property
    def reads(self) -> tuple[Atom, ...]:
        """What they read from outside, in the order in which they do, each place once."""
        return self.steps.read_of(self.values)

    def line_of(self, place: int) -> int:
        """The line of the equation at a place."""
        at, operand, elsewhere = self.steps.stands[self.steps.steps[place].stand]
        return about(self.line(at), operand) if elsewhere is None else elsewhere

    def equation(self, place: int) -> Equation:
        """The equation at a place, always the same."""
        found = self._made.get(place)
        if found is None:
            step, start = self.steps.steps[place], self.steps.starts[place]
            binders = self.names[start : start + len(step.types)]
            found = self._made[place] = Equation(
                step.primitive, step.parameters, step.taken(self.values), binders, step.types, self.line_of(place)
            )
        return found

    def maker(self, name: Variable) -> Equation:
        """The equation that binds a name."""
        return self.equation(bisect_right(self.steps.starts, self.names.index(name)) - 1)

    @property
    def equations(self) -> list[Equation]:
        """All of them."""
        return [*map(self.equation, range(len(self)))]

    def needed(self, live: set[Atom]) -> Copied | None:
        """Those that these values need; what they read joins these. `None` where it is none of them."""
        alive = bytes(map(live.__contains__, self.names))
        kept = self.steps.kept(alive)
        if kept is None:
            return None
        found = self
        if len(kept.steps.steps) < len(self.steps.steps):
            names = kept.chosen(self.names)
            found = Copied(kept.steps, (*self.values[: len(self.values) - len(self.names)], *names), names, self.line)
        live.update(kept.steps.read_of(self.values))
        return found


Item: TypeAlias = "Equation | Copied"


class Assembled(Program):
    """A program in which copies stand. items: its equations, and the copies. size: how many equations there are."""

    __slots__ = ("_ends", "_equations", "items", "size")

    def __init__(self, head: Program, items: Sequence[Item]) -> None:
        self.constants, self.constant_types = head.constants, head.constant_types
        self.inputs, self.input_types, self.outputs = head.inputs, head.input_types, head.outputs
        self.effects, self.line = head.effects, head.line
        self.items = items
        self._ends = [*accumulate([1 if isinstance(item, Equation) else len(item) for item in items])]
        self._equations: tuple[Equation, ...] | None = None
        self.size = self._ends[-1] if self._ends else 0

    @property
    def equations(self) -> tuple[Equation, ...]:  # type: ignore[override]
        """The equations."""
        if self._equations is None:
            self._equations = (*flat(self.items),)
        return self._equations

    def equation(self, place: int) -> Equation:
        """The equation at a place."""
        if self._equations is not None:
            return self._equations[place]
        at = bisect_right(self._ends, place)
        item = self.items[at]
        return item if isinstance(item, Equation) else item.equation(place - self._ends[at] + len(item))


def assembled(head: Program, items: Sequence[Item]) -> Program:
    """A program of these items, all else that of `head`: one of equations, where all of them are."""
    equations = tuple([item for item in items if isinstance(item, Equation)])
    return head.of(equations) if len(equations) == len(items) else Assembled(head, items)


def items_of(program: Program) -> Sequence[Item]:
    """The equations of a program, and the copies in it."""
    return program.items if isinstance(program, Assembled) else program.equations


def size_of(program: Program) -> int:
    """How many equations a program has."""
    return program.size if isinstance(program, Assembled) else len(program.equations)


def flat(items: Sequence[Item]) -> Iterator[Equation]:
    """The equations, those of copies too."""
    for item in items:
        if isinstance(item, Equation):
            yield item
        else:
            yield from item.equations


def typed_names(program: Program) -> dict[Variable, Type | None]:
    """The type of each name that a program binds, its inputs included, as far as they are printed."""
    found: dict[Variable, Type | None] = dict(zip(program.constants, program.constant_types, strict=True))
    found.update(zip(program.inputs, program.input_types, strict=True))
    for item in items_of(program):
        if isinstance(item, Copied):
            found.update(zip(item.names, item.steps.types, strict=True))
        elif len(item.binders) == 1:  # nearly all have one result
            found[item.binders[0]] = item.types[0]
        else:
            found.update(zip(item.binders, item.types, strict=True))
    return found


def reads(program: Program, start: int, stop: int) -> Iterator[tuple[int, tuple[Atom, ...]]]:
    """The places of the equations from one on and before another, with what each reads."""
    end = 0
    for item in items_of(program):
        first = end
        end += 1 if isinstance(item, Equation) else len(item)
        if end <= start:
            continue
        if first >= stop:
            return
        if isinstance(item, Equation):
            yield first, item.inputs
        else:
            for place in range(max(start - first, 0), min(len(item), stop - first)):
                yield first + place, item.steps.steps[place].taken(item.values)
