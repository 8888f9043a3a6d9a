"""Programs whose sizes are symbolic, at numbers: what holds for every size is run at one of each."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from calculus.programs import (
    NO_PARAMETERS,
    Atom,
    Call,
    Equation,
    Literal,
    Parameters,
    Program,
    Programs,
    Value,
    Word,
    bodies,
    body,
)
from calculus.types import ArrayType, RefType, Type, array_type, held
from verifier.execution.arithmetic import CannotRun

Sizes = Mapping[str, int]
"""What each symbol stands for."""

CHOSEN: Final = (2, 3, 5)
"""What symbols stand for, one after the other, and again: numbers that are not each other's multiples."""


def instance(program: Program) -> tuple[Program, Sizes]:
    """A program at numbers, and which; itself where no size is symbolic. Raises `CannotRun` for a size that is not
    understood."""
    symbols = sorted({name for size in _sizes(program) for name in _names(size)})
    if not symbols:
        return program, {}
    sizes = dict(zip(symbols, itertools.cycle(CHOSEN), strict=False))
    return _at(program, sizes), sizes


def _sizes(program: Program) -> Iterator[str]:
    """Every symbolic size, bodies included."""
    waiting = [program]
    while waiting:
        one = waiting.pop()
        types = [*one.constant_types, *one.input_types]
        for equation in one.equations:
            types += equation.types
            waiting += (inner for _, inner in bodies(equation.parameters))
        for type in map(held, types):
            if isinstance(type, ArrayType):
                yield from (str(size) for size in type.shape if isinstance(size, str))


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.replace("^", "**"), mode="eval").body
    except SyntaxError:
        return None


def _names(text: str) -> set[str]:
    parsed = _parsed(text)
    found = set() if parsed is None else {node.id for node in ast.walk(parsed) if isinstance(node, ast.Name)}
    return found - set(_FUNCTIONS)


_FUNCTIONS: Final[dict[str, Callable[..., int]]] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min,
    "non_negative": lambda size: max(size, 0),
}  # fmt: skip
_OPERATORS: Final[dict[type, Callable[..., int]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow, ast.USub: operator.neg,
}  # fmt: skip


def value_of(text: str, sizes: Sizes) -> int:
    """A symbolic size as a number. Raises `CannotRun`."""

    def of(node: Any) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in sizes:
                return sizes[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](of(left), of(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](of(operand))
            case ast.Call(func=ast.Name(id=name), args=operands) if name in _FUNCTIONS:
                return _FUNCTIONS[name](*map(of, operands))
        raise CannotRun(f"the size {text} is not understood")

    return of(_parsed(text))


def _at(program: Program, sizes: Sizes) -> Program:
    def typed(types: tuple[Type | None, ...]) -> tuple[Type | None, ...]:
        return tuple(_type(type, sizes) for type in types)

    equations = tuple(_equation(one, sizes) for one in program.equations)
    outputs = tuple(_atom(atom, sizes) for atom in program.outputs)
    return Program(
        program.constants, typed(program.constant_types), program.inputs, typed(program.input_types), equations, outputs
    )


def _equation(one: Equation, sizes: Sizes) -> Equation:
    types = tuple(_type(type, sizes) for type in one.types)
    if one.primitive == "dim_as_value":
        number = Literal(str(value_of(str(one.parameters["dim"]), sizes)), types[0])
        return Equation("copy", NO_PARAMETERS, (number,), one.binders, types, one.line)
    rows = tuple((key, _value(value, sizes)) for key, value in one.parameters.items_in_order)
    inputs = tuple(_atom(atom, sizes) for atom in one.inputs)
    return Equation(one.primitive, Parameters(rows), inputs, one.binders, types, one.line, one.comment, one.cell)


def _type(type: Type | None, sizes: Sizes) -> Type | None:
    if isinstance(type, RefType):
        raise CannotRun(f"a cell of type {type} whose sizes are symbolic")
    if not isinstance(type, ArrayType):
        return type
    shape = tuple(value_of(size, sizes) if isinstance(size, str) else size for size in type.shape)
    if any(size < 0 for size in shape) or math.prod(shape) > 10**9:
        raise CannotRun(f"{type} has no such size at {', '.join(f'{name} = {size}' for name, size in sizes.items())}")
    return array_type(
        type.dtype, shape, type.axes, type.varying, type.unreduced, type.reduced, type.kind, type.memory, type.weak
    )


def _atom(atom: Atom, sizes: Sizes) -> Atom:
    return Literal(atom.text, _type(atom.type, sizes)) if isinstance(atom, Literal) else atom


def _value(value: Value, sizes: Sizes) -> Value:
    if isinstance(value, Programs):
        return Programs(tuple(_at(one, sizes) for one in map(body, value.items) if one is not None))
    inner = body(value)
    if inner is not None:
        return _at(inner, sizes)
    if isinstance(value, tuple):
        return tuple(_item(item, sizes) for item in value)
    if isinstance(value, Call):
        keywords = tuple((name, _value(item, sizes)) for name, item in value.keywords)
        return Call(value.name, tuple(_value(item, sizes) for item in value.arguments), keywords)
    return value


def _item(value: Value, sizes: Sizes) -> Value:
    """A value in a tuple, where sizes stand: a word that speaks of symbols alone is one."""
    names = _names(str(value)) if isinstance(value, Word) else set()
    return value_of(str(value), sizes) if names and names <= set(sizes) else _value(value, sizes)
