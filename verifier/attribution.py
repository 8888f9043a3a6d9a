"""Whose communication it is: the way from a collective back to a program's input, or on to its outputs.

A collective that moves an operand as it is (a gather, a reshard) belongs to the input that the operand is, followed
back through equations that only cast, move or slice it, and through calls and loops. Any other belongs to the outputs
that its equation's result becomes, followed on through equations that keep its elements one to one. What mixes with
other values on the way belongs to nobody, and is known by its line alone.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

from calculus.checking import Checked
from calculus.copied import Copied, Item, items_of, reads, size_of, typed_names
from calculus.effects import Charge, Inner
from calculus.programs import Equation, Literal, Program, bodies
from calculus.types import ArrayType, Type

#: one operand in, the same elements (or some of them) out
_BACK: Final = frozenset(
    ["reshard", "convert_element_type", "transpose", "reshape", "squeeze", "expand_dims", "slice", "dynamic_slice",
     "copy", "stop_gradient", "pvary", "preduced", "reduced_vary_cast", "reduced_vary_cast_p", "vary_unreduced_cast",
     "vary_unreduced_cast_p", "sharding_constraint", "device_put", "broadcast_in_dim", "optimization_barrier", "name",
     "all_gather", "all_gather_reduced", "all_gather_invariant"]
)  # fmt: skip
_FAR: Final = 256
"""How many equations are followed on from one collective, at the most: more belong to nobody."""
_DEEP: Final = 16
"""How many calls inside each other are followed."""


class Origin(NamedTuple):
    """Where a value comes from. input: its position among the whole program's inputs (constants first), `None` where it
    is none of them. moved: whether it was cast, moved or sliced on the way. maker: the equation that made it, of a
    value that is no input. literal: the number that it is."""

    input: int | None
    moved: bool = False
    maker: Equation | None = None
    literal: Literal | None = None


class Attribution:
    """The values of one checked program, each body looked through once."""

    def __init__(self, checked: Checked | None, program: Program) -> None:
        self._checked = checked
        self._program = program
        self._bodies: dict[int, _Body] = {}

    def origin(self, charge: Charge) -> int | None:
        """The input of the whole program that the collective moves; `None` where it moves none."""
        subject = charge.collective.subject
        if subject < 0:
            return None
        name: object = charge.equation.inputs[subject]
        for depth in range(len(charge.sites) - 1, -1, -1):
            checked, _ = charge.sites[depth]
            position = self._body(checked.program).back(name).input
            if position is None or depth == 0:
                return position
            outer, at = charge.sites[depth - 1]
            inner = next((one for one in _inners(outer, at) if one.body is checked), None)
            name = _given(outer.program.equations[at], checked.program, inner, position)
        return None

    def destinations(self, charge: Charge) -> frozenset[int]:
        """The outputs of the whole program that the collective's result becomes, element by element."""
        names: Iterable[str] = charge.equation.binders
        for depth in range(len(charge.sites) - 1, -1, -1):
            checked, _ = charge.sites[depth]
            found = self._on(checked.program, names, charge.sites[depth][1])
            if depth == 0 or not found:
                return frozenset(found)
            outer, above = charge.sites[depth - 1]
            binders = outer.program.equations[above].binders
            names = [binders[index] for index in found if index < len(binders)]
        return frozenset()

    def of_operand(self, equation: Equation, index: int) -> Origin:
        """Where an operand of an equation, in any body, comes from."""
        programs, holders = self._places
        program = programs.get(id(equation))
        name: object = equation.inputs[index]
        moved = False
        while program is not None:
            found = self._body(program).back(name)
            moved |= found.moved
            if found.input is None or program is self._program:
                return found._replace(moved=moved)
            outer, call, inner = holders[id(program)]
            name = _given(call, program, inner, found.input)
            if inner is not None and inner.carry is not None:  # a carry is it in the first iteration, a slice never
                moved |= inner.operand(found.input, len(call.inputs)) >= inner.carry[0]
            program = outer
        return Origin(None, moved)

    def types_of(self, equation: Equation) -> tuple[Type | None, ...]:
        """The types of an equation's operands, in any body; `None` where one is not known."""
        program = self._places[0].get(id(equation))
        known = {} if program is None else self._body(program).types
        return tuple([atom.type if isinstance(atom, Literal) else known.get(atom) for atom in equation.inputs])

    def types_at(self, charge: Charge) -> tuple[Type | None, ...]:
        """The types of the operands of the equation that communicates."""
        known = self._body(charge.sites[-1][0].program).types
        return tuple([atom.type if isinstance(atom, Literal) else known.get(atom) for atom in charge.equation.inputs])

    @functools.cached_property
    def _places(self) -> tuple[dict[int, Program], dict[int, tuple[Program, Equation, Inner | None]]]:
        """The body that holds each equation, and the equation that holds each body, by identity."""
        inners: dict[tuple[int, int], Inner] = {}
        waiting = [] if self._checked is None else [self._checked]
        seen: set[int] = set()
        for body in waiting:  # grows while it is read
            for effect in body.effects:
                for inner in effect.inner:
                    inners.setdefault((id(body.program.equations[effect.at]), id(inner.body.program.equations)), inner)
                    if id(inner.body) not in seen:
                        seen.add(id(inner.body))
                        waiting.append(inner.body)
        within: dict[int, Program] = {}
        holders: dict[int, tuple[Program, Equation, Inner | None]] = {}
        programs = [self._program]
        for one in programs:  # grows while it is read
            for equation in one.equations:
                within.setdefault(id(equation), one)
                for _, held in bodies(equation.parameters) if equation.parameters.holding else ():
                    if held is not self._program and id(held) not in holders:
                        holders[id(held)] = one, equation, inners.get((id(equation), id(held.equations)))
                        programs.append(held)
        return within, holders

    def _body(self, program: Program) -> _Body:
        found = self._bodies.get(id(program))
        if found is None:
            found = self._bodies[id(program)] = _Body(program)
        return found

    def _on(self, program: Program, names: Iterable[str], start: int = 0, depth: int = 0) -> set[int]:
        """The outputs that values become: through equations whose results have their elements. start: a place that all
        who use them stand after."""
        body = self._body(program)
        users = body.users(start)
        waiting = [name for name in names if name != "_"]
        reached = set(waiting)
        carried: dict[int, set[int]] = {}
        for name in waiting:  # grows while it is read
            for at, index in users.get(name, ()):
                carried.setdefault(at, set()).add(index)
                if len(carried) > _FAR:
                    return set()
                for binder in self._becomes(program, at, carried[at], index, depth):
                    if binder not in reached:
                        reached.add(binder)
                        waiting.append(binder)
        return {index for index, atom in enumerate(program.outputs) if isinstance(atom, str) and atom in reached}

    def _becomes(self, program: Program, at: int, carried: set[int], index: int, depth: int) -> Iterable[str]:
        """The results of an equation that its operand at an index becomes (of a call, all operands so far)."""
        equation = program.equation(at)
        inside = [inner for _, inner in bodies(equation.parameters)] if equation.parameters else []
        if inside:
            if len(inside) > 1 or depth > _DEEP or len(inside[0].inputs) != len(equation.inputs):
                return ()
            found = self._on(inside[0], [inside[0].inputs[one] for one in carried], depth=depth + 1)
            return [equation.binders[result] for result in found if result < len(equation.binders)]
        if equation.primitive == "dot_general":
            return ()
        before = self._body(program).types.get(str(equation.inputs[index]))
        after = zip(equation.binders, equation.types, strict=True)
        return [binder for binder, type in after if binder != "_" and _one_to_one(before, type)]


class _Body:
    """One body's values: who makes each, and who uses it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._made: dict[str, Item] = {}
        for item in items_of(program):
            if isinstance(item, Copied):
                self._made.update(dict.fromkeys(item.names, item))
            else:
                for binder in item.binders:
                    self._made[binder] = item
        self.positions = {name: index for index, name in enumerate((*program.constants, *program.inputs))}
        self._users: dict[str, list[tuple[int, int]]] = {}
        self._seen = size_of(program)

    def maker(self, name: str) -> Equation | None:
        """The equation that makes a value; `None` where none does."""
        found = self._made.get(name)
        return found.maker(name) if isinstance(found, Copied) else found

    def users(self, start: int) -> dict[str, list[tuple[int, int]]]:
        """The places of the equations from a place on that read each name (and of some before), and which operand it is
        there."""
        found = self._users
        for at, inputs in reads(self.program, start, self._seen):
            for index, atom in enumerate(inputs):
                if isinstance(atom, str):
                    found.setdefault(atom, []).append((at, index))
        self._seen = min(self._seen, start)
        return found

    @functools.cached_property
    def types(self) -> dict[str, Type | None]:
        """The printed type of each name."""
        return typed_names(self.program)

    def back(self, name: object) -> Origin:
        """Where a name comes from in this body: cast or moved from one of its inputs, else made."""
        moved = False
        seen: set[str] = set()
        while isinstance(name, str) and name not in seen:
            seen.add(name)
            equation = self.maker(name)
            if equation is None:
                return Origin(self.positions.get(name), moved)
            if equation.primitive not in _BACK or not equation.inputs:
                return Origin(None, moved, equation)
            moved = True
            name = equation.inputs[equation.binders.index(name) if len(equation.binders) > 1 else 0]
        return Origin(None, moved, literal=name if isinstance(name, Literal) else None)


def _given(call: Equation, program: Program, inner: Inner | None, position: int) -> object:
    """The operand of a call that its body's input at a position is; `None` where that is not told."""
    if inner is None:  # the call was refused
        alike = len(program.inputs) == len(call.inputs) and call.primitive != "while"
        index, first = position - len(program.constants), 0
        if not alike:
            return None
    elif inner.label.startswith("while"):
        return None  # conditions and bodies share carries, and constants come first of both
    else:
        index, first = inner.operand(position, len(call.inputs)), inner.offset
    return call.inputs[index] if first <= index < len(call.inputs) else None


def _inners(checked: Checked, at: int) -> Iterable[Inner]:
    """The bodies inside the equation at a place; effects are in the order of the equations."""
    found = bisect_left(checked.effects, at, key=lambda effect: effect.at)
    here = found < len(checked.effects) and checked.effects[found].at == at
    return checked.effects[found].inner if here else ()


def _one_to_one(before: Type | None, after: Type | None) -> bool:
    if not isinstance(before, ArrayType) or not isinstance(after, ArrayType):
        return False
    sizes = [sorted(str(size) for size in type.shape if size != 1) for type in (before, after)]
    return sizes[0] == sizes[1]
