"""Dims: how operands' lists of axes meet on the factors of a scheme, and what lists the result gets. Seeds B20, B23,
B25, B31.

Operand dims that are one factor are cut alike, or not at all: a copy that meets a cut dim is sliced, free. The lists
of a grouped dim are dealt to its factors, major first; a result dim gets its factors' lists back to back, which is a
list only while all but the last are cut entirely.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from calculus.meshes import Mesh
from calculus.primitives.declaration import Primitive
from calculus.refusals import Place, refuse
from calculus.schemes import Indices, Scheme, Shape
from calculus.types import ArrayType, Axes, array_type


class Dispute(NamedTuple):
    """Two operands that cut one factor differently (or one that cuts a grouped dim inside a factor)."""

    first: int
    second: int
    dim: int
    lists: tuple[Axes, Axes]


def placed(
    primitive: Primitive, scheme: Scheme, arrays: Sequence[ArrayType | None], mesh: Mesh, targeted: bool
) -> tuple[dict[int, Axes], Dispute | None]:
    """Each cut factor's list of axes. Where a target was asked for, a dispute is returned rather than refused, and
    the disputed factor counts as not cut.

    Refuses `conflicting-sharding` and `misaligned` (a dispute), `contraction-target` (a contracted dim cut on both
    sides, and no target), `whole-dim-sharded`.
    """
    place: dict[int, Axes] = {}
    owner: dict[int, int] = {}
    disputed: Dispute | None = None
    for index, type in enumerate(arrays):
        if type is None:
            continue
        for dim, axes in enumerate(type.axes):
            if not axes:
                continue
            factors = scheme.operands[index][dim]
            if len(factors) == 1:
                dealt: list[tuple[int, Axes]] | None = [(factors[0], axes)]
            else:
                dealt = _dealt(factors, axes, scheme, mesh)
            if dealt is None:
                dispute = Dispute(index, index, dim, (axes, ()))
                if not targeted:
                    raise conflict(primitive, scheme, arrays, dispute)
                disputed = dispute
                continue
            for factor, names in dealt:
                role = scheme.roles.get(factor)
                if role == "whole":
                    raise _whole(primitive, index, dim, type)
                before = place.get(factor)
                if before is None:
                    place[factor], owner[factor] = names, index
                elif before != names:
                    disputed = Dispute(owner[factor], index, dim, (before, names))
                    if not targeted:
                        raise conflict(primitive, scheme, arrays, disputed)
                elif role is not None and not targeted:
                    raise _target_needed(primitive, scheme, place, factor, arrays, mesh)
    return place, disputed


def _dealt(factors: Sequence[int], axes: Axes, scheme: Scheme, mesh: Mesh) -> list[tuple[int, Axes]] | None:
    """A grouped dim's list dealt to its factors, major first; `None` where an axis would cut across a factor."""
    found: list[tuple[int, Axes]] = []
    rest = axes
    for factor in factors:
        taken: Axes = ()
        size = scheme.sizes[factor]
        while rest:
            parts = mesh.size((*taken, rest[0]))
            if parts is None and not taken:
                taken, rest = (rest[0],), rest[1:]
                continue
            if parts is None or not isinstance(size, int) or size % parts:
                break
            taken, rest = (*taken, rest[0]), rest[1:]
        if taken:
            found.append((factor, taken))
        if not rest:
            return found
        if mesh.size(taken) != size:
            return None
    return found if all(mesh.size((axis,)) == 1 for axis in rest) else None


def derived_lists(scheme: Scheme, indices: Indices, place: dict[int, Axes], mesh: Mesh) -> tuple[Axes, ...] | None:
    """The result's lists; `None` where a grouped dim's blocks would not be contiguous."""
    found: list[Axes] = []
    for dim in indices:
        axes: Axes = ()
        entire = True
        for factor in dim:
            names = place.get(factor, ())
            if names and not entire:
                return None
            axes += names
            entire = entire and mesh.size(names) == scheme.sizes[factor]
        found.append(axes)
    return tuple(found)


def repeated(primitive: Primitive, lists: Sequence[Axes], shape: Shape, dtype: str) -> None:
    """Refuses `axis-used-twice` where the derived lists mention an axis twice: step 3 of the seed's rule (B23)."""
    flat = [axis for axes in lists for axis in axes]
    if len(set(flat)) == len(flat):
        return
    twice = next(axis for axis in flat if flat.count(axis) > 1)
    raise refuse(
        "axis-used-twice",
        f"the result of {primitive.name} would be {array_type(dtype, shape, tuple(lists))}, sharded twice on {twice}",
        because="a device has one coordinate along an axis, so the axis cuts one dim only",
        help=f"reshard an operand so that {twice} cuts one dim"
        + (", or ask for the result's sharding" if primitive.target else ""),
        place=Place("operand", len(shape) and 1 if len(primitive.operands) > 1 else 0),
    )


def conflict(
    primitive: Primitive, scheme: Scheme, arrays: Sequence[ArrayType | None], dispute: Dispute | None
) -> Exception:
    """The refusal for a dispute, or for a result dim whose blocks would not be contiguous."""
    if dispute is None or dispute.first == dispute.second:
        return refuse(
            "misaligned",
            f"{primitive.name} regroups {', '.join(str(type) for type in arrays if type)} so that a device's block is "
            f"not one block of the result: {scheme}",
            because="only the major part of a grouped dim can be cut into consecutive blocks",
            help="reshard first, so that the cut dim is the major one of its group and divides",
            place=Place("operand", 0),
        )
    left, right = arrays[dispute.first], arrays[dispute.second]
    same_axes = set(dispute.lists[0]) == set(dispute.lists[1])
    ways = [f"({','.join(axes)})" for axes in dispute.lists]
    return refuse(
        "misaligned" if same_axes else "conflicting-sharding",
        f"operand {dispute.first} is {left} and operand {dispute.second} is {right}: one dim cut by {ways[0]} and by {ways[1]}",
        because="elements that meet must lie on one device, and either placement would do"
        if not same_axes
        else "the same axes in another order put different blocks on a device",
        help=f"reshard operand {dispute.second} so that its dim {dispute.dim} is cut by {ways[0]}, or the other way round",
        place=Place("operand", dispute.second),
    )


def _whole(primitive: Primitive, index: int, dim: int, type: ArrayType) -> Exception:
    bare = array_type(type.dtype, type.shape, (*type.axes[:dim], (), *type.axes[dim + 1 :]))
    return refuse(
        "whole-dim-sharded",
        f"{primitive.name} looks along dim {dim} of operand {index}, {type}, which is sharded",
        because="a device that has a block of the dim cannot do its part alone",
        help=f"reshard it to {bare} first",
        place=Place("operand", index),
    )


def _target_needed(
    primitive: Primitive,
    scheme: Scheme,
    place: dict[int, Axes],
    factor: int,
    arrays: Sequence[ArrayType | None],
    mesh: Mesh,
) -> Exception:
    axes = place[factor]
    names = axes[0] if len(axes) == 1 else f"({','.join(axes)})"
    indices = scheme.results[0]
    lists = derived_lists(scheme, indices, place, mesh) or ((),) * len(indices)
    shape = scheme.shape(indices)
    dtype = next((type.dtype for type in arrays if type is not None), "f32")
    plain = array_type(dtype, shape, lists)
    pending = array_type(dtype, shape, lists, unreduced=axes)
    scattered = [
        f"{array_type(dtype, shape, (*lists[:dim], lists[dim] + axes, *lists[dim + 1 :]))} (reduce-scatter)"
        for dim in range(len(shape))
    ]
    return refuse(
        "contraction-target",
        f"the contracted dims of {primitive.name} are both sharded on {names}, and no target says what becomes of the sum",
        because=f"each device has a part of the sum over {names}, and there are several ways to finish it",
        help=f"say which: {plain} (all-reduce), {', '.join(scattered)}{', ' if scattered else ''}or {pending} (free)",
    )
