"""How a body uses what is pending: whether it says what it is, or finishes it, before it computes with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from calculus.programs import Equation, Program, bodies
from calculus.types import ArrayType

_SAYING: Final = ("reshard", "scan", "shard_map")
"""What writes down of what it takes that it is pending."""


def computes(program: Program, name: str) -> bool:
    """Whether a body, or one that it calls, computes with a value of this name. What only moves it, or gives it back,
    does not."""
    return any(
        not any(True for _ in bodies(equation.parameters)) or any(computes(*inner) for inner in _within(equation, name))
        for equation in program.equations
        if name in equation.inputs and equation.primitive not in _SAYING
    )


def _within(equation: Equation, name: str) -> Iterator[tuple[Program, str]]:
    """The bodies of an equation, with what they call the operands of this name. Operands that a body does not take
    stand before those that it takes: the condition of a choice, what another body of a while loop reads."""
    for parameter, inner in bodies(equation.parameters):
        inputs = equation.inputs
        if parameter == "cond_jaxpr":
            before, held = (equation.parameters[one] for one in ("cond_nconsts", "body_nconsts"))
            assert isinstance(before, int)
            assert isinstance(held, int)
            inputs = (*inputs[:before], *inputs[before + held :])
        if len(inner.inputs) <= len(inputs):
            given = inputs[len(inputs) - len(inner.inputs) :]
            yield from ((inner, here) for here, atom in zip(inner.inputs, given, strict=True) if atom == name)


def finished_alone(program: Program, name: str) -> bool:
    """Whether all that uses a value is reshards after which nothing of it is pending, one at least."""
    uses = [equation for equation in program.equations if name in equation.inputs]
    return bool(uses) and name not in program.outputs and all(map(_finishes, uses))


def made_from_whole(program: Program, equation: Equation) -> bool:
    """Whether the operand of a reshard is made for it alone, by a reshard of what is not reduced: what finishes the sum
    of its cotangent."""
    name = equation.inputs[0]
    types = dict(
        zip((*program.constants, *program.inputs), (*program.constant_types, *program.input_types), strict=True)
    )
    made: Equation | None = None
    for one in program.equations:
        types.update(zip(one.binders, one.types, strict=True))
        if name in one.binders:
            made = one
    if made is None or made.primitive != "reshard" or not isinstance(made.inputs[0], str):
        return False
    source = types.get(made.inputs[0])
    alone = sum(name in one.inputs for one in program.equations) == 1 and name not in program.outputs
    return alone and isinstance(source, ArrayType) and not source.reduced


def _finishes(equation: Equation) -> bool:
    (type,) = equation.types if len(equation.types) == 1 else (None,)
    return equation.primitive == "reshard" and isinstance(type, ArrayType) and not type.unreduced
