"""A body in the making: its values, types for new ones, and proposals that the rules judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, TypeVar

from calculus.building import Builder, Workbench
from calculus.building import manual as manual_axes
from calculus.checking import Scope
from calculus.meshes import AxisMode, Mesh
from calculus.programs import Atom, Equation, Literal, Parameters, Program, Value, Variable
from calculus.refusals import Refused
from calculus.types import ArrayType, Axes, Type, array_type

T = TypeVar("T")

SIZES: Final = (4, 8)
"""Of dims: cut evenly by two axes of two."""
STATES: Final = "NRUSSS"
"""Along an explicit axis: what is cut is the likeliest."""
MOST: Final = 4096
"""The most elements of an array: products of products grow."""


class Miss(NamedTuple):
    """An equation that was refused, as a program of its own, on the mesh around it; and why."""

    program: Program
    mesh: Mesh
    code: str
    message: str


class Tally:
    """What was proposed, and what was taken, by primitive. misses: what was refused, each on its operands alone."""

    def __init__(self) -> None:
        self.proposed: Counter[str] = Counter()
        self.taken: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self.misses: list[Miss] = []


class Grown(NamedTuple):
    """A program that was drawn, the mesh that it is on, and how it came about."""

    program: Program
    mesh: Mesh
    tally: Tally


class Grower:
    """One body. values: what has a name there. manual: the axes along which the body is per-device code. nesting: how
    much deeper bodies may nest. states: what an array may be in along an explicit axis."""

    def __init__(
        self, random: Random, bench: Workbench, scope: Scope, tally: Tally, nesting: int,
        moves: Callable[[Grower], Sequence[Callable[[Grower], None]]], states: str = STATES,
    ) -> None:  # fmt: skip
        self.random = random
        self.bench = bench
        self.scope = scope
        self.tally = tally
        self.nesting = nesting
        self.moves = moves
        self.states = states
        self.builder = Builder(bench, scope)
        self.values: list[Variable] = []
        self.used: set[Atom] = set()

    @property
    def mesh(self) -> Mesh:
        """The mesh in context."""
        return self.scope.mesh

    @property
    def manual(self) -> Axes:
        """The axes that are manual here."""
        return manual_axes(self.mesh)

    @property
    def explicit(self) -> Axes:
        """The axes that types may name on dims here."""
        return tuple(axis.name for axis in self.mesh.axes if axis.mode is AxisMode.EXPLICIT)

    def grow(self, inputs: Sequence[Variable], length: int) -> None:
        """So many proposals, on these values and on what comes of them."""
        self.values += inputs
        for _ in range(length):
            self.random.choice(self.moves(self))(self)

    def inner(self, scope: Scope | None = None) -> Grower:
        """A body inside."""
        return Grower(
            self.random, self.bench, scope or self.scope, self.tally, self.nesting - 1, self.moves, self.states
        )  # fmt: skip

    def propose(
        self, primitive: str, inputs: Sequence[Atom], parameters: Parameters | Mapping[str, Value] | None = None,
        types: Sequence[Type | None] = (None,),
    ) -> tuple[Variable, ...]:  # fmt: skip
        """An equation, if the rules take it; else nothing. Its results are values from now on."""
        self.tally.proposed[primitive] += 1
        try:
            results = self.builder.emit(primitive, inputs, parameters, types)
        except Refused as refused:
            self.tally.misses.append(self._missed(primitive, inputs, parameters, types, refused))
            return ()
        self.tally.taken[primitive] += 1
        self.used.update(inputs)
        for result in results:
            type = self.builder.type_of(result)
            if isinstance(type, ArrayType):
                self.values.append(result)
                self.tally.states.update(type.state(axis.name) for axis in self.mesh.axes)
        return results

    def _missed(
        self, primitive: str, inputs: Sequence[Atom], parameters: Parameters | Mapping[str, Value] | None,
        types: Sequence[Type | None], refused: Refused,
    ) -> Miss:  # fmt: skip
        rows = parameters if isinstance(parameters, Parameters) else Parameters(tuple((parameters or {}).items()))
        binders = tuple(f"_{number}" for number in range(len(types)))
        equation = Equation(primitive, rows, tuple(inputs), binders, tuple(types))
        given = {atom: self.builder.type_of(atom) for atom in inputs if not isinstance(atom, Literal)}
        program = Program((), (), tuple(given), tuple(given.values()), (equation,), binders)
        return Miss(program, self.mesh, refused.refusal.code, refused.refusal.message)

    # --- values ---

    def type(self, atom: Atom) -> ArrayType:
        """The type of a value."""
        found = self.builder.type_of(atom)
        assert isinstance(found, ArrayType)
        return found

    def pick(self, suits: Callable[[ArrayType], bool] = lambda _: True, dtype: str = "f32") -> Variable | None:
        """A value that suits, the younger the likelier; `None` where there is none."""
        fitting = [one for one in self.values if self.type(one).dtype == dtype and suits(self.type(one))]
        if not fitting:
            return None
        return fitting[-1 - int(self.random.random() ** 2 * len(fitting))]

    def some(self, items: Sequence[T], least: int = 1, most: int = 3) -> list[T]:
        """A few of these, in their order."""
        count = min(len(items), self.random.randint(least, most))
        return [items[position] for position in sorted(self.random.sample(range(len(items)), count))]

    def ends(self) -> tuple[Variable, ...]:
        """The results: what nothing uses, and at least something."""
        floating = [one for one in self.values if self.type(one).dtype == "f32"]
        fresh = [one for one in floating if one not in self.used]
        return tuple(fresh[-3:] or floating[-1:])

    # --- types ---

    def any_type(self) -> ArrayType:
        """A type of floating numbers, in any state along each axis."""
        return self.placed([self.random.choice(SIZES) for _ in range(self.random.choice((0, 1, 2, 2, 2, 3)))])

    def placed(self, shape: Sequence[int], beside: ArrayType | None = None) -> ArrayType:
        """A type of this shape, its state along each explicit axis drawn; along the others it is that of `beside`."""
        lists: list[list[str]] = [[] for _ in shape]
        along: dict[str, list[str]] = {"R": [], "U": [], "V": []}
        for axis in self.mesh.axes:
            if axis.mode is not AxisMode.EXPLICIT:
                state = beside.state(axis.name) if beside is not None else self.random.choice("NRUVV")
            else:
                state = self.random.choice(self.states)
            count = self.mesh.size((axis.name,)) or 1
            fitting = [dim for dim, size in enumerate(shape) if size % (count * (self.mesh.size(lists[dim]) or 1)) == 0]
            if state == "S" and fitting:
                lists[self.random.choice(fitting)].append(axis.name)
            elif state in along:
                along[state].append(axis.name)
        axes = tuple(map(tuple, lists))
        varying, unreduced, reduced = (tuple(along[state]) for state in "VUR")
        return array_type("f32", tuple(shape), axes, varying, unreduced, reduced)


def sizes(type: ArrayType) -> tuple[int, ...]:
    """A shape whose sizes are all known."""
    return tuple(size for size in type.shape if isinstance(size, int))


def like(
    type: ArrayType, shape: Sequence[int], axes: Sequence[Axes] | None = None, unreduced: Axes | None = None
) -> ArrayType:
    """A type in the same states, of another shape."""
    lists = tuple(axes) if axes is not None else ((),) * len(shape)
    pending = type.unreduced if unreduced is None else unreduced
    return array_type(type.dtype, tuple(shape), lists, type.varying, pending, type.reduced)
