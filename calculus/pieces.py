"""What an equation, or a run of equations, contributes to a derived program: derived once, and copied for each that is
like it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from calculus.programs import Atom, Equation, Parameters
from calculus.types import Type


class Line(int):
    """The line of an equation of a derived program, which is that of the equation it is derived from, and the operand
    there that it is derived for: whose tangent it pushes, whose cotangent it makes."""

    operand: int

    def __new__(cls, line: int, operand: int) -> Line:
        """A line that tells an operand of the equation on it."""
        made = int.__new__(cls, line)
        made.operand = operand
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return Line, (int(self), self.operand)


def about(line: int, operand: int | None) -> int:
    """A line that tells an operand, itself where it tells one already or none is known."""
    return line if operand is None or isinstance(line, Line) else Line(line, operand)


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
    """An equation of a piece. taken: gives its operands of the values, as a tuple where there are several; of one that
    has fewer, their places. stand: one object for those that stand alike."""

    primitive: str
    parameters: Parameters
    taken: Any
    few: bool
    types: tuple[Type, ...]
    stand: Stand


class Piece(NamedTuple):
    """What one equation, or a run of them, contributes to a derived program. It is a function of the equations and of
    the types around them alone (theorem `local`), so that those that agree in these are derived, and judged, once, and
    copied.

    Its values are places in a list: those from outside that each copy is given, then those that all share (`held`),
    then what its equations bind, in their order. known, linear: the equations, of either program. results: where in the
    list what comes out is, in the order that the derivation says; `None` is zero. kinds: what the derivation knows of
    those."""

    held: tuple[Atom, ...]
    known: Sequence[Step]
    linear: Sequence[Step]
    results: tuple[int | None, ...]
    kinds: tuple[Any, ...]

    @classmethod
    def of(
        cls, names: Sequence[Atom], made: Sequence[Made], results: Sequence[Atom | None], kinds: tuple[Any, ...] = ()
    ) -> Piece:
        """The piece that has been made, of the values `names`, for each equation of a run in turn."""
        equations = [one for part in (1, 2) for each in made for one in each[part]]
        inside = {*names, *(binder for one in equations for binder in one.binders)}
        read = (*(atom for one in equations for atom in one.inputs), *results)
        held = tuple(dict.fromkeys(atom for atom in read if atom is not None and atom not in inside))
        values = [*names, *held, *(binder for one in equations for binder in one.binders)]
        places = {atom: place for place, atom in enumerate(values)}
        stands: dict[Stand, Stand] = {}

        def step(one: Equation, at: int, line: int) -> Step:
            taken = tuple([places[atom] for atom in one.inputs])
            few = len(taken) < 2
            stand = Stand(at, operand_of(one.line), None if one.line == line else one.line)
            types: tuple[Type, ...] = one.types  # type: ignore[assignment]  # it is judged
            return Step(
                one.primitive, one.parameters, taken if few else itemgetter(*taken), few, types,
                stands.setdefault(stand, stand),
            )  # fmt: skip

        known = [step(one, at, each.line) for at, each in enumerate(made) for one in each.known]
        linear = [step(one, at, each.line) for at, each in enumerate(made) for one in each.linear]
        found = tuple([None if atom is None else places[atom] for atom in results])
        return cls(held, known, linear, found, kinds)
