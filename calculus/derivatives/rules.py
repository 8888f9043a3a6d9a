"""What a form says to be differentiated, and what several forms share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from calculus.bodies import program_of
from calculus.building import Builder
from calculus.forms import context
from calculus.linearization import Linearized, Linearizer, Pushed, Tangent, linearize
from calculus.linearization import Rule as Linearize
from calculus.programs import Atom, Equation, Literal, Program, Variable, bodies, body
from calculus.refusals import refuse
from calculus.transposition import Rule as Transpose
from calculus.transposition import Transposer
from calculus.types import ArrayType, Type, array_type


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


def matched(
    equation: Equation, linear: Sequence[bool], nonzero: Sequence[bool], results: Sequence[Atom]
) -> Iterator[tuple[Atom, Atom]]:
    """The linear operands to which something comes, with what it is."""
    wanted = (atom for atom, one in zip(equation.inputs, linear, strict=True) if one)
    yield from zip((atom for atom, came in zip(wanted, nonzero, strict=True) if came), results, strict=True)


def types_in(program: Program) -> dict[Variable, Type]:
    """The type of every name in a body whose types are all known."""
    found = dict(zip(program.inputs, program.input_types, strict=True))
    found.update(types_bound(program.equations))
    return found  # type: ignore[return-value]


def types_bound(equations: Sequence[Equation]) -> dict[Variable, Type]:
    """The type of every name that equations bind, all of them known."""
    found: dict[Variable, Type | None] = {}
    for equation in equations:
        if len(equation.binders) == 1:
            found[equation.binders[0]] = equation.types[0]
        else:
            found.update(zip(equation.binders, equation.types, strict=True))
    return found  # type: ignore[return-value]


def results_of(program: Program) -> tuple[Type, ...]:
    """The types of a body's results, all of them known."""
    if not program.outputs:
        return ()
    types = types_in(program)
    return tuple(
        (atom.type or array_type("f32")) if isinstance(atom, Literal) else types[atom] for atom in program.outputs
    )


def settled(
    walk: Linearizer, body: Program, nonzero: Sequence[bool], held: int, count: int
) -> tuple[Linearized, list[bool]]:
    """The body of a loop linearized, and which of its inputs have a tangent: a carry does if it comes to have one. Its
    inputs are `held` constants, `count` carries, and more."""
    grown = [*nonzero]
    while True:
        found = linearize(walk.bench, walk.scope, body, grown)
        before = [*grown]
        for position in range(count):
            grown[held + position] |= found.nonzero[position]
        if grown == before:
            return found, grown


def instantiated(walk: Linearizer, found: Linearized, carries: Sequence[bool]) -> Program:
    """The linear body of a loop, with zeros for the carries that have a tangent going in and none coming out."""
    outputs = iter(found.linear.outputs)
    builder = Builder(walk.bench, walk.scope)
    wanted: list[Atom] = []
    types = results_of(found.forward)
    for position, flows in enumerate(found.nonzero):
        if flows:
            wanted.append(next(outputs))
        elif position < len(carries) and carries[position]:
            type = types[position]
            assert isinstance(type, ArrayType)
            wanted.append(builder.full(0, type))
    linear = found.linear
    return Program((), (), linear.inputs, linear.input_types, (*linear.equations, *builder.equations), tuple(wanted))


def with_tangents(
    walk: Linearizer, body: Program, found: Linearized, nonzero: Sequence[bool], carries: Sequence[bool]
) -> Program:
    """The body of a loop from its inputs, and the tangents of those that have one, to its results, and the tangents of
    those that have one: each value is computed as it is needed, and none is kept."""
    builder = Builder(walk.bench, walk.scope)
    inputs = [builder.input(type) for type in found.forward.input_types if type is not None]
    flowing = [builder.input(builder.type_of(one)) for one, flows in zip(inputs, nonzero, strict=True) if flows]
    made = builder.inline(found.forward, inputs)
    count = len(body.outputs)
    pushed = builder.inline(instantiated(walk, found, carries), [*made[count:], *flowing])
    return builder.program([*inputs, *flowing], [*made[:count], *pushed])


MOST_INLINED: Final = 100_000
"""The most equations that calls inside a body are inlined to: a text of n lines may stand for 2^n."""


def flat(walk: Linearizer, program: Program) -> Program:
    """A body with the calls in it inlined, so that each equation is seen by itself."""
    builder = Builder(walk.bench, walk.scope)
    inputs = [builder.input(type) for type in program.input_types if type is not None]
    results = _inlined(builder, program, inputs)
    return Program((), (), tuple(inputs), program.input_types, tuple(builder.equations), tuple(results))


_CALLS: Final = ("jit", "pjit", "closed_call", "core_call")
_PLAIN: Final = {"name", "inline", "keep_unused", "donated_invars", "ctx_mesh", "jaxpr", "call_jaxpr"}


def _inlined(builder: Builder, program: Program, inputs: Sequence[Atom]) -> list[Atom]:
    names: dict[Atom, Atom] = dict(zip(program.inputs, inputs, strict=True))
    for equation in program.equations:
        builder.line = equation.line
        operands = [names[atom] if isinstance(atom, str) else atom for atom in equation.inputs]
        inner = [body for _, body in bodies(equation.parameters)]
        plain = equation.primitive in _CALLS and equation.parameters.keys() <= _PLAIN
        plain = plain and context(equation, builder.scope) == builder.mesh
        if plain and len(inner) == 1 and not inner[0].constants:
            found: Sequence[Atom] = _inlined(builder, inner[0], operands)
        else:
            found = builder.emit(equation.primitive, operands, equation.parameters, equation.types)
        names.update(zip(equation.binders, found, strict=True))
        if len(builder.items) > MOST_INLINED:
            raise refuse(
                "unmodelled-construct",
                f"a body of more than {MOST_INLINED} equations, calls inlined",
                because="a policy or a rule is asked about each of them",
                help="rematerialise smaller bodies, or leave the policy out",
            )
    return [names[atom] if isinstance(atom, str) else atom for atom in program.outputs]
