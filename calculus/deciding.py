"""Which branch is taken, where the program itself says."""

from __future__ import annotations

from collections.abc import Sequence

from calculus.programs import Equation, Literal
from calculus.uses import Operand


def number(name: str, before: Sequence[Equation]) -> Literal | None:
    """The number that a predicate is, where what makes it holds numbers inside a range alone: so a switch over a number
    is printed. `None` where it is another equation's."""
    made = next((equation for equation in reversed(before) if name in equation.binders), None)
    if made is None or made.primitive != "clamp":
        return None
    given = [atom for atom in made.inputs if isinstance(atom, Literal)]
    if len(given) < 3:
        return None
    try:
        least, value, most = (int(atom.text) for atom in given)
    except ValueError:
        return None
    return Literal(str(min(max(value, least), most)), given[1].type)


def taken_of(predicate: Operand, count: int) -> int | None:
    """The branch that is taken where the predicate is a number; one that is out of range counts as the nearest."""
    if not isinstance(predicate, Literal):
        return None
    if predicate.text in ("True", "False"):
        return int(predicate.text == "True")
    try:
        return max(0, min(int(predicate.text), count - 1))
    except ValueError:
        return None
