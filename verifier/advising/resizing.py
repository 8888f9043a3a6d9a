"""A program on a mesh of other sizes: what it prints of its mesh says so."""

from __future__ import annotations

from collections.abc import Mapping

from calculus.programs import Call, Equation, Pair, Parameters, Program, Programs, Reference, Value


def resized(program: Program, sizes: Mapping[str, int | None]) -> Program:
    """The program with these sizes of mesh axes wherever a parameter prints them, in bodies too. Types name axes, and
    are what they were."""
    equations = tuple(
        Equation(
            one.primitive, _parameters(one.parameters, sizes), one.inputs, one.binders, one.types, one.line,
            one.comment, one.cell,
        )
        for one in program.equations
    )  # fmt: skip
    return Program(
        program.constants, program.constant_types, program.inputs, program.input_types, equations, program.outputs,
        program.effects, program.line,
    )  # fmt: skip


def _parameters(parameters: Parameters, sizes: Mapping[str, int | None]) -> Parameters:
    rows = tuple((name, _value(value, sizes)) for name, value in parameters.items_in_order)
    same = all(one is other for (_, one), (_, other) in zip(rows, parameters.items_in_order, strict=True))
    return parameters if same else Parameters(rows)


def _value(value: Value, sizes: Mapping[str, int | None]) -> Value:
    if isinstance(value, Pair) and isinstance(value.key, str) and value.key in sizes and isinstance(value.value, int):
        return Pair(value.key, sizes[value.key])
    if isinstance(value, Call):
        arguments = tuple(_value(one, sizes) for one in value.arguments)
        keywords = tuple((name, _value(one, sizes)) for name, one in value.keywords)
        made = Call(value.name, arguments, keywords)
        return value if made == value else made
    if isinstance(value, Program):
        return resized(value, sizes)
    if isinstance(value, Reference) and value.program is not None:
        return resized(value.program, sizes)
    if isinstance(value, Programs):
        bodies = [_value(one, sizes) for one in value.items]
        return Programs(tuple(one for one in bodies if isinstance(one, (Program, Reference))))
    if isinstance(value, tuple):
        found = tuple(_value(one, sizes) for one in value)
        return value if all(one is other for one, other in zip(found, value, strict=True)) else found
    return value
