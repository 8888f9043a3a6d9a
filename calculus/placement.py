"""Dims: how operands' lists of axes meet on the factors of a scheme, and what lists the result gets. Seeds B20, B23,
B25, B31.

Operand dims that are one factor are cut alike, or not at all: a copy that meets a cut dim is sliced, free. The lists
of a grouped dim are dealt to its factors, major first; a result dim gets its factors' lists back to back, which is a
list only while all but the last are cut entirely.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from calculus.communication import move, reduce
from calculus.meshes import Mesh
from calculus.refusals import Place, refuse
from calculus.repairs import priced
from calculus.schemes import Indices, Scheme
from calculus.types import ArrayType, Axes, Dim, array_type
from calculus.uses import Use

Placed: TypeAlias = "dict[int, Axes]"
"""Each cut factor's list of axes."""


class Dispute(NamedTuple):
    """Two operands that cut one factor differently (or one that cuts a grouped dim inside a factor)."""

    first: int
    second: int
    dim: int
    lists: tuple[Axes, Axes]


def placed(use: Use) -> tuple[Placed, list[Dispute]]:
    """Each cut factor's list of axes (the first operand's, where they dispute it), and the disputes: returned where a
    target was asked for, refused elsewhere. A dim that is cut and needed whole is a dispute of its own. One element
    that is cut, along axes of one device, and meets several hands its axes on, where nothing else is cut by them.

    Refuses `conflicting-sharding`, `misaligned` and `whole-dim-sharded` (a dispute), `contraction-target` (a contracted
    dim cut on both sides, and no target).
    """
    scheme = use.scheme
    place: Placed = {}
    owner: dict[int, int] = {}
    disputes: list[Dispute] = []
    stretched: Placed = {}
    for index, type in enumerate(use.arrays):
        if type is None:
            continue
        for dim, axes in enumerate(type.axes):
            if not axes:
                continue
            factors = scheme.operands[index][dim]
            if len(factors) == 1 and place.get(factors[0]) == axes and factors[0] not in scheme.roles:
                continue  # cut like an operand before it
            if not factors and scheme.elementwise and use.mesh.size(axes) == 1:  # one element that meets several
                stretched.setdefault(dim, axes)
                continue
            if len(factors) == 1:
                dealt: list[tuple[int, Axes]] | None = [(factors[0], axes)]
            else:
                dealt = dealt_to(factors, axes, scheme, use.mesh)
            if dealt is None:
                dispute = Dispute(index, index, dim, (axes, ()))
                if not use.targeted:
                    raise conflict(use, dispute)
                disputes.append(dispute)
                continue
            for factor, names in dealt:
                role = scheme.roles.get(factor)
                if role == "whole":
                    along = dim if scheme.along is None else scheme.along.get(factor, -1)
                    kept = _kept(use, along)
                    if kept is not None:
                        place.update(dict.fromkeys(scheme.results[use.number][along], kept))
                        continue
                    disputes.append(Dispute(index, index, dim, (axes, ())))
                    if not use.targeted:
                        raise conflict(use, disputes[-1])
                    continue
                if role is not None and scheme.accumulator is not None:
                    _pending(use, names, role)
                before = place.get(factor)
                if before is None:
                    place[factor], owner[factor] = names, index
                elif before != names:
                    disputes.append(Dispute(owner[factor], index, dim, (before, names)))
                    if not use.targeted:
                        raise conflict(use, disputes[-1])
                elif role is not None and not use.targeted and scheme.accumulator is None:
                    raise _target_needed(use, place, factor)
    for factor, axes in stretched.items():
        if all(set(axes).isdisjoint(others) for others in place.values()):
            place.setdefault(factor, axes)
    return place, disputes


def _kept(use: Use, dim: int) -> Axes | None:
    """The result's list on a dim that the primitive looks along, where its operands are cut there: the printed type
    says that it stays cut as they all are, or nothing moves then, and no type is printed; or the result has one
    element, which lies whole on every device. `None` where none of these is so, or the primitive cannot work on
    blocks."""
    printed, window = use.site.printed[use.number], use.primitive.window
    if not window or not 0 <= dim < len(use.scheme.results[use.number]):
        return None
    lists = {
        axes for index, type in enumerate(use.arrays) if type is not None for axes in _along(use, index, type, dim)
    }
    if not isinstance(printed, ArrayType):
        return next(iter(lists)) if window == "own" and len(lists) == 1 else None
    if lists == {printed.axes[dim]}:
        return printed.axes[dim]
    one = len(lists) == 1 and all(size == 1 for size in printed.shape) and not any(printed.axes)
    return () if one else None


def _along(use: Use, index: int, type: ArrayType, dim: int) -> Sequence[Axes]:
    """An operand's lists on the dims whose windows go along a dim of the results."""
    along = use.scheme.along
    if along is None:
        return type.axes[dim : dim + 1] if type.rank == len(use.scheme.results[use.number]) else ()
    own = zip(use.scheme.operands[index], type.axes, strict=True)
    return [axes for factors, axes in own if any(along.get(factor) == dim for factor in factors)]


def dealt_to(factors: Sequence[int], axes: Axes, scheme: Scheme, mesh: Mesh) -> list[tuple[int, Axes]] | None:
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


def derived_lists(scheme: Scheme, indices: Indices, place: Placed, mesh: Mesh) -> tuple[Axes, ...] | None:
    """The result's lists; `None` where a grouped dim's blocks would not be contiguous."""
    found: list[Axes] = []
    for dim in indices:
        if len(dim) == 1:
            found.append(place.get(dim[0], ()))
            continue
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


def recut(type: ArrayType, lists: Sequence[Axes], shape: Sequence[Dim] | None = None) -> ArrayType:
    """This type with its dims cut by these lists, of another shape if one is given."""
    sizes, axes = type.shape if shape is None else tuple(shape), tuple(lists)
    states = type.varying, type.unreduced, type.reduced
    return array_type(type.dtype, sizes, axes, *states, type.kind, type.memory, type.weak)


def factored(
    scheme: Scheme, operands: Sequence[ArrayType | None], result: ArrayType, mesh: Mesh
) -> tuple[Scheme, list[ArrayType | None], ArrayType] | None:
    """The same use with a dim for each factor: a grouped dim is its factors' dims, major first, and lies in memory as
    they do. `None` where some list of axes cuts across a factor."""

    def apart(indices: Indices, type: ArrayType) -> ArrayType | None:
        shape: list[Dim] = []
        lists: list[Axes] = []
        for factors, axes in zip(indices, type.axes, strict=True):
            dealt = [(factors[0], axes)] if len(factors) == 1 else dealt_to(factors, axes, scheme, mesh)
            if dealt is None:
                return None
            shape += [scheme.sizes[factor] for factor in factors]
            lists += [dict(dealt).get(factor, ()) for factor in factors]
        return recut(type, lists, shape)

    arrays = [apart(indices, type) if type else None for indices, type in zip(scheme.operands, operands, strict=True)]
    end = apart(scheme.results[0], result)
    if end is None or any(before and after is None for before, after in zip(operands, arrays, strict=True)):
        return None
    single = [
        tuple((factor,) for dim in indices for factor in dim) for indices in (*scheme.operands, scheme.results[0])
    ]
    ends = scheme.results[0]
    along = scheme.along and {factor: _before(ends, dim) for factor, dim in scheme.along.items() if ends[dim]}
    return Scheme(tuple(single[:-1]), (single[-1],), scheme.sizes, scheme.roles, along), arrays, end


def _before(indices: Indices, dim: int) -> int:
    """How many factors stand before this dim."""
    return sum(map(len, indices[:dim]))


def repeated(use: Use, lists: Sequence[Axes], dtype: str) -> None:
    """Refuses `axis-used-twice` where the derived lists mention an axis twice: step 3 of the seed's rule (B23)."""
    flat = [axis for axes in lists for axis in axes]
    if len(set(flat)) == len(flat):
        return
    twice = next(axis for axis in flat if flat.count(axis) > 1)
    shape = use.scheme.shape(use.scheme.results[use.number])
    raise refuse(
        "axis-used-twice",
        f"the result of {use.primitive.name} would be {array_type(dtype, shape, tuple(lists))}, twice on {twice}",
        because="a device has one coordinate along an axis, so the axis cuts one dim only",
        help=f"reshard an operand so that {twice} cuts one dim"
        + (", or ask for the result's sharding" if use.primitive.target else ""),
        place=Place("operand", min(1, len(use.arrays) - 1)),
    )


def conflict(use: Use, dispute: Dispute | None) -> Exception:
    """The refusal for a dispute, or for a result dim whose blocks would not be contiguous."""
    if dispute is not None and dispute.first == dispute.second:
        factors, cut = use.scheme.operands[dispute.first][dispute.dim], use.arrays[dispute.first]
        if cut is not None and any(use.scheme.roles.get(factor) == "whole" for factor in factors):
            return _whole(use, dispute.first, dispute.dim, cut)
    if dispute is None or dispute.first == dispute.second:
        return refuse(
            "misaligned",
            f"{use.primitive.name} regroups {use.arrays[0]} so that a device's block is not one block of the result: "
            f"{use.scheme}",
            because="only the major part of a grouped dim can be cut into consecutive blocks",
            help="reshard first, so that the cut dim is the major one of its group and divides",
            place=Place("operand", 0),
        )
    left, right = use.arrays[dispute.first], use.arrays[dispute.second]
    same_axes = set(dispute.lists[0]) == set(dispute.lists[1])
    ways = [f"({','.join(axes)})" for axes in dispute.lists]
    return refuse(
        "misaligned" if same_axes else "conflicting-sharding",
        f"operand {dispute.first} is {left} and operand {dispute.second} is {right}: one dim, cut by {ways[0]} and by "
        f"{ways[1]}",
        because="elements that meet must lie on one device, and either placement would do"
        if not same_axes
        else "the same axes in another order put different blocks on a device",
        help=_either(dispute, ways),
        place=Place("operand", dispute.second),
    )


def _either(dispute: Dispute, ways: Sequence[str]) -> str:
    """The two ways to cut operands alike; where one list begins as the other, which of them is free."""
    one, other = dispute.lists
    shorter, longer = sorted((one, other), key=len)
    said = [
        f"reshard operand {dispute.second} so that its dim {dispute.dim} is cut by {ways[0]}",
        f"operand {dispute.first} so that the dim that meets it is cut by {ways[1]}",
    ]
    if longer[: len(shorter)] == shorter:
        gathered = f" (an all-gather over {','.join(longer[len(shorter) :])})"
        prices = (gathered, " (free forward)") if other == longer else (" (free forward)", gathered)
        said = [f"{way}{price}" for way, price in zip(said, prices, strict=True)]
    return ", or ".join(said)


def _whole(use: Use, index: int, dim: int, type: ArrayType) -> Exception:
    bare = recut(type, (*type.axes[:dim], (), *type.axes[dim + 1 :]))
    own = use.primitive.window == "own" and index == (use.scheme.accumulator or 0)  # not the places, or an update
    there, back = move(type, bare, use.mesh), move(bare, type, use.mesh)
    price = f"{priced(there)} forward, {priced(back)} backward" if not (type.unreduced or type.reduced) else ""
    part = _part(use, index, dim, type) if use.primitive.name in _READING and price else ""
    return refuse(
        "whole-dim-sharded",
        f"{use.primitive.name} looks along dim {dim} of operand {index}, {type}, which is sharded",
        because="a window of several elements may lie across two devices' blocks"
        if own
        else "a device that has a block of the dim cannot do its part alone",
        help=f"reshard it to {bare} first{f' ({price})' if price else ''}{_APART if own else part}",
        place=Place("operand", index),
    )


_READING: Final = frozenset({"slice", "dynamic_slice", "gather"})
"""What gives elements of an array as they are."""


def _part(use: Use, index: int, dim: int, type: ArrayType) -> str:
    """The other way to read a part of a cut dim: the device that has it gives it to all."""
    lists = {factors: axes for factors, axes in zip(use.scheme.operands[index], type.axes, strict=True) if axes}
    indices = use.scheme.results[use.number]
    found = array_type(type.dtype, use.scheme.shape(indices), tuple(lists.get(factors, ()) for factors in indices))
    sums = reduce(found.dtype, found.shape, found.axes, [type.axes[dim]], use.mesh)
    asked = "x.at[...].get(out_sharding=...) asks"
    if use.primitive.name != "gather":  # JAX slices by a number, or a range, and asks for nothing
        asked = "x.at[jnp.array([...])].get(out_sharding=...) asks, with the places in an array"
    return (
        f"; or have the device that holds the part give it to all, as {found} ({priced(sums)} forward, free backward: "
        f"each device keeps what falls into its own block), as {asked}"
    )


_APART: Final = (
    "; or write element by element, x.at[jnp.arange(start, stop)]: each device writes its own, and nothing moves"
)


def _pending(use: Use, axes: Axes, role: str) -> None:
    """Refuses `contraction-target` unless a reduction that starts from an operand is left pending along axes that cut
    a reduced factor: nothing else asks for its end."""
    printed, start = use.site.printed[use.number], use.scheme.accumulator or 0
    if isinstance(printed, ArrayType) and set(axes) <= set(printed.unreduced):
        return
    names = axes[0] if len(axes) == 1 else f"({','.join(axes)})"
    array, ways = use.arrays[start], "reshard the updates and their places first"
    if array is not None and not {*array.sharded, *array.unreduced}.intersection(axes) and not array.unreduced:
        reduced = tuple(axis for axis in array.reduced if axis not in axes)
        pending = array_type(array.dtype, array.shape, array.axes, array.varying, axes, reduced, role, array.memory)
        first = f"reshard operand {start} to {pending} (free), " if role == "sum" else ""
        ways = f"{first}bind {pending}, and reshard it afterwards; or {ways}"
    elif array is not None and not {*array.sharded}.isdisjoint(axes):
        ways += _APART
    raise refuse(
        "contraction-target",
        f"what {use.primitive.name} reduces is cut on {names}, and its result is not left pending there",
        because=f"each device along {names} has some of the updates, and no parameter asks for the end of their {role}",
        help=ways,
        place=Place("binder", use.number),
    )


def _target_needed(use: Use, place: Placed, factor: int) -> Exception:
    axes = place[factor]
    names = axes[0] if len(axes) == 1 else f"({','.join(axes)})"
    indices = use.scheme.results[0]
    lists = derived_lists(use.scheme, indices, place, use.mesh) or ((),) * len(indices)
    shape = use.scheme.shape(indices)
    dtype = next((type.dtype for type in use.arrays if type is not None), "f32")
    plain = array_type(dtype, shape, lists)
    pending = array_type(dtype, shape, lists, unreduced=axes)
    scattered = [
        f"{array_type(dtype, shape, (*lists[:dim], lists[dim] + axes, *lists[dim + 1 :]))} (reduce-scatter)"
        for dim in range(len(shape))
    ]
    return refuse(
        "contraction-target",
        f"the contracted dims of {use.primitive.name} are both sharded on {names}, and no target says what becomes of "
        "the sum",
        because=f"each device has a part of the sum over {names}, and there are several ways to finish it",
        help=f"say which: {', '.join([f'{plain} (all-reduce)', *scattered])} or {pending} (free)",
    )
