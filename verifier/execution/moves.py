"""The collectives that a judgment derives, carried out on blocks; and what a device does alone.

A value lies as a type says. Each derived collective takes it to where it lies next, by reading the blocks of the
devices in its group and of no others. What is left must be free: a device slices its block, or pads it with zeros.
Where that does not lead to the type that the judgment concludes, the judgment derived too little: `NotDerived`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calculus.communication import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    EXACT,
    PERMUTE,
    REDUCE_SCATTER,
    UNKNOWN,
    Collective,
)
from calculus.types import ArrayType, Axes
from verifier.devices import Array
from verifier.execution.account import Account, Place
from verifier.execution.arithmetic import merged
from verifier.execution.grid import Blocks, Grid, Region, common, extent, inside, laid, volume


class NotDerived(Exception):
    """The derived collectives do not bring an array to where its type says it is. The message says what is missing."""


class Lying(NamedTuple):
    """Blocks, and the type that says how they lie. monoid: how what is pending is combined."""

    blocks: Blocks
    type: ArrayType
    grid: Grid
    monoid: str

    def at(self, blocks: Blocks, lists: Sequence[Axes], unreduced: Axes) -> Lying:
        """The same array, lying otherwise."""
        return Lying(blocks, laid(self.type, tuple(lists), unreduced, self.type.kind), self.grid, self.monoid)


def lying(blocks: Blocks, type: ArrayType, grid: Grid) -> Lying:
    """Blocks as a type says they lie."""
    return Lying(blocks, grid.bare(type), grid, type.kind)


def follow(
    value: Lying,
    goal: ArrayType,
    steps: Sequence[tuple[Place, Collective]],
    account: Account,
    then: Collective | None = None,
) -> Lying:
    """Carry out collectives one after the other, on the way to a goal. A sum that is scattered is scattered first.
    then: what is carried out after them."""
    goal = value.grid.bare(goal)
    ordered = sorted(steps, key=lambda step: step[1].kind != REDUCE_SCATTER) if steps else steps
    for number, (place, collective) in enumerate(ordered):
        if collective.kind in (UNKNOWN, BROADCAST):
            account.skipped(place, collective)
            continue
        following = ordered[number + 1][1] if number + 1 < len(ordered) else then
        before = value = _sliced_first(value, goal) if collective.kind in (PERMUTE, ALL_TO_ALL) else value
        value = _step(value, goal, collective, following)
        if value is before:
            account.skipped(place, collective)
            continue
        size = _size((value if collective.kind == ALL_GATHER else before).blocks)
        account.ran(place, collective, min(size, _size(value.blocks)) if collective.kind == PERMUTE else size)
    return value


def _size(blocks: Blocks) -> int:
    return max(block.nbytes for block in blocks)


def _step(value: Lying, goal: ArrayType, collective: Collective, following: Collective | None) -> Lying:
    axes, estimate = collective.axes, collective.exactness != EXACT
    type, grid = value.type, value.grid
    if collective.kind == ALL_REDUCE:
        if not set(axes) <= set(type.unreduced):
            return _not_needed(value, collective, f"{type} is not pending along {', '.join(axes)}")
        rest = tuple(axis for axis in type.unreduced if axis not in axes)
        return value.at(_reduced(value, axes), type.axes, rest)
    if collective.kind == REDUCE_SCATTER:
        return _scattered(value, goal, axes, estimate)
    if collective.kind == ALL_GATHER and collective.group != grid.mesh.size(axes):
        lists = [end if {*own} & {*axes} else own for own, end in zip(type.axes, goal.axes, strict=True)]
        return _assembled(value, lists, grid.mesh.in_order({*type.sharded, *goal.sharded}))
    if collective.kind == ALL_GATHER:
        lists = [tuple(axis for axis in own if axis not in axes) for own in type.axes]
        if not set(axes) <= set(type.sharded):
            return _not_needed(value, collective, f"{type} is not cut on {', '.join(axes)}")
        if any(own[: len(left)] != left for own, left in zip(type.axes, lists, strict=True)):
            raise NotDerived(f"gathering {type} over {', '.join(axes)} leaves no consecutive blocks")
        return _assembled(value, lists, axes)
    if collective.kind == PERMUTE:
        gathered = following.axes if following is not None and following.kind == ALL_GATHER else ()
        if following is not None and gathered and following.group != grid.mesh.size(gathered):
            # Blocks change places at the finer of two cuts, and are then gathered: the two are carried out in one.
            return Lying(list(value.blocks), value.type, grid, value.monoid)
        lists = list(value.type.axes)
        for dim, (own, wanted) in enumerate(zip(value.type.axes, goal.axes, strict=True)):
            if own != wanted and {*own, *wanted} & set(axes):
                lists[dim] = (*wanted, *(axis for axis in gathered if axis in own))
        return _assembled(value, lists, grid.mesh.in_order({*value.type.sharded, *goal.sharded}))
    assert collective.kind == ALL_TO_ALL
    lists = [tuple(axis for axis in own if axis not in axes) for own in value.type.axes]
    for dim, wanted in enumerate(goal.axes):
        lists[dim] += tuple(axis for axis in wanted[len(lists[dim]) :] if axis in axes)
    return _assembled(value, lists, axes)


def _not_needed(value: Lying, collective: Collective, why: str) -> Lying:
    """A step that does not apply: an estimate may be more than is needed, an exact collective may not."""
    if collective.exactness == EXACT:
        raise NotDerived(f"{collective.kind} over {', '.join(collective.axes)} is derived, and {why}")
    return value


def _reduced(value: Lying, axes: Axes) -> Blocks:
    found: Blocks = list(value.blocks)
    for group in value.grid.groups(axes):
        total = merged(value.monoid, [value.blocks[number] for number in group])
        for number in group:
            found[number] = total
    return found


def _scattered(value: Lying, goal: ArrayType, axes: Axes, estimate: bool) -> Lying:
    type, grid = value.type, value.grid
    if not set(axes) <= set(type.unreduced):
        if estimate:
            return value
        raise NotDerived(f"reduce-scatter over {', '.join(axes)} is derived, and {type} is not pending there")
    rest = tuple(axis for axis in type.unreduced if axis not in axes)
    lists = [
        tuple(axis for axis in wanted if axis in own or axis in axes) if set(own) <= set(wanted) else own
        for own, wanted in zip(type.axes, goal.axes, strict=True)
    ]
    whole = value.at(_reduced(value, axes), type.axes, rest)
    end = laid(type, tuple(lists), rest, type.kind)
    if all(_holds(grid, type, end, number) for number in range(grid.count)):
        return settled(whole, end)
    if not estimate:
        raise NotDerived(f"reduce-scatter of {type} over {', '.join(axes)} does not end at {goal}")
    return _assembled(whole, lists, grid.mesh.in_order({*type.sharded, *end.sharded}))


def _holds(grid: Grid, type: ArrayType, end: ArrayType, number: int) -> bool:
    have, want = grid.region(type, number), grid.region(end, number)
    return volume(common(have, want)) == volume(want)


def _sliced_first(value: Lying, goal: ArrayType) -> Lying:
    """Dims that are cut further by axes which cut nothing yet are sliced before anything moves, free."""
    held = set(value.type.sharded)
    lists = list(value.type.axes)
    for dim, wanted in enumerate(goal.axes):
        fresh = wanted[len(lists[dim]) :] if wanted[: len(lists[dim])] == lists[dim] else ()
        while fresh and fresh[0] not in held and fresh[0] not in value.type.unreduced:
            lists[dim] += fresh[:1]
            fresh = fresh[1:]
    if tuple(lists) == value.type.axes:
        return value
    return settled(value, laid(value.type, tuple(lists), value.type.unreduced, value.type.kind))


def _assembled(value: Lying, lists: Sequence[Axes], axes: Axes) -> Lying:
    """Each device puts together its next block from the blocks of its group."""
    grid, type = value.grid, value.type
    end = laid(type, tuple(lists), type.unreduced, type.kind)
    found: Blocks = list(value.blocks)
    for group in grid.groups(axes):
        regions = [grid.region(type, number) for number in group]
        done: dict[tuple[tuple[int, int], ...], Array] = {}
        for number in group:
            want = grid.region(end, number)
            key = tuple((one.start, one.stop) for one in want)
            if key not in done:
                done[key] = _put_together(value, group, regions, want, end)
            found[number] = done[key]
    return value.at(found, lists, type.unreduced)


def _put_together(value: Lying, group: Sequence[int], regions: Sequence[Region], want: Region, end: ArrayType) -> Array:
    block = np.empty(extent(want), value.blocks[group[0]].dtype)
    filled = np.zeros(extent(want), bool)
    for number, region in zip(group, regions, strict=True):
        shared = common(region, want)
        place = inside(shared, want)
        block[place] = value.blocks[number][inside(shared, region)]
        filled[place] = True
    if not filled.all():
        raise NotDerived(f"the devices of a group do not hold what takes {value.type} to {end}")
    return block


def settled(value: Lying, target: ArrayType, grid: Grid | None = None) -> Lying:
    """What each device does alone to have an array as a type says it lies: it slices its block, or pads it with zeros
    where the array becomes a pending sum. Raises `NotDerived` where that is not enough."""
    source, here, there = value.type, value.grid, grid or value.grid
    target = there.bare(target)
    if source.axes == target.axes and source.unreduced == target.unreduced and here is there:
        return Lying(value.blocks, laid(target, target.axes, target.unreduced, target.kind), there, value.monoid)
    missing = f"nothing that is derived takes {source} to {target}"
    fresh = tuple(axis for axis in target.unreduced if axis not in source.unreduced)
    if here is there and any(axis not in target.unreduced for axis in source.unreduced):
        raise NotDerived(missing)
    if here is not there and source.unreduced:
        if len(source.unreduced) != len(target.unreduced):
            raise NotDerived(missing)
        fresh = ()
    if fresh and target.kind != "sum" and set(fresh) & set(source.sharded):
        raise NotDerived(missing)
    padding = fresh if target.kind == "sum" else ()
    pieces = tuple(axis for axis in padding if axis in source.sharded)
    copies = tuple(axis for axis in padding if axis not in source.sharded)
    found: Blocks = []
    for number, block in enumerate(value.blocks):
        have, want = here.region(source, number), there.region(target, number)
        shared = common(have, want)
        if not padding:
            if volume(shared) != volume(want):
                raise NotDerived(missing)
            found.append(block[inside(want, have)] if volume(want) else np.empty(extent(want), block.dtype))
            continue
        group = next(group for group in there.groups(pieces) if number in group)
        held = [common(here.region(source, other), want) for other in group]
        if sum(map(volume, held)) != volume(want):
            raise NotDerived(missing)
        own = np.zeros(extent(want), block.dtype)
        if not any(there.coordinates[number][axis] for axis in copies):
            own[inside(shared, want)] = block[inside(shared, have)]
        found.append(own)
    return Lying(found, laid(target, target.axes, target.unreduced, target.kind), there, target.kind)
