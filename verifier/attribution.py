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
from calculus.programs import Equation, Literal, Program
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
        found = _forward(checked.program, at, names)
        if depth == 0 or not found:
            return frozenset(found)
        outer, above = charge.sites[depth - 1]
        binders = outer.program.equations[above].binders
        names = {binders[index] for index in found if index < len(binders)}
    return frozenset()


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


def _forward(program: Program, at: int, names: set[str]) -> set[int]:
    """The outputs that values become: through equations whose results have as many elements as they have."""
    reached = set(names)
    types: dict[str, Type | None] = dict(zip(program.inputs, program.input_types, strict=True))
    for equation in program.equations[: at + 1]:
        types.update(zip(equation.binders, equation.types, strict=True))
    for equation in program.equations[at + 1 : at + 1 + _FAR]:
        types.update(zip(equation.binders, equation.types, strict=True))
        carried = [name for name in equation.inputs if not isinstance(name, Literal) and name in reached]
        for name in carried:
            for binder, type in zip(equation.binders, equation.types, strict=True):
                if _one_to_one(types.get(name), type, equation):
                    reached.add(binder)
    return {index for index, atom in enumerate(program.outputs) if isinstance(atom, str) and atom in reached}


def _one_to_one(before: Type | None, after: Type | None, equation: Equation) -> bool:
    if equation.primitive == "dot_general" or not isinstance(before, ArrayType) or not isinstance(after, ArrayType):
        return False
    return before.rank > 0 and sorted(map(str, before.shape)) == sorted(map(str, after.shape))
