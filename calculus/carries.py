"""What the carries of a loop must vary over, all at once: the least types at which an iteration gives back what it
takes, where what differs is variation alone.

A value that varies over an axis makes what is computed from it vary there, until a collective over the axis makes one
value of all. So the axes of each result follow from those of the carries that it is made from, and the least solution
is found by adding axes until nothing is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.collectives import COLLECTIVES
from calculus.meshes import Mesh
from calculus.parameters import names
from calculus.programs import Program
from calculus.reconciling import Way, turned
from calculus.types import ArrayType, Axes, Type, array_type

_NONE: Final[frozenset[str]] = frozenset()


def cast_together(
    program: Program, carries: Sequence[str], befores: Sequence[Type | None], afters: Sequence[Type | None], mesh: Mesh
) -> str:
    """How the initial values of all carries that must vary further are cast, priced; nothing where something else than
    variation differs. program: what an iteration does, whose outputs begin with the carries, and what its inputs are
    called that are."""
    wanted = _least(program, carries, befores, afters)
    if wanted is None:
        return ""
    found: list[tuple[int, Way, Type]] = []
    for index, (before, axes) in enumerate(zip(befores, wanted, strict=True)):
        if isinstance(before, ArrayType) and axes != frozenset(before.varying):
            target = _varying(before, mesh.in_order(axes))
            way = turned(before, target, mesh)
            if way is None:
                return ""
            found.append((index, way, target))
    lone = len(found) == 1
    ways = [way.of("the initial value" if lone else f"that of carry {index}", to) for index, way, to in found]
    return ways[0] if lone else f"of the initial values, {', and '.join(ways)}" if ways else ""


def _least(
    program: Program, carries: Sequence[str], befores: Sequence[Type | None], afters: Sequence[Type | None]
) -> list[frozenset[str]] | None:
    """The axes that each carry varies over in the least solution; `None` where something else differs."""
    found: list[frozenset[str]] = []
    for before, after in zip(befores, afters, strict=True):
        if not isinstance(before, ArrayType) or not isinstance(after, ArrayType):
            if before is not after:
                return None
            found.append(_NONE)
            continue
        joined = (*before.varying, *(axis for axis in after.varying if axis not in before.varying))
        if _varying(before, joined) != _varying(after, joined):
            return None
        found.append(frozenset(joined))
    outputs = program.outputs[: len(befores)]
    while True:
        further = {
            name: axes.difference(before.varying)
            for name, axes, before in zip(carries, found, befores, strict=True)
            if isinstance(before, ArrayType)
        }
        for equation in program.equations:
            axes = _NONE.union(*(further.get(atom, _NONE) for atom in equation.inputs if isinstance(atom, str)))
            if axes:
                row = COLLECTIVES.get(equation.primitive)
                if row is not None and row.after != "V" and row.axes in equation.parameters:
                    axes = axes.difference(names(equation.parameters[row.axes], row.axes))
                further.update(dict.fromkeys(equation.binders, axes))
        grown = [
            axes.union(further.get(atom, _NONE)) if isinstance(atom, str) else axes
            for axes, atom in zip(found, outputs, strict=True)
        ]
        if grown == found:
            return found
        found = grown


def _varying(type: ArrayType, axes: Axes) -> ArrayType:
    """The type, varying over these axes."""
    return array_type(
        type.dtype, type.shape, type.axes, tuple(axes), type.unreduced, type.reduced, type.kind, type.memory, False
    )
