"""Which values of a program are one: what a compiler may compute, and move, once.

Each value gets a number. Two have the same one where the same is done, to the same values, by equations that do the
same each time; through calls, and into loops for what those do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from calculus.checking import Checked
from calculus.effects import EFFECTFUL, Inner
from calculus.programs import Atom, Equation, Literal

Sites: TypeAlias = "Sequence[tuple[Checked, int]]"
"""The way to an equation: bodies with the place of an equation in each, outermost first."""

_Way: TypeAlias = "tuple[object, ...]"

MOST: Final = 200_000
"""So many equations are looked at, over all the ways to them; values of later ones are each their own."""


class Values:
    """The values of one program."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._tables: dict[_Way, dict[str, int]] = {}
        self._seen = 0

    def operand(self, sites: Sites, atom: Atom) -> int:
        """What the equation at the end of a way reads."""
        if isinstance(atom, Literal):
            return self._number(("literal", str(atom)))
        return self._at(sites).get(atom, -1)

    def results(self, sites: Sites) -> int:
        """What the equation at the end of a way makes, all its results together."""
        table, (checked, at) = self._at(sites), sites[-1]
        binders = checked.program.equations[at].binders
        names = [name for name in binders if name != "_"] or [f"_{at}"]
        return self._number(("results", *(table.get(name, -1) for name in names)))

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _at(self, sites: Sites) -> dict[str, int]:
        """The values of the innermost body of a way."""
        checked, _ = sites[-1]
        way = _way(sites[:-1], checked)
        if way not in self._tables:
            inputs = (*checked.program.constants, *checked.program.inputs)
            given = (
                [self._number(("input", index)) for index in range(len(inputs))]
                if len(sites) == 1
                else self._given(sites[:-1], checked)
            )
            self._tables[way] = self._table(way, checked, given)
        return self._tables[way]

    def _given(self, outside: Sites, body: Checked) -> list[int]:
        """The inputs of a body, in terms of what its equation is given."""
        outer, at = outside[-1]
        call = outer.program.equations[at]
        inner = inner_of(outer, at, body)
        way = _way(outside, body)
        values = [self.operand(outside, atom) for atom in call.inputs]
        found = []
        for index in range(len(body.program.constants) + len(body.program.inputs)):
            place = -1 if inner is None else inner.operand(index, len(call.inputs))
            if inner is None or not 0 <= place < len(values) or not _enters(inner, place):
                found.append(self._number(("of its own", way, index)))
            elif inner.label.startswith("shard_map"):
                types = (*body.program.constant_types, *body.program.input_types)
                found.append(self._number(("block", str(types[index]), values[place])))
            else:
                found.append(values[place])
        return found

    def _table(self, way: _Way, checked: Checked, given: Sequence[int]) -> dict[str, int]:
        program = checked.program
        found = dict(zip((*program.constants, *program.inputs), given, strict=True))
        inners = {effect.at: effect.inner for effect in checked.effects if effect.inner}
        for at, equation in enumerate(program.equations):
            self._seen += 1
            made = self._made((*way, at), equation, inners.get(at, ()), found)
            for index, name in enumerate(equation.binders):
                found[name if name != "_" else f"_{at}"] = self._number(("result", made, index))
        return found

    def _made(self, way: _Way, equation: Equation, inners: Sequence[Inner], known: dict[str, int]) -> object:
        """What an equation does, the same for two that do the same."""
        values = tuple(
            self._number(("literal", str(atom))) if isinstance(atom, Literal) else known.get(atom, -1)
            for atom in equation.inputs
        )
        if equation.cell is not None or equation.primitive in EFFECTFUL or self._seen > MOST:
            return way
        if not inners:
            types = tuple(map(str, equation.types))
            said = tuple(f"{name}={value}" for name, value in sorted(equation.parameters.items()))
            return equation.primitive, said, values, types
        (inner, *others) = inners
        if others or inner.carry is not None or inner.times != 1 or inner.maybe or inner.every or inner.offset:
            return way
        if inner.label.startswith("shard_map"):
            return way
        body = inner.body
        count = len(body.program.constants) + len(body.program.inputs)
        places = [inner.operand(index, len(values)) for index in range(count)]
        if any(not 0 <= place < len(values) for place in places):
            return way
        within = (*way, id(body))
        table = self._tables[within] = self._table(within, body, [values[place] for place in places])
        outputs = body.program.outputs
        return "call", tuple(
            self._number(("literal", str(atom))) if isinstance(atom, Literal) else table.get(atom, -1)
            for atom in outputs
        )


def _way(outside: Sites, body: Checked) -> _Way:
    """The way to a body."""
    return (*(one for checked, at in outside for one in (id(checked), at)), id(body))


def _enters(inner: Inner, place: int) -> bool:
    """Whether what a body is given in this place is what stands outside, each time that it runs."""
    if inner.label.startswith("while"):
        return False
    return inner.carry is None or place < inner.carry[0]


def inner_of(outer: Checked, at: int, body: Checked) -> Inner | None:
    """How a body stands inside an equation."""
    for effect in outer.effects:
        if effect.at == at:
            return next((one for one in effect.inner if one.body is body), None)
    return None
