"""A primitive of the table on devices: each computes from its own blocks, between the collectives that were derived.

First the operands go where the derived collectives take them. Then every factor of the scheme is cut in one way for all
operands (a copy is sliced, free), and each device runs the kernel on its blocks. What is then pending is finished by
the collectives that are left, and the result lies as its type says: alone, or `NotDerived`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from calculus.communication import Collective
from calculus.placement import dealt_to, derived_lists
from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Parameters
from calculus.types import ArrayType, Axes, array_type
from verifier.devices import Array
from verifier.execution.account import Account, Place
from verifier.execution.arithmetic import applied
from verifier.execution.grid import Blocks, Grid, extent, inside, laid, local_shape
from verifier.execution.moves import Lying, NotDerived, follow, lying, settled
from verifier.kernels import on_blocks

Steps: TypeAlias = "Sequence[tuple[Place, Collective]]"
Moved: TypeAlias = "Callable[[int, Lying, Steps], Lying]"
"""Carries out the collectives that an operand is the subject of, unless it was moved there before."""
First: TypeAlias = "Callable[[Collective], bool]"
"""Whether a collective is carried out for the first time; the same one of the same operand is not derived again."""


class Use:
    """One use of a primitive on devices. operands, results: the types on the grid; `None` for a literal."""

    def __init__(
        self,
        primitive: Primitive,
        site: Site,
        operands: Sequence[ArrayType | None],
        results: Sequence[ArrayType],
        grid: Grid,
        account: Account,
    ) -> None:
        self.primitive = primitive
        self.site = site
        self.operands = [None if type is None else grid.bare(type) for type in operands]
        self.results = [grid.bare(type) for type in results]
        self.grid = grid
        self.account = account
        self.scheme = primitive.scheme(site)

    @property
    def terms(self) -> int:
        """How many numbers are combined into one, and one rounding more."""
        sizes = [self.scheme.sizes[factor] for factor in self.scheme.roles]
        return 1 + prod(size for size in sizes if isinstance(size, int))

    def run(self, blocks: Sequence[Blocks], steps: Steps, moved: Moved, first_time: First) -> list[Blocks]:
        """The blocks of the results."""
        if not any(steps) and not any(type is not None and type.sharded for type in (*self.operands, *self.results)):
            return self._each(blocks, [type.shape for type in self.results])  # type: ignore[misc]
        given: list[Lying | None] = []
        for index, (each, type) in enumerate(zip(blocks, self.operands, strict=True)):
            own = [step for step in steps if step[1].subject == index and step[1].goal != "turned"]
            before = None if type is None else lying(each, type, self.grid)
            given.append(moved(index, before, own) if own and before is not None else before)
        turned = [step for step in steps if step[1].goal == "turned"]
        rest = [step for step in steps if step[1].subject < 0]
        cut = self._cuts(given, bool(turned))
        if any(role.startswith("arg") for role in self.scheme.roles.values()):
            return [self._searched(blocks, given, cut, rest)]
        in_place = self.primitive.window == "own"
        sliced = [
            each
            if one is None or type is None or (in_place and not index)
            else settled(one, self._laid(index, type, cut)).blocks
            for index, (each, one, type) in enumerate(zip(blocks, given, self.operands, strict=True))
        ]
        first = given[0] if given and self.primitive.window == "own" else None
        if first is not None:
            first = self._beside(first, cut)
            sliced[0] = self._in_own_block(first)
        made = [self._made(number, cut) for number in range(len(self.results))]
        if turned and given[0] is not None:  # a dim that is turned round stays cut as it is
            made = [laid(type, given[0].type.axes, type.unreduced, type.kind) for type in self.results]
        found = self._each(sliced, [local_shape(type, self.grid.mesh) for type in made])
        if first is not None:
            found[0], made[0] = self._kept(found[0], made[0], first)
        if turned:
            counted = [step for step in turned if first_time(step[1])]
            found = [self._turned(one, turned, counted) for one in found]
        return [self._finished(*each, rest) for each in zip(found, made, self.results, strict=True)]

    # --- where the work is done ---------------------------------------------------------------------------------------

    def _cuts(self, given: Sequence[Lying | None], turned: bool) -> dict[int, Axes]:
        """How each factor is cut where the work is done: as the operands are after what was moved. Of several operands
        that are cut no further than the result, the result says, and all are sliced before they meet."""
        scheme = self.scheme
        cut: dict[int, Axes] = {}
        for index, one in enumerate(given):
            if one is None:
                continue
            for factors, axes in zip(scheme.operands[index], one.type.axes, strict=True):
                for factor, own in self._dealt(factors, axes):
                    if scheme.roles.get(factor) == "whole" and self.primitive.window == "own" and not index:
                        continue
                    if scheme.roles.get(factor) == "whole" and not turned:
                        raise NotDerived(
                            f"{self.primitive.name} looks along a dim that is still cut on {', '.join(own)}: {one.type}"
                        )
                    before = cut.get(factor, ())
                    if before[: len(own)] != own and own[: len(before)] != before:
                        raise NotDerived(
                            f"operands of {self.primitive.name} are cut by ({','.join(before)}) and ({','.join(own)})"
                        )
                    cut[factor] = max(before, own, key=len)
        self._cut_where_pending(given, cut)
        if sum(one is not None and one.type.rank > 0 for one in given) > 1:
            pending = {axis for factor in scheme.roles for axis in cut.get(factor, ())}
            held = {factor for indices in scheme.operands for dim in indices for factor in dim}
            for factors, axes in zip(scheme.results[0], self.results[0].axes, strict=True):
                if len(factors) == 1 and factors[0] in held and factors[0] not in scheme.roles:
                    wanted = tuple(axis for axis in axes if axis not in pending)
                    own = cut.get(factors[0], ())
                    if wanted[: len(own)] == own and wanted and self._sliceable({**cut, factors[0]: wanted}):
                        cut[factors[0]] = wanted
        return cut

    def _sliceable(self, cut: Mapping[int, Axes]) -> bool:
        """Whether what is so cut is a block of every operand: of a dim whose inner factor is cut, it is none."""
        return all(
            derived_lists(self.scheme, indices, dict(cut), self.grid.mesh) is not None
            for indices in self.scheme.operands
        )

    def _cut_where_pending(self, given: Sequence[Lying | None], cut: dict[int, Axes]) -> None:
        """Where the result is pending along an axis, and what was cut along it was gathered on the way, each device
        takes its part again: of one sum, not of a copy each."""
        had = {axis for one in given if one is not None for axis in one.type.unreduced}
        had |= {axis for factor in self.scheme.roles for axis in cut.get(factor, ())}
        owed = {axis for type in self.results for axis in type.unreduced} - had
        for indices, type in zip(self.scheme.operands, self.operands, strict=True) if owed else ():
            for factors, axes in zip(indices, type.axes if type else (), strict=False):
                for factor, own in self._dealt(factors, axes):
                    if self.scheme.roles.get(factor, "whole") != "whole":
                        cut[factor] = cut.get(factor, ()) + tuple(axis for axis in own if axis in owed)
                        owed -= {*own}

    def _dealt(self, factors: tuple[int, ...], axes: Axes) -> list[tuple[int, Axes]]:
        if not axes:
            return []
        if len(factors) == 1:
            return [(factors[0], axes)]
        dealt = dealt_to(factors, axes, self.scheme, self.grid.mesh)
        if dealt is None:
            raise NotDerived(f"{self.primitive.name} regroups a dim whose blocks are cut across its parts by {axes}")
        return dealt

    def _laid(self, index: int, type: ArrayType, cut: Mapping[int, Axes]) -> ArrayType:
        """How an operand lies where the work is done."""
        lists = derived_lists(self.scheme, self.scheme.operands[index], dict(cut), self.grid.mesh)
        if lists is None:
            raise NotDerived(f"no block of {type} is what a device works on")
        return array_type(type.dtype, type.shape, lists, (), type.unreduced, (), type.kind)

    def _made(self, number: int, cut: Mapping[int, Axes]) -> ArrayType:
        """How a result lies after the work: what was cut and reduced is pending."""
        scheme, type = self.scheme, self.results[number]
        indices = scheme.results[number]
        lists = derived_lists(scheme, indices, dict(cut), self.grid.mesh)
        if lists is None:
            raise NotDerived(f"the blocks that {self.primitive.name} makes are not consecutive parts of its result")
        made = {factor for dim in indices for factor in dim}
        pending = [axis for factor in scheme.roles if factor not in made for axis in cut.get(factor, ())]
        unreduced = self.grid.mesh.in_order({*type.unreduced, *pending})
        return array_type(type.dtype, type.shape, lists, (), unreduced, (), type.kind)

    # --- the work -----------------------------------------------------------------------------------------------------

    def _each(self, blocks: Sequence[Blocks], shapes: Sequence[tuple[int, ...]]) -> list[Blocks]:
        """The kernel on each device's blocks. Devices whose blocks are one array compute once."""
        known: dict[tuple[int, ...], list[Array]] = {}
        found: list[Blocks] = [[] for _ in shapes]
        kept = []
        for number in range(self.grid.count):
            own = [each[number] for each in blocks]
            kept.append(own)  # so that no two arrays have one identity
            key = tuple(map(id, own))
            if key not in known:
                known[key] = self._computed(own, shapes)
            for each, one in zip(found, known[key], strict=True):
                each.append(one)
        return found

    def _computed(self, own: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
        whole = all(block.shape == tuple(shape) for block, shape in zip(own, self.site.shapes, strict=True))
        if whole and all(shape == type.shape for shape, type in zip(shapes, self.results, strict=True)):
            return applied(self.primitive, self.site, own)
        site = on_blocks(self.primitive, self.site, own, shapes[0] if shapes else ())
        return applied(self.primitive, site, own)

    def _finished(self, blocks: Blocks, made: ArrayType, result: ArrayType, steps: Steps) -> Blocks:
        monoid = next((role for role in self.scheme.roles.values() if role != "whole"), result.kind)
        if not set(made.unreduced) - set(result.unreduced):
            monoid = result.kind
        value = Lying(blocks, made, self.grid, monoid)
        return settled(follow(value, result, steps, self.account), result).blocks

    # --- what no block alone can do -----------------------------------------------------------------------------------

    def _searched(
        self, blocks: Sequence[Blocks], given: Sequence[Lying | None], cut: Mapping[int, Axes], steps: Steps
    ) -> Blocks:
        """The place of an extreme: each device finds the best of its block; the best of all blocks, and their places,
        are gathered, and the first of the best wins."""
        (one,) = given
        operand = self.operands[0]
        made = self._made(0, cut)
        (factor,) = self.scheme.roles
        along = cut.get(factor, ())
        dim = self.scheme.operands[0].index((factor,))
        assert one is not None
        assert operand is not None
        value = settled(one, self._laid(0, operand, cut))
        (found,) = self._each([value.blocks], [local_shape(made, self.grid.mesh)])
        if not along:
            return self._finished(found, made, self.results[0], steps)
        best = [
            np.take_along_axis(block, np.expand_dims(place.astype(np.int64), dim), dim).squeeze(dim)
            for block, place in zip(value.blocks, found, strict=True)
        ]
        starts = [self.grid.region(value.type, number)[dim].start for number in range(self.grid.count)]
        places = [place + place.dtype.type(start) for place, start in zip(found, starts, strict=True)]
        own, rest = steps[:2], steps[2:]
        found = list(found)
        for group in self.grid.groups(along):
            values = np.stack([best[number] for number in group])
            which = np.stack([places[number] for number in group])
            winner = applied(self.primitive, self._over_first(values), [values])[0].astype(np.int64)
            chosen = np.take_along_axis(which, winner[None], 0)[0]
            for number in group:
                found[number] = chosen
        for (place, collective), each in zip(own, (best, places), strict=True):
            self.account.ran(place, collective, len(self.grid.groups(along)[0]) * each[0].nbytes)
        done = array_type(made.dtype, made.shape, made.axes)
        return self._finished(found, done, self.results[0], rest)

    def _over_first(self, values: Array) -> Site:
        parameters = Parameters(tuple({**dict(self.site.parameters), "axes": (0,)}.items()))
        return Site(parameters, (values.shape,), self.site.dtypes, self.site.printed)

    def _turned(self, blocks: Blocks, steps: Steps, counted: Steps) -> Blocks:
        """Dims that are turned round: each device turned its block, and blocks change places with those at the other
        end. counted: those of the collectives that are carried out for the first time."""
        axes = tuple(axis for _, collective in steps for axis in collective.axes)
        mesh, grid = self.grid.mesh, self.grid
        where = {tuple(at.values()): number for number, at in enumerate(grid.coordinates)}
        found = []
        for at in grid.coordinates:
            mirrored = {
                name: (mesh.size((name,)) or 1) - 1 - index if name in axes else index for name, index in at.items()
            }
            found.append(blocks[where[tuple(mirrored.values())]])
        for place, collective in counted:
            self.account.ran(place, collective, blocks[0].nbytes)
        return found

    def _beside(self, one: Lying, cut: Mapping[int, Axes]) -> Lying:
        """An array that stays cut on dims that are looked along, and is sliced like what it meets on all others."""
        lists = tuple(
            own if self.scheme.roles.get(factors[0] if factors else -1) == "whole" else cut.get(factors[0], ())
            for factors, own in zip(self.scheme.operands[0], one.type.axes, strict=True)
        )
        return settled(one, laid(one.type, lists, one.type.unreduced, one.type.kind))

    def _in_own_block(self, one: Lying) -> Blocks:
        """Where each device does what falls into its own block, it works at the places of the whole dims, of which it
        knows its block alone."""
        lists = tuple(
            () if self.scheme.roles.get(factors[0] if factors else -1) == "whole" else axes
            for factors, axes in zip(self.scheme.operands[0], one.type.axes, strict=True)
        )
        wide = array_type(one.type.dtype, one.type.shape, lists)
        found: Blocks = []
        for number, block in enumerate(one.blocks):
            have, around = self.grid.region(one.type, number), self.grid.region(wide, number)
            known = np.zeros(extent(around), block.dtype)
            known[inside(have, around)] = block
            found.append(known)
        return found

    def _kept(self, blocks: Blocks, made: ArrayType, one: Lying) -> tuple[Blocks, ArrayType]:
        """Of what was computed so, each device keeps its own block."""
        lists = tuple(
            own if self.scheme.roles.get(factors[0] if factors else -1) == "whole" else axes
            for factors, own, axes in zip(self.scheme.operands[0], one.type.axes, made.axes, strict=True)
        )
        kept = array_type(made.dtype, made.shape, lists, (), made.unreduced, (), made.kind)
        found = [
            block[inside(self.grid.region(kept, number), self.grid.region(made, number))]
            for number, block in enumerate(blocks)
        ]
        return found, kept
