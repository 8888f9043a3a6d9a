"""What the types of a program's values have to do with one another, along one axis, as a model for the solver.

A *node* is a value at one place: a body that is called from two places has two of it. It is made in one of the types
that it may have; where it is used, it may be cast to another, which is made once for all uses. A *step* is an equation:
one of its cells is chosen, its operands must be there in the cell's types, and its results are made in them. The value
that goes into a body is one that was cast to the type which it has in there, outside; what a loop carries keeps its
type. Everything is priced as often as it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from calculus.linearization import differentiable
from calculus.loops import scan_parts, slice_type, stacked
from calculus.primitives import TABLE
from calculus.programs import Atom, Equation, Literal, Program, Value
from calculus.types import ArrayType, Type
from calculus.uses import Operand
from verifier.advising.cells import Cell, Cells, Kinds, same_types
from verifier.advising.choices import closed, moving, state
from verifier.advising.solving import Model
from verifier.advising.tangents import REMADE, Flow, alive, body_of, branches_of

MOST_STEPS: Final = 30_000
"""The most equations, counted at every place that they are called from."""

INSIDE: Final = 10.0
"""How much more a cast weighs, where prices tie, for each body that it stands in."""

MISSING: Final = object()


class TooLarge(Exception):
    """A program with too many places to think about."""


@dataclass(slots=True, eq=False)
class Node:
    """A value at one place. made: for each type that it may have, the variable that says whether it is made so.
    there: for each, the variable that says whether it is there so. casts: the variables of casts, by both types.
    times: how often it is made. active: whether a cotangent comes back to it. depth: how many bodies it stands in.
    free: whether it may be cast where little is written."""

    name: str
    type: Type | None
    made: dict[Type | None, int]
    times: int
    active: bool
    depth: int = 0
    free: bool = False
    there: dict[Type | None, int] = field(default_factory=dict)
    casts: dict[tuple[Type | None, Type | None], int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Step:
    """An equation at one place. operands, results: their nodes, a literal's `None`. cells: with the variable of each.
    inner: the body that it calls. branches: those of which it runs one, on all operands but the first. Of a loop, of
    length `length`, `held` operands are constants, and it carries the `carried` next ones. follows: whether the
    result's type is not for its author to say: it follows from another."""

    equation: Equation
    operands: list[Node | None]
    results: list[Node]
    cells: list[tuple[Cell, int]] = field(default_factory=list)
    inner: Room | None = None
    branches: list[Room] = field(default_factory=list)
    follows: bool = False
    held: int = 0
    carried: int = 0
    length: Value = None

    def outside(self, type: Type | None, index: int) -> Type | None:
        """The type of an operand that is of this type inside."""
        return stacked(type, self.length) if self._taken(index) else type

    def inside(self, type: Type | None, number: int) -> Type | None:
        """The type inside of a result that is of this type."""
        return slice_type(type) if self.length is not None and number >= self.carried else type

    def _taken(self, index: int) -> bool:
        return self.length is not None and index >= self.held + self.carried


@dataclass(slots=True, eq=False)
class Room:
    """A body at one place. wanted: the types that its results are to have, once that is known."""

    program: Program
    inputs: list[Node]
    steps: list[Step]
    outputs: list[Node | None]
    wanted: list[Type | None] = field(default_factory=list)


class Network:
    """The model of one program. program: well typed, with all types printed. wrt: the inputs (constants aside) that are
    differentiated; none where the program is priced as it stands. plain: whether nothing is written anew inside of it:
    casts are of inputs, of what loops begin with and of results alone, and all else has the types that follow. cut:
    whether inputs, and what meets a value that is cut along the axis, may be cut there too."""

    def __init__(
        self, program: Program, cells: Cells, wrt: Sequence[int] = (), cut: bool = False, plain: bool = False
    ) -> None:  # fmt: skip
        self.plain = plain
        self.cells = cells
        self.cut = cut
        self.model = Model()
        self.steps = 0
        self._depth = 0
        self._beside: dict[int, frozenset[str]] = {}
        self._sets: dict[object, list[frozenset[Type | None]]] = {}
        self.flow = Flow()
        names = (*program.constants, *program.inputs)
        types = (*program.constant_types, *program.input_types)
        flowing = [index - len(program.constants) in wrt for index in range(len(names))]
        self._results = {atom for atom in program.outputs if isinstance(atom, str)}
        inputs = [
            self.node(name, type, 1, flows and differentiable(type), cut=cut)  # type: ignore[arg-type]
            for name, type, flows in zip(names, types, flowing, strict=True)
        ]
        for node in inputs:
            node.free = True
        self.root = self.room(program, inputs, 1, 1)
        for node in inputs:
            self.model.row({node.made[node.type]: 1.0}, 1.0, 1.0)
        for output in self.root.outputs:
            if output is not None:
                self.model.row({self.there(output, output.type): 1.0}, 1.0, 1.0)

    # --- values -------------------------------------------------------------------------------------------------------

    def node(
        self, name: str, type: Type | None, times: int, active: bool, kinds: Kinds = (), cut: bool = False
    ) -> Node:  # fmt: skip
        """A new value, made in one type."""
        made = {one: self.model.variable() for one in kinds or self.cells.choices(type, cut)}
        self.model.row(dict.fromkeys(made.values(), 1.0), 1.0, 1.0)
        return Node(name, type, made, times, active, self._depth)

    def there(self, node: Node, type: Type | None) -> int:
        """The variable that says whether a value is there in a type. It is, where it is made so, or cast."""
        found = node.there.get(type)
        if found is not None:
            return found
        found = node.there[type] = self.model.variable(integral=False)
        ways: dict[int, float] = {found: -1.0}
        for source, made in node.made.items():
            if source is type:
                ways[made] = 1.0
                continue
            price = self._cast(node, source, type)
            if price is None:
                continue
            weight = 1.0 + INSIDE * node.depth
            cast = node.casts[source, type] = self.model.variable(price * node.times, weight, integral=False)
            self.model.row({cast: 1.0, made: -1.0}, -1.0, 0.0)
            ways[cast] = 1.0
        self.model.row(ways, 0.0, float(len(ways)))
        return found

    def needs(self, node: Node, uses: Iterable[tuple[Type | None, Sequence[int]]]) -> None:
        """One use of a value: by type, the variables of which one is 1 where it is used in that type, and at most one
        in all. It is there in the type; where it cannot be, they are 0.

        It is there in one of several types, too, where it is made in one of them, or was cast into one that is used,
        from one that is none of them. That follows of whole numbers, not of halves: half of it made replicated and half
        reduced, which are cast to each other for nothing, would be half there and half there, and the other halves
        unreduced. So it is a row for each set of types that nothing outside of is cast into for nothing."""
        known: dict[Type | None, list[int]] = {}
        for type, some in uses:
            own = next((own for own in node.made if same_types(own, type)), MISSING)
            if own is MISSING:
                self.model.row(dict.fromkeys(some, 1.0), 0.0, 0.0)
            else:
                known.setdefault(own, []).extend(some)  # type: ignore[arg-type]
        for one, some in known.items():
            self.model.row({**dict.fromkeys(some, 1.0), self.there(node, one): -1.0}, -1.0, 0.0)
        for several in self._closed(node) if len(known) > 1 else ():
            within = [one for one in known if one in several]
            if len(within) > 1:
                row = {variable: 1.0 for one in within for variable in known[one]}
                row |= {node.made[one]: -1.0 for one in several}
                row |= {
                    cast: -1.0
                    for (source, target), cast in node.casts.items()
                    if target in within and source not in several
                }
                self.model.row(row, -1.0, 0.0)

    def _closed(self, node: Node) -> list[frozenset[Type | None]]:
        types = tuple(node.made)
        key = (types, node.active, self.plain and not node.free)
        if key not in self._sets:
            self._sets[key] = closed(types, lambda source, target: self._cast(node, source, target) == 0.0)
        return self._sets[key]

    def _cast(self, node: Node, source: Type | None, target: Type | None) -> float | None:
        """What a cast of a value costs, each time; `None` where there is none."""
        if source is target:
            return 0.0
        if ("reshard", source, target) in self.cells.refused or (self.plain and not node.free):
            return None
        return moving(source, target, self.cells.mesh, node.active)

    # --- bodies -------------------------------------------------------------------------------------------------------

    def room(self, program: Program, inputs: Sequence[Node], times: int, again: int) -> Room:
        """A body at one place. again: how often its forward pass runs each time."""
        env: dict[str, Node] = {node.name: node for node in inputs}
        _, flows = self.flow.of(program, tuple(node.active for node in inputs))
        live = alive(program)
        beside = self.beside(program) if self.cut else frozenset()
        room = Room(program, list(inputs), [], [])
        for index, equation in enumerate(program.equations):
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise TooLarge(f"the program has more than {MOST_STEPS:,} equations, counted at every call")
            operands = [None if isinstance(atom, Literal) else env[atom] for atom in equation.inputs]
            step = self.step(equation, operands, flows, times, again, index in live, beside)
            room.steps.append(step)
            env.update(zip(equation.binders, step.results, strict=True))
        room.outputs = [None if isinstance(atom, Literal) else env[atom] for atom in program.outputs]
        return room

    def step(
        self, equation: Equation, operands: list[Node | None], flows: dict[str, bool], times: int, again: int,
        live: bool, beside: AbstractSet[str],
    ) -> Step:  # fmt: skip
        """An equation at one place."""
        inner = body_of(equation)
        if inner is not None:
            return self.called(equation, operands, inner, flows, times, again, beside)
        branches = branches_of(equation)
        if branches:
            return self.branched(equation, operands, branches, flows, times, again, beside)
        known = equation.primitive in TABLE or equation.primitive == "reshard"
        pinned = not known or equation.cell is not None or any(not isinstance(one, ArrayType) for one in equation.types)
        cells: list[Cell] = []
        if not pinned:
            given: list[Operand] = [
                atom if isinstance(atom, Literal) else node.type  # type: ignore[misc, union-attr]
                for atom, node in zip(equation.inputs, operands, strict=True)
            ]
            back = any(flows.get(name) for name in equation.binders)
            active = tuple(back and node is not None and node.active for node in operands)
            kinds = [(None,) if node is None else tuple(node.made) for node in operands]
            wanted = [
                self.cells.choices(type, name in beside)
                for name, type in zip(equation.binders, equation.types, strict=True)
            ]
            cells = self.cells.of(equation, given, kinds, wanted, active)
        pinned = not any(cell.results == equation.types for cell in cells)
        results = [
            self.node(name, type, times, flows.get(name, False), (type,) if pinned else (), name in beside)
            for name, type in zip(equation.binders, equation.types, strict=True)
        ]
        for result in results:  # a result of the whole, or zeros, with which something begins
            result.free = self._depth == 0 and (result.name in self._results or not any(operands))
        step = Step(equation, operands, results)
        if pinned:
            for node in operands:
                if node is not None:
                    self.model.row({self.there(node, node.type): 1.0}, 1.0, 1.0)
            return step
        for cell in cells:
            price = (cell.forward * again + cell.backward) * times if live else 0.0
            one = self.model.variable(price, float(cell.changed))
            step.cells.append((cell, one))
        for index, node in enumerate(operands):
            if node is not None:
                self.needs(node, [(cell.operands[index], [one]) for cell, one in step.cells])
        self.model.row({one: 1.0 for _, one in step.cells}, 1.0, 1.0)
        for number, node in enumerate(results):
            for type, made in node.made.items():
                row = {one: 1.0 for cell, one in step.cells if cell.results[number] is type}
                row[made] = -1.0
                self.model.row(row, 0.0, 0.0)
        return step

    def branched(
        self, equation: Equation, operands: list[Node | None], branches: Sequence[Program], flows: dict[str, bool],
        times: int, again: int, beside: AbstractSet[str],
    ) -> Step:  # fmt: skip
        """An equation that runs one of several bodies: every result is there in its type whichever it is."""
        results = [
            self.node(name, type, times, flows.get(name, False), cut=name in beside)
            for name, type in zip(equation.binders, equation.types, strict=True)
        ]
        step = Step(equation, operands, results)
        for program in branches:
            flags = self.flow.of(program, tuple(node is not None and node.active for node in operands[1:]))[1]
            met = self.beside(program) if self.cut else frozenset()
            self._depth += 1
            inputs = [
                self.node(name, type, times, flags.get(name, False), cut=name in met)
                for name, type in zip(program.inputs, program.input_types, strict=True)
            ]
            room = self.room(program, inputs, times, again)
            self._depth -= 1
            step.branches.append(room)
            for node, inside, alike in zip(operands[1:], inputs, step.branches[0].inputs, strict=True):
                self.handed(inside.made, node, inside.type)
                for type, made in inside.made.items():
                    if alike is not inside:  # all branches are given the same operands
                        twins = {one: -1.0 for own, one in alike.made.items() if same_types(own, type)}
                        self.model.row({made: 1.0, **twins}, 0.0, 0.0)
            for node, output in zip(results, room.outputs, strict=True):
                self.handed(node.made, output, node.type)
        if operands[0] is not None:
            self.model.row({self.there(operands[0], operands[0].type): 1.0}, 1.0, 1.0)
        return step

    def handed(
        self, made: Mapping[Type | None, int], node: Node | None, own: Type | None,
        at: Callable[[Type | None], Type | None] = lambda type: type,
    ) -> None:  # fmt: skip
        """Where a value is made in a type, it is because another one is there in what that is elsewhere; a number is
        in its own."""
        if node is not None:
            self.needs(node, [(at(type), [one]) for type, one in made.items()])
        else:
            for type, one in made.items():
                if type is not own:
                    self.model.row({one: 1.0}, 0.0, 0.0)

    def called(
        self, equation: Equation, operands: list[Node | None], inner: Program, flows: dict[str, bool], times: int,
        again: int, beside: AbstractSet[str],
    ) -> Step:  # fmt: skip
        """An equation that runs a body."""
        held, carried, length, runs = 0, 0, None, 1
        if equation.primitive == "scan":
            held, carried = scan_parts(equation.parameters, len(operands), len(equation.binders))
            length = equation.parameters["length"]
            runs = length if isinstance(length, int) else 1
        if equation.primitive in REMADE:
            again = again + 1
        within = times * runs
        given = self.flow.of(
            inner,
            self.flow.grown(equation, inner, [node is not None and node.active for node in operands], held, carried),
        )[1]
        self._depth += 1
        met = self.beside(inner) if self.cut else frozenset()
        inputs = [
            self.node(name, type, within, given.get(name, False), cut=name in met)
            for name, type in zip(inner.inputs, inner.input_types, strict=True)
        ]
        room = self.room(inner, inputs, within, again)
        self._depth -= 1
        results = [
            self.node(name, type, times, flows.get(name, False), cut=name in beside)
            for name, type in zip(equation.binders, equation.types, strict=True)
        ]
        for result in results:
            result.free = self._depth == 0
        step = Step(equation, operands, results, inner=room, held=held, carried=carried, length=length)
        for index, (node, inside) in enumerate(zip(operands, inputs, strict=True)):
            self.handed(inside.made, node, inside.type, functools.partial(step.outside, index=index))
        for number, (node, output) in enumerate(zip(results, room.outputs, strict=True)):
            kept: dict[Type | None, int] = {}
            for type, made in node.made.items():
                wanted = step.inside(type, number)
                if number >= carried and length is not None and not same_types(stacked(wanted, length), type):
                    self.model.row({made: 1.0}, 0.0, 0.0)  # cut on the dim that the loop makes
                else:
                    kept[type] = made
                if number < carried:
                    alike = [one for own, one in inputs[held + number].made.items() if same_types(own, type)]
                    self.model.row({made: 1.0, **dict.fromkeys(alike, -1.0)}, 0.0, 0.0)
            self.handed(kept, output, node.type, functools.partial(step.inside, number=number))
        return step

    def beside(self, program: Program) -> frozenset[str]:
        """The names of a body that stand in an equation beside one that is cut along the axes."""
        found = self._beside.get(id(program))
        if found is None:
            types: dict[Atom, Type | None] = dict(
                zip((*program.constants, *program.inputs), (*program.constant_types, *program.input_types), strict=True)
            )
            names: set[str] = set()
            for equation in program.equations:
                types.update(zip(equation.binders, equation.types, strict=True))
                there = [atom for atom in (*equation.inputs, *equation.binders) if isinstance(atom, str)]
                if any(self._is_cut(types[atom]) for atom in there):
                    names.update(there)
            found = self._beside[id(program)] = frozenset(names)
        return found

    def _is_cut(self, type: Type | None) -> bool:
        return state(type, self.cells.axes) == "S"


def steps(room: Room) -> Iterator[Step]:
    """Every step of a body, those of the bodies in it too."""
    for step in room.steps:
        yield step
        for inner in (step.inner, *step.branches):
            if inner is not None:
                yield from steps(inner)
