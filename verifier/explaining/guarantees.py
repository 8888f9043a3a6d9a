"""Whether a program communicates along a mesh axis: it does, it does not, or the types do not determine it.

What the types determine, they determine for every partitioner that does no more than they say. Where they do not (a
price is an estimate, or left to the compiler), it may move blocks along every axis that the operands and results of
that equation are cut along or pending along, and along others whose sizes have a factor in common with one of those:
there it may renumber devices (measured: weights that are cut along an idle axis instead of being gathered).
There, and where code of an opaque kernel runs, nothing is guaranteed, and that counts as refused.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from math import gcd
from typing import Final, NamedTuple

from calculus.checking import Checker
from calculus.collectives import COLLECTIVES, PLACING
from calculus.communication import ALL_TO_ALL, AT_MOST, EXACT, PERMUTE
from calculus.copied import typed_names
from calculus.effects import Charge
from calculus.meshes import Axis, AxisMode, Mesh
from calculus.programs import Equation, Program
from calculus.types import ArrayType, Type
from verifier.examine import Examined
from verifier.explaining.folding import Readings, row
from verifier.explaining.places import placed_elsewhere
from verifier.explaining.regions import leaves_nothing_open


class Guarantee(enum.Enum):
    """What can be said of one mesh axis."""

    FREE = "no communication"
    COMMUNICATES = "communicates"
    OPEN = "not guaranteed"


class Answer(NamedTuple):
    """axis: that was asked about. guarantee: what is said. because: the charges that decide it; for what is open for
    another reason, `why` says that."""

    axis: str
    guarantee: Guarantee
    because: tuple[Charge, ...] = ()
    why: str = ""


DETERMINED: Final = (EXACT, AT_MOST)

WHOLE: Final = frozenset({"top_k", "approx_top_k", "ragged_all_to_all"}) | {
    name for name, row in COLLECTIVES.items() if row.move
}
"""What works along one dim, and XLA's partitioner does not cut along the others: it gathers those (class `gathered for
a whole operation`, proofs/compiled.md). Collectives that a program writes out do where other axes are explicit."""

MATRICES: Final = frozenset({"triangular_solve"})
"""Likewise what works on whole matrices, where a matrix is cut; along the dims before those it is cut."""

SCATTERS: Final = frozenset({"scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"})
"""Likewise what is put in places, where its rows are cut and neither the array nor the places are."""

GROUPED: Final = "conv_general_dilated"
"""Likewise a convolution in groups, whatever of it is cut: the axes along which nothing is cut take part."""


def guarantees(examined: Examined) -> list[Answer]:
    """The answer for each mesh axis of more than one device, of a program that is well typed."""
    readings = Readings(examined.checker)
    return [
        guarantee(examined, axis.name, readings) for axis in _axes(examined.checker) if axis.size != 1
    ]  # fmt: skip


def guarantee(examined: Examined, axis: str, readings: Readings | None = None) -> Answer:
    """The answer for one mesh axis. readings: of the program, where there are some."""
    checker, every = examined.checker, examined.charges
    meshes = checker.scope.meshes
    turned = tuple(one for one in every if _renumbered(one, axis, meshes))
    there = [
        one
        for one in every
        if axis in one.collective.axes and one.exactness in DETERMINED and all(one is not other for other in turned)
    ]
    readings = Readings(checker) if readings is None else readings
    kept = readings.kept if there else None
    sure = tuple(one for one in there if kept is None or row(one) in kept)
    if sure:
        return Answer(axis, Guarantee.COMMUNICATES, sure)
    is_auto = any(mesh.mode(axis) is AxisMode.AUTO for mesh in checker.scope.meshes)
    if is_auto and not leaves_nothing_open(checker, axis):
        return Answer(axis, Guarantee.OPEN, (), "the axis is auto: the compiler chooses what moves along it")
    if there:
        return Answer(axis, Guarantee.OPEN, tuple(there), BY_CONSTANTS)
    unsure = tuple(one for one in every if _unsure(one, axis, checker.scope.meshes))
    if unsure:
        return Answer(axis, Guarantee.OPEN, unsure, "the types do not determine what is moved")
    if turned:
        return Answer(axis, Guarantee.OPEN, turned, "blocks are permuted, and may be along it too")
    opaque = sorted(name for name in checker.assumed if name != "_")
    if opaque:
        return Answer(axis, Guarantee.OPEN, (), f"what {', '.join(opaque)} does is not known")
    whole = next((one for one in _whole(checker) if axis in one[1]), None)
    if whole is not None:
        return Answer(axis, Guarantee.OPEN, (), f"{whole[0]} is not cut along the dims that it leaves alone")
    if axis in placed_elsewhere(checker):
        return Answer(axis, Guarantee.OPEN, (), "a value whose place JAX does not tell the compiler is moved for a use")
    if any(axis in one.collective.axes or _unsure(one, axis, checker.scope.meshes) for one in readings.beyond):
        return Answer(axis, Guarantee.OPEN, (), BY_CONSTANTS)
    return Answer(axis, Guarantee.FREE)


def _renumbered(charge: Charge, axis: str, meshes: Sequence[Mesh]) -> bool:
    """Whether blocks change their places, and nothing is cut along the axis before: of the devices that have the same
    block a partitioner may number those along it otherwise. (Measured: from 8@(Y,Z) to 8@Z it gathers along X, which is
    of Y's size. From 8@X to 8@(Z,X,Y) it cuts along Z and Y, free, and permutes along all three; from 8@X,8 to
    8,8@(Z,Y,X) likewise, after an all-to-all.)"""
    equation, kind = charge.equation, charge.collective.kind
    if kind not in (PERMUTE, ALL_TO_ALL) or not (
        equation.primitive in PLACING or "in_shardings" in equation.parameters
    ):
        return False
    before, after = (
        {axis for type in types if isinstance(type, ArrayType) for dim in type.axes for axis in dim}
        for types in (_operands(charge.sites[-1][0].program, equation), equation.types)
    )
    if kind == PERMUTE and after - before == {axis} and axis in charge.collective.axes:
        return False  # it is the one that is new, and there is but one way to number by it
    return axis in (reach(charge, meshes) if kind == PERMUTE else after) - before


BY_CONSTANTS: Final = "constants decide whether it is needed, which a compiler may see or not"


def _unsure(charge: Charge, axis: str, meshes: Sequence[Mesh]) -> bool:
    return charge.exactness not in DETERMINED and axis in reach(charge, meshes)


def reach(charge: Charge, meshes: Sequence[Mesh]) -> frozenset[str]:
    """The axes along which a partitioner may move something for an equation whose price is an estimate."""
    found = {*charge.collective.axes}
    body, _ = charge.sites[-1]
    for type in (*_operands(body.program, charge.equation), *charge.equation.types):
        found.update(_along(type))
    sizes = {axis.size for mesh in meshes for axis in mesh.axes if axis.name in found}
    every = [axis for mesh in meshes for axis in mesh.axes]
    return frozenset(one.name for one in every if one.name in found or any(_shared(one.size, size) for size in sizes))


def _shared(one: int | None, other: int | None) -> bool:
    """Whether devices may be renumbered between two axes: their sizes have a factor in common, as far as is known."""
    return one is None or other is None or gcd(one, other) > 1


def _axes(checker: Checker) -> list[Axis]:
    found: dict[str, Axis] = {}
    for mesh in checker.scope.meshes:
        for axis in mesh.axes:
            found.setdefault(axis.name, axis)
    return list(found.values())


def _whole(checker: Checker) -> Iterator[tuple[str, frozenset[str]]]:
    """The equations that are not cut, with the axes that their operands are cut along."""
    for program, _ in checker.walked():
        if program.uses(WHOLE | MATRICES | SCATTERS | {GROUPED}):
            for equation in program.equations:
                if equation.primitive in WHOLE:
                    axes = (axis for type in _operands(program, equation) for axis in _along(type))
                    yield equation.primitive, frozenset(axes)
                elif equation.primitive in MATRICES:
                    arrays = [type for type in _operands(program, equation) if isinstance(type, ArrayType)]
                    yield equation.primitive, frozenset(axis for one in arrays for dim in one.axes[-2:] for axis in dim)
                elif equation.primitive in SCATTERS:
                    types = typed_names(program)
                    array, places, rows = ({*_along(types.get(str(atom)))} for atom in equation.inputs[:3])
                    yield equation.primitive, frozenset(rows - array - places)
                elif equation.primitive == GROUPED and _in_groups(equation) and _is_cut(program, equation):
                    yield equation.primitive, frozenset(axis.name for axis in _axes(checker))


def _in_groups(equation: Equation) -> bool:
    counts = (equation.parameters.get(name, 1) for name in ("feature_group_count", "batch_group_count"))
    return any(count != 1 for count in counts)


def _is_cut(program: Program, equation: Equation) -> bool:
    return any(axis for type in (*_operands(program, equation), *equation.types) for axis in _along(type))


def _operands(program: Program, equation: Equation) -> Iterator[Type | None]:
    """The types of an equation's operands, as its body prints them."""
    wanted = {atom for atom in equation.inputs if isinstance(atom, str)}
    names = (*program.constants, *program.inputs)
    for name, type in zip(names, (*program.constant_types, *program.input_types), strict=True):
        if name in wanted:
            yield type
    for one in program.equations:
        if not wanted.isdisjoint(one.binders):
            yield from (type for name, type in zip(one.binders, one.types, strict=True) if name in wanted)


def _along(type: Type | None) -> Iterator[str]:
    """The axes along which an array is cut or pending."""
    if isinstance(type, ArrayType):
        for axes in type.axes:
            yield from axes
        yield from type.unreduced
