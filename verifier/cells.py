"""The cells of the matrix: a call, the types of its operands, and the sharding asked for; and our verdict on each.

A cell's operands have every state along every axis of a mesh: sharded on each dim, replicated, reduced, unreduced of
each kind; in manual mode varying in place of sharded. Nothing here knows JAX.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple

from calculus.checking import Checker
from calculus.meshes import AxisMode, Mesh
from calculus.programs import Equation, Program
from calculus.refusals import Refused
from calculus.types import ArrayType, Axes, Type, array_type

KINDS: Final = ("sum", "max", "min")


@dataclass(frozen=True)
class Call:
    """A sample call, unsharded. equation: as traced, with the results' types. operands: the types of its operands,
    literals aside. target: the parameter by which a caller asks for a sharding, `""` for none. asked: whether a
    sharding is always asked for. axes: the manual axes that it names. handed: whether a sharding that is asked for says
    how an operand or result is handed over, and the result's type is that of a body."""

    primitive: str
    note: str
    equation: Equation
    operands: tuple[Type, ...]
    target: str = ""
    asked: bool = False
    axes: Axes = ()
    handed: bool = False

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"{self.primitive} {self.note}" if self.note else self.primitive

    @property
    def result(self) -> ArrayType | None:
        """The type of the first result; `None` if there is no such array."""
        type = self.equation.types[0] if self.equation.types else None
        return type if isinstance(type, ArrayType) else None


class Cell(NamedTuple):
    """The operands' types, and the result type that is asked for, if one is."""

    operands: tuple[ArrayType, ...]
    target: ArrayType | None = None

    def __str__(self) -> str:
        operands = ", ".join(map(str, self.operands))
        return f"({operands})" + (f" -> {self.target}" if self.target else "")


class Refusal(NamedTuple):
    """Why a call is refused: our code, or the class of JAX's exception; a message; and whether it is a leak (an
    exception that was not meant for the user)."""

    code: str
    message: str
    crash: bool = False


class Verdict(NamedTuple):
    """What one side says of a cell: the result types, or a refusal."""

    types: tuple[Type, ...] | None
    refusal: Refusal | None = None

    @property
    def word(self) -> str:
        """accepts, refuses or crashes."""
        if self.refusal is None:
            return "accepts"
        return "crashes" if self.refusal.crash else "refuses"

    def __str__(self) -> str:
        if self.refusal is None:
            return ", ".join(map(str, self.types or ()))
        return f"{self.word}: {self.refusal.code}: {self.refusal.message}"


def placements(type: Type, mesh: Mesh, kinds: bool) -> list[ArrayType]:
    """A type in every combination of states along the axes of a mesh. kinds: whether maxima and minima may be pending
    too. Keys have no sum, so nothing of theirs is pending."""
    if not isinstance(type, ArrayType):
        return []
    pending = () if type.dtype.startswith("key<") else KINDS if kinds else KINDS[:1]
    found: list[ArrayType] = []
    for states in itertools.product(*(_states(type, axis.mode, pending) for axis in mesh.axes)):
        along = dict(zip(mesh.by_name, states, strict=True))
        chosen = {state for state in states if state in KINDS}
        if len(chosen) > 1:
            continue
        varying, reduced = (tuple(axis for axis, state in along.items() if state == letter) for letter in "VR")
        unreduced = tuple(axis for axis, state in along.items() if state in KINDS)
        kind = next(iter(chosen), "sum")
        found.extend(
            array_type(type.dtype, type.shape, lists, varying, unreduced, reduced, kind, type.memory)
            for lists in _lists(type.rank, along)
        )
    return found


def _states(type: ArrayType, mode: AxisMode, pending: Sequence[str]) -> list[str]:
    cut = [str(dim) for dim, size in enumerate(type.shape) if isinstance(size, int) and size > 2 and size % 4 == 0]
    return ["N", "R", *pending, *(["V"] if mode is AxisMode.MANUAL else cut)]


def _lists(rank: int, along: dict[str, str]) -> Iterator[tuple[Axes, ...]]:
    """The lists of axes of each dim: where two axes cut one dim, in both orders."""
    by_dim = [tuple(axis for axis, state in along.items() if state == str(dim)) for dim in range(rank)]
    return itertools.product(*map(itertools.permutations, by_dim))


def cells(call: Call, mesh: Mesh, kinds: bool, most: int | None = None) -> list[Cell]:
    """The cells of a call on a mesh: all of them, or as many as `most`, drawn with a seed that depends on nothing but
    the call. Half of the operands drawn are in a state that another one has."""
    choices = _choices(call, mesh, kinds)
    if most is None or prod(map(len, choices)) <= most:
        return [_cell(chosen) for chosen in itertools.product(*choices)]
    draw = random.Random(f"{call.name} on {mesh}")
    found: dict[Cell, None] = {}
    while len(found) < most:
        index = draw.randrange(len(choices[0]))
        drawn = [choices[0][index]]
        for choice in choices[1:]:
            if draw.random() < 0.5 and len(choice) in (len(choices[0]), len(choices[0]) + 1):
                drawn.append(choice[index - len(choices[0])])
            else:
                drawn.append(draw.choice(choice))
        found[_cell(tuple(drawn))] = None
    return list(found)


def how_many(call: Call, mesh: Mesh, kinds: bool, most: int | None = None) -> int:
    """How many cells there are of a call on a mesh, or `most`."""
    total = prod(map(len, _choices(call, mesh, kinds)))
    return total if most is None else min(total, most)


def _choices(call: Call, mesh: Mesh, kinds: bool) -> list[list[ArrayType | None]]:
    """The types of each operand, and last the targets."""
    choices: list[list[ArrayType | None]] = [list(placements(type, mesh, kinds)) for type in call.operands]
    targets: list[ArrayType | None] = [] if call.asked else [None]
    explicit = all(axis.mode is AxisMode.EXPLICIT for axis in mesh.axes)
    if call.target and call.result is not None and explicit:
        targets += placements(call.result, mesh, kinds)
    return [*choices, targets]


def _cell(chosen: tuple[ArrayType | None, ...]) -> Cell:
    return Cell(chosen[:-1], chosen[-1])  # type: ignore[arg-type]


def judge(call: Call, equation: Equation, cell: Cell, printed: tuple[Type, ...] | None, mesh: Mesh) -> Verdict:
    """Our verdict on a cell: on the result types printed, or, where none are, what we infer."""
    names = [atom for atom in equation.inputs if isinstance(atom, str)]
    types: tuple[Type | None, ...] = (None,) * len(equation.binders) if printed is None else printed
    made = Equation(equation.primitive, equation.parameters, equation.inputs, equation.binders, types)
    program = Program((), (), tuple(names), cell.operands, (made,), equation.binders)
    checker = Checker([mesh])
    try:
        checked = checker.check(program)
    except Refused as refused:
        return Verdict(None, Refusal(refused.refusal.code, refused.refusal.message))
    if checker.refusals:
        first = checker.refusals[0][0]
        return Verdict(None, Refusal(first.code, first.message))
    return Verdict(checked.types)  # type: ignore[arg-type]


def our_verdict(call: Call, equation: Equation, cell: Cell, theirs: Verdict, mesh: Mesh) -> Verdict:
    """Our verdict, held against theirs. A type that they infer is judged as the printed one; where we refuse it, and
    where they refuse, we say what we infer, or whether any result type is right."""
    if theirs.types is not None:
        found = judge(call, equation, cell, theirs.types, mesh)
        if found.refusal is None:
            return found
        other = _inferred(call, equation, cell, mesh)
        return found if other.refusal is not None else other
    return _inferred(call, equation, cell, mesh)


def _inferred(call: Call, equation: Equation, cell: Cell, mesh: Mesh) -> Verdict:
    if cell.target is not None and not call.handed:
        printed = (cell.target, *equation.types[1:])
        return judge(call, equation, cell, printed, mesh)  # type: ignore[arg-type]
    found = judge(call, equation, cell, None, mesh)
    if found.refusal is None or found.refusal.code != "choose-type" or call.result is None:
        return found
    for type in placements(call.result, mesh, True):
        other = judge(call, equation, cell, (type,), mesh)
        if other.refusal is None:
            return other
        found = other
    return found
