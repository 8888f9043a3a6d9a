"""The communication that a table primitive's types imply: what its scheme leaves to finish between the operands'
placement and the result's. Seeds A9, A14, A24, B22, B26, B28.

* A reduced factor that every operand has cut alike leaves a reduction pending: over the axes that the result does not
  keep as U, it is finished, and scattered where the result is sharded on them.
* A reduced factor that only some operands have cut is gathered there (FSDP), but along the axes that the result keeps
  as U. Where the result is sharded on other axes alone, a partitioner may reduce the result instead, whichever is
  smaller.
* A dim that is needed whole and is cut all the same is gathered in each operand, or blocks change places, all in one;
  or each device does what falls into its own block.
* A factor that the result has cut less, or otherwise, than an operand is gathered in the operand; but a reduction of
  one operand is taken first, and its result moved, which is smaller.
* Everything else is free: cutting a copy is a slice.

One kind of step is `exact`; where a partitioner may combine several, or choose among them, they are `estimate`s.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

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
    spare,
)
from calculus.meshes import AxisMode, Mesh
from calculus.schemes import Scheme
from calculus.types import ArrayType, Axes, array_type
from calculus.volumes import Volume, volume


def implied(
    scheme: Scheme, operands: Sequence[ArrayType | None], result: ArrayType, mesh: Mesh, window: str = ""
) -> tuple[Collective, ...]:
    """The collectives of one use, given its operands' types (`None` for a literal) and its result's, and what moves
    where a dim that is needed whole is cut all the same (see `Primitive.window`).

    Grouped dims (a reshape's) are the caller's: here every cut dim is one factor.
    """
    cuts = [_cuts(indices, type.axes) if type else {} for indices, type in zip(scheme.operands, operands, strict=True)]
    if not any(cuts) and not scheme.along:
        return ()
    goal = _cuts(scheme.results[0], result.axes)
    landed = {axis for axes in result.axes for axis in axes}
    kept: list[list[Axes]] = [list(type.axes) if type else [] for type in operands]
    found: list[Collective] = []
    pending: list[Axes] = []
    guessed = False
    # Measured: a window that is only read is taken of the array gathered in every dim, one that is written is not.
    entire = window == "gather" and sum(1 for indices in scheme.operands if indices) == 1
    for factor, role in scheme.roles.items():
        if role == "whole":
            continue
        having = [index for index, indices in enumerate(scheme.operands) if (factor,) in indices]
        lists = {cuts[index][factor] for index in having if factor in cuts[index]}
        if not lists:
            continue
        axes = next(iter(lists))
        finish = tuple(axis for axis in axes if axis not in result.unreduced)
        if len(lists) == 1:
            everywhere = all(factor in cuts[index] for index in having)
            if everywhere or not finish:
                pending.append(finish)
                continue
            holder = next(index for index in having if factor in cuts[index])
            reducing, sure = _reduce_instead(
                operands[holder], cuts[holder], factor, scheme, result, landed, mesh, holder
            )
            guessed |= not sure or _lands(scheme, holder, factor, axes, goal)
            if reducing:
                guessed |= any(
                    len(goal.get(dim[0], ())) > len(cuts[holder].get(dim[0], ()))
                    for dim in scheme.operands[holder]
                    if len(dim) == 1 and dim != (factor,)
                )
                pending.append(finish)
                continue
        else:
            guessed = True
        stay = _stays(lists, result)
        guessed |= finish != axes
        for index in having:
            kept[index][scheme.operands[index].index((factor,))] = stay if factor in cuts[index] else ()
    for index, cut in enumerate(cuts):
        turned: list[str] = []
        for factor, axes in cut.items():
            ends = goal.get(factor, ())
            if scheme.roles.get(factor) == "whole":
                dim = scheme.operands[index].index((factor,))
                if window == "own":
                    continue
                if window == "permute":
                    turned += axes
                    continue
                guessed |= window != "gather" or _begins_at_a_literal(scheme, operands, dim)
                if entire and len(cut) > 1:
                    guessed = True
                    kept[index] = [()] * len(kept[index])
                kept[index][dim] = ()
                continue
            if factor in scheme.roles or ends == axes:
                continue
            shared = 0
            while shared < min(len(axes), len(ends)) and axes[shared] == ends[shared]:
                shared += 1
            guessed |= shared < len(ends) and shared < len(axes)
            kept[index][scheme.operands[index].index((factor,))] = axes[:shared]
        type = operands[index]
        if turned and type is not None:
            permute = over(PERMUTE, mesh.in_order(turned), volume(type), mesh)
            found += (one.of(index, "turned") for one in permute)
    slid = _slid(scheme, operands, result, mesh)
    guessed |= bool(slid) or _searched(scheme, operands, cuts, kept, goal, result, any(pending), mesh)
    for index, type in enumerate(operands):
        if type is not None:
            end = tuple(kept[index]), type.unreduced
            found += (collective.of(index, end) for collective in gather(type, type.axes, kept[index], mesh))
    found += slid
    role = next(iter(scheme.roles.values()), "sum")
    if role.startswith("arg"):
        found += _arg_reduction(operands[0], result, pending, mesh)
    else:
        found += reduce(result.dtype, result.shape, result.axes, pending, mesh, ALL_REDUCE)
    return tuple(collective.estimated() for collective in found) if guessed else tuple(found)


def bound(operands: Sequence[ArrayType | None], mesh: Mesh) -> tuple[Collective, ...]:
    """What is enough whatever the result is: every operand is gathered, and the rest is cutting copies."""
    found: list[Collective] = []
    for index, type in enumerate(operands):
        if type is not None:
            found += (one.estimated().of(index) for one in gather(type, type.axes, ((),) * type.rank, mesh))
    return tuple(found)


def entangled(scheme: Scheme) -> bool:
    """Whether a factor that all arrays have lies in one dim with another that is reduced. Measured: contractions in
    groups of several features are not cut at all, whatever of their operands is."""
    everywhere = {factor for dim in scheme.results[0] for factor in dim}
    everywhere.intersection_update(*({factor for dim in indices for factor in dim} for indices in scheme.operands))
    dims = [dim for indices in scheme.operands for dim in indices if len(dim) > 1]
    return any(not everywhere.isdisjoint(dim) and not scheme.roles.keys().isdisjoint(dim) for dim in dims)


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


def _slid(scheme: Scheme, operands: Sequence[ArrayType | None], result: ArrayType, mesh: Mesh) -> list[Collective]:
    """Where the result is cut on a dim that windows go along, and the operand is not, or otherwise: a partitioner cuts
    the operand so, and then slides windows from block to block. Gathering it is the bound."""
    found: list[Collective] = []
    for indices, type in zip(scheme.operands, operands, strict=True):
        for dim, factors in enumerate(indices if type else ()):
            along = scheme.along.get(factors[0]) if scheme.along and len(factors) == 1 else None
            if type and along is not None and result.axes[along] not in ((), type.axes[dim]):
                lists = [*type.axes[:dim], (), *type.axes[dim + 1 :]]
                found += over(ALL_GATHER, result.axes[along], volume(type, lists), mesh)
    return found


def _stays(lists: Collection[Axes], result: ArrayType) -> Axes:
    """The axes along which a reduced factor need not be gathered, as the result is pending along them: those with which
    all its cuts begin."""
    stay: list[str] = []
    for alike in zip(*lists, strict=False):
        if len(set(alike)) > 1 or alike[0] not in result.unreduced:
            break
        stay.append(alike[0])
    return tuple(stay)


def _lands(scheme: Scheme, holder: int, factor: int, axes: Axes, goal: dict[int, Axes]) -> bool:
    """Whether axes of a reduced factor end on another factor of the operand that is cut on them: a partitioner may
    exchange blocks where gathering is more."""
    held = {dim[0] for dim in scheme.operands[holder] if len(dim) == 1} - {factor}
    return any(not set(axes).isdisjoint(ends) for other, ends in goal.items() if other in held)


def _begins_at_a_literal(scheme: Scheme, operands: Sequence[ArrayType | None], dim: int) -> bool:
    """Whether a window begins at a literal along a dim, so that a partitioner knows which blocks hold it."""
    starts = [type for indices, type in zip(scheme.operands, operands, strict=True) if not indices]
    return dim < len(starts) and starts[dim] is None


def _searched(
    scheme: Scheme,
    operands: Sequence[ArrayType | None],
    cuts: Sequence[dict[int, Axes]],
    kept: Sequence[Sequence[Axes]],
    goal: dict[int, Axes],
    result: ArrayType,
    reducing: bool,
    mesh: Mesh,
) -> bool:
    """Whether a partitioner is free to do something else than to gather operands from their cuts to what is kept of
    them. It is, in each case that was measured,

    * where operands are gathered and the result is reduced too, or one operand is gathered along several dims;
    * where one operand is gathered along one dim and sliced along another, which may be one exchange;
    * where operands share a dim of the result, and one of them or the result has it cut otherwise;
    * where two dims of the result are cut on one axis, and the result keeps the later one, or has an axis to spare.
    """
    gathered = [
        {dim[0] for dim, axes, left in zip(indices, type.axes, kept[index], strict=True) if len(left) < len(axes)}
        if type
        else set()
        for index, (indices, type) in enumerate(zip(scheme.operands, operands, strict=True))
    ]
    if not any(gathered):
        return False
    if reducing or any(len(factors) > 1 for factors in gathered):
        return True
    free = spare(mesh, {axis for axes in (*goal.values(), result.unreduced) for axis in axes})
    holder: dict[str, int] = {}
    for index, (indices, cut) in enumerate(zip(scheme.operands, cuts, strict=True)):
        for dim, names in enumerate(indices):
            factor = names[0] if len(names) == 1 else -1
            if factor in scheme.roles:
                continue
            have, ends = cut.get(factor, ()), goal.get(factor, ())
            shared = sum(names in others for others in scheme.operands) > 1
            if (shared and have != ends) or (gathered[index] - {factor} and len(ends) > len(kept[index][dim])):
                return True
            if any(holder.setdefault(axis, factor) != factor and (free or axis in ends) for axis in have):
                return True
    return False


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
    if holder is None:
        return False, True
    if landed & set(axes):
        # measured: gathered, unless idle axes have a multiple of its devices; then it is cut along those, and summed
        used = {*holder.sharded, *(axis for dim in result.axes for axis in dim)}
        idle = prod(axis.size or 1 for axis in mesh.axes if axis.name not in used and axis.mode is not AxisMode.MANUAL)
        return False, idle == 1 or idle % (mesh.size(axes) or 1) != 0
    lists = [() if dim == (factor,) else names for dim, names in zip(scheme.operands[index], holder.axes, strict=True)]
    gathered, reduced = block_bytes(holder, mesh, lists), block_bytes(result, mesh)
    if gathered is None or reduced is None:
        return False, False
    if not landed:  # measured: gathered, unless no devices are left over and the result is smaller
        return False, reduced >= gathered or mesh.size(axes) != mesh.size(mesh.by_name)
    # measured: so it is where no devices are left over, and may be elsewhere
    everywhere = mesh.size(holder.sharded) == mesh.size(mesh.by_name)
    return 2 * reduced < gathered, reduced >= gathered or (everywhere and 2 * reduced < gathered)


def _arg_reduction(
    operand: ArrayType | None, result: ArrayType, pending: Sequence[Axes], mesh: Mesh
) -> tuple[Collective, ...]:
    """The best candidate of each block is gathered, values and indices."""
    found: tuple[Collective, ...] = ()
    for axes in pending:
        for dtype in (operand.dtype if operand else result.dtype, result.dtype):
            found += over(ALL_GATHER, axes, Volume(dtype, tuple(result.shape), tuple(result.axes), axes), mesh)
    return found
