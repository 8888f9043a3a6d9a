"""Rows of communication: of a typed program and of its backward pass, each with its direction and, of the backward
pass, the forward fact that decides it. Nothing is read, traced or run here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, Protocol, TypeAlias

from calculus.collectives import PLACING
from calculus.communication import ALL_GATHER, ALL_REDUCE, PERMUTE
from calculus.effects import Charge
from calculus.pieces import operand_of
from calculus.programs import Equation, Program, bodies
from calculus.types import ArrayType, Type
from calculus.volumes import Volume
from verifier.attribution import Attribution
from verifier.explaining.facts import AGAIN, Fact, Use, beside, cotangent_or_none, fact, finished, remade, types_match
from verifier.report import Row
from verifier.wording import Words

Direction: TypeAlias = Literal["forward", "backward", "update"]
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
UPDATE: Final = "update"
"""What a step does with its gradients when the backward pass is through."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One collective of a program, of its backward pass, or of what it does with its gradients.

    row: kind, axes, bytes, how often, where: as a report says it. volume: what the bytes are the size of, a formula in
    the sizes of mesh axes; `None` where that is no block. group: how many devices take part; `None` where that is not
    known. fact: what decides it; of the forward pass there is none. charge: the collective, in its program.
    confirmed: how it stands in what is compiled, empty where nothing was.
    """

    direction: Direction
    row: Row
    volume: Volume | None
    group: int | None
    fact: Fact | None
    charge: Charge
    confirmed: str = ""

    @property
    def formula(self) -> str:
        """The payload bytes, each time, in the sizes of mesh axes: `4,096·b/(data·model)`; `?` where nobody knows."""
        return "?" if self.volume is None else str(self.volume)

    @property
    def wire_formula(self) -> str:
        """What a device sends on a ring, each time: `2·(data - 1)/data · 64`."""
        if self.volume is None or self.row.kind == PERMUTE:
            return self.formula
        names = "·".join(self.row.axes)
        count = names if len(self.row.axes) == 1 else f"({names})"
        return f"{'2·' if self.row.kind == ALL_REDUCE else ''}({names} - 1)/{count} · {self.formula}"

    def data(self) -> dict[str, object]:
        """The row as plain data; unknown numbers are `None`."""
        row = self.row
        return {
            "direction": self.direction,
            "line": row.line,
            "where": row.where,
            "library": row.library,
            "value": row.value,
            "primitive": row.primitive,
            "kind": row.kind,
            "axes": list(row.axes),
            "bytes": row.bytes,
            "formula": self.formula,
            "wire_bytes": plain(row.wire_bytes),
            "wire_formula": self.wire_formula,
            "times": row.times,
            "inside": list(row.inside),
            "total_bytes": row.total,
            "total_wire_bytes": plain(row.wire_total),
            "exactness": row.exactness,
            **({"confirmed": self.confirmed} if self.confirmed else {}),
            "because": None if self.fact is None else self.fact.data(),
        }


def plain(number: float | Fraction | None) -> int | float | None:
    """A number that JSON has."""
    return None if number is None else int(number) if number == int(number) else float(number)


class Step(Protocol):
    """What is known of the equations of a step that has its gradient in it."""

    def transposed(self, equation: Equation) -> bool:
        """Whether it was made by transposing another."""
        ...

    def differentiated(self, equation: Equation) -> bool:
        """Whether it is part of what was differentiated, or of the gradient."""
        ...

    def remade(self, equation: Equation) -> bool:
        """Whether it computes again what the forward pass has computed."""
        ...

    def same_line(self, one: int, other: int) -> bool:
        """Whether two places are one line of the author's."""
        ...

    def same_call(self, one: int, other: int) -> bool:
        """Whether two places are one expression on a line of the author's."""
        ...


class Forward:
    """The forward program that backward rows come from. words: those of its author. step: of one that has its gradient
    in it, what JAX tells of equations; without it, the place of a derived equation is that of the one equation which it
    comes from."""

    def __init__(self, program: Program, words: Words, step: Step | None = None) -> None:
        self.words = words
        self.attribution: Attribution = words.attribution
        self._step = step
        self._by_line: dict[int, Equation | None] = {}
        self._shared: set[int] = set()
        seen: set[int] = set()
        waiting, shared = [program], list[Program]()
        for one in waiting:  # grows while it is read
            for equation in one.equations:
                if step is not None and step.transposed(equation):
                    continue
                place = equation.line
                self._by_line[place] = None if place in self._by_line else equation
                for _, inner in bodies(equation.parameters) if equation.parameters.holding else ():
                    if id(inner) not in seen:
                        seen.add(id(inner))
                        waiting.append(inner)
                    else:
                        shared.append(inner)
        for one in shared:  # likewise
            for equation in one.equations:
                if equation.line not in self._shared:
                    self._shared.add(equation.line)
                    shared += (inner for _, inner in bodies(equation.parameters))

    def shared(self, equation: Equation) -> bool:
        """Whether it stands in a body that several equations call, so that its operands are not one value each."""
        return equation.line in self._shared

    def use(self, charge: Charge, value: str) -> Use | None:
        """The value whose cotangent a collective makes, where the program uses it; `None` where that is not known.
        value: what the collective's result is the gradient of, if that has a name."""
        if self._step is None:
            found = self._derived(charge)
            return None if found is None else self._use(*found)
        every = [(rank, self._use(*one)) for rank, one in self._near(charge)]
        named = [one for _, one in every if value and one.name == value]
        best = [one for rank, one in every if rank == every[0][0]]
        twins = [one for one in best if len({one.name for one in best}) > 1 and _keys(one.name) == _keys(value)]
        return next(iter((*named, *twins, *best)), None)

    @property
    def derived(self) -> bool:
        """Whether the backward pass was derived here."""
        return self._step is None

    def cast(self, type: Type | None, value: str) -> Use | None:
        """The change of placement that makes a value whose cotangent has this type: of the value that is named, else
        the only one."""
        wanted = cotangent_or_none(type)
        casts = [one for one in self._by_line.values() if one is not None and one.primitive in PLACING and one.inputs]
        every = [self._use(one, 0) for one in casts if types_match(one.types[0], wanted)]
        named = [one for one in every if value and one.name == value]
        return named[0] if named else every[0] if len({one.name for one in every}) == 1 else None

    def _use(self, equation: Equation, operand: int | None) -> Use:
        name = "" if operand is None else self._name(equation, operand)
        return Use(equation, operand, name, self.attribution.types_of(equation))

    def again(self, charge: Charge, words: Words, use: Use | None) -> str:
        """What people call the forward value that a collective of the backward pass gathers; nothing where what it
        moves is a cotangent. words: of the program that the collective is one of."""
        subject = charge.collective.subject
        if charge.collective.kind != ALL_GATHER or subject < 0:
            return ""
        found = words.attribution.origin(charge)
        if found is not None and found < len(words.inputs) and words.inputs[found]:
            return words.inputs[found] or ""
        if use is None:
            return ""
        type = words.attribution.types_at(charge)[subject]
        others = [index for index, one in enumerate(use.types) if one == type and index != use.operand]
        return self._name(use.equation, others[0]) if len(others) == 1 and type not in use.equation.types else ""

    def _derived(self, charge: Charge) -> tuple[Equation, int | None] | None:
        line = charge.equation.line
        equation = self._by_line.get(line)
        if equation is None:
            return None
        operand = operand_of(line)
        if operand is None or operand >= len(equation.inputs) or equation.primitive.startswith("custom_"):
            operand = 0 if len(equation.inputs) == 1 else None
        return equation, operand

    def _near(self, charge: Charge) -> list[tuple[tuple[bool, bool], tuple[Equation, int]]]:
        """Of a gradient that JAX has made: the equations on the same line of the author's that have an operand of the
        type whose cotangent this is, with a rank, by which they are sorted: first those that the cotangent is made with
        another operand of, then those of the same primitive. Of several on a line, those of the same expression; an
        operand that the cotangent is made with is another's factor."""
        assert self._step is not None
        wanted = cotangent_or_none(next(iter(charge.equation.types), None))
        factors = {atom for atom in charge.equation.inputs if isinstance(atom, str)}
        fitting: list[tuple[Equation, int]] = []
        for equation in self._by_line.values():
            types = self.attribution.types_of(equation) if equation is not None else ()
            places = [index for index, type in enumerate(types) if types_match(type, wanted)]
            if equation is not None and places and self._step.same_line(equation.line, charge.equation.line):
                others = [index for index in places if equation.inputs[index] not in factors]
                fitting += [(equation, index) for index in others or places]
        line = charge.equation.line
        fitting = [one for one in fitting if self._step.same_call(one[0].line, line)] or fitting

        def unlike(one: tuple[Equation, int]) -> tuple[bool, bool]:
            """Whether the cotangent is made with no other operand, and by another primitive."""
            beside = [atom for index, atom in enumerate(one[0].inputs) if index != one[1]]
            return factors.isdisjoint(beside), one[0].primitive != charge.equation.primitive

        return sorted(((unlike(one), one) for one in fitting), key=lambda one: one[0])

    def remade(self, charge: Charge) -> bool:
        """Whether a collective of the backward pass is one of the forward pass, computed again."""
        one = charge.equation
        if self._step is not None:
            return self._step.remade(one)
        equation = self._by_line.get(one.line)
        inside = any(label.startswith(("remat", "checkpoint")) for label in charge.inside)
        alike = equation is not None and (equation.primitive, equation.types) == (one.primitive, one.types)
        return inside and alike and operand_of(one.line) is None

    def _name(self, equation: Equation, operand: int) -> str:
        """What people call an operand: the path of the input that it is or is made from; else nothing."""
        if self.shared(equation):
            return ""
        found = self.attribution.of_operand(equation, operand)
        if found.input is None or found.input >= len(self.words.inputs):
            return ""
        return self.words.inputs[found.input] or ""


def forward_entry(charge: Charge, row: Row) -> Entry:
    """A row of the forward pass."""
    collective = charge.collective
    return Entry(FORWARD, row, collective.volume, collective.group, None, charge)


def backward_entry(charge: Charge, words: Words, forward: Forward) -> Entry:
    """A row of the backward pass. words: of the program that the collective is one of."""
    collective = charge.collective
    if forward.remade(charge):
        row = words.row(charge)
        return Entry(BACKWARD, row, collective.volume, collective.group, remade(charge.equation), charge)
    value = "" if forward.derived else words.value(charge)
    use = forward.use(charge, value.removeprefix(_GRADIENT))
    if use is not None and not use.name and (use.equation.primitive == "shard_map" or forward.shared(use.equation)):
        # the inputs of the one are not its operands, those of the other are several values
        value = words.value(charge)
        use = use._replace(name=value.removeprefix(_GRADIENT) if value.startswith(_GRADIENT) else "")
    decides = fact(charge, use, forward.again(charge, words, use))
    if decides.value and not value.startswith(_GRADIENT):
        value = f"{_GRADIENT if decides.state != AGAIN else ''}{decides.value}"
    row = words.row(charge, value or words.value(charge))
    return Entry(BACKWARD, row, collective.volume, collective.group, decides, charge)


def beside_entry(charge: Charge, words: Words) -> Entry:
    """A row of what is computed beside the forward pass, for its derivative."""
    collective = charge.collective
    row = words.row(charge)
    return Entry(BACKWARD, row, collective.volume, collective.group, beside(charge.equation), charge)


def update_entry(charge: Charge, words: Words, forward: Forward) -> Entry:
    """A row of what a step does with its gradients."""
    collective = charge.collective
    subject = max(collective.subject, 0)
    types = words.attribution.types_at(charge)
    type = types[subject] if subject < len(types) else None
    row = words.row(charge)
    pending = isinstance(type, ArrayType) and type.unreduced
    use = forward.cast(type, row.value.removeprefix(_GRADIENT)) if pending else None
    decides = finished(charge, use) if use is not None else None
    if decides is not None and decides.value and not row.value.startswith(_GRADIENT):
        row = row._replace(value=f"{_GRADIENT}{decides.value}")
    return Entry(UPDATE, row, collective.volume, collective.group, decides, charge)


def _keys(path: str) -> str:
    """What follows the name in front of a path."""
    return path[path.index("[") :] if "[" in path else ""


_GRADIENT: Final = "gradient of "


def entries(
    charges: Sequence[Charge], words: Words, forward: Forward, direction: Callable[[Charge], Direction],
    rows: Sequence[Row] = (),
) -> list[Entry]:  # fmt: skip
    """The rows of a program, each of the pass that it belongs to, in the order of the program. rows: what a report says
    of them, where there is one."""
    found: list[Entry] = []
    for at, charge in enumerate(charges):
        match direction(charge):
            case "forward":
                found.append(forward_entry(charge, rows[at] if rows else words.row(charge)))
            case "backward":
                found.append(backward_entry(charge, words, forward))
            case "update":
                found.append(update_entry(charge, words, forward))
    return found
