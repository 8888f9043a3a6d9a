"""What each rule of the grammars denotes: the terms that the parser builds, bottom up.

A method is named like the rule (or its alias) in types.lark and programs.lark, which say what it stands for.
"""

# ruff: noqa: D102 - the rules are documented in the grammars

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from lark import Token, Transformer

from calculus.programs import (
    NO_PARAMETERS,
    Atom,
    Braces,
    Call,
    Cell,
    Document,
    Equation,
    Literal,
    Pair,
    Parameters,
    Program,
    Programs,
    Real,
    Reference,
    Value,
    Word,
)
from calculus.refusals import Place, Refused, refuse
from calculus.types import DTYPES, SHORT_NAMES, Axes, Dim, FutureType, OpaqueType, RefType, Type, array_type
from grammar.layout import syntax

Children: TypeAlias = "list[Any]"
Binder: TypeAlias = "tuple[Token, Type | None]"


class TypeTerms(Transformer[Token, Any]):
    """types.lark to `calculus.types`."""

    def type(self, children: Children) -> Type:
        made: Type = children[0]
        return made

    def cell(self, children: Children) -> Type:
        _, space, inner = children
        return RefType(inner, space[1:-1] if space else "")

    def future(self, children: Children) -> Type:
        _, inner = children
        return FutureType(inner)

    def opaque(self, children: Children) -> Type:
        return OpaqueType(str(children[0]))

    def array(self, children: Children) -> Type:
        weak, dtype, memory, *dims, states = children
        if dtype not in DTYPES and dtype not in SHORT_NAMES and not dtype.startswith("key<"):
            near = difflib.get_close_matches(dtype, [*DTYPES, *SHORT_NAMES], 1)
            help = f"did you mean `{near[0]}`?" if near else "element types are `f32`, `bf16`, `i32`, `bool`, ..."
            raise syntax(f"`{dtype}` is not an element type", 1, dtype.column, help)
        axes_in: dict[str, Axes] = states or {}
        kinds = [kind for kind in ("U", "U_max", "U_min") if kind in axes_in]
        if len(kinds) > 1:
            refused = refuse(
                "two-kinds",
                f"the type is unreduced of two kinds, `{kinds[0]}` and `{kinds[1]}`",
                because="pieces of one array are combined by one operation",
                help="use one kind, or two arrays",
                place=Place("type"),
            )
            refused.refusal.line, refused.refusal.column = 1, 1
            raise refused
        kind = kinds[0] if kinds else "U"
        return array_type(
            str(dtype),
            tuple(size for size, _ in dims),
            tuple(axes for _, axes in dims),
            axes_in.get("V", ()),
            axes_in.get(kind, ()),
            axes_in.get("R", ()),
            kind[2:] or "sum",
            memory[1:-1] if memory else "",
            weak is not None,
        )

    def dim(self, children: Children) -> tuple[Dim, Axes]:
        size, axes = children
        if size.isdecimal():
            return int(size), axes or ()
        if size[0] == "-" and size[1:].isdecimal():
            column = getattr(size, "column", 1)
            raise syntax(f"`{size}` is not the size of a dim", 1, column, help="sizes are 0 or more, or symbolic")
        return size, axes or ()

    def axes(self, children: Children) -> Axes:
        return tuple(map(str, children))

    def states(self, children: Children) -> dict[str, Axes]:
        found: dict[str, Axes] = {}
        for state, axes in children:
            if state in found:
                raise syntax(
                    f"`{state}` is listed twice", 1, state.column, help=f"write `{state}:(X,Y)` for several axes"
                )
            found[str(state)] = axes
        return found

    def state(self, children: Children) -> tuple[Token, Axes]:
        name, axes = children
        return name, axes

    # Sizes, back to the text that JAX prints.

    def sum(self, children: Children) -> str:
        if len(children) == 1:
            return self.product(children)
        return "".join(f" {part} " if isinstance(part, Token) else part for part in children)

    def product(self, children: Children) -> str:
        if len(children) == 1:
            alone: str = children[0]
            return alone
        return "".join(map(str, children))

    def power(self, children: Children) -> str:
        return _Size("".join(map(str, children)), children[0])

    size = product

    def application(self, children: Children) -> str:
        return f"{children[0]}({', '.join(children[1:])})"

    def parenthesis(self, children: Children) -> str:
        return f"({children[0]})"


class _Size(str):
    """The text of a size, and the column at which it begins, from 1."""

    __slots__ = ("column",)

    column: int

    def __new__(cls, text: str, first: str) -> _Size:
        made = super().__new__(cls, text)
        made.column = getattr(first, "column", 1)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return str, (str(self),)


class NotAValue(Exception):
    """The value grammar derives the text, but no value denotes it."""


class _Keyword:
    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Value) -> None:
        self.name, self.value = name, value


class ValueTerms(Transformer[Token, Any]):
    """The rule `value` of programs.lark to parameter values."""

    def value(self, children: Children) -> Value:
        made: Value = _leaf(children[0])
        return made

    def tuple(self, children: Children) -> Value:
        return tuple(map(_leaf, children))

    def list(self, children: Children) -> Value:
        return [_leaf(child) for child in children]

    def braces(self, children: Children) -> Value:
        return Braces(tuple(map(_leaf, children)))

    def pair(self, children: Children) -> Pair:
        return Pair(*map(_leaf, children))

    def keyword(self, children: Children) -> _Keyword:
        return _Keyword(str(children[0]), _leaf(children[1]))

    def call(self, children: Children) -> Value:
        name, *rest = children
        keywords = tuple((child.name, child.value) for child in rest if isinstance(child, _Keyword))
        return Call(str(name), tuple(_leaf(child) for child in rest if not isinstance(child, _Keyword)), keywords)


def _string(text: str) -> str:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError) as error:
        raise NotAValue from error
    assert isinstance(value, str)
    return value


_LEAVES: dict[str, Callable[[str], Value]] = {
    "NONE": lambda _: None,
    "TRUE": lambda _: True,
    "FALSE": lambda _: False,
    "INTEGER": int,
    "REAL": Real,
    "STRING": _string,
}


def _leaf(child: Any) -> Any:
    return _LEAVES.get(child.type, Word)(str(child)) if isinstance(child, Token) else child


class ProgramTerms(Transformer[Token, Any]):
    """programs.lark to `calculus.programs`. References are left unresolved, comments unattached."""

    def __init__(self, read_type: Callable[[str], Type], read_value: Callable[[str, str], Value]) -> None:
        super().__init__()
        self._read_type = read_type
        self._read_value = read_value

    def document(self, children: Children) -> Document:
        mesh, *definitions, program = children
        return Document(tuple(definitions), program, mesh.split(":", 1)[1].strip() if mesh else None)

    def definition(self, children: Children) -> tuple[str, Program]:
        name, program = children
        return str(name), program

    def program(self, children: Children) -> Program:
        brace, constants, inputs, equations, outputs, effects = children
        return Program(
            *_names_and_types(constants),
            *_names_and_types(inputs),
            equations,
            outputs,
            effects[1:].strip() if effects else None,
            brace.line,
        )

    def binder(self, children: Children) -> Binder:
        name, type = children
        return name, self._type(type)

    def binders(self, children: Children) -> Children:
        return children

    def equations(self, children: Children) -> tuple[Equation, ...]:
        return tuple(children)

    def outputs(self, children: Children) -> tuple[Atom, ...]:
        return tuple(children)

    def variable(self, children: Children) -> str:
        return str(children[0])

    def literal(self, children: Children) -> Literal:
        text, type = children
        return Literal(str(text), self._type(type))

    def binding(self, children: Children) -> Equation:
        count = next(i for i, child in enumerate(children) if isinstance(child, Token))
        binders, (primitive, parameters, *inputs) = children[:count], children[count:]
        return _equation(binders[0][0], primitive, parameters, inputs, binders)

    def action(self, children: Children) -> Equation:
        primitive, parameters, *inputs = children
        return _equation(primitive, primitive, parameters, inputs)

    def get(self, children: Children) -> Equation:
        binder, cell = children
        return _equation(binder[0], "get", None, (), (binder,), cell)

    def swap(self, children: Children) -> Equation:
        cell, value = children
        return _equation(cell, "swap", None, (value,), (), cell)

    def addupdate(self, children: Children) -> Equation:
        cell, value = children
        return _equation(cell, "addupdate", None, (value,), (), cell)

    def exchange(self, children: Children) -> Equation:
        binder, written, read, value = children
        if written != read:
            help = "an exchange reads and writes one place of one cell: write the same `x[...]` on both sides"
            raise syntax(f"`{written}` is written but `{read}` is read", read.line, read.column, help)
        return _equation(binder[0], "swap", None, (value,), (binder,), written)

    def parameters(self, children: Children) -> Parameters:
        seen: set[str] = set()
        for key, _ in children:
            if key in seen:
                help = f"keep one `{key}=`"
                raise syntax(f"the parameter `{key}` is given twice", key.line, key.column, help)
            seen.add(key)
        return Parameters(tuple((str(key), value) for key, value in children))

    def parameter(self, children: Children) -> tuple[Token, Value]:
        key, value = children
        if isinstance(value, Token):
            try:
                return key, self._read_value(str(value), str(key))
            except Refused as refused:
                refused.refusal.line, refused.refusal.column = value.line or 0, value.column or 0
                raise
        return key, value

    def programs(self, children: Children) -> Programs:
        return Programs(tuple(Reference(str(child)) if isinstance(child, Token) else child for child in children))

    def _type(self, token: Token | None) -> Type | None:
        if token is None:
            return None
        try:
            return self._read_type(str(token))
        except Refused as refused:
            refused.refusal.line = token.line or 0
            refused.refusal.column += (token.column or 1) - 1
            raise


def _names_and_types(binders: list[Binder]) -> tuple[tuple[str, ...], tuple[Type | None, ...]]:
    return tuple(str(name) for name, _ in binders), tuple(type for _, type in binders)


def _equation(
    first: Token,
    primitive: str,
    parameters: Parameters | None,
    inputs: Iterable[Any],
    binders: Iterable[Binder] = (),
    cell: Token | None = None,
) -> Equation:
    names, types = _names_and_types(list(binders))
    made = Equation(str(primitive), parameters or NO_PARAMETERS, tuple(inputs), names, types, first.line or 0)
    if cell is not None:
        variable, _, indices = cell[:-1].partition("[")
        made.cell = Cell(variable, indices)
        made.inputs = (variable, *made.inputs, *made.cell.names)
    return made
