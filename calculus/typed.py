"""Programs whose bodies print no types, with the types that they were checked at.

A body that prints no type for an input has that of the operand it is given. What is derived of a body is derived at
types, so they are written down first.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

from calculus.checking import Checked
from calculus.programs import Equation, Parameters, Program, Programs, Reference, Value


def typed(checked: Checked, done: dict[int, Program] | None = None) -> Program:
    """The program that was checked, each body in it at the types that it was given; itself where all print theirs.
    done: what became of bodies already, by the identity of what was checked: each is visited once, however often it
    is called."""
    done = {} if done is None else done
    found = done.get(id(checked))
    if found is None:
        found = done[id(checked)] = _written(checked, done)
    return found


def _written(checked: Checked, done: dict[int, Program]) -> Program:
    program = checked.program
    inside = {effect.at: [inner.body for inner in effect.inner] for effect in checked.effects if effect.inner}
    equations = tuple(
        [
            _typed(equation, inside[index], done) if index in inside else equation
            for index, equation in enumerate(program.equations)
        ]
    )
    if all(map(is_, equations, program.equations)):
        return program
    return program.of(equations)


def _typed(equation: Equation, bodies: list[Checked], done: dict[int, Program]) -> Equation:
    known = {id(one.program.equations): typed(one, done) for one in bodies}
    rows = tuple([(name, _at(value, known)) for name, value in equation.parameters.items_in_order])
    if all(one is other for (_, one), (_, other) in zip(rows, equation.parameters.items_in_order, strict=True)):
        return equation
    return Equation(
        equation.primitive, Parameters(rows), equation.inputs, equation.binders, equation.types, equation.line,
        equation.comment, equation.cell,
    )  # fmt: skip


def _at(value: Value, known: Mapping[int, Program]) -> Value:
    """A parameter whose bodies have their types: those whose equations these are."""
    if isinstance(value, Programs):
        items = tuple([_body_at(item, known) for item in value.items])
        return value if all(one is other for one, other in zip(items, value.items, strict=True)) else Programs(items)
    return _body_at(value, known) if isinstance(value, (Program, Reference)) else value


def _body_at(value: Program | Reference, known: Mapping[int, Program]) -> Program | Reference:
    program = value.program if isinstance(value, Reference) else value
    if program is None:
        return value
    found = known.get(id(program.equations), program)
    same = found.equations is program.equations and None not in (*program.constant_types, *program.input_types)
    return value if same else found
