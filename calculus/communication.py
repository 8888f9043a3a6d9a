"""Communication as an effect of judgments: collectives with two prices, and what a change of placement costs.

*Payload* is bytes per device: of the operand of an all-reduce, a reduce-scatter, an all-to-all, a permute; of the
result of an all-gather. *Wire* is what a ring sends per device: 2(n-1)/n payload for an all-reduce, (n-1)/n for a
gather, a scatter, an all-to-all or a broadcast (all devices but the last pass it on), payload for a permute, over n
devices. A collective over one device is none.

Where the types determine what a partitioner must do, a collective is `exact`. Where it searches (several dims move at
once, or one is cut while another is gathered), the price is that of gathering everything that moves, a bound on what
need be sent (a partitioner may do worse), and the collective is an `estimate`. So are pending sums of which only some
land on a dim, or on several dims: a partitioner may scatter first, or reduce everything and cut. Axes of one size are
alike to a partitioner, which may renumber devices along one that is free; there too it searches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from calculus.meshes import AxisMode, Mesh
from calculus.types import ArrayType, Axes, Dim, array_type
from calculus.volumes import Volume, volume

if TYPE_CHECKING:
    from fractions import Fraction

ALL_REDUCE: Final = "all-reduce"
ALL_GATHER: Final = "all-gather"
REDUCE_SCATTER: Final = "reduce-scatter"
ALL_TO_ALL: Final = "all-to-all"
PERMUTE: Final = "collective-permute"
BROADCAST: Final = "collective-broadcast"
UNKNOWN: Final = "unknown"

EXACT: Final = "exact"
ESTIMATE: Final = "estimate"
AT_MOST: Final = "at most"
COMPILER: Final = "chosen by the compiler"

Lists = Sequence[Axes]


class Collective(NamedTuple):
    """One collective. payload: bytes per device, `None` where a size is not known. group: how many devices take part
    in one instance. subject: the operand that is moved as it is, -1 for a result. goal: where it is moved in the end,
    so that moving it there again is the same collective; `None` where it is another one every time, as for pending
    sums (measured: two of the same are reduced twice). volume: what the payload is the size of; `None` where that is no
    block."""

    kind: str
    axes: Axes
    payload: int | None
    group: int | None
    exactness: str = EXACT
    subject: int = -1
    goal: Hashable = None
    volume: Volume | None = None

    @property
    def wire(self) -> int | Fraction | None:
        """Bytes each device sends on a ring."""
        if self.payload is None or self.group is None:
            return None
        if self.kind == PERMUTE:
            return self.payload
        sent = (2 if self.kind == ALL_REDUCE else 1) * (self.group - 1) * self.payload
        if sent % self.group == 0:
            return sent // self.group
        from fractions import Fraction

        return Fraction(sent, self.group)

    def of(self, subject: int, goal: Hashable = None) -> Collective:
        """This collective with its subject set, and its goal where one is given."""
        return self._replace(subject=subject, goal=self.goal if goal is None else goal)

    def estimated(self) -> Collective:
        """This collective as an estimate."""
        return self if self.exactness != EXACT else self._replace(exactness=ESTIMATE)


def block_bytes(type: ArrayType, mesh: Mesh, lists: Lists | None = None) -> int | None:
    """Bytes of one device's block of an array of this type, or of one placed by other lists; `None` where the mesh or
    a symbolic dim leaves it open."""
    return volume(type, lists).bytes(mesh)


def over(
    kind: str, axes: Iterable[str], moved: Volume | None, mesh: Mesh, exactness: str = EXACT
) -> tuple[Collective, ...]:
    """One collective over these axes, or none where they hold one device together or nothing is sent. moved: the block
    that is its payload, `None` where nobody knows it."""
    axes = tuple(axis for axis in axes if mesh.size((axis,)) != 1)
    group = mesh.size(axes)
    payload = None if moved is None else moved.bytes(mesh)
    if not axes or group == 1 or payload == 0:
        return ()
    return (Collective(kind, axes, payload, group, exactness, volume=moved),)


def gather(type: ArrayType, lists: Lists, goal: Lists, mesh: Mesh) -> tuple[Collective, ...]:
    """All-gathers that take an array from `lists` to `goal`, each of whose lists is a prefix: one per dim, the last
    dim first, each priced at its result."""
    found: list[Collective] = []
    current = [tuple(axes) for axes in lists]
    for dim in reversed(range(len(current))):
        dropped = current[dim][len(goal[dim]) :]
        if dropped:
            current[dim] = tuple(goal[dim])
            found += over(ALL_GATHER, dropped, volume(type, current), mesh)
    return tuple(found)


def spare(mesh: Mesh, used: Iterable[str]) -> set[int]:
    """The sizes of axes that are not used: along one, a partitioner may renumber the devices of another of its size."""
    held = set(used)
    free = (axis for axis in mesh.axes if axis.name not in held and axis.mode is not AxisMode.MANUAL)
    return {axis.size for axis in free if axis.size is not None and axis.size > 1}


def reduce(
    dtype: str, shape: Sequence[Dim], lists: Lists, pending: Sequence[Axes], mesh: Mesh, kind: str = ALL_REDUCE
) -> tuple[Collective, ...]:
    """Finish pending reductions of a result that is placed by `lists`: one all-reduce for each reduced dim's axes,
    the last dim first. An axis that the result is sharded on is reduced and scattered in one; where that comes to
    several dims, or from several, or where it is not all that the dim is cut on, or where devices could be
    renumbered along an axis of that size that is free, it is an estimate."""
    found: list[Collective] = []
    ends = {axis for dim in lists for axis in dim}
    several = sum(not ends.isdisjoint(axes) for axes in pending) > 1
    for axes in reversed(pending):
        landed = tuple(axis for axis in axes if any(axis in dim for dim in lists))
        rest = tuple(axis for axis in axes if axis not in landed)
        if landed:
            before = [tuple(axis for axis in dim if axis not in landed) for dim in lists]
            ends_in = [dim for dim in lists if not set(landed).isdisjoint(dim)]
            renumbers = mesh.size(landed) in spare(mesh, ends)
            spread = several or len(ends_in) > 1 or ends_in[0] != landed or renumbers
            exactness = ESTIMATE if spread else EXACT
            found += over(REDUCE_SCATTER, landed, Volume(dtype, tuple(shape), tuple(before)), mesh, exactness)
        if rest:
            found += over(kind, rest, Volume(dtype, tuple(shape), tuple(lists)), mesh)
    return tuple(found)


def move(source: ArrayType, target: ArrayType, mesh: Mesh, target_mesh: Mesh | None = None) -> tuple[Collective, ...]:
    """What it takes to turn an array of one type into one of another that differs in placement only. Seeds A19, A24,
    A27, A33, B13.

    Pending sums that must end come first, all in one all-reduce, or in a reduce-scatter where the axis ends as the
    minor part of a dim's list; casts between N, R, U and from S to U are free; then the dims move.
    """
    if target_mesh is not None and target_mesh is not mesh:
        together = on_one_mesh(source, target, mesh, target_mesh)
        if together is None:
            return entirely(source, mesh)
        source, target, mesh = together
    if source is target:
        return ()
    goal, lists = _of_several(target.axes, mesh), _of_several(source.axes, mesh)
    found: list[Collective] = []
    kept = target.unreduced if source.kind == target.kind else ()
    leaving = tuple(axis for axis in source.unreduced if axis not in kept)
    before = list(lists)
    if leaving:
        for dim, wanted in enumerate(goal):
            tail = wanted[len(lists[dim]) :] if wanted[: len(lists[dim])] == lists[dim] else ()
            landed = tuple(axis for axis in tail if axis in leaving)
            if landed and tail[: len(landed)] == landed and source.kind == "sum":
                moved_whole = volume(source, lists)
                lists[dim] += landed
                found += over(REDUCE_SCATTER, landed, moved_whole, mesh)
                leaving = tuple(axis for axis in leaving if axis not in landed)
        found += _placing(ALL_REDUCE, leaving, source, mesh, lists)
        if len(found) > 1:
            found = [collective.estimated() for collective in found]
    # What ends up pending along an axis is masked, free, once all else has moved: where that is all that the dim still
    # has to lose, it stays cut until then.
    ends = [
        axes if axes[: len(wanted)] == wanted and set(axes[len(wanted) :]) <= {*target.unreduced} else wanted
        for axes, wanted in zip(lists, goal, strict=True)
    ]
    moved = _relay(source, before, lists, ends, mesh)
    if found:
        if moved and any(one.kind == REDUCE_SCATTER for one in found):  # a partitioner may move before it scatters
            found = [one.estimated() for one in found]
        return (*found, *moved)
    return tuple(collective._replace(goal=(target.axes, target.unreduced)) for collective in moved)


def _of_several(lists: Lists, mesh: Mesh) -> list[Axes]:
    """The lists without axes of one device, along which nothing is cut."""
    return [tuple(axis for axis in axes if mesh.size((axis,)) != 1) for axes in lists]


def entirely(source: ArrayType, mesh: Mesh) -> tuple[Collective, ...]:
    """The upper bound of any move of an array: finish what is pending, and gather every dim."""
    finished = _placing(ALL_REDUCE, source.unreduced, source, mesh, source.axes)
    return (*(one.estimated() for one in finished), *_everything(source, source.axes, mesh))


def _relay(type: ArrayType, before: list[Axes], lists: list[Axes], goal: Lists, mesh: Mesh) -> tuple[Collective, ...]:
    """Move dims: slices first (free), then one dim's own renumbering, then gathers, then one move between dims.

    before: the lists without what has just landed, which is as if sliced. A slice stands beside a gather of another
    dim, and a move beside a gather of the dim that it leaves or a slice of one that it does not reach, in no program of
    a partitioner's: it searches for something else. So it does where a dim is sliced and blocks move to it, unless the
    dim was whole and all axes are in use.
    """
    found: list[Collective] = []
    held = {axis for axes in lists for axis in axes}
    wanted = {axis for axes in goal for axis in axes}
    for dim, axes in enumerate(goal):
        fresh = axes[len(lists[dim]) :] if axes[: len(lists[dim])] == lists[dim] else ()
        while fresh and fresh[0] not in held:
            lists[dim] += fresh[:1]
            fresh = fresh[1:]
    sliced = {dim for dim, axes in enumerate(lists) if axes != before[dim]}
    renumbered: list[int] = []
    gathered: dict[int, Axes] = {}
    for dim in reversed(range(len(lists))):
        shared = _common_prefix(lists[dim], goal[dim])
        rest, new = lists[dim][shared:], goal[dim][shared:]
        if not rest:
            continue
        elsewhere = {axis for other, axes in enumerate(goal) if other != dim for axis in axes}
        if new and not (set(new) & (held - set(rest))) and not set(rest) & elsewhere:
            renumbered.append(dim)
            continue
        kept = len(rest)
        while kept and rest[kept - 1] not in wanted:
            kept -= 1
        if rest[kept:]:
            gathered[dim] = rest[kept:]
    if len(renumbered) > 1 or (gathered and sliced):
        return _everything(type, before, mesh, goal)
    if any(not _aligned(mesh.size(lists[dim]), mesh.size(goal[dim])) for dim in renumbered):
        return _everything(type, before, mesh, goal)
    for dim in renumbered:
        found += _renumber(type, lists, dim, goal[dim], mesh)
        lists[dim] = goal[dim]
        if sliced and len(found) > 1:
            return _everything(type, before, mesh, goal)
    for dim, dropped in gathered.items():
        lists[dim] = lists[dim][: -len(dropped)]
        found += _placing(ALL_GATHER, dropped, type, mesh, lists)
    if lists == goal:
        return tuple(found)
    movers = [
        (source, target)
        for source, axes in enumerate(lists)
        for target, ends in enumerate(goal)
        if source != target and set(axes) & set(ends)
    ]
    if len(movers) == 1 and not renumbered:
        ((source, target),) = movers
        shared = _common_prefix(lists[source], goal[source])
        moved = lists[source][shared:]
        lists[source], lists[target] = lists[source][:shared], lists[target] + moved
        # A partitioner may renumber devices along what is gathered, where that is as many of them.
        count = mesh.size(moved)
        renumbers = any((mesh.size(dropped) or 1) % (count or 1) == 0 for dropped in gathered.values())
        # Beside a slice of the dim that it reaches it moves blocks only where that dim was whole, and no axis is idle.
        cut = bool(sliced) and (sliced != {target} or bool(before[target]) or _idle(mesh, goal))
        if lists == goal and source not in gathered and not cut and not renumbers:
            return (*found, *_placing(ALL_TO_ALL, moved, type, mesh, lists))
    return _everything(type, before, mesh, goal)


def _idle(mesh: Mesh, lists: Lists) -> bool:
    """Whether there is an axis, of more than one device, that no dim is cut along."""
    used = {axis for axes in lists for axis in axes}
    return any(axis.size != 1 and axis.mode is not AxisMode.MANUAL and axis.name not in used for axis in mesh.axes)


def _placing(kind: str, axes: Axes, type: ArrayType, mesh: Mesh, lists: Lists) -> tuple[Collective, ...]:
    """A collective that leaves an array placed by these lists, and has blocks of that size."""
    return over(kind, axes, volume(type, lists), mesh)


def _renumber(type: ArrayType, lists: list[Axes], dim: int, wanted: Axes, mesh: Mesh) -> tuple[Collective, ...]:
    """One dim goes to other axes, or the same in another order: blocks are permuted at the finer of the two cuts, and
    gathered where the new cut is coarser."""
    before = lists[dim]
    after = [*lists[:dim], wanted, *lists[dim + 1 :]]
    have, need = mesh.size(before), mesh.size(wanted)
    sizes = block_bytes(type, mesh, lists), block_bytes(type, mesh, after)
    finer = None if None in sizes else volume(type, lists if sizes[0] <= sizes[1] else after)  # type: ignore[operator]
    found = over(PERMUTE, _displaced(before, wanted, mesh), finer, mesh)
    if have is not None and need is not None and need < have:
        dropped = tuple(axis for axis in before if axis not in wanted)
        ratio = have // need
        coarser = volume(type, after)
        found += (Collective(ALL_GATHER, dropped or before, coarser.bytes(mesh), ratio, volume=coarser),)
    return found


def _aligned(have: int | None, need: int | None) -> bool:
    """Whether the blocks of a finer cut are parts of those of a coarser one, as far as numbers of blocks are known."""
    return have is None or need is None or have % need == 0 or need % have == 0


def _displaced(before: Axes, after: Axes, mesh: Mesh) -> Axes:
    """The axes that stand at another place in the two lists, counted in blocks. Where axes only come in, the array is
    first cut along them, below the others, free; where some only go, it is gathered along them, below, afterwards."""
    fresh, gone = (
        tuple(axis for axis in one if axis not in other) for one, other in ((after, before), (before, after))
    )
    if not gone:
        before = (*before, *fresh)
    elif not fresh:
        after = (*after, *gone)

    def offsets(axes: Axes) -> dict[str, object]:
        firsts = [axes[:position] for position in range(len(axes))]
        return {axis: mesh.size(those) or {*those} for axis, those in zip(axes, firsts, strict=True)}

    first, second = offsets(before), offsets(after)
    return mesh.in_order(
        axis for axis in {**first, **second} if axis not in first or axis not in second or first[axis] != second[axis]
    )


def _everything(type: ArrayType, lists: Lists, mesh: Mesh, goal: Lists | None = None) -> tuple[Collective, ...]:
    """The upper bound: gather every dim whose list changes beyond a common prefix."""
    target = [axes[: _common_prefix(axes, goal[dim])] if goal else () for dim, axes in enumerate(lists)]
    axes = tuple(axis for dim, names in enumerate(lists) for axis in names[len(target[dim]) :])
    return over(ALL_GATHER, axes, volume(type, target), mesh, ESTIMATE)


def _common_prefix(left: Axes, right: Axes) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def on_one_mesh(
    source: ArrayType, target: ArrayType, mesh: Mesh, target_mesh: Mesh
) -> tuple[ArrayType, ArrayType, Mesh] | None:
    """Two types, each on its mesh, on one of the two; `None` where neither mesh spells the axes of the other."""
    if target_mesh is mesh:
        return source, target, mesh
    onto = _translated(target, target_mesh, mesh)
    if onto is not None:
        return source, onto, mesh
    back = _translated(source, mesh, target_mesh)
    return None if back is None else (back, target, target_mesh)


def _translated(type: ArrayType, mesh: Mesh, into: Mesh) -> ArrayType | None:
    """A type on one mesh as a type on another over the same devices in the same order, where each axis of the one is a
    run of axes of the other; `None` elsewhere. Seeds B9, B10, B17."""
    sizes = [axis.size for axis in mesh.axes], [axis.size for axis in into.axes]
    if None in sizes[0] or None in sizes[1]:
        return None
    runs: dict[str, Axes] = {}
    rest = list(into.axes)
    for axis in mesh.axes:
        run: list[str] = []
        filled = 1
        while rest and filled < (axis.size or 1):
            filled *= rest[0].size or 1
            run.append(rest.pop(0).name)
        if filled != axis.size:
            return None
        runs[axis.name] = tuple(run)
    if prod(axis.size or 1 for axis in rest) != 1:
        return None

    def spell(axes: Axes) -> Axes:
        return tuple(name for axis in axes for name in runs.get(axis, ()))

    states = spell(type.varying), spell(type.unreduced), spell(type.reduced)
    return array_type(type.dtype, type.shape, tuple(map(spell, type.axes)), *states, type.kind, type.memory)
