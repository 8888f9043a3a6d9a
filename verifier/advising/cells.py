"""The cells of an equation: the types that its operands and results may have together, and what they cost.

Which cells there are is what the checker says of the equation at those types. What a cell costs is what its judgment
communicates and, where a cotangent comes back, what the derived transpose does: of the equation alone, since the
backward effect of a composition is the sum of its parts' (seed A3). Equations that agree in all this are asked once.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from math import prod
from typing import Final, NamedTuple, TypeAlias

from calculus.building import Workbench, fresh, sharding
from calculus.checking import Checker, Scope
from calculus.effects import charges
from calculus.gradients import vjp
from calculus.primitives import TABLE
from calculus.programs import NO_PARAMETERS, Atom, Equation, Literal, Parameters, Program
from calculus.refusals import Refused
from calculus.rules import Typing
from calculus.types import ArrayType, Axes, Type, array_type, same
from calculus.uses import Operand
from verifier.advising.choices import choices, moving, sent, state

CHANGED: Final = 2
"""How much a result that is asked for otherwise weighs, where prices tie; a cast weighs 1."""

BROADCASTING: Final = frozenset({"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "reshard"})
"""What makes dims itself."""

MOST_TRIED: Final = 4000
"""The most combinations of one equation; beyond, operands that have one type have one type."""


Kinds: TypeAlias = "tuple[Type | None, ...]"
"""The types that one value may have."""


class Wide(NamedTuple):
    """What becomes of an operand that is broadcast to the shape of a result, and then cut as that is: the types after
    both steps, and how many dims it had."""

    whole: ArrayType
    cut: ArrayType
    rank: int


class Cell(NamedTuple):
    """operands: their types, a literal's `None`. results: theirs. parameters: of the equation, the target that it asks
    for included. forward, backward: wire bytes per device, each time. changed: how much an author would have to write
    for it. wide: of each operand, what becomes of it before it is used, if anything does."""

    operands: tuple[Type | None, ...]
    results: tuple[Type | None, ...]
    parameters: Parameters
    forward: float
    backward: float
    changed: int
    wide: tuple[Wide | None, ...] = ()


class Cells:
    """The cells of equations along one axis, or several at once. refused: those that somebody else (a release of JAX)
    does not take, and casts, by both types."""

    def __init__(self, checker: Checker, axes: Axes) -> None:
        self.checker = checker
        self.scope: Scope = checker.scope
        self.mesh = checker.scope.mesh
        self.axes = axes
        self.refused: set[Hashable] = set()
        self._bench = Workbench(Checker(checker.scope.meshes))
        self._choices: dict[tuple[Type | None, bool], Kinds] = {}
        self._cells: dict[Hashable, list[Cell]] = {}
        self._backward: dict[Hashable, float | None] = {}

    def choices(self, type: Type | None, cut: bool = False) -> Kinds:
        """The types that a value of this type may have."""
        found = self._choices.get((type, cut))
        if found is None:
            found = self._choices[type, cut] = choices(type, self.axes, self.mesh, cut)
        return found

    def of(
        self, equation: Equation, operands: Sequence[Operand], kinds: Sequence[Kinds], wanted: Sequence[Kinds],
        active: tuple[bool, ...],
    ) -> list[Cell]:  # fmt: skip
        """The cells of an equation of the table, or of a reshard. kinds, wanted: the types that its operands and
        results may have. active: the operands that a cotangent comes back to."""
        key = (equation.primitive, equation.parameters, equation.types, *operands, *kinds, *wanted, active)
        found = self._cells.get(key)
        if found is None:
            make = self._resharded if equation.primitive == "reshard" else self._found
            found = self._cells[key] = list(make(equation, operands, kinds, wanted, active))
        return [cell for cell in found if cell_key(equation, cell) not in self.refused]

    def _resharded(
        self, equation: Equation, operands: Sequence[Operand], kinds: Sequence[Kinds], wanted: Sequence[Kinds],
        active: tuple[bool, ...],
    ) -> Iterator[Cell]:  # fmt: skip
        (operand,) = operands
        own = equation.types[0]
        for source in kinds[0]:
            for target in wanted[0]:
                changed = 0 if target is own else CHANGED if source is target else 1
                if ("reshard", source, target) in self.refused:
                    continue
                if isinstance(operand, Literal):
                    if target is own:
                        yield Cell((None,), (own,), equation.parameters, 0.0, 0.0, 0)
                    continue
                forward = moving(source, target, self.mesh, False)
                backward = moving(source, target, self.mesh, active[0]) - forward
                yield Cell((source,), (target,), equation.parameters, forward, backward, changed)

    def _found(
        self, equation: Equation, operands: Sequence[Operand], kinds: Sequence[Kinds], wanted: Sequence[Kinds],
        active: tuple[bool, ...],
    ) -> Iterator[Cell]:  # fmt: skip
        for given in _combinations(operands, kinds, wanted):
            own = all(one is other or isinstance(other, Literal) for one, other in zip(given, operands, strict=True))
            inferred = self._judged(equation, given, equation.parameters, (None,) * len(equation.types))
            said = inferred.types if inferred else ()
            for results in itertools.product(*wanted):
                for parameters in self._asking(equation, results):
                    typing = self._judged(equation, given, parameters, results)
                    if typing is None:
                        continue
                    backward = self._back(equation, given, parameters, typing.types, active)
                    if backward is None:
                        continue
                    unchanged = all(map(same_types, results, equation.types))
                    free = bool(said) and all(map(same_types, results, said))
                    types = tuple(None if isinstance(one, Literal) else one for one in given)
                    changed = int(not (unchanged or free) and not (own and unchanged))
                    yield Cell(types, results, parameters, sent(typing.collectives), backward, CHANGED * changed)
                    break
                yield from self._widened(equation, given, results, active)

    def _widened(
        self, equation: Equation, operands: Sequence[Operand], results: Sequence[Type | None], active: tuple[bool, ...]
    ) -> Iterator[Cell]:  # fmt: skip
        """The cell in which a reduced operand of an elementwise equation that lacks some of the dims of its result is
        broadcast, and then cut as the result is: free, and so is the transpose (seed A40)."""
        (result,) = results if len(results) == 1 else (None,)
        if not isinstance(result, ArrayType) or state(result, self.axes) != "S" or equation.primitive in BROADCASTING:
            return
        wide = tuple(wider(one, result, self.axes) for one in operands)
        if not any(wide):
            return
        program, wrt = alone(equation, operands, equation.parameters, results, active, wide)
        try:
            forward = wire(program, self.scope)
            backward = wire(vjp(program, self._bench, wrt), self.scope) - forward if wrt else 0.0
        except Refused:
            return
        types = tuple(None if isinstance(one, Literal) else one for one in operands)
        yield Cell(types, tuple(results), equation.parameters, forward, backward, 2 * CHANGED, wide)

    def _asking(self, equation: Equation, results: Sequence[Type | None]) -> Iterator[Parameters]:
        """The equation's parameters, and those that ask for these results, where a parameter is printed that does."""
        primitive = TABLE[equation.primitive]
        name, last = primitive.target, results[-1] if results else None
        held = equation.parameters
        if name in ("", "printed") or name not in held or not isinstance(last, ArrayType):
            yield held
            return
        if held[name] is None or same_types(last, equation.types[-1]):
            yield held
        asked = sharding(last, self.mesh)
        yield Parameters(tuple((key, asked if key == name else value) for key, value in held.items_in_order))

    def _judged(
        self, equation: Equation, operands: Sequence[Operand], parameters: Parameters, types: Sequence[Type | None]
    ) -> Typing | None:
        given = tuple(types)
        key = (equation.primitive, parameters, given, *operands)
        found = self.scope.judged.get(key)
        if found is not None:
            return found[0]
        made = Equation(equation.primitive, parameters, equation.inputs, equation.binders, given, equation.line)
        before = len(self.checker.refusals)
        try:
            typing, _ = self.checker.judge(made, operands, self.scope, key)
        except Refused:
            return None
        if len(self.checker.refusals) > before:
            del self.checker.refusals[before:]
            return None
        return typing

    def _back(
        self, equation: Equation, operands: Sequence[Operand], parameters: Parameters, results: Sequence[Type | None],
        active: tuple[bool, ...],
    ) -> float | None:  # fmt: skip
        """Wire bytes of what the backward pass does for the equation; `None` where it has none that is well typed."""
        if not any(active):
            return 0.0
        key = (equation.primitive, parameters, tuple(results), *operands, active)
        if key not in self._backward:
            try:
                self._backward[key] = self._transposed(equation, operands, parameters, results, active)
            except Refused:
                self._backward[key] = None
        return self._backward[key]

    def _transposed(
        self, equation: Equation, operands: Sequence[Operand], parameters: Parameters, results: Sequence[Type | None],
        active: tuple[bool, ...],
    ) -> float:  # fmt: skip
        program, wrt = alone(equation, operands, parameters, results, active)
        return wire(vjp(program, self._bench, wrt), self.scope) - wire(program, self.scope)


def _combinations(
    operands: Sequence[Operand], kinds: Sequence[Kinds], wanted: Sequence[Kinds]
) -> Iterator[list[Operand]]:
    own: list[Sequence[Operand]] = [
        (one,) if isinstance(one, Literal) else several  # type: ignore[misc]
        for one, several in zip(operands, kinds, strict=True)
    ]
    if prod(map(len, own)) * prod(map(len, wanted)) <= MOST_TRIED:
        yield from map(list, itertools.product(*own))
        return
    alike = list(dict.fromkeys(zip(operands, map(tuple, own), strict=True)))
    for chosen in itertools.product(*(several for _, several in alike)):
        by_kind = dict(zip(alike, chosen, strict=True))
        yield [by_kind[one, tuple(several)] for one, several in zip(operands, own, strict=True)]


def wider(operand: Operand, result: ArrayType, axes: Axes) -> Wide | None:
    """What becomes of a reduced operand; `None` where it has the result's shape, or is not reduced along the axes."""
    if not isinstance(operand, ArrayType) or operand.shape == result.shape or not {*axes} <= {*operand.reduced}:
        return None
    if operand.rank not in (0, result.rank):
        return None
    kept = [
        operand.axes[dim] if operand.rank and operand.shape[dim] == size else ()
        for dim, size in enumerate(result.shape)
    ]
    whole = array_type(operand.dtype, result.shape, tuple(kept), (), operand.unreduced, operand.reduced)
    reduced = tuple(name for name in operand.reduced if name not in result.sharded)
    return Wide(whole, array_type(operand.dtype, result.shape, result.axes, (), (), reduced), operand.rank)


def widened(atoms: Sequence[Atom], wide: Sequence[Wide | None], line: int) -> tuple[list[Equation], list[Atom]]:
    """The equations that broadcast operands and cut them, and the operands after that."""
    made: list[Equation] = []
    found = list(atoms)
    for index, one in enumerate(wide):
        if one is not None:
            whole, cut = fresh(), fresh()
            rows = Parameters((("broadcast_dimensions", tuple(range(one.rank))),)) if one.rank else NO_PARAMETERS
            made.append(Equation("broadcast_in_dim", rows, (atoms[index],), (whole,), (one.whole,), line))
            made.append(Equation("reshard", NO_PARAMETERS, (whole,), (cut,), (one.cut,), line))
            found[index] = cut
    return made, found


def alone(
    equation: Equation, operands: Sequence[Operand], parameters: Parameters, results: Sequence[Type | None],
    active: Sequence[bool], wide: Sequence[Wide | None] = (),
) -> tuple[Program, list[int]]:  # fmt: skip
    """A program of one equation, and which of its inputs a cotangent comes back to."""
    atoms = tuple(one if isinstance(one, Literal) else f"x{index}" for index, one in enumerate(operands))
    inputs = [(name, type, back) for name, type, back in zip(atoms, operands, active, strict=True) if name is not type]
    binders = tuple(f"y{index}" for index in range(len(results)))
    before, given = widened(atoms, wide, 1)
    made = Equation(equation.primitive, parameters, tuple(given), binders, tuple(results), 1)
    names, types = tuple(str(name) for name, _, _ in inputs), tuple(type for _, type, _ in inputs)
    program = Program((), (), names, types, (*before, made), binders)  # type: ignore[arg-type]
    return program, [position for position, (_, _, back) in enumerate(inputs) if back]


def cell_key(equation: Equation, cell: Cell) -> Hashable:
    """What is refused where somebody refuses a cell: it, of every equation that is the same."""
    return equation.primitive, equation.parameters, cell.operands, cell.results, cell.wide


def same_types(one: Type | None, other: Type | None) -> bool:
    """Whether two types are equal."""
    return one is other or (one is not None and other is not None and same(one, other))


def wire(program: Program, scope: Scope) -> float:
    """Wire bytes per device of a well-typed program. Raises `Refused` where it is not well typed."""
    checker = Checker(scope.meshes)
    checked = checker.check(program)
    if checker.refusals:
        raise Refused(checker.refusals[0][0])
    return sum(float(one.collective.wire or 0) * (one.times or 1) for one in charges(checked))
