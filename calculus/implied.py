"""The communication that a table primitive's types imply: what its scheme leaves to finish between the operands'
placement and the result's. Seeds A9, A14, A24, B22, B26, B28.

* A reduced factor that every operand has cut alike leaves a reduction pending: over the axes that the result does not
  keep as U, it is finished, and scattered where the result is sharded on them.
* A reduced factor that only some operands have cut is gathered there (FSDP). Where the result is sharded on other
  axes alone, a partitioner may reduce the result instead, whichever is smaller.
* A dim that is needed whole and is cut all the same is gathered in each operand, or its blocks change places.
* A factor that the result has cut less, or otherwise, than an operand is gathered in the operand; but a reduction of
  one operand is taken first, and its result moved, which is smaller.
* Everything else is free: cutting a copy is a slice.
"""

from __future__ import annotations

from collections.abc import Sequence

from calculus.communication import (
    ALL_GATHER,
    ALL_REDUCE,
    PERMUTE,
    Collective,
    block_bytes,
    gather,
    move,
    over,
    reduce,
    shape_bytes,
)
from calculus.meshes import Mesh
from calculus.schemes import Scheme
from calculus.types import ArrayType, Axes, array_type


def implied(
    scheme: Scheme, operands: Sequence[ArrayType | None], result: ArrayType, mesh: Mesh, window: str = ""
) -> tuple[Collective, ...]:
    """The collectives of one use, given its operands' types (`None` for a literal) and its result's, and what moves
    where a dim that is needed whole is cut all the same (see `Primitive.window`).

    Grouped dims (a reshape's) are the caller's: here every cut dim is one factor.
    """
    cuts = [_cuts(indices, type.axes) if type else {} for indices, type in zip(scheme.operands, operands, strict=True)]
    if not any(cuts):
        return ()
    goal = _cuts(scheme.results[0], result.axes)
    landed = {axis for axes in result.axes for axis in axes}
    kept: list[list[Axes]] = [list(type.axes) if type else [] for type in operands]
    found: list[Collective] = []
    pending: list[Axes] = []
    guessed = False
    for factor, role in scheme.roles.items():
        if role == "whole":
            continue
        having = [index for index, indices in enumerate(scheme.operands) if (factor,) in indices]
        lists = {cuts[index][factor] for index in having if factor in cuts[index]}
        if not lists:
            continue
        axes = next(iter(lists))
        if len(lists) == 1:
            everywhere = all(factor in cuts[index] for index in having)
            if everywhere or set(axes) <= set(result.unreduced):
                pending.append(tuple(axis for axis in axes if axis not in result.unreduced))
                continue
            holder = next(index for index in having if factor in cuts[index])
            reducing, sure = _reduce_instead(
                operands[holder], cuts[holder], factor, scheme, result, landed, mesh, holder
            )
            guessed |= not sure or _lands(scheme, holder, factor, axes, goal)
            if reducing:
                pending.append(axes)
                continue
        else:
            guessed = True
        for index in having:
            kept[index][scheme.operands[index].index((factor,))] = ()
    for index, cut in enumerate(cuts):
        for factor, axes in cut.items():
            ends = goal.get(factor, ())
            if scheme.roles.get(factor) == "whole":
                type = operands[index]
                if window == "permute" and type is not None:
                    permute = over(PERMUTE, axes, block_bytes(type, mesh), mesh)
                    found += (one.of(index, "turned") for one in permute)
                    continue
                guessed |= window != "gather"
                kept[index][scheme.operands[index].index((factor,))] = ()
                continue
            if factor in scheme.roles or ends == axes:
                continue
            shared = 0
            while shared < min(len(axes), len(ends)) and axes[shared] == ends[shared]:
                shared += 1
            guessed |= shared < len(ends) and shared < len(axes)
            kept[index][scheme.operands[index].index((factor,))] = axes[:shared]
    for index, type in enumerate(operands):
        if type is not None:
            end = tuple(kept[index]), type.unreduced
            found += (collective.of(index, end) for collective in gather(type, type.axes, kept[index], mesh))
    role = next(iter(scheme.roles.values()), "sum")
    if role.startswith("arg"):
        found += _arg_reduction(operands[0], result, pending, mesh)
    else:
        found += reduce(result.dtype, result.shape, result.axes, pending, mesh, ALL_REDUCE)
    return tuple(collective.estimated() for collective in found) if guessed else tuple(found)


def finished(
    scheme: Scheme, operand: ArrayType, derived: Sequence[Axes], result: ArrayType, mesh: Mesh
) -> tuple[Collective, ...]:
    """The collectives of a reduction of one operand: each device reduces what it has, what is pending is finished
    where the derived lists place the result, and the result goes where it is asked for. Pending axes that the result is
    cut on land on it in the move; axes of several dims are finished one dim at a time, the last first."""
    cut = _cuts(scheme.operands[0], operand.axes)
    role = next(iter(scheme.roles.values()))
    pending = [
        tuple(axis for axis in cut[factor] if axis not in result.unreduced) for factor in scheme.roles if factor in cut
    ]
    before = array_type(result.dtype, result.shape, tuple(derived), (), result.unreduced)
    found: tuple[Collective, ...] = ()
    if role.startswith("arg"):
        found = _arg_reduction(operand, before, pending, mesh)
        staying = pending
    else:
        ends = {axis for axes in result.axes for axis in axes}
        staying = [axes for axes in pending if ends.isdisjoint(axes)]
        found = reduce(result.dtype, result.shape, derived, staying, mesh)
        landing = tuple(axis for axes in pending if not ends.isdisjoint(axes) for axis in axes)
        before = array_type(result.dtype, result.shape, tuple(derived), (), (*result.unreduced, *landing))
    end = array_type(result.dtype, result.shape, result.axes, (), result.unreduced)
    moved = move(before, end, mesh)
    if len(pending) - len(staying) > 1:  # scattered in one or each by itself
        moved = tuple(one.estimated() for one in moved)
    return (*found, *moved)


def _lands(scheme: Scheme, holder: int, factor: int, axes: Axes, goal: dict[int, Axes]) -> bool:
    """Whether axes of a reduced factor end on another factor of the operand that is cut on them: a partitioner may
    exchange blocks where gathering is more."""
    held = {dim[0] for dim in scheme.operands[holder] if len(dim) == 1} - {factor}
    return any(not set(axes).isdisjoint(ends) for other, ends in goal.items() if other in held)


def _cuts(indices: Sequence[Sequence[int]], lists: Sequence[Axes]) -> dict[int, Axes]:
    """The factors that are cut, with their axes."""
    return {dim[0]: axes for dim, axes in zip(indices, lists, strict=True) if axes and len(dim) == 1}


def _reduce_instead(
    holder: ArrayType | None,
    cut: dict[int, Axes],
    factor: int,
    scheme: Scheme,
    result: ArrayType,
    landed: set[str],
    mesh: Mesh,
    index: int,
) -> tuple[bool, bool]:
    """Whether the result is reduced rather than the operand gathered, and whether that is sure."""
    axes = cut[factor]
    if holder is None or not landed or landed & set(axes):
        return False, True
    lists = [() if dim == (factor,) else names for dim, names in zip(scheme.operands[index], holder.axes, strict=True)]
    gathered, reduced = block_bytes(holder, mesh, lists), block_bytes(result, mesh)
    if gathered is None or reduced is None:
        return False, False
    return 2 * reduced < gathered, 2 * reduced < gathered or reduced >= gathered


def _arg_reduction(
    operand: ArrayType | None, result: ArrayType, pending: Sequence[Axes], mesh: Mesh
) -> tuple[Collective, ...]:
    """The best candidate of each block is gathered, values and indices."""
    found: tuple[Collective, ...] = ()
    for axes in pending:
        count = mesh.size(axes)
        for dtype in (operand.dtype if operand else result.dtype, result.dtype):
            block = shape_bytes(dtype, result.shape, result.axes, mesh)
            payload = None if block is None or count is None else count * block
            found += over(ALL_GATHER, axes, payload, mesh)
    return found
