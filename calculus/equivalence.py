"""When two programs say the same: equal values for equal inputs, up to how they are written.

Every value gets a number, by what computes it: the primitive, its parameters, the numbers of its operands, its type
(value numbering). Two programs are the same if their results have the same numbers. So names, the order of equations
and dead code do not count. Nor do: a transpose after or before a contraction, which only names its dims otherwise; the
order of the summands of a cotangent (`add_any`) or of two factors; whether a sum, a broadcast over dims of size 1 or a
reshape writes a change of shape; whether a call or a rematerialised body is inlined; whether what a loop does not
change is computed in it; in which order a loop's carries or a body's inputs stand; whether a number stands where it is
used or is first brought to a type of its own; barriers, which keep a compiler from moving equations past them, and a
rounding of numbers to the dtype that they have. Types count, everywhere else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from calculus.parameters import integer
from calculus.primitives import TABLE
from calculus.primitives.elementwise import aligned
from calculus.programs import (
    Atom,
    Braces,
    Call,
    Equation,
    Literal,
    Parameters,
    Program,
    Programs,
    Reference,
    Value,
    body,
)
from calculus.recurrences import scan, while_loop
from calculus.types import ArrayType, Type, array_type

_UNSAID: Final = frozenset({
    "out_sharding", "sharding", "weak_type", "accuracy", "preferred_element_type", "name",
    "ctx_mesh", "mesh", "jaxpr", "call_jaxpr", "unroll", "policy", "prevent_cse", "differentiated", "split_transpose",
})  # fmt: skip
"""Parameters that the types say already, or that are about how and not what."""

_INLINE: Final = ("jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "remat2", "custom_jvp_call")
_COMMUTE: Final = frozenset({"add", "add_any", "mul", "max", "min", "and", "or", "xor", "eq", "ne"})
_KEEP: Final = frozenset({"reshape", "squeeze", "expand_dims", "broadcast_in_dim", "reduce_sum"})
_SPREAD: Final = frozenset(
    {"pvary", "preduced", "reshard", "copy", "reshape", "squeeze", "expand_dims", "broadcast_in_dim"}
)
"""What leaves a number that is the same everywhere the same number everywhere."""
_IDLE: Final = frozenset({"reshard", "copy", "convert_element_type", "slice", *_KEEP})
"""What changes nothing where it does not change the type."""


def equivalent(one: Program, other: Program) -> bool:
    """Whether two programs, given the same inputs in order, have the same results."""
    return difference(one, other) == ""


def difference(one: Program, other: Program) -> str:
    """What keeps two programs from being the same; empty where nothing does."""
    given, wanted = ((*each.constant_types, *each.input_types) for each in (one, other))
    if [_plain(type) for type in given] != [_plain(type) for type in wanted]:
        return f"inputs {_listed(given)} and {_listed(wanted)}"
    if len(one.outputs) != len(other.outputs):
        return f"{len(one.outputs)} and {len(other.outputs)} results"
    numbers = Numbering()
    inputs = [numbers.of(Key("input", _plain(type), place)) for place, type in enumerate(given)]
    left, right = (numbers.results(program, inputs) for program in (one, other))
    for index, (mine, theirs) in enumerate(zip(left, right, strict=True)):
        if mine != theirs:
            return f"result {index}:\n  {numbers.shown(mine)}\n  {numbers.shown(theirs)}"
    return ""


class Key(NamedTuple):
    """What computes a value: an operation with what it says, on the values with these numbers."""

    what: str
    type: Hashable
    says: Hashable
    operands: tuple[int, ...] = ()


class Numbering:
    """Numbers for values, by what computes them."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.known: dict[Key, int] = {}
        self.free: list[frozenset[int]] = []  # what changes in loops around that a value depends on

    def of(self, key: Key, beside: Iterable[int] = ()) -> int:
        """The number of what this key describes; `beside`: what else it depends on."""
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.keys)
            self.keys.append(key)
            free = frozenset[int]().union(*(self.free[operand] for operand in (*key.operands, *beside)))
            self.free.append(free | {found} if key.what in ("carry", "slice") else free)
        return found

    def value(self, what: str, type: Hashable, says: Hashable, *operands: int, beside: Iterable[int] = ()) -> int:
        """The number of what these describe."""
        return self.of(Key(what, type, says, operands), beside)

    def shown(self, number: int, depth: int = 5) -> str:
        """A value as an expression, a few levels deep."""
        key = self.keys[number]
        inner = ", ".join(self.shown(operand, depth - 1) for operand in key.operands) if depth else "…"
        said = "" if key.says in (None, (), 0) else f"[{key.says}]"
        return f"{key.what}{said}({inner}):{key.type}"

    def results(self, program: Program, inputs: Sequence[int]) -> list[int]:
        """The numbers of a program's results, given those of its inputs."""
        env: dict[Atom, int] = dict(zip((*program.constants, *program.inputs), inputs, strict=True))

        def read(atom: Atom) -> int:
            return self.literal(atom) if isinstance(atom, Literal) else env[atom]

        for equation in program.equations:
            found = self.equation(equation, [read(atom) for atom in equation.inputs])
            env.update(zip(equation.binders, found, strict=True))
        return [read(atom) for atom in program.outputs]

    def constant(self, type: Type | None) -> int:
        """A new number for what a body carries along: no text says its value, so that no two are known to be equal."""
        return self.of(Key("constant", _plain(type), len(self.keys)))

    def literal(self, literal: Literal) -> int:
        """The number of a literal: its value and type."""
        try:
            value: Hashable = complex(literal.text)
        except ValueError:
            value = literal.text
        return self.of(Key("literal", _plain(literal.type), "nan" if value != value else value))

    def equation(self, equation: Equation, operands: list[int]) -> list[int]:
        """The numbers of an equation's results."""
        name = equation.primitive.removesuffix("_p")  # so do some releases print what others print without it
        types = [_plain(type) for type in equation.types]
        if name in _INLINE:
            inner = next((found for key in _BODIES if (found := body(equation.parameters.get(key))) is not None), None)
            if inner is not None:
                return self.results(inner, [*map(self.constant, inner.constant_types), *operands])
        if name in _FORMS:
            return _FORMS[name](self, equation, operands, types)
        if name == "dot_general":
            return [self.dot(equation, operands, types[0])]
        if name == "transpose":
            return [self.transposed(operands[0], _integers(equation.parameters["permutation"]), types[0])]
        if name == "optimization_barrier" or self.rounds_to_itself(equation, types):
            return operands
        if name in _IDLE and self.keys[operands[0]].type == types[0]:
            return operands[:1]
        if name in _SPREAD and (number := self.spread(operands[0], types[0])) is not None:
            return [number]
        if name in _KEEP and self.keeps(equation, operands[0]):
            return [self.reshaped(operands[0], types[0])]
        if name == "add_any":
            operands = [part for operand in operands for part in self.summands(operand)]
        if name in TABLE and TABLE[name].scheme is aligned:
            operands = self.plain(operands)
        ordered = tuple(sorted(operands) if name in _COMMUTE else operands)
        rows = () if name == "reshard" else _rows(equation.parameters)
        return [
            self.of(Key(name, type, (*rows, index) if index else rows, ordered)) for index, type in enumerate(types)
        ]

    def rounds_to_itself(self, equation: Equation, types: Sequence[Hashable]) -> bool:
        """Whether this rounds numbers to the dtype that they have."""
        if equation.primitive != "reduce_precision" or not isinstance(type := types[0], ArrayType):
            return False
        kept = tuple(integer(equation.parameters[name], name) for name in ("exponent_bits", "mantissa_bits"))
        return kept == _BITS.get(type.dtype)

    def reshaped(self, operand: int, type: Hashable) -> int:
        """The elements in another shape; of what was reshaped before, as they were before that."""
        key = self.keys[operand]
        while key.what == "reshape" and key.says == ():
            (operand,) = key.operands
            key = self.keys[operand]
        if key.type == type:
            return operand
        return self.of(Key("reshard" if self.shape(operand) == _shape(type) else "reshape", type, (), (operand,)))

    def shape(self, number: int) -> tuple[Hashable, ...]:
        """The shape of a value."""
        return _shape(self.keys[number].type)

    def spread(self, operand: int, type: Hashable) -> int | None:
        """A number at another type: itself, unless what pends there would count it once for each device."""
        key = self.keys[operand]
        if key.what != "literal" or not (isinstance(type, ArrayType) and isinstance(key.type, ArrayType)):
            return None
        if type.unreduced != key.type.unreduced or type.dtype != key.type.dtype:
            return None
        return self.of(key._replace(type=type))

    def plain(self, operands: Sequence[int]) -> list[int]:
        """Operands of an elementwise operation: a number beside other values is a number without dims or states."""
        if all(self.keys[operand].what == "literal" for operand in operands):
            return list(operands)
        found = [self.spread(operand, _lone(self.keys[operand].type)) for operand in operands]
        return [operand if number is None else number for operand, number in zip(operands, found, strict=True)]

    def keeps(self, equation: Equation, operand: int) -> bool:
        """Whether a change of shape keeps the elements: a sum and a broadcast do if dims of size 1 go and come."""
        if equation.primitive not in ("broadcast_in_dim", "reduce_sum"):
            return equation.parameters.get("dimensions") is None or equation.primitive != "reshape"
        before, after = self.shape(operand), _shape(equation.types[0])
        return [size for size in before if size != 1] == [size for size in after if size != 1]

    def summands(self, number: int) -> tuple[int, ...]:
        """What a sum of cotangents adds up."""
        key = self.keys[number]
        return key.operands if key.what == "add_any" else (number,)

    def dot(self, equation: Equation, operands: Sequence[int], type: Hashable) -> int:
        """A contraction by the labels of its dims, its operands' transposes undone."""
        pairs = [tuple(map(_integers, _items(pair))) for pair in _items(equation.parameters["dimension_numbers"])]
        labels: list[list[Hashable]] = [
            [(side, dim) for dim in range(len(self.shape(operands[side])))] for side in (0, 1)
        ]
        for side in (0, 1):
            for place, dim in enumerate((*pairs[1][side], *pairs[0][side])):
                labels[side][dim] = place
        result = [*range(len(pairs[1][0])), *(one for side in labels for one in side if isinstance(one, tuple))]
        sides: list[tuple[int, tuple[Hashable, ...]]] = []
        for operand, names in zip(operands, labels, strict=True):
            key = self.keys[operand]
            if key.what == "transpose" and isinstance(key.says, tuple):
                sides.append((key.operands[0], tuple(names[key.says.index(dim)] for dim in range(len(names)))))
            elif key.what == "dot_general" and isinstance(key.says, tuple):  # in the order of its own labels
                order = sorted(range(len(names)), key=key.says[1].__getitem__)
                turned = self.transposed(operand, tuple(order), _turned(key.type, order))
                sides.append((turned, tuple(names[dim] for dim in order)))
            else:
                sides.append((operand, tuple(names)))
        return self.contraction(sides, result, type)

    def contraction(
        self, sides: Sequence[tuple[int, Sequence[Hashable]]], result: Sequence[Hashable], type: Hashable
    ) -> int:
        """A contraction with its labels made canonical: numbered in order of appearance, the lower operand first."""
        ordered = sorted(sides, key=lambda side: side[0])
        names: dict[Hashable, int] = {}
        for _, labels in ordered:
            for label in labels:
                names.setdefault(label, len(names))
        written = tuple(tuple(names[label] for label in labels) for _, labels in ordered)
        says = written, tuple(names[label] for label in result)
        return self.of(Key("dot_general", type, says, tuple(operand for operand, _ in ordered)))

    def transposed(self, operand: int, order: tuple[int, ...], type: Hashable) -> int:
        """A transpose, fused with the contraction or transpose that it is of."""
        key = self.keys[operand]
        if key.what == "dot_general" and isinstance(key.says, tuple):
            written, result = key.says
            return self.contraction(list(zip(key.operands, written, strict=True)), [result[dim] for dim in order], type)
        if key.what == "transpose" and isinstance(key.says, tuple):
            order, operand = tuple(key.says[dim] for dim in order), key.operands[0]
        if order == tuple(range(len(order))):
            return operand
        return self.of(Key("transpose", type, order, (operand,)))

    def shard_map(self, equation: Equation, operands: Sequence[int], types: Sequence[Hashable]) -> list[int]:
        """A boundary: what goes in is known by what it is outside, and by its type inside."""
        inner = body(equation.parameters["jaxpr"])
        assert inner is not None
        bound = (*inner.constant_types, *inner.input_types)
        inside = [self.crossed("inside", type, one, "outside") for type, one in zip(bound, operands, strict=True)]
        ends = self.results(inner, inside)
        return [self.crossed("outside", type, end, "inside") for type, end in zip(equation.types, ends, strict=True)]

    def elsewhere(self, equation: Equation, operands: Sequence[int], types: Sequence[Hashable]) -> list[int]:
        """A body computed elsewhere, on the host say: what is computed there is not what is computed here."""
        inner = body(equation.parameters["jaxpr"])
        assert inner is not None
        there, here = (f"{side} {equation.parameters.get('compute_type')}" for side in ("inside", "outside"))
        inside = [self.crossed(there, type, one, here) for type, one in zip(inner.input_types, operands, strict=True)]
        given = [*map(self.constant, inner.constant_types), *inside]
        ends = self.results(inner, given)
        return [self.crossed(here, type, end, there) for type, end in zip(equation.types, ends, strict=True)]

    def crossed(self, way: str, type: Type | None, number: int, back: str) -> int:
        """A value on the other side of a boundary; what comes back is what it was."""
        key, wanted = self.keys[number], _plain(type)
        if key.what == back and self.keys[key.operands[0]].type == wanted:
            return key.operands[0]
        if (spread := self.spread(number, wanted)) is not None:
            return spread
        return self.of(Key(way, wanted, (), (number,)))

    def cond(self, equation: Equation, operands: Sequence[int], types: Sequence[Hashable]) -> list[int]:
        """A choice: each branch computes on the operands themselves. What a choice by the same index has made of them
        is, in a branch, what that branch has."""
        value = equation.parameters["branches"]
        items = value.items if isinstance(value, Programs) else (value,)
        branches = []
        for number, item in enumerate(items):
            inner = body(item)
            assert inner is not None
            own = [self.taken(one, operands[0], number) for one in operands[1:]]
            branches.append(self.results(inner, own))
        return [
            self.of(Key("cond", type, (), (operands[0], *(branch[index] for branch in branches))))
            for index, type in enumerate(types)
        ]

    def taken(self, number: int, index: int, branch: int) -> int:
        """A value inside a branch of a choice by this index."""
        key = self.keys[number]
        return key.operands[1 + branch] if key.what == "cond" and key.operands[0] == index else number


_FORMS: Final = {
    "scan": scan,
    "while": while_loop,
    "shard_map": Numbering.shard_map,
    "cond": Numbering.cond,
    "compute_on": Numbering.elsewhere,
}

_BODIES: Final = ("jaxpr", "call_jaxpr", "fun_jaxpr")


_BITS: Final = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""The bits of the exponent and of the mantissa."""


def _plain(type: Type | None) -> Hashable:
    return type.canonical if isinstance(type, ArrayType) else type


def _lone(type: Hashable) -> Hashable:
    """The type of one number of this dtype."""
    return array_type(type.dtype) if isinstance(type, ArrayType) else type


def _shape(type: Hashable) -> tuple[Hashable, ...]:
    return type.shape if isinstance(type, ArrayType) else ()


def _turned(type: Hashable, order: Sequence[int]) -> Hashable:
    """A type with its dims in another order."""
    if not isinstance(type, ArrayType):
        return type
    shape, lists = tuple(type.shape[dim] for dim in order), tuple(type.axes[dim] for dim in order)
    return array_type(
        type.dtype, shape, lists, type.varying, type.unreduced, type.reduced, type.kind, type.memory
    ).canonical


def _items(value: Value) -> tuple[Value, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else ()


def _integers(value: Value) -> tuple[int, ...]:
    return tuple(integer(item, "") for item in _items(value))


def _rows(parameters: Parameters) -> tuple[Hashable, ...]:
    rows = {name: _said(value) for name, value in parameters.items_in_order if name not in _UNSAID}
    return tuple(sorted(((name, value) for name, value in rows.items() if value not in (None, ())), key=str))


def _said(value: Value) -> Hashable:
    """A parameter without the accidents of its spelling: `np.int64(4)`, lists and tuples."""
    if isinstance(value, Call):
        if value.name.startswith("np.") and len(value.arguments) == 1:
            return _said(value.arguments[0])
        keywords = tuple((name, _said(item)) for name, item in value.keywords)
        return value.name, tuple(map(_said, value.arguments)), keywords
    if isinstance(value, (tuple, list)):
        return tuple(map(_said, value))
    if isinstance(value, Braces):
        return frozenset(map(_said, value.items))
    if isinstance(value, Programs):
        return tuple(map(_said, value.items))
    if isinstance(value, (Program, Reference)):
        return _written(body(value))
    return value if isinstance(value, (bool, int)) or value is None else str(value)


def _written(program: Program | None) -> Hashable:
    """A body as it is written, names aside."""
    if program is None:
        return None
    names = [*program.constants, *program.inputs, *(one for each in program.equations for one in each.binders)]
    places: dict[Atom, int] = {name: place for place, name in enumerate(names)}

    def at(atoms: Iterable[Atom]) -> Hashable:
        return tuple(places.get(atom, str(atom)) for atom in atoms)

    steps = tuple((one.primitive, _rows(one.parameters), at(one.inputs)) for one in program.equations)
    return tuple(map(_plain, program.input_types)), steps, at(program.outputs)


def _listed(types: Iterable[Type | None]) -> str:
    return f"({', '.join(map(str, types))})"
