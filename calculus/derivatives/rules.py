"""What a form says to be differentiated, and what several forms share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from calculus.bodies import program_of
from calculus.linearization import Linearized, Linearizer, Pushed, Tangent
from calculus.linearization import Rule as Linearize
from calculus.programs import Atom, Equation, Literal, Program, Variable, body
from calculus.refusals import refuse
from calculus.transposition import Rule as Transpose
from calculus.transposition import Transposer
from calculus.types import Type, array_type


class Form(NamedTuple):
    """linearize: the results of an equation and their tangents. transpose: of an equation that is linear in some of its
    operands, what comes to those."""

    linearize: Linearize
    transpose: Transpose


def linear(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """A form that takes each operand to the result beside it, linearly: a tangent goes the way of its primal."""
    results = walk.known.emit(equation.primitive, primals, equation.parameters, equation.types)
    found: list[Tangent] = []
    for tangent, result in zip(tangents, results, strict=True):
        if tangent is None:
            found.append(None)
        else:
            type = walk.known.type_of(result)
            found.append(walk.linear.one(equation.primitive, (tangent,), equation.parameters, type))
    return results, found


def closed(equation: Equation, *names: str) -> tuple[Program, str]:
    """The body of an equation, every input of which is one of its operands, and the parameter that holds it."""
    program = program_of(equation, *names)
    key = next(name for name in names if body(equation.parameters.get(name)) is not None)
    if program.constants:
        raise refuse(
            "unmodelled-construct",
            f"the derivative of {equation.primitive} whose body carries constants along",
            because="constants are inputs that the equation does not show",
            help="pass them as operands",
        )
    return program, key


def placed(found: Linearized) -> dict[Variable, int | None]:
    """Where the residuals of a body are seen from outside: operand i as i, result i as -1 - i, else `None`: they are to
    leave the body as further results."""
    count = len(found.forward.outputs) - len(found.residuals)
    inputs = {name: position for position, name in enumerate(found.forward.inputs)}
    outputs = {atom: -1 - position for position, atom in enumerate(found.forward.outputs[:count])}
    return {residual: inputs.get(residual, outputs.get(residual)) for residual in found.residuals}


def linear_operands(walk: Transposer, equation: Equation) -> list[bool]:
    """Which operands of an equation are linear."""
    return [isinstance(atom, str) and atom in walk.linear for atom in equation.inputs]


def types_in(program: Program) -> dict[Variable, Type]:
    """The type of every name in a body whose types are all known."""
    found = dict(zip(program.inputs, program.input_types, strict=True))
    for equation in program.equations:
        found.update(zip(equation.binders, equation.types, strict=True))
    return {name: type for name, type in found.items() if type is not None}


def results_of(program: Program) -> tuple[Type, ...]:
    """The types of a body's results, all of them known."""
    types = types_in(program)
    return tuple(
        (atom.type or array_type("f32")) if isinstance(atom, Literal) else types[atom] for atom in program.outputs
    )
