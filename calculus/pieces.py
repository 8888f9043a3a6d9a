"""What an equation, or a run of equations, contributes to a derived program: derived once, and copied for each that is
like it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, islice
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

from calculus.programs import Atom, Equation, Literal, Parameters, Variable
from calculus.types import Type


class Line(int):
    """The line of an equation of a derived program, which is that of the equation it is derived from, and the operand
    there that it is derived for: whose tangent it pushes, whose cotangent it makes. See `about`."""

    __slots__ = ()

    operand: ClassVar[int]

    def __reduce__(self) -> tuple[object, ...]:
        return about, (int(self), self.operand)


@functools.cache
def _about(operand: int) -> type[Line]:
    """The lines that tell this operand: they are very many, and the operand is the same object for all."""
    return type("Line", (Line,), {"__slots__": (), "operand": operand})


def about(line: int, operand: int | None) -> int:
    """A line that tells an operand, itself where it tells one already or none is known."""
    return line if operand is None or isinstance(line, Line) else _about(operand)(line)


def operand_of(line: int) -> int | None:
    """The operand that a line tells, `None` where it tells none."""
    return line.operand if isinstance(line, Line) else None


class Made(NamedTuple):
    """What one equation has contributed, to either program. line: where that equation stands."""

    line: int
    known: Sequence[Equation]
    linear: Sequence[Equation] = ()


class Stand(NamedTuple):
    """Where an equation of a piece stands: where the equation does that it comes from, the one at a place of the run.
    operand: which one its line tells. line: where it stands if that is elsewhere; `None` if it is not."""

    at: int
    operand: int | None
    line: int | None


class Step(NamedTuple):
    """An equation of a piece. places: where its operands are among the values; taken: gives them. stand: which of the
    steps' stands is its own."""

    primitive: str
    parameters: Parameters
    types: tuple[Type, ...]
    places: tuple[int, ...]
    taken: Callable[[tuple[Atom, ...]], tuple[Atom, ...]]
    stand: int


class Steps:
    """The equations of a piece in one program. given: how many values are from outside; what the equations bind follows
    them. types: of all that they bind. stands: those that they have, each once."""

    def __init__(self, steps: Sequence[Step], stands: Sequence[Stand], given: int) -> None:
        self.steps = steps
        self.stands = stands
        self.given = given
        self.types: tuple[Type, ...] = tuple([type for step in steps for type in step.types])
        self._alone = all(len(step.types) == 1 for step in steps)
        self._kept: dict[bytes, Kept | None] = {}

    @classmethod
    def of(cls, made: Sequence[tuple[int, Sequence[Equation]]], places: Mapping[Atom, int], given: int) -> Steps:
        """Of what has been made for each equation of a run, with its line. places: where the values are, those that
        the equations bind behind the `given` ones, in their order."""
        stands: dict[Stand, int] = {}
        steps: list[Step] = []
        for at, (line, equations) in enumerate(made):
            for one in equations:
                stand = Stand(at, operand_of(one.line), None if one.line == line else one.line)
                types: tuple[Type, ...] = one.types  # type: ignore[assignment]  # it is judged
                read = tuple([places[atom] for atom in one.inputs])
                number = stands.setdefault(stand, len(stands))
                steps.append(Step(one.primitive, one.parameters, types, read, taking(read), number))
        return cls(steps, [*stands], given)

    def bound(self, names: Sequence[Variable]) -> Iterable[tuple[Variable, ...]]:
        """What each equation binds, of the names that all of them bind."""
        if self._alone:
            return zip(names, strict=True)
        rest = iter(names)
        return [tuple(islice(rest, len(step.types))) for step in self.steps]

    @functools.cached_property
    def starts(self) -> Sequence[int]:
        """Where what each equation binds begins, among what all of them bind."""
        return [0, *accumulate(len(step.types) for step in self.steps)]

    @functools.cached_property
    def read_of(self) -> Callable[[tuple[Atom, ...]], tuple[Atom, ...]]:
        """Gives, of the values, those from outside that are read, in the order in which they are."""
        return taking([*dict.fromkeys(place for step in self.steps for place in step.places if place < self.given)])

    def kept(self, alive: bytes) -> Kept | None:
        """Those that are needed where, of what all of them bind, this is; `None` where none is."""
        if alive not in self._kept:
            self._kept[alive] = self._needed(alive)
        return self._kept[alive]

    def _needed(self, alive: bytes) -> Kept | None:
        needed = {self.given + number for number, one in enumerate(alive) if one}
        chosen: list[int] = []
        for place in range(len(self.steps) - 1, -1, -1):
            step, start = self.steps[place], self.given + self.starts[place]
            if not needed.isdisjoint(range(start, start + len(step.types))):
                chosen.append(place)
                needed.update(step.places)
        chosen.reverse()
        bound = [at for place in chosen for at in range(self.starts[place], self.starts[place + 1])]
        if not chosen:
            return None
        if len(chosen) == len(self.steps):
            return Kept(self, chosen, taking(bound))
        where = {
            **{at: at for at in range(self.given)},
            **{self.given + at: self.given + k for k, at in enumerate(bound)},
        }
        steps: list[Step] = []
        for place in chosen:
            read = tuple([where[at] for at in self.steps[place].places])
            steps.append(self.steps[place]._replace(places=read, taken=taking(read)))
        return Kept(Steps(steps, self.stands, self.given), chosen, taking(bound))


class Kept(NamedTuple):
    """What is kept of the equations of a piece. steps: they. places: which of all they are. chosen: gives what they
    bind, of what all bind."""

    steps: Steps
    places: Sequence[int]
    chosen: Callable[[tuple[Variable, ...]], tuple[Variable, ...]]


def taking(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What gives the items of a tuple at these places, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


class Piece(NamedTuple):
    """What one equation, or a run of them, contributes to a derived program. It is a function of the equations and of
    the types around them alone (theorem `local`), so that those that agree in these are derived, and judged, once, and
    copied.

    Its values are places in a list: those from outside that each copy is given, then those that all share (`held`),
    then what its equations bind, in their order. known, linear: the equations, of either program. results: where in the
    list what comes out is, in the order that the derivation says; `None` is zero. kinds: what the derivation knows of
    those."""

    held: tuple[Atom, ...]
    known: Steps
    linear: Steps
    results: tuple[int | None, ...]
    kinds: tuple[Any, ...]

    @property
    def lasting(self) -> bool:
        """Whether it is of no one program: it shares no value, holds no body, and stands where its equation does."""
        every = (self.known, self.linear)
        return (
            all(isinstance(atom, Literal) for atom in self.held)
            and not any(step.parameters.holding for part in every for step in part.steps)
            and all(stand.line is None for part in every for stand in part.stands)
        )

    @classmethod
    def of(
        cls, names: Sequence[Atom], made: Sequence[Made], results: Sequence[Atom | None], kinds: tuple[Any, ...] = ()
    ) -> Piece:
        """The piece that has been made, of the values `names`, for each equation of a run in turn."""
        known = [equation for each in made for equation in each.known]
        linear = [equation for each in made for equation in each.linear]
        bound = [[binder for one in those for binder in one.binders] for those in (known, linear)]
        inside = {*names, *bound[0], *bound[1]}
        read = (*(atom for one in (*known, *linear) for atom in one.inputs), *results)
        held = tuple(dict.fromkeys(atom for atom in read if atom is not None and atom not in inside))
        values = [*names, *held, *bound[0], *bound[1]]
        places = {atom: place for place, atom in enumerate(values)}
        first = len(names) + len(held)
        found = tuple([None if atom is None else places[atom] for atom in results])
        return cls(
            held, Steps.of([(one.line, one.known) for one in made], places, first),
            Steps.of([(one.line, one.linear) for one in made], places, first + len(bound[0])), found, kinds,
        )  # fmt: skip


class Unmade(NamedTuple):
    """What a piece is made of (`Piece.of`), where nothing like it has been met a second time yet: most is met once."""

    names: Sequence[Atom]
    made: Sequence[Made]
    results: Sequence[Atom | None]
    kinds: tuple[Any, ...] = ()
