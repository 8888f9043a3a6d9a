"""Whose communication it is: the way from a collective back to a program's input, or on to its outputs.

A collective that moves an operand as it is (a gather, a reshard) belongs to the input that the operand is, followed
back through equations that only cast, move or slice it, and through calls and loops. Any other belongs to the outputs
that its equation's result becomes, followed on through equations that keep its elements one to one. What mixes with
other values on the way belongs to nobody, and is known by its line alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from calculus.checking import Checked
from calculus.effects import Charge, Inner
from calculus.programs import Equation, Program, bodies
from calculus.types import ArrayType, Type

#: one operand in, the same elements (or some of them) out
_BACK: Final = frozenset(
    ["reshard", "convert_element_type", "transpose", "reshape", "squeeze", "expand_dims", "slice", "dynamic_slice",
     "copy", "stop_gradient", "pvary", "preduced", "reduced_vary_cast", "reduced_vary_cast_p", "vary_unreduced_cast",
     "vary_unreduced_cast_p", "sharding_constraint", "device_put", "broadcast_in_dim", "optimization_barrier", "name",
     "all_gather", "all_gather_reduced", "all_gather_invariant"]
)  # fmt: skip
_FAR: Final = 10_000
"""How many equations are followed, at the most."""
_DEEP: Final = 16
"""How many calls inside each other are followed."""


def origin(charge: Charge) -> int | None:
    """The input of the whole program (constants first) that the collective moves; `None` where it moves none."""
    subject = charge.collective.subject
    if subject < 0:
        return None
    name: object = charge.equation.inputs[subject]
    for depth in range(len(charge.sites) - 1, -1, -1):
        checked, _ = charge.sites[depth]
        position = _back(checked.program, name)
        if position is None or depth == 0:
            return position
        outer, at = charge.sites[depth - 1]
        name = _given(outer, at, checked, position)
    return None


def destinations(charge: Charge) -> frozenset[int]:
    """The outputs of the whole program that the collective's result becomes, element by element."""
    names = set(charge.equation.binders)
    for depth in range(len(charge.sites) - 1, -1, -1):
        checked, at = charge.sites[depth]
        found = _forward(checked.program, at + 1, names)
        if depth == 0 or not found:
            return frozenset(found)
        outer, above = charge.sites[depth - 1]
        binders = outer.program.equations[above].binders
        names = {binders[index] for index in found if index < len(binders)}
    return frozenset()


def way_to(checked: Checked, program: Program) -> list[tuple[Checked, int]] | None:
    """The way from the whole program to a body: each body on it with the place of the equation that holds the next.
    Empty for the whole program itself, `None` where the body was not reached."""
    ways: list[tuple[Checked, list[tuple[Checked, int]]]] = [(checked, [])]
    seen = {id(checked)}
    for body, way in ways:  # grows while it is read: breadth first
        if body.program is program:
            return way
        for effect in body.effects:
            for inner in effect.inner:
                if id(inner.body) not in seen:
                    seen.add(id(inner.body))
                    ways.append((inner.body, [*way, (body, effect.at)]))
    return None


def input_of(checked: Checked, program: Program, name: object) -> int | None:
    """The input of the whole program (constants first) that a value in one of its bodies is, cast or moved."""
    way = way_to(checked, program)
    if way is None:
        return None
    inside = program
    for outer, at in reversed(way):
        position = _back(inside, name)
        held = next((inner.body for inner in _inners(outer, at) if inner.body.program is inside), None)
        if position is None or held is None:
            return None
        name, inside = _given(outer, at, held, position), outer.program
    return _back(inside, name)


def _back(program: Program, name: object) -> int | None:
    """The position of the input that a name is, cast or moved."""
    made = {binder: equation for equation in program.equations for binder in equation.binders}
    inputs = (*program.constants, *program.inputs)
    for _ in range(_FAR):
        if not isinstance(name, str):
            return None
        if name not in made:
            return inputs.index(name) if name in inputs else None
        equation = made[name]
        if equation.primitive not in _BACK:
            return None
        name = equation.inputs[equation.binders.index(name) if len(equation.binders) > 1 else 0]
    return None


def _given(outer: Checked, at: int, inside: Checked, position: int) -> object:
    """The operand that a body's input is."""
    equation = outer.program.equations[at]
    for inner in _inners(outer, at):
        if inner.body is inside:
            index = inner.operand(position, len(equation.inputs))
            if inner.label.startswith("while"):
                return None  # conditions and bodies share carries, and constants come first of both
            return equation.inputs[index] if inner.offset <= index < len(equation.inputs) else None
    return None


def _inners(checked: Checked, at: int) -> Iterator[Inner]:
    for effect in checked.effects:
        if effect.at == at:
            yield from effect.inner


def _forward(program: Program, first: int, names: set[str], depth: int = 0) -> set[int]:
    """The outputs that values become, from an equation on: through those whose results have their elements."""
    reached = set(names)
    types: dict[str, Type | None] = dict(zip(program.inputs, program.input_types, strict=True))
    for equation in program.equations[:first]:
        types.update(zip(equation.binders, equation.types, strict=True))
    for equation in program.equations[first : first + _FAR]:
        types.update(zip(equation.binders, equation.types, strict=True))
        carried = [index for index, atom in enumerate(equation.inputs) if isinstance(atom, str) and atom in reached]
        if carried:
            inside = [inner for _, inner in bodies(equation.parameters)]
            if len(inside) == 1:
                reached |= _through(equation, inside[0], carried, depth)
            elif not inside and equation.primitive != "dot_general":
                operands = [types.get(str(equation.inputs[index])) for index in carried]
                reached |= {
                    binder
                    for binder, type in zip(equation.binders, equation.types, strict=True)
                    if any(_one_to_one(before, type) for before in operands)
                }
    return {index for index, atom in enumerate(program.outputs) if isinstance(atom, str) and atom in reached}


def _through(equation: Equation, inside: Program, carried: list[int], depth: int) -> set[str]:
    """The results of a call or loop that its operands become."""
    if len(inside.inputs) != len(equation.inputs) or depth > _DEEP:
        return set()
    found = _forward(inside, 0, {inside.inputs[index] for index in carried}, depth + 1)
    return {equation.binders[index] for index in found if index < len(equation.binders)}


def _one_to_one(before: Type | None, after: Type | None) -> bool:
    if not isinstance(before, ArrayType) or not isinstance(after, ArrayType):
        return False
    sizes = [sorted(str(size) for size in type.shape if size != 1) for type in (before, after)]
    return sizes[0] == sizes[1]
