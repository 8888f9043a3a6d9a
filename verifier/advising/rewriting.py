"""The program that an answer of the solver means: each equation at the cell that was chosen, each cast where the value
is needed first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from calculus.building import fresh
from calculus.programs import NO_PARAMETERS, Atom, Equation, Parameters, Program, Programs, Reference, Value, Variable
from calculus.types import ArrayType, Type
from verifier.advising.cells import Cell, Wide, same_types, widened
from verifier.advising.network import Network, Node, Room, Step


class Cast(NamedTuple):
    """A cast that is new: of a value, from a type to another, at the equation on a line (0 where a result is cast).
    depth: how many loops and calls it stands in. first: whether the value is an input of the program. carried: whether
    it is what a loop begins to carry: an accumulator. active: whether a cotangent comes back to it. user: the primitive
    that uses it; none for a result of a body."""

    name: str
    source: Type | None
    target: Type | None
    line: int
    depth: int
    first: bool
    carried: bool = False
    active: bool = False
    user: str = ""


class Asked(NamedTuple):
    """An equation whose result is asked to have another type than it would have by itself."""

    equation: Equation
    before: Type | None
    after: Type | None
    depth: int


class Widened(NamedTuple):
    """An equation some of whose operands are broadcast to the shape of its result first, and then cut as it is: wide
    says as what."""

    equation: Equation
    wide: tuple[Wide | None, ...]
    depth: int


@dataclass(slots=True)
class Rewritten:
    """program: in the names of nobody. casts, asked, widened: what is new in it. inputs: the type that an input of
    the program is used in instead of its own, where that is one."""

    program: Program
    casts: list[Cast] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    widened: list[Widened] = field(default_factory=list)
    inputs: dict[Variable, Type | None] = field(default_factory=dict)


def rewritten(network: Network, values: Sequence[float]) -> Rewritten:
    """The program of an answer."""
    work = _Work(values)
    program = work.room(network.root, 0)
    made = Rewritten(program, work.casts, work.asked, work.widened)
    for node in network.root.inputs:
        targets = [cast.target for cast in work.casts if cast.first and cast.name == node.name]
        reduced = [one for one in targets if isinstance(one, ArrayType) and one.reduced]
        if len(targets) == 1 or len(reduced) == 1:
            made.inputs[node.name] = (reduced or targets)[0]
    return made


def chosen(step: Step, values: Sequence[float]) -> Cell | None:
    """The cell of a step that the answer takes; `None` where there is no choice."""
    return max(step.cells, key=lambda cell: values[cell[1]])[0] if step.cells else None


class _Work:
    def __init__(self, values: Sequence[float]) -> None:
        self.values = values
        self.casts: list[Cast] = []
        self.asked: list[Asked] = []
        self.widened: list[Widened] = []

    def type(self, node: Node) -> Type | None:
        """The type that a value is made in."""
        return max(node.made, key=lambda type: self.values[node.made[type]])

    def room(self, room: Room, depth: int) -> Program:
        """A body at its new types."""
        body = _Body(self, room, depth)
        for step in room.steps:
            body.step(step)
        outputs: list[Atom] = []
        for number, (atom, node) in enumerate(zip(room.program.outputs, room.outputs, strict=True)):
            if node is None:
                outputs.append(atom)
                continue
            wanted = room.wanted[number] if room.wanted else node.type
            outputs.append(body.at(node, wanted, 0))
        held = len(room.program.constants)
        names, types = [node.name for node in room.inputs], [self.type(node) for node in room.inputs]
        return Program(
            tuple(names[:held]), tuple(types[:held]), tuple(names[held:]), tuple(types[held:]), tuple(body.equations),
            tuple(outputs), room.program.effects, room.program.line,
        )  # fmt: skip


class _Body:
    def __init__(self, work: _Work, room: Room, depth: int) -> None:
        self.work = work
        self.depth = depth
        self.first = set(room.inputs) if depth == 0 else set()
        self.equations: list[Equation] = []
        self.versions: dict[tuple[Node, Type | None], Variable] = {}

    def at(self, node: Node, type: Type | None, line: int, carried: bool = False, user: str = "") -> Variable:
        """A value in a type, cast to it where it is not made so."""
        made = self.work.type(node)
        if same_types(made, type):
            return node.name
        canonical = getattr(type, "canonical", type)
        found = self.versions.get((node, canonical))
        if found is None:
            found = self.versions[node, canonical] = fresh()
            self.equations.append(Equation("reshard", NO_PARAMETERS, (node.name,), (found,), (type,), line))
            self.work.casts.append(
                Cast(node.name, made, type, line, self.depth, node in self.first, carried, node.active, user)
            )
        return found

    def step(self, step: Step) -> None:
        """An equation at its new types."""
        equation = step.equation
        types = tuple(map(self.work.type, step.results))
        parameters = equation.parameters
        cell = chosen(step, self.work.values)
        if step.inner is not None:
            step.inner.wanted = [step.inside(type, number) for number, type in enumerate(types)]
            inner = self.work.room(step.inner, self.depth + 1)
            rows = tuple((key, _with(value, inner)) for key, value in parameters.items_in_order)
            parameters = Parameters(rows)
            given = [
                step.outside(self.work.type(node), index) for index, node in enumerate(step.inner.inputs)
            ]  # fmt: skip
        elif step.branches:
            made: list[Program | Reference] = []
            for room in step.branches:
                room.wanted = list(types)
                made.append(self.work.room(room, self.depth + 1))
            kept = [(key, value) for key, value in parameters.items_in_order if not isinstance(value, Programs)]
            parameters = Parameters((("branches", Programs(tuple(made))), *kept))
            given = [None if node is None else node.type for node in step.operands[:1]]
            given += map(self.work.type, step.branches[0].inputs)
        elif cell is not None:
            given = list(cell.operands)
            parameters = cell.parameters
            if cell.changed and not step.follows and not any(cell.wide):
                self.work.asked.append(Asked(equation, equation.types[0], types[0], self.depth))
        else:
            given = [None if node is None else node.type for node in step.operands]
        carried = range(step.held, step.held + step.carried)
        atoms: list[Atom] = []
        for index, (atom, node, type) in enumerate(zip(equation.inputs, step.operands, given, strict=True)):
            if node is None:
                atoms.append(atom)
            else:
                atoms.append(self.at(node, type, equation.line, index in carried, equation.primitive))
        if cell is not None and any(cell.wide):
            self.work.widened.append(Widened(equation, cell.wide, self.depth))
        before, atoms = widened(atoms, cell.wide if cell is not None else (), equation.line)
        self.equations += before
        self.equations.append(
            Equation(
                equation.primitive,
                parameters,
                tuple(atoms),
                equation.binders,
                types,
                equation.line,
                equation.comment,
                equation.cell,
            )
        )


def _with(value: Value, inner: Program) -> Value:
    return inner if isinstance(value, (Program, Reference)) else value
