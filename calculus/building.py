"""Programs in the making: equations are emitted one by one, and each is judged as it is, by the rules that judge text.

A builder holds one body. Types are inferred by the judgments, never stated a second time; where a primitive takes a
target, or a form prints its result, the caller gives the type that is wanted, and the judgment compares or refuses.
Names made here (`%1`, `%2`) are no names of the language, so that they never meet a program's own: `calculus.naming`
gives them the names that JAX would print.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from calculus.checking import Checker, Scope
from calculus.copied import Copied, Item, assembled, flat
from calculus.meshes import AxisMode, Mesh
from calculus.pieces import Made, Piece, Steps, Unmade, about
from calculus.primitives import TABLE
from calculus.programs import (
    NO_PARAMETERS,
    Atom,
    Braces,
    Call,
    Equation,
    Literal,
    Pair,
    Parameters,
    Program,
    Value,
    Variable,
    Word,
)
from calculus.refusals import Refused
from calculus.remembering import Memory
from calculus.types import DTYPES, ArrayType, Axes, Type, array_type, dtype_class, same
from calculus.uses import Operand

T = TypeVar("T")

_NUMBERS = itertools.count(1)


def fresh() -> Variable:
    """A name that no program has."""
    return f"%{next(_NUMBERS)}"


class Workbench:
    """What the builders of one derivation share: the checker that judges, and what was derived of bodies so far, and of
    equations (`pieces`, by all that they are a function of).
    assumed: what is trusted about code that is not printed, a sentence each."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.derived: dict[Hashable, object] = {}
        memory = checker.scope.memory
        self.pieces: dict[Hashable, Piece | Unmade] = {**memory.pieces} if memory.lasts else {}
        self.assumed: set[str] = set()
        self._keep: list[object] = []

    @property
    def trusted(self) -> int:
        """How often something was trusted so far."""
        return self.checker.assumptions + sum(self.checker.assumed.values())

    def remember(
        self, key: Hashable, names: tuple[Atom, ...], made: Sequence[Made], results: Sequence[Atom | None],
        kinds: tuple[Any, ...] = (), memory: Memory | None = None,
    ) -> None:  # fmt: skip
        """Keep what an equation, or a run, has contributed, unless one value is there in two places: then what came of
        it does not tell which of the two is meant. memory: where it is kept for other programs too."""
        if len(set(names)) == len(names) or _once_each([name for name in names if isinstance(name, str)]):
            self.pieces[key] = Unmade(names, made, results, kinds)
            if memory is not None:
                piece = self.piece(key)
                if piece is not None and piece.lasting:
                    memory.pieces[key] = piece

    def piece(self, key: Hashable) -> Piece | None:
        """What was kept under a key, if anything was."""
        found = self.pieces.get(key)
        if isinstance(found, Unmade):
            found = self.pieces[key] = Piece.of(*found)
        return found

    def once(self, what: str, program: Program, key: Hashable, make: Callable[[], T]) -> T:
        """What is made of a body, made once. Bodies are told apart by identity, so they are kept."""
        whole = (what, id(program), key)
        if whole not in self.derived:
            self._keep.append(program)
        return self.kept(whole, make)

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is made once of what the key says, its first item what that is."""
        found = self.derived.get(key)
        if found is None:
            found = self.derived[key] = make()
        return found  # type: ignore[return-value]


class Builder:
    """One body in the making. types: of every name that it binds. around: the builder of the body whose names this one
    may use as well: a linear program uses values of the program that it was derived from."""

    def __init__(self, bench: Workbench, scope: Scope, around: Builder | None = None) -> None:
        self.bench = bench
        self.checker = bench.checker
        self.scope = scope
        self.around = around
        self.types: dict[Variable, Type] = {}
        self.items: list[Item] = []
        self.line = 0

    @property
    def equations(self) -> tuple[Equation, ...]:
        """All equations so far."""
        return self.since(0)

    def since(self, mark: int) -> tuple[Equation, ...]:
        """The equations from an item on."""
        return (*flat(self.items[mark:]),)

    @property
    def mesh(self) -> Mesh:
        """The mesh in context."""
        return self.scope.mesh

    def type_of(self, atom: Atom) -> Type:
        """The type of a value, a literal's included."""
        found = self.types.get(atom)  # type: ignore[arg-type]
        if found is not None:
            return found
        if isinstance(atom, Literal):
            return atom.type if atom.type is not None else array_type("f32")
        assert self.around is not None, f"{atom} is not bound"
        return self.around.type_of(atom)

    def input(self, type: Type) -> Variable:
        """A new input of this type."""
        name = fresh()
        self.types[name] = type
        return name

    def emit(
        self,
        primitive: str,
        inputs: Sequence[Atom],
        parameters: Parameters | Mapping[str, Value] | None = None,
        types: Sequence[Type | None] = (None,),
    ) -> tuple[Variable, ...]:
        """An equation, and the names of its results. Raises `Refused` where it has no type."""
        if not parameters:
            parameters = NO_PARAMETERS
        elif not isinstance(parameters, Parameters):
            parameters = Parameters(tuple(parameters.items()))
        found = self.judged(primitive, inputs, parameters, types)
        if len(found) == 1:  # nearly all have one result
            name = f"%{next(_NUMBERS)}"
            self.types[name] = found[0]
            binders: tuple[Variable, ...] = (name,)
        else:
            binders = tuple([fresh() for _ in found])
            self.types.update(zip(binders, found, strict=True))
        self.items.append(Equation(primitive, parameters, tuple(inputs), binders, found, self.line))
        return binders

    def judged(
        self, primitive: str, inputs: Sequence[Atom], parameters: Parameters, types: Sequence[Type | None]
    ) -> tuple[Type, ...]:
        """The types of the results of an equation. Raises `Refused` where it has none."""
        given, type_of, judged = tuple(types), self.type_of, self.scope.judged
        types_here = self.types
        operands: list[Operand] = [
            atom if isinstance(atom, Literal) else types_here.get(atom) or type_of(atom) for atom in inputs
        ]
        key = (primitive, parameters, given, *operands)
        found = judged.get(key)
        if found is None:
            before = len(self.checker.refusals)
            equation = Equation(primitive, parameters, tuple(inputs), ("",) * len(given), given, self.line)
            found = self.checker.judge(equation, operands, self.scope, key)
            if len(self.checker.refusals) > before:
                refusal = self.checker.refusals[before][0]
                del self.checker.refusals[before:]
                raise Refused(refusal)
            if key in judged and given != found[0].types:  # what is inferred would be checked as well, were it printed
                printed = (primitive, parameters, found[0].types, *operands)
                judged[printed] = found
                if self.scope.memory.lasts and key in self.scope.memory.judged:
                    self.scope.memory.judged[printed] = found
        return found[0].types

    def rather(
        self,
        primitive: str,
        inputs: Sequence[Atom],
        parameters: Parameters | Mapping[str, Value] | None,
        types: Sequence[Type | None],
    ) -> tuple[Variable, ...]:
        """An equation at the types that are wanted, where it can have them; else at those that follow."""
        try:
            return self.emit(primitive, inputs, parameters, types)
        except Refused:
            if all(type is None for type in types):
                raise
            return self.emit(primitive, inputs, parameters, [None] * len(types))

    def again(self, items: Sequence[Item]) -> None:
        """Equations that are judged already, under their own names."""
        types = self.types
        for item in items:
            if isinstance(item, Copied):
                types.update(zip(item.names, item.steps.types, strict=True))
            elif len(item.binders) == 1:
                types[item.binders[0]] = item.types[0]  # type: ignore[assignment]
            else:
                types.update(zip(item.binders, item.types, strict=True))  # type: ignore[arg-type]
        self.items += items

    def copy(self, steps: Steps, values: list[Atom], line: int) -> None:
        """Equations that are judged already, at these types in this scope, on other values and under new names, which
        join `values`. line: of the equation that they are a piece of."""
        names = self._names(steps, values)
        given = tuple(values)
        there = [about(line, operand) if elsewhere is None else elsewhere for _, operand, elsewhere in steps.stands]
        self.items += [
            Equation(step.primitive, step.parameters, step.taken(given), binders, step.types, there[step.stand])
            for step, binders in zip(steps.steps, steps.bound(names), strict=True)
        ]

    def lay(self, steps: Steps, values: list[Atom], line: Callable[[int], int]) -> None:
        """The same of a run, as one item. line: gives the line of the equation of the run at a place."""
        if steps.steps:
            names = self._names(steps, values)
            self.items.append(Copied(steps, tuple(values), names, line))

    def _names(self, steps: Steps, values: list[Atom]) -> tuple[Variable, ...]:
        names = tuple([f"%{number}" for number in itertools.islice(_NUMBERS, len(steps.types))])
        self.types.update(zip(names, steps.types, strict=True))
        values += names
        return names

    def one(
        self,
        primitive: str,
        inputs: Sequence[Atom],
        parameters: Parameters | Mapping[str, Value] | None = None,
        type: Type | None = None,
    ) -> Variable:
        """An equation with one result."""
        return self.emit(primitive, inputs, parameters, (type,))[0]

    def literal(self, value: float, dtype: str) -> Literal:
        """A number of a dtype, as JAX writes it."""
        kind = dtype_class(dtype)
        text = str(int(value)) if kind in "iu" else str(bool(value)) if kind == "b" else repr(float(value))
        return Literal(f"({text.removesuffix('.0')}+0j)" if kind == "c" else text, array_type(dtype))

    def full(self, value: float, type: ArrayType) -> Atom:
        """A number everywhere, at a type."""
        number = self.literal(value, type.dtype)
        if not type.rank and type.plain and not type.memory:
            return number
        alike = array_type(type.dtype, type.shape, type.axes, (), type.unreduced, type.reduced, memory=type.memory)
        found = self.one("broadcast_in_dim", (number,), None, alike)
        return self.one("pvary", (found,), {"axes": type.varying}, type) if type.varying else found

    def places(self, dim: int, type: ArrayType, dtype: str = "i32") -> Atom:
        """How far each element stands along a dim, at a type's shape and placement; the same on every device."""
        placed = array_type(dtype, type.shape, type.axes)
        sizes: tuple[Value, ...] = tuple(Word(size) if isinstance(size, str) else size for size in type.shape)
        rows: dict[str, Value] = {"dtype": Word(DTYPES[dtype][0]), "shape": sizes, "dimension": dim % type.rank}
        rows["sharding"] = self.sharding(placed) if placed.sharded else None
        found = self.one("iota", (), rows)
        varying = array_type(dtype, type.shape, type.axes, type.varying)
        return self.one("pvary", (found,), {"axes": type.varying}, varying) if type.varying else found

    def at(self, atom: Atom, type: Type) -> Atom:
        """A value at a type: itself, or brought to its memory, and resharded."""
        have = self.type_of(atom)
        if isinstance(have, ArrayType) and isinstance(type, ArrayType) and have.memory != type.memory:
            atom = self.moved(atom, type.memory)
        return atom if same(self.type_of(atom), type) else self.one("reshard", (atom,), None, type)

    def moved(self, atom: Atom, memory: str) -> Variable:
        """A value in another memory, empty for the device's own: each device copies its part."""
        return self.one(
            "device_put",
            (atom,),
            {
                "copy_semantics": (Word("ArrayCopySemantics.ALWAYS_COPY"),),
                "devices": (Word(f"MemorySpace.{(memory or 'device').capitalize()}"),),
                "srcs": (None,),
            },
        )

    def sharding(self, type: ArrayType) -> Value:
        """The parameter that asks for a type's placement."""
        return self.bench.kept(("sharding", self.scope, type), lambda: sharding(type, self.mesh))

    def inline(self, program: Program, inputs: Sequence[Atom]) -> tuple[Atom, ...]:
        """The equations of a program on these values, and its results."""
        names: dict[Variable, Atom] = dict(zip((*program.constants, *program.inputs), inputs, strict=True))
        for equation in program.equations:
            self.line = equation.line
            found = self.emit(
                equation.primitive, [_renamed(atom, names) for atom in equation.inputs], equation.parameters,
                equation.types,
            )  # fmt: skip
            names.update(zip(equation.binders, found, strict=True))
        return tuple(_renamed(atom, names) for atom in program.outputs)

    def program(self, inputs: Sequence[Variable], outputs: Sequence[Atom], keep: int = 0) -> Program:
        """The program of what was emitted, without what nothing uses beyond the first `keep` items."""
        live: set[Atom] = set(outputs)
        unused, need = live.isdisjoint, live.update
        kept: list[Item] = []
        for item in reversed(self.items[keep:]):
            if isinstance(item, Copied):
                left = item.needed(live)
                if left is not None:
                    kept.append(left)
            elif not unused(item.binders):
                kept.append(item)
                need(item.inputs)
        items = (*self.items[:keep], *reversed(kept))
        types = tuple(map(self.type_of, inputs))
        return assembled(Program((), (), tuple(inputs), types, (), tuple(outputs)), items)


def memory_of(scope: Scope, equation: Equation) -> Memory | None:
    """Where what was derived of an equation is kept for other programs, if it is: of a declared primitive that is not
    trusted, and holds no body."""
    if not scope.memory.lasts:
        return None
    primitive = TABLE.get(equation.primitive)
    return None if primitive is None or primitive.trusted or equation.parameters.holding else scope.memory


def _once_each(names: Sequence[Variable]) -> bool:
    return len(set(names)) == len(names)


def _renamed(atom: Atom, names: Mapping[Variable, Atom]) -> Atom:
    return names[atom] if isinstance(atom, str) else atom


def sharding(type: ArrayType, mesh: Mesh) -> Value:
    """`NamedSharding(mesh=AbstractMesh(...), spec=P(...))`; the spec alone where a size of the mesh is not known. Of
    manual axes there is nothing to say."""
    type = type.without(manual(mesh))
    spec = partition_spec(type.axes, type.unreduced, type.reduced)
    if any(axis.size is None for axis in mesh.axes):
        return spec
    pairs = tuple(Pair(axis.name, axis.size) for axis in mesh.axes)
    modes = tuple(Word(axis.mode.value.capitalize()) for axis in mesh.axes)
    return Call("NamedSharding", (), (("mesh", Call("AbstractMesh", pairs, (("axis_types", modes),))), ("spec", spec)))


def partition_spec(lists: Iterable[Axes], unreduced: Axes = (), reduced: Axes = ()) -> Call:
    """`P('X', None, unreduced={'Y'})`, as JAX prints it."""
    keywords: list[tuple[str, Value]] = []
    if unreduced:
        keywords += [("unreduced", Braces(unreduced)), ("unreduced_kind", Word("sum"))]
    if reduced:
        keywords.append(("reduced", Braces(reduced)))
    return Call("P", tuple((axes[0] if len(axes) == 1 else axes) if axes else None for axes in lists), tuple(keywords))


def manual(mesh: Mesh) -> Axes:
    """The axes of a mesh along which the code around is manual."""
    return tuple(axis.name for axis in mesh.axes if axis.mode is AxisMode.MANUAL)
