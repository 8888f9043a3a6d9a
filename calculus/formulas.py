"""Formulas: how the table writes derivatives and adjoints, read once.

    row      ::= (name "=" formula ";")* said           names for what is used more than once
    said     ::= formula                                for a primitive that is differentiable in one operand
               | name ":" formula (";" name ":" formula)*
    formula  ::= name | g | result | number
               | formula op formula | - formula         op: + - * / > >= < <= == & and @, the product of matrices
               | formula.T | formula.H                  a matrix turned, and conjugated
               | conj(formula)                          the conjugate, which of real numbers is themselves
               | primitive(argument, ..., parameter=value, ...) [ "[" k "]" ]
               | full(number, formula)                  the number everywhere, at the type of a value
               | places(formula, k)                     how far each element stands along dim k of a value's type
               | zeros(name [, along [, shared]])       zeros, at the type of the cotangent of the value so named; their
                                                        sum is pending where the other value is cut, but for dims that
                                                        travel together (pairs), which are cut
    argument ::= formula | "*" name                     all values that a variadic name stands for

A row stands beside a declaration and speaks of one equation; where there are several results, a derivative speaks of
one of them (`Site.number`). `g` is what flows: in a derivative the tangent of the operand, in an adjoint the cotangent
of the result (`g0`, `g1` where there are several; `*g` is all). The operands go by their declared names, a variadic one
by its name and number (`x0`, `x1`), and `result` is the equation's own (`result0`, `result1`, `*result`). Matrices are
the last two dims of an array. A number has the dtype of what stands beside it; `0` alone is a symbolic zero. The syntax
is that of Python expressions; what it means is an equation of the table for every operation, so that it is typed by the
one rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias

from calculus.programs import NO_PARAMETERS, Call, Equation, Program, Real, Value, Word
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
    """A number everywhere, at the type of a value."""

    number: Number
    like: Formula


@dataclass(frozen=True, slots=True)
class Places:
    """How far each element stands along a dim, at the shape and placement of a value."""

    like: Formula
    dim: int


@dataclass(frozen=True, slots=True)
class Apply:
    """A primitive applied; `item` picks one of several results."""

    primitive: str
    arguments: tuple[Formula, ...]
    parameters: tuple[tuple[str, Value], ...] = ()
    item: int = 0
    number: int = field(init=False, compare=False, default=0)

    def __post_init__(self) -> None:
        """Names are put in where they stand, so a formula may have a part many times; its hash is computed once."""
        object.__setattr__(self, "number", hash((self.primitive, self.arguments, self.parameters, self.item)))

    def __hash__(self) -> int:
        return self.number


@dataclass(frozen=True, slots=True)
class Zeros:
    """Zeros, at the type of the cotangent of the value so named, pending along the axes that cut another value: what
    each device adds to them is its part of a sum. shared: pairs of a dim and the dim of the other value that it travels
    with, as which it is cut."""

    like: str
    along: str = ""
    shared: tuple[tuple[int, int], ...] = ()


Formula: TypeAlias = "Name | Star | Number | Full | Places | Zeros | Apply"

ZERO: Final = Number(0)
"""Alone, a symbolic zero: nothing flows."""

TANGENT: Final = "g"
RESULT: Final = "result"

PLACED: Final = "sharding"
"""A parameter that is a placement, which an evaluation puts in."""

_OPERATORS: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.BitAnd: "and", ast.Gt: "gt", ast.GtE: "ge",
    ast.Lt: "lt", ast.LtE: "le", ast.Eq: "eq", ast.MatMult: "@",
}  # fmt: skip


@lru_cache(maxsize=4096)
def read_row(text: str, operands: tuple[str, ...]) -> Mapping[str, Formula]:
    """The formulas of a row, by the operand that each is about. Raises `ValueError` where the row is not one."""
    parts = [part for part in text.split(";") if part.strip()]
    named: dict[str, Formula] = {}
    while parts and (let := _LET.fullmatch(parts[0])) is not None:
        named[let["name"]] = _read(let["formula"], named)
        del parts[0]
    pairs = [part.partition(":") for part in parts]
    if len(pairs) == 1 and not pairs[0][1]:
        return dict.fromkeys(operands, _read(parts[0], named))
    found = {name.strip(): _read(formula, named) for name, _, formula in pairs}
    unknown = [name for name in found if name not in operands]
    if unknown or len(found) != len(pairs):
        raise ValueError(f"row {text!r} is about {', '.join(unknown) or 'one operand twice'}")
    return found


_LET: Final = re.compile(r"\s*(?P<name>\w+)\s*=(?!=)(?P<formula>.*)", re.DOTALL)


@lru_cache(maxsize=4096)
def read_formula(text: str) -> Formula:
    """The formula with this text. Raises `ValueError` where it is not one."""
    return _read(text, {})


def _read(text: str, named: Mapping[str, Formula]) -> Formula:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not a formula") from error
    return _formula(tree, text, named)


def _formula(tree: ast.expr, text: str, named: Mapping[str, Formula]) -> Formula:
    def part(inner: ast.expr) -> Formula:
        return _formula(inner, text, named)

    match tree:
        case ast.Name(name):
            return named.get(name) or Name(name)
        case ast.Starred(ast.Name(name)):
            return Star(name)
        case ast.Constant(bool()):
            pass
        case ast.Constant(int() | float() as value):
            return Number(value)
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return Number(-value)
        case ast.UnaryOp(ast.USub(), operand):
            return Apply("neg", (part(operand),))
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return Apply(_OPERATORS[type(operator)], (part(left), part(right)))
        case ast.Compare(left, [operator], [right]) if type(operator) in _OPERATORS:
            return Apply(_OPERATORS[type(operator)], (part(left), part(right)))
        case ast.Attribute(matrix, "T"):
            return Apply("T", (part(matrix),))
        case ast.Attribute(matrix, "H"):
            return Apply("T", (Apply("conjugate", (part(matrix),)),))
        case ast.Call(ast.Name("conj"), [of], []):
            return Apply("conjugate", (part(of),))
        case ast.Call(ast.Name("full"), [number, like], []):
            everywhere = part(number)
            if isinstance(everywhere, Number):
                return Full(everywhere, part(like))
        case ast.Call(ast.Name("places"), [like, dim], []):
            along = part(dim)
            if isinstance(along, Number):
                return Places(part(like), int(along.value))
        case ast.Call(ast.Name("zeros"), [ast.Name(like)], []):
            return Zeros(like)
        case ast.Call(ast.Name("zeros"), [ast.Name(like), ast.Name(along)], []):
            return Zeros(like, along)
        case ast.Call(ast.Name("zeros"), [ast.Name(like), ast.Name(along), ast.Tuple() as shared], []):
            return Zeros(like, along, ast.literal_eval(shared))
        case ast.Call(ast.Name(primitive), arguments, keywords):
            parameters = tuple((str(keyword.arg), _value(keyword.value, text)) for keyword in keywords)
            name = f"scatter-{primitive.removeprefix('scatter_')}" if primitive.startswith("scatter_") else primitive
            return Apply(name, tuple(part(one) for one in arguments), parameters)
        case ast.Subscript(several, ast.Constant(int() as item)):
            applied = part(several)
            if isinstance(applied, Apply):
                return Apply(applied.primitive, applied.arguments, applied.parameters, item)
    raise ValueError(f"{ast.unparse(tree)!r} in {text!r} is no part of a formula")


def _value(tree: ast.expr, text: str) -> Value:
    """A parameter's value: bare names and quoted text are words, as `float32` and symbolic sizes are; `sum_of(f32)` and
    `product_of(f32)` are bodies that combine two numbers, `sharding(x)` is the placement of the cotangent of the value
    so named, `sharding(x, (1, None))` that of its dim 1 and a new, whole one.
    """
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
        case ast.Constant(float() as value):
            return Real(repr(value))
        case ast.Call(ast.Name("sum_of" | "product_of" as combined), [ast.Name(dtype)], []):
            return combining("add" if combined == "sum_of" else "mul", dtype)
        case ast.Call(ast.Name("sharding"), [ast.Name(like), *order], []):
            return Call(PLACED, (Word(like), *(_value(one, text) for one in order)))
        case ast.Call(ast.Name(name), [], keywords):
            return Call(name, (), tuple((str(keyword.arg), _value(keyword.value, text)) for keyword in keywords))
    raise ValueError(f"{ast.unparse(tree)!r} in {text!r} is no parameter")


@lru_cache
def combining(primitive: str, dtype: str) -> Program:
    """The body that combines two numbers of a dtype."""
    number = array_type(dtype)
    made = Equation(primitive, NO_PARAMETERS, ("a", "b"), ("c",), (number,))
    return Program((), (), ("a", "b"), (number, number), (made,), ("c",))


def spelled(value: Value) -> str:
    """A parameter's value as a formula has it. Raises `ValueError` where it is none that can be written there."""
    match value:
        case None | bool() | int():
            return repr(value)
        case Real():
            return str(float(value)) if float(value) == float(value) else "nan"
        case str():
            return repr(str(value))
        case tuple() | list():
            return f"({''.join(f'{spelled(item)}, ' for item in value)})"
        case Call(name, (one,), ()) if name.startswith("np."):
            return spelled(one)
        case Call(name, (), keywords):
            return f"{name}({', '.join(f'{key}={spelled(item)}' for key, item in keywords)})"
    raise ValueError(f"{value!r} has no place in a formula")
