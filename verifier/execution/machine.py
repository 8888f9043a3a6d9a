"""The machine: it runs a body equation by equation, on devices that hold one block of every value each.

One machine runs a program whole: its types mention no axis, and only where code is manual are there devices, one for
each coordinate along the manual axes. Another one runs it per device, at the types and with the collectives that the
judgment of every equation concludes. Equations that no result needs are not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from calculus.bodies import Several
from calculus.checking import Checked, Checker, Scope
from calculus.communication import Collective
from calculus.effects import Inner, Pricing
from calculus.meshes import AxisMode, Mesh
from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Atom, Equation, Literal
from calculus.refusals import Refused
from calculus.rules import Typing
from calculus.types import ArrayType, Axes, Type, array_type, held
from calculus.uses import Operand, operand_type
from verifier.devices import Array, NotAFamily, read_back
from verifier.execution.account import Account, Place
from verifier.execution.arithmetic import CannotRun, dtype_of, number, stored
from verifier.execution.comparing import size_of, unit
from verifier.execution.grid import Blocks, Grid, local_shape
from verifier.execution.local import Steps, Use
from verifier.execution.moves import Lying, NotDerived, follow
from verifier.execution.parting import Partings
from verifier.execution.rounding import Rounding


@dataclass(slots=True)
class Cell:
    """What a Ref names: the blocks of what it holds, which change."""

    blocks: Blocks


Value: TypeAlias = "Blocks | Cell | None"
"""What a name stands for; `None` for a token, and for what no result needs."""


def copied(value: Value) -> Value:
    """A value that no run changes."""
    return Cell([block.copy() for block in value.blocks]) if isinstance(value, Cell) else value


class Disagreement(Exception):
    """Devices hold what no array of the type is: copies that differ. The message says where. held: by device, what it
    holds."""

    def __init__(self, message: str, held: Sequence[tuple[str, Array]] = ()) -> None:
        super().__init__(message)
        self.held = tuple(held)


class Failed(Exception):
    """A run that ended at an equation. cause: what is wrong there."""

    def __init__(self, equation: Equation, cause: Exception) -> None:
        super().__init__(str(cause))
        self.equation = equation
        self.cause = cause


class Step(NamedTuple):
    """One equation with its judgment. given: the operands' types, or literals."""

    at: int
    equation: Equation
    given: tuple[Operand, ...]
    typing: Typing
    inner: tuple[Inner, ...]


@dataclass(slots=True)
class Frame:
    """One run of a body: where it stands, and what was moved in it already. needed: the names that a result needs."""

    scope: Scope
    grid: Grid
    needed: AbstractSet[Atom]
    moved: dict[tuple[object, ...], Lying] = field(default_factory=dict)
    turned: set[tuple[object, ...]] = field(default_factory=set)

    def first(self, atom: Atom, collective: Collective) -> bool:
        """Whether a collective of an operand that is turned round is the first such of this body."""
        key = (atom, collective.kind, collective.axes, collective.payload, collective.goal)
        if atom == "_" or key not in self.turned:
            self.turned.add(key)
            return True
        return False


class Machine:
    """Runs programs. whole: on one machine; else on `count` devices. kernels: what stands for primitives that nobody
    here computes. alike: manual axes along which nothing varies, so that a machine which runs a program whole takes
    them for explicit (theorem `modes`)."""

    def __init__(
        self, checker: Checker, whole: bool, count: int, random: np.random.Generator,
        kernels: Mapping[str, Handler] = MappingProxyType({}), alike: AbstractSet[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.checker = checker
        self.whole = whole
        self.count = count
        self.random = random
        self.kernels = kernels
        self.alike = alike
        self.account = Account()
        self.pricing = Pricing()
        self.partings = Partings()
        self.watched: dict[str, tuple[Array, Type, Blocks]] = {}
        self._terms: dict[int, int] = {}
        self._dtypes: set[str] = set()
        self._work = 0
        self.cancelled = 1.0
        self.lost = 0.0
        self.rounding: Rounding | None = None
        self._steps: dict[tuple[int, Scope], list[Step]] = {}
        self._grids: dict[Mesh, Grid] = {}
        self._keep: list[Checked] = []

    @property
    def growth(self) -> int:
        """How many roundings, to first order, lead to a result: the terms of every sum, and one for each equation."""
        return sum(self._terms.values())

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the coarsest dtype that was computed in."""
        return max((unit(dtype_of(dtype)) for dtype in self._dtypes), default=0.0)

    # --- where values are ---------------------------------------------------------------------------------------------

    def grid(self, mesh: Mesh) -> Grid:
        """The devices as a mesh numbers them; of a machine that runs a program whole, those along the manual axes."""
        found = self._grids.get(mesh)
        if found is None:
            if self.whole:
                shown = Mesh((axis for axis in mesh.axes if self._apart(mesh, axis.name)), mesh.tracked)
                found = Grid(shown, shown.size(shown.by_name) or 1)
            else:
                found = Grid(mesh, self.count)
            self._grids[mesh] = found
        return found

    def seen(self, type: ArrayType, mesh: Mesh) -> ArrayType:
        """A type as this machine sees it: run whole, only what it says of manual axes."""
        if not self.whole:
            return type
        return type.without([axis for axis in type.mentioned if not self._apart(mesh, axis)])

    def _apart(self, mesh: Mesh, axis: str) -> bool:
        """Whether a program that runs whole has devices along an axis."""
        return mesh.mode(axis) is AxisMode.MANUAL and not (mesh.tracked and axis in self.alike)

    def grid_of(self, type: ArrayType, scope: Scope) -> Grid:
        """The devices as the mesh of a type numbers them."""
        return self.grid(scope.mesh if self.whole else scope.mesh_of(type))

    def checked_value(self, value: Value, type: Type | None, scope: Scope) -> Array | None:
        """The array that blocks are. Raises `Disagreement` where they are none of this type."""
        inner = held(type)
        blocks = value.blocks if isinstance(value, Cell) else value
        if blocks is None or not isinstance(inner, ArrayType):
            return None
        shown = stored(self.seen(inner, scope.mesh))
        grid = self.grid_of(inner, scope)
        mesh = grid.mesh
        apart: Axes = ()
        if not scope.mesh.tracked:  # types say nothing along manual axes
            apart = tuple(
                axis.name
                for axis in mesh.axes
                if scope.mesh.mode(axis.name) is AxisMode.MANUAL and axis.name not in shown.mentioned
            )
        if apart:
            shown = array_type(
                shown.dtype, shown.shape, shown.axes, mesh.in_order((*shown.varying, *apart)), shown.unreduced,
                shown.reduced, shown.kind,
            )  # fmt: skip
        if len(set(grid.places)) < len(blocks):
            shown, mesh = array_type(shown.dtype, shown.shape), Mesh([_line(len(blocks))])
            grid = Grid(mesh, len(blocks))
        try:
            found = read_back(dict(zip(grid.places, blocks, strict=True)), shown, mesh)
        except NotAFamily as error:
            if any(block.shape != local_shape(shown, mesh) for block in blocks):
                raise NotDerived(str(error)) from error
            raise Disagreement(str(error), grid.named(blocks)) from error
        if shown.unreduced:
            pieces, left = sum(map(size_of, blocks)), size_of(found)
            self.cancelled = max(self.cancelled, min(pieces / left, MOST_CANCELLED) if left else 1.0)
            if pieces > MOST_CANCELLED * left:  # what is left says nothing of how far their sum is rounded
                self.lose(pieces, shown.dtype)
        return found

    def lose(self, pieces: float, dtype: str) -> None:
        """Count that the sum of pieces of this size in all is off by a rounding of theirs."""
        self.lost = max(self.lost, pieces * unit(dtype_of(dtype)))

    # --- bodies -------------------------------------------------------------------------------------------------------

    def run(
        self, checked: Checked, scope: Scope, inputs: Sequence[Value], used: frozenset[int], watch: bool = False
    ) -> list[Value]:
        """The results of a body, those that are used. Raises `Failed`."""
        live = self.pricing.live(checked, used)
        program = checked.program
        env: dict[str, Value] = dict(zip((*program.constants, *program.inputs), inputs, strict=True))
        frame = Frame(scope, self.grid(scope.mesh), live.needed)
        for step in self.steps(checked, scope):
            if step.at not in live.equations:
                continue
            equation = step.equation
            try:
                operands = [
                    self.read(env, atom, type, frame) for atom, type in zip(equation.inputs, step.given, strict=True)
                ]
                self._all_come(step, frame)
                results = self._executed(step, operands, frame)
                if self.rounding is not None and not step.inner:
                    results = [
                        self.rounding.finished(value) if isinstance(value, list) and _finishes(step, type) else value
                        for value, type in zip(results, step.typing.types, strict=True)
                    ]
                for name, value, type in zip(equation.binders, results, step.typing.types, strict=True):
                    env[name] = value
                    whole = self.checked_value(value, type, scope)
                    if watch and whole is not None and isinstance(value, list):
                        self.watched[name] = (whole, type, value)
            except (CannotRun, NotDerived, Disagreement, Refused) as error:
                raise Failed(equation, error) from error
        wanted = [type if not isinstance(type, (Literal, Several)) else None for type in checked.types]
        return [
            self.read(env, atom, atom if isinstance(atom, Literal) else type, frame) if index in used else None
            for index, (atom, type) in enumerate(zip(program.outputs, wanted, strict=True))
        ]

    def _all_come(self, step: Step, frame: Frame) -> None:
        """Raise `Disagreement` where devices wait in a collective for others that have parted from them."""
        for _, collective in self.slots(step):
            waiting = self.partings.awaited(frame.grid, collective.axes, step.equation.primitive)
            if waiting:
                raise Disagreement(waiting)

    def read(self, env: Mapping[str, Value], atom: Atom, given: Operand | None, frame: Frame) -> Value:
        """What an atom stands for."""
        if not isinstance(atom, Literal):
            return env.get(atom)
        wanted = given if not isinstance(given, Literal) else given.type
        return [number(atom, wanted)] * frame.grid.count

    def steps(self, checked: Checked, scope: Scope) -> list[Step]:
        """The equations of a body with their judgments, which the checker remembers."""
        key = (id(checked), scope)
        found = self._steps.get(key)
        if found is None:
            self._keep.append(checked)
            found = self._steps[key] = list(self._judged(checked, scope))
        return found

    def _judged(self, checked: Checked, scope: Scope) -> Iterator[Step]:
        program = checked.program
        types: dict[str, Type | None] = dict(
            zip((*program.constants, *program.inputs), (*program.constant_types, *program.input_types), strict=True)
        )
        for at, equation in enumerate(program.equations):
            given = tuple(atom if isinstance(atom, Literal) else types[atom] for atom in equation.inputs)
            if None in given:
                raise Failed(equation, CannotRun("an operand has no type"))
            key = (equation.primitive, equation.parameters, equation.types, *given)
            remembered = scope.judged.get(key)
            try:
                typing, inner = remembered or self.checker.judge(equation, given, scope, key)  # type: ignore[arg-type]
            except Refused as refused:
                raise Failed(
                    equation, CannotRun("which of the values that are called _ is meant is not printed")
                ) from refused
            yield Step(at, equation, given, typing, inner)  # type: ignore[arg-type]
            types.update(zip(equation.binders, typing.types, strict=True))

    # --- equations ----------------------------------------------------------------------------------------------------

    def _executed(self, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
        primitive = TABLE.get(step.equation.primitive)
        standing = self.kernels.get(step.equation.primitive)
        if standing is not None:
            return standing(self, step, operands, frame)
        if primitive is None:
            from verifier.execution.forms import form

            return [
                _fitting(value, type)
                for value, type in zip(form(self, step, operands, frame), step.typing.types, strict=True)
            ]
        scope = frame.scope
        types = [operand_type(one) for one in step.given]
        site = Site(
            step.equation.parameters,
            tuple([type.shape if isinstance(type, ArrayType) else () for type in types]),
            tuple([type.dtype if isinstance(type, ArrayType) else None for type in types]),
            step.equation.types,
        )
        mesh = scope.common_mesh(step.equation, step.given) if scope.others and not self.whole else scope.mesh
        grid = self.grid(mesh)
        arrays = [self.seen(one, mesh) if isinstance(one, ArrayType) else None for one in step.given]
        results = [self.seen(type, mesh) for type in step.typing.types if isinstance(type, ArrayType)]
        self.work(results, grid)
        blocks = [self.blocks(value, step) for value in operands]
        steps = self.slots(step)
        literal = next(
            (block.dtype for each, one in zip(blocks, arrays, strict=True) for block in each[:1] if one), None
        )
        if literal is not None and None in site.dtypes:
            blocks = [
                [block.astype(literal) for block in each] if dtype is None else each
                for each, dtype in zip(blocks, site.dtypes, strict=True)
            ]
        use = Use(primitive, site, arrays, results, grid, self.account)
        self._terms[id(step.equation)] = use.terms
        self._dtypes.update(type.dtype for type in results)
        found = use.run(
            blocks,
            steps,
            lambda index, value, own: self.moved(step, index, value, own, frame),
            lambda collective: frame.first(step.equation.inputs[collective.subject], collective),
        )
        if self.rounding is not None:
            found = self.rounding.moved(primitive, site, blocks, found, use.terms)
        return list(found)

    def work(self, results: Sequence[ArrayType], grid: Grid) -> None:
        """Count the elements that are computed. Raises `CannotRun` where they are more than numpy does in a minute."""
        for type in results:
            if any(isinstance(size, str) for size in type.shape):
                raise CannotRun(f"{type} has a symbolic size")
            self._work += 20_000 + grid.count * prod(local_shape(type, grid.mesh))
        if self._work > MOST_WORK:
            raise CannotRun("the program is too large to be run here: make its arrays, loops or meshes smaller")

    def slots(self, step: Step) -> list[tuple[Place, Collective]]:
        """The collectives that were derived for an equation: none where the program runs whole."""
        if self.whole:
            return []
        return [(Place(step.equation, slot), one) for slot, one in enumerate(step.typing.collectives)]

    def moved(
        self, step: Step, index: int, value: Lying, steps: Steps, frame: Frame, goal: ArrayType | None = None
    ) -> Lying:
        """An operand moved as it was derived; what was moved to the same place before in this body moves no more."""
        atom = step.equation.inputs[index]
        for at, (place, collective) in enumerate(steps):
            then = steps[at + 1][1] if at + 1 < len(steps) else None
            key = (atom, collective.kind, collective.axes, collective.payload, collective.goal)
            known = frame.moved.get(key) if atom != "_" and collective.goal is not None else None
            if known is None:
                known = follow(value, goal or value.type, [(place, collective)], self.account, then)
                if collective.goal is not None:
                    frame.moved[key] = known
            value = known
        return value

    @staticmethod
    def blocks(value: Value, step: Step) -> Blocks:
        """The blocks of an operand that must be an array."""
        if isinstance(value, list):
            return value
        raise CannotRun(f"an operand of {step.equation.primitive} is no array")


def _fitting(value: Value, type: Type | None) -> Value:
    """A result in the dtype of its type: a literal that prints none comes out of a body as a number of any."""
    if not isinstance(value, list) or not isinstance(type, ArrayType):
        return value
    dtype = dtype_of(type.dtype)
    return value if value[0].dtype == dtype else [block.astype(dtype) for block in value]


def _line(count: int):  # type: ignore[no-untyped-def]
    from calculus.meshes import Axis

    return Axis("device", count)


def _finishes(step: Step, type: Type | None) -> bool:
    """Whether a result is the sum of an operand's pieces."""
    return isinstance(type, ArrayType) and any(
        isinstance(given, ArrayType) and not set(given.unreduced) <= set(type.unreduced) for given in step.given
    )


Handler: TypeAlias = "Callable[[Machine, Step, Sequence[Value], Frame], list[Value]]"
MOST_CANCELLED: Final = 1000.0
"""How many times larger pieces may be than what they add up to, for their roundings to count as a share of that."""
MOST_WORK: Final = 4_000_000_000
"""The most elements that are computed, each equation counted as twenty thousand at least."""
MOST_ITERATIONS: Final = 3_000
"""The most iterations of a loop whose number the data decide."""
ENDLESS: Final = "the loop has not ended"
