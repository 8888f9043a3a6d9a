"""Programs: the terms of the language that JAX prints (a jaxpr), as immutable data.

    program   ::= { lambda constants ; inputs. let equations in (outputs) }
    equation  ::= binders = primitive[parameters] atoms
    atom      ::= variable | literal
    document  ::= let name = program in ... program

A variable is its printed name; scopes are per program, so a name means what the innermost program binds it to.
Parameter values are plain data, decoded as far as they are understood and verbatim beyond that (`Word`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

from calculus.types import Type

Variable: TypeAlias = str


class Word(str):
    """Text of a parameter that is not quoted: a name (`float32`, `fry`, `GatherScatterMode.CLIP`) or anything
    the grammar does not decode, kept verbatim."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Word({str.__repr__(self)})"


class Code(Word):
    """The name of a rule of somebody's own: code that is not printed. `trace`, where a door has the code, gives its
    program for those operands that flow, and `None` where it cannot be traced."""

    __slots__ = ("trace",)

    trace: Callable[[tuple[bool, ...]], Program | None]

    def __new__(cls, text: str, trace: Callable[[tuple[bool, ...]], Program | None]) -> Code:
        """A name with what it names."""
        made = super().__new__(cls, text)
        made.trace = trace
        return made


class Quoted(Word):
    """A value that quotes programs: `name(key={ lambda ; ... }, other=None)`. parts: the text under each key. read:
    what it says, as a program; `None` where it is none."""

    __slots__ = ("name", "parts", "read")

    name: str
    parts: tuple[tuple[str, str], ...]
    read: Callable[[str], Program | None]

    def __new__(cls, name: str, parts: tuple[tuple[str, str], ...], read: Callable[[str], Program | None]) -> Quoted:
        """The value with these parts."""
        made = super().__new__(cls, f"{name}({', '.join(f'{key}={text}' for key, text in parts)})")
        made.name, made.parts, made.read = name, parts, read
        return made

    def program(self, key: str) -> Program | None:
        """The program under a key; `None` where there is none."""
        return self.read(dict(self.parts).get(key, ""))

    def exchanged(self, pairs: Mapping[str, str]) -> Quoted:
        """The value with parts in each other's place."""
        held = dict(self.parts)
        return Quoted(self.name, tuple((key, held[pairs.get(key, key)]) for key in held), self.read)


class Real(str):
    """A number that is not a plain integer, as printed: `1e-38`, `nan`, `-0.0`, `(1+2j)`. `float(real)` reads it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Real({str.__repr__(self)})"


@dataclass(frozen=True, slots=True)
class Braces:
    """A set `{'X', 'Y'}` or dict in the order printed; `frozenset({...})` is a `Call` around one."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`key: value` inside braces or a mesh: `'X': 4`."""

    key: Value
    value: Value


@dataclass(frozen=True, slots=True)
class Call:
    """A constructor with its arguments in the order printed.

    `P('X', None, unreduced={'Y'})`, `Mesh('X': 4, axis_types=(Explicit,))`, `np.int64(4)`, `frozenset({'X'})`.
    """

    name: str
    arguments: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()

    def keyword(self, name: str) -> Value:
        """The value of a keyword argument, or `None`."""
        for key, value in self.keywords:
            if key == name:
                return value
        return None


class Reference:
    """A parameter that names a hoisted definition: `jaxpr=_uniform`. Definitions are a letrec, so the reader fills
    `program` when the whole document is read."""

    __slots__ = ("name", "program")

    def __init__(self, name: str, program: Program | None = None) -> None:
        self.name = name
        self.program = program

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self.name == other.name

    def __hash__(self) -> int:
        return hash((Reference, self.name))

    def __repr__(self) -> str:
        return f"Reference({self.name!r})"


@dataclass(frozen=True, slots=True)
class Programs:
    """Several programs as one parameter: the `branches` of a `cond`, printed one under the other without commas."""

    items: tuple[Program | Reference, ...]


Value: TypeAlias = (
    "None | bool | int | str | Word | Real | tuple[Value, ...] | list[Value] | Braces | Pair | Call | "
    "Reference | Program | Programs"
)
"""A parameter's value. A plain `str` is a quoted string; lists and tuples are as printed."""


class Parameters(Mapping[str, Value]):
    """An equation's parameters in the order printed. Shared between equations that print the same block. holding: those
    that hold or name programs."""

    __slots__ = ("_by_name", "holding", "items_in_order")

    def __init__(self, items: tuple[tuple[str, Value], ...] = ()) -> None:
        self.items_in_order = items
        self.holding = tuple([item for item in items if isinstance(item[1], _HOLDING)])
        self._by_name = dict(items)

    def __getitem__(self, name: str) -> Value:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str, default: Value = None) -> Value:  # type: ignore[override]
        """The value of a parameter, or the default where there is none."""
        return self._by_name.get(name, default)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._by_name.keys()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Parameters) and self.items_in_order == other.items_in_order)

    __hash__ = object.__hash__  # by identity: blocks are shared, and programs inside them are not hashable by value

    def __repr__(self) -> str:
        return f"Parameters({self.items_in_order!r})"


NO_PARAMETERS = Parameters()


class Literal:
    """A literal operand as printed: `2.0:f32[]`. `type` is `None` in dialects that print none.

    Interned: equal literals are one object, so that operands compare and hash by identity.
    """

    __slots__ = ("text", "type", "zero")

    text: str
    type: Type | None
    zero: bool  #: whether it is the number zero (`-0.0` and `False` included)

    def __new__(cls, text: str, type: Type | None) -> Literal:
        """The one literal with this text and type."""
        found = _LITERALS.get((text, type))
        if found is None:
            found = object.__new__(cls)
            found.text, found.type, found.zero = text, type, _is_zero(text)
            _LITERALS[text, type] = found
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return Literal, (self.text, self.type)

    def __str__(self) -> str:
        return self.text if self.type is None else f"{self.text}:{self.type}"

    def __repr__(self) -> str:
        return f"<{self}>"


_LITERALS: dict[tuple[str, Type | None], Literal] = {}


def clear_literals() -> None:
    """Forget every interned literal. For measurements only, like `calculus.types.clear_interned`."""
    _LITERALS.clear()


def _is_zero(text: str) -> bool:
    if text == "False":
        return True
    try:
        return complex(text) == 0
    except ValueError:
        return False


Atom: TypeAlias = "Variable | Literal"


@dataclass(frozen=True, slots=True)
class Cell:
    """The part of a cell that a Ref statement reads or writes: `x[i,1:3,:]`. `indices` is the text between the
    brackets; between the first and the last of them, where one part is taken of another: `:2,:][i,:`."""

    variable: Variable
    indices: str

    @property
    def names(self) -> tuple[Variable, ...]:
        """The values that say which part, in the order printed: `i` of `[i,:]`, `[i:i+2]`."""
        return tuple(dict.fromkeys(_INDEX.findall(self.indices)))


_INDEX: Final = re.compile(r"(?:^|[,\[])\s*([^\W\d]\w*)\s*(?=[:,\]]|$)")


class Equation:
    """One equation. `binders` and `types` run in parallel; a type is `None` where the text prints none.

    `cell` is set for Ref statements, whose `primitive` is then `get` (`y:T <- x[...]`), `swap` (`x[...] <- v`, and
    `y:T, x[...] <- x[...], v`) or `addupdate` (`x[...] += v`). Its inputs are the cell, the value that is written, and
    the values that say which part. `line` is the line the equation starts on, from 1; 0
    where it has none. `comment` is the source comment without its `#`, `None` where none is printed.
    """

    __slots__ = ("binders", "cell", "comment", "inputs", "line", "parameters", "primitive", "types")

    def __init__(
        self,
        primitive: str,
        parameters: Parameters,
        inputs: tuple[Atom, ...],
        binders: tuple[Variable, ...],
        types: tuple[Type | None, ...],
        line: int = 0,
        comment: str | None = None,
        cell: Cell | None = None,
    ) -> None:
        self.primitive = primitive
        self.parameters = parameters
        self.inputs = inputs
        self.binders = binders
        self.types = types
        self.line = line
        self.comment = comment
        self.cell = cell

    def _key(self) -> tuple[object, ...]:
        return (
            self.primitive,
            self.parameters,
            self.inputs,
            self.binders,
            self.types,
            self.comment,
            self.cell,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equation) and self._key() == other._key()

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Equation({', '.join(map(repr, self._key()))}, line={self.line})"


class Program:
    """A closed program. `constants` come before the `;`. `effects` is the printed text after ` : `, or `None`.

    Equality is of terms: lines do not count, names do. `line` is where the program's `{` stands.
    """

    __slots__ = (
        "constant_types",
        "constants",
        "effects",
        "equations",
        "input_types",
        "inputs",
        "line",
        "outputs",
    )

    def __init__(
        self,
        constants: tuple[Variable, ...],
        constant_types: tuple[Type | None, ...],
        inputs: tuple[Variable, ...],
        input_types: tuple[Type | None, ...],
        equations: tuple[Equation, ...],
        outputs: tuple[Atom, ...],
        effects: str | None = None,
        line: int = 0,
    ) -> None:
        self.constants = constants
        self.constant_types = constant_types
        self.inputs = inputs
        self.input_types = input_types
        self.equations = equations
        self.outputs = outputs
        self.effects = effects
        self.line = line

    def equation(self, place: int) -> Equation:
        """The equation at a place, counted from 0."""
        return self.equations[place]

    def of(self, equations: tuple[Equation, ...]) -> Program:
        """The program of these equations, all else as here."""
        return Program(
            self.constants, self.constant_types, self.inputs, self.input_types, equations, self.outputs, self.effects,
            self.line,
        )  # fmt: skip

    def uses(self, primitives: AbstractSet[str]) -> bool:
        """Whether an equation is of one of these primitives, bodies left out."""
        return any(equation.primitive in primitives for equation in self.equations)

    def at(self, types: Sequence[Type | None]) -> Program:
        """The program whose last inputs (constants stand before them) have these types where they print none."""
        printed = (*self.constant_types, *self.input_types)
        skipped = len(printed) - len(types)
        given = (*printed[:skipped], *types)
        filled = tuple(one if own is None else own for own, one in zip(printed, given, strict=True))
        held = len(self.constants)
        return Program(
            self.constants, filled[:held], self.inputs, filled[held:], self.equations, self.outputs, self.effects,
            self.line,
        )  # fmt: skip

    def _key(self) -> tuple[object, ...]:
        return (
            self.constants,
            self.constant_types,
            self.inputs,
            self.input_types,
            self.equations,
            self.outputs,
            self.effects,
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Program) and self._key() == other._key())

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<program of {len(self.equations)} equations, line {self.line}>"


@dataclass(slots=True)
class Document:
    """A printed program with its hoisted definitions, in the order printed. `mesh` is the text after `# mesh:` on
    the first line, or `None`."""

    definitions: tuple[tuple[str, Program], ...]
    program: Program
    mesh: str | None = None


def body(value: Value) -> Program | None:
    """The program that a parameter holds or names; `None` if it holds none."""
    if isinstance(value, Reference):
        return value.program
    return value if isinstance(value, Program) else None


def bodies(parameters: Parameters) -> Iterator[tuple[str, Program]]:
    """Every program among the parameters, with the parameter's name, in the order printed."""
    return _bodies(parameters.holding) if parameters.holding else iter(())


_HOLDING: Final = (Program, Reference, Programs)


def _bodies(rows: Sequence[tuple[str, Value]]) -> Iterator[tuple[str, Program]]:
    for name, value in rows:
        for item in value.items if isinstance(value, Programs) else (value,):
            program = body(item)
            if program is not None:
                yield name, program
