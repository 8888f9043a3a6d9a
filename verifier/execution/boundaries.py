"""The boundary of a shard_map on the machine: arrays become what each device holds of them, and arrays again.

Per device nothing moves: a block outside is the block inside, cut further along auto axes, which no type outside shows.
Run whole, an array outside becomes one array for each coordinate along the axes that the shard_map makes manual. Seeds
A43 to A46, B38.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calculus.boundaries import frame as frame_of
from calculus.effects import wanted_of
from calculus.meshes import AxisMode, Mesh
from calculus.parameters import Spec, sequence, spec
from calculus.types import ArrayType, Axes, Type, array_type
from calculus.uses import operand_type
from verifier.devices import NotAFamily, place, read_back
from verifier.execution.arithmetic import CannotRun, stored
from verifier.execution.comparing import size_of
from verifier.execution.grid import Blocks, Grid
from verifier.execution.machine import Cell, Disagreement, Frame, Machine, Step, Value


def shard_map(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    """The results of a shard_map."""
    outer, manual, _, mesh = frame_of(step.equation, frame.scope)
    (inner,) = step.inner
    scope = machine.checker.scope_on(mesh, frame.scope)
    parameters = step.equation.parameters
    ins = [spec(item, "in_specs") or Spec(()) for item in sequence(parameters["in_specs"], "in_specs")]
    outs = [spec(item, "out_specs") or Spec(()) for item in sequence(parameters["out_specs"], "out_specs")]
    crossing = _Crossing(
        machine, machine.grid(outer) if machine.whole is False else frame.grid, machine.grid(mesh), manual, outer
    )
    program = inner.body.program
    names = (*program.constants, *program.inputs)
    read = machine.pricing.live(
        inner.body, wanted_of(machine.pricing, inner, step.equation.inputs, step.equation.binders, frame.needed)
    ).reads
    given: list[Value] = []
    for index, (value, asked, one) in enumerate(zip(operands, ins, step.given, strict=True)):
        if value is None or (index < len(names) and index not in read and not isinstance(value, Cell)):
            given.append(None)
            continue
        if isinstance(value, Cell):
            if machine.whole and manual:
                raise CannotRun("a cell crosses the boundary of a shard_map")
            given.append(value)
            continue
        given.append(crossing.inward(value, asked, operand_type(one)))
    used = wanted_of(machine.pricing, inner, step.equation.inputs, step.equation.binders, frame.needed)
    with machine.partings.inside(crossing.owner):
        found = machine.run(inner.body, scope, given, used)
    return [
        None if value is None else crossing.outward(machine.blocks(value, step), asked, type)
        for value, asked, type in zip(found, outs, step.typing.types, strict=True)
    ]


class _Crossing:
    """around, within: the devices outside and inside. shown: the manual axes along which blocks outside are blocks
    already."""

    def __init__(self, machine: Machine, around: Grid, within: Grid, manual: Axes, outer: Mesh) -> None:
        self.machine = machine
        self.around = around
        self.within = within
        self.manual = manual
        self.hidden = tuple(
            axis
            for axis in manual
            if axis in within.mesh and (machine.whole or outer.mode(axis) is not AxisMode.EXPLICIT)
        )
        #: for each device inside, the one outside that it is, or is a part of
        by_place = {tuple(at.items()): number for number, at in enumerate(around.coordinates)}
        names = around.mesh.by_name
        self.owner = (
            [by_place[tuple((name, at[name]) for name in names)] for at in within.coordinates]
            if machine.whole
            else list(range(within.count))
        )

    def _inner_only(self, asked: Spec, rank: int) -> tuple[tuple[Axes, ...], Axes]:
        """The axes of a spec that blocks outside are not cut along: per dim, and pending."""
        lists = [tuple(axis for axis in axes or () if axis in self.hidden) for axes in asked.dims[:rank]]
        lists += [()] * (rank - len(lists))
        return tuple(lists), tuple(axis for axis in asked.unreduced if axis in self.hidden)

    def inward(self, blocks: Blocks, asked: Spec, type: Type | None) -> Blocks:
        """What each device inside has of an array outside."""
        if not isinstance(type, ArrayType) or not self.hidden:
            return list(blocks)
        lists, pending = self._inner_only(asked, blocks[0].ndim)
        kind = asked.kind if pending else "sum"
        dtype = stored(type).dtype
        shown = array_type(dtype, blocks[0].shape, lists, (), pending, (), kind)
        found: Blocks = [blocks[0]] * self.within.count
        seed = int(self.machine.random.integers(2**32))  # copies outside have the same pieces inside
        for owner, block in enumerate(blocks):
            family = place(np.asarray(block), shown, self._hidden_mesh(), np.random.default_rng(seed))
            if pending:  # their sum is rounded as they are
                self.machine.lose(sum(map(size_of, family.values())), dtype)
            for number, outside in enumerate(self.owner):
                if outside == owner:
                    at = self.within.coordinates[number]
                    found[number] = family[tuple(at[axis] for axis in self.hidden)]
        return found

    def outward(self, blocks: Blocks, asked: Spec, type: Type) -> Blocks:
        """The array outside that blocks inside make. Raises `Disagreement` where copies that it claims disagree."""
        if not isinstance(type, ArrayType) or not self.hidden:
            return list(blocks)
        lists, pending = self._inner_only(asked, blocks[0].ndim)
        mesh = self._hidden_mesh()
        sizes = [mesh.size(axes) or 1 for axes in lists]
        shape = tuple(size * count for size, count in zip(blocks[0].shape, sizes, strict=True))
        shown = array_type(stored(type).dtype, shape, lists, (), pending, (), asked.kind if pending else "sum")
        found: Blocks = []
        for owner in range(self.around.count):
            family = {}
            for number, outside in enumerate(self.owner):
                if self.machine.whole and outside != owner:
                    continue
                at = self.within.coordinates[number]
                if not self.machine.whole and any(
                    at[axis] != self.within.coordinates[owner][axis] for axis in at if axis not in self.hidden
                ):
                    continue
                family[tuple(at[axis] for axis in self.hidden)] = blocks[number]
            try:
                found.append(read_back(family, shown, mesh))
            except NotAFamily as error:
                raise Disagreement(
                    f"{error}, which the out_specs claim to be equal", self.within.named(blocks)
                ) from error
        return found

    def _hidden_mesh(self) -> Mesh:
        return Mesh(axis for axis in self.within.mesh.axes if axis.name in self.hidden)
