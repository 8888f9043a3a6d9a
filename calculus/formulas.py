"""Formulas: how the table writes derivatives and adjoints, read once.

    row      ::= formula                                for a primitive that is differentiable in one operand
               | name ":" formula (";" name ":" formula)*
    formula  ::= operand name | g | result | number | parameter
               | formula op formula | - formula         op: + - * / > >= < <= == &
               | primitive(argument, ..., parameter=value, ...) [ "[" k "]" ]
               | full(number, name)                     the number everywhere, at the type of the value so named
             | zeros(name [, along])                  zeros, at the type of the cotangent of the value so named; their
                                                      sum is pending where the other value is cut
    argument ::= formula | "*" name                     all values that a variadic name stands for

A row stands beside a declaration and speaks of one equation. `g` is what flows: in a derivative the tangent of the
operand, in an adjoint the cotangent of the result (the first of them, where there are several; `*g` is all). The
operands go by their declared names, a variadic one by its name and number (`x0`, `x1`), and `result` is the equation's
own. A number has the dtype of what stands beside it; `0` alone is a symbolic zero. The syntax is that of Python
expressions; what it means is an equation of the table for every operation, so that it is typed by the one rule.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from calculus.programs import NO_PARAMETERS, Call, Equation, Program, Value, Word
from calculus.types import array_type


@dataclass(frozen=True, slots=True)
class Name:
    """A value: an operand, `g` or `result`."""

    name: str


@dataclass(frozen=True, slots=True)
class Star:
    """Every value that a variadic name stands for."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number, of the dtype of what stands beside it."""

    value: float


@dataclass(frozen=True, slots=True)
class Full:
    """A number everywhere, at the type of the value so named."""

    number: Number
    like: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A primitive applied; `item` picks one of several results."""

    primitive: str
    arguments: tuple[Formula, ...]
    parameters: tuple[tuple[str, Value], ...] = ()
    item: int = 0


@dataclass(frozen=True, slots=True)
class Zeros:
    """Zeros, at the type of the cotangent of the value so named, pending along the axes that cut another value: what
    each device adds to them is its part of a sum."""

    like: str
    along: str = ""


Formula: TypeAlias = "Name | Star | Number | Full | Zeros | Apply"

ZERO: Final = Number(0)
"""Alone, a symbolic zero: nothing flows."""

TANGENT: Final = "g"
RESULT: Final = "result"

_OPERATORS: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.BitAnd: "and", ast.Gt: "gt", ast.GtE: "ge",
    ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq",
}  # fmt: skip


@lru_cache(maxsize=4096)
def read_row(text: str, operands: tuple[str, ...]) -> Mapping[str, Formula]:
    """The formulas of a row, by the operand that each is about. Raises `ValueError` where the row is not one."""
    parts = [part.partition(":") for part in _split(text)]
    if len(parts) == 1 and not parts[0][1]:
        return {operand: read_formula(text) for operand in operands}
    found = {name.strip(): read_formula(formula) for name, _, formula in parts}
    unknown = [name for name in found if name not in operands]
    if unknown or len(found) != len(parts):
        raise ValueError(f"row {text!r} is about {', '.join(unknown) or 'one operand twice'}")
    return found


def _split(text: str) -> list[str]:
    return [part for part in text.split(";") if part.strip()]


@lru_cache(maxsize=4096)
def read_formula(text: str) -> Formula:
    """The formula with this text. Raises `ValueError` where it is not one."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not a formula") from error
    return _formula(tree, text)


def _formula(tree: ast.expr, text: str) -> Formula:
    match tree:
        case ast.Name(name):
            return Name(name)
        case ast.Starred(ast.Name(name)):
            return Star(name)
        case ast.Constant(bool()):
            pass
        case ast.Constant(int() | float() as value):
            return Number(value)
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return Number(-value)
        case ast.UnaryOp(ast.USub(), operand):
            return Apply("neg", (_formula(operand, text),))
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return Apply(_OPERATORS[type(operator)], (_formula(left, text), _formula(right, text)))
        case ast.Compare(left, [operator], [right]) if type(operator) in _OPERATORS:
            return Apply(_OPERATORS[type(operator)], (_formula(left, text), _formula(right, text)))
        case ast.Call(ast.Name("full"), [number, ast.Name(like)], []):
            everywhere = _formula(number, text)
            if isinstance(everywhere, Number):
                return Full(everywhere, like)
        case ast.Call(ast.Name("zeros"), [ast.Name(like)], []):
            return Zeros(like)
        case ast.Call(ast.Name("zeros"), [ast.Name(like), ast.Name(along)], []):
            return Zeros(like, along)
        case ast.Call(ast.Name(primitive), arguments, keywords):
            parameters = tuple((str(keyword.arg), _value(keyword.value, text)) for keyword in keywords)
            return Apply(
                primitive.replace("scatter_", "scatter-"), tuple(_formula(one, text) for one in arguments), parameters
            )
        case ast.Subscript(several, ast.Constant(int() as item)):
            applied = _formula(several, text)
            if isinstance(applied, Apply):
                return Apply(applied.primitive, applied.arguments, applied.parameters, item)
    raise ValueError(f"{ast.unparse(tree)!r} in {text!r} is no part of a formula")


def _value(tree: ast.expr, text: str) -> Value:
    """A parameter's value: bare names and quoted text are words, as `float32` and symbolic sizes are; `sum_of(f32)` is
    the body that adds two numbers."""
    match tree:
        case ast.Constant(None | bool() | int() as value):
            return value
        case ast.Constant(str() as value):
            return Word(value)
        case ast.Name(name):
            return Word(name)
        case ast.UnaryOp(ast.USub(), ast.Constant(int() as value)):
            return -value
        case ast.Tuple(items):
            return tuple(_value(item, text) for item in items)
        case ast.Call(ast.Name("sum_of"), [ast.Name(dtype)], []):
            return _sum_of(dtype)
        case ast.Call(ast.Name(name), [], keywords):
            return Call(name, (), tuple((str(keyword.arg), _value(keyword.value, text)) for keyword in keywords))
    raise ValueError(f"{ast.unparse(tree)!r} in {text!r} is no parameter")


@lru_cache
def _sum_of(dtype: str) -> Program:
    number = array_type(dtype)
    added = Equation("add", NO_PARAMETERS, ("a", "b"), ("c",), (number,))
    return Program((), (), ("a", "b"), (number, number), (added,), ("c",))
