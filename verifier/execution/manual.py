"""Casts and collectives of per-device code, carried out: each device reads the blocks of its group. Seeds A42, A47."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from calculus.collectives import COLLECTIVES, Row
from calculus.communication import ALL_GATHER, BROADCAST, PERMUTE, Collective
from calculus.parameters import flag, integer, names, sequence
from calculus.programs import Equation, Parameters
from calculus.types import Axes
from verifier.devices import Array
from verifier.execution.account import Account, Place
from verifier.execution.arithmetic import CannotRun, merged
from verifier.execution.grid import Blocks, Grid


def carried_out(
    equation: Equation, operands: Sequence[Blocks], grid: Grid, steps: Sequence[Collective], account: Account
) -> list[Blocks]:
    """The results of a cast or collective. `steps`: the collectives that were derived, one for each operand that moves,
    in order."""
    row = COLLECTIVES[equation.primitive]
    axes = names(equation.parameters[row.axes], row.axes)
    if not row.before:
        return [[np.asarray(grid.index(number, axes), np.int32) for number in range(grid.count)]]
    found: list[Blocks] = []
    waiting = list(enumerate(steps))
    for blocks in operands:
        result = _moved(row, equation.parameters, blocks, grid, axes) if row.kind else blocks
        found.append(result)
        if waiting and row.kind and blocks[0].nbytes:
            slot, collective = waiting.pop(0)
            size = (result if row.kind == ALL_GATHER else blocks)[0].nbytes
            account.ran(Place(equation, slot), collective, size)
    return found


def _moved(row: Row, parameters: Parameters, blocks: Blocks, grid: Grid, axes: Axes) -> Blocks:
    found: Blocks = list(blocks)
    for group in _parted(grid.groups(axes), parameters):
        held = [blocks[number] for number in group]
        if row.kind == PERMUTE:
            made = _permuted(parameters, held)
        elif row.kind == BROADCAST:
            made = [held[integer(parameters["source"], "source")]] * len(held)
        elif row.move:
            made = _MOVES[row.move](row, parameters, held)
        else:
            made = [merged(row.joined, held)] * len(held)
        for number, block in zip(group, made, strict=True):
            found[number] = block
    return found


def _parted(groups: Sequence[tuple[int, ...]], parameters: Parameters) -> list[tuple[int, ...]]:
    """The groups of devices, each in the parts that `axis_index_groups` make of it."""
    said = parameters.get("axis_index_groups")
    if said is None:
        return list(groups)
    parts = [[integer(at, "axis_index_groups") for at in sequence(part, "axis_index_groups")]
             for part in sequence(said, "axis_index_groups")]  # fmt: skip
    return [tuple(group[at] for at in part) for group in groups for part in parts]


def _permuted(parameters: Parameters, held: list[Array]) -> list[Array]:
    """What a device is sent, and zeros where it is sent nothing."""
    found = [np.zeros_like(block) for block in held]
    for pair in sequence(parameters["perm"], "perm"):
        source, destination = (integer(end, "perm") for end in sequence(pair, "perm"))
        found[destination] = held[source]
    return found


def _gathered(row: Row, parameters: Parameters, held: list[Array]) -> list[Array]:
    dim = integer(parameters["all_gather_dimension"], "all_gather_dimension")
    made = np.concatenate(held, dim) if flag(parameters, "tiled") else np.stack(held, dim)
    return [made] * len(held)


def _scattered(row: Row, parameters: Parameters, held: list[Array]) -> list[Array]:
    dim = integer(parameters["scatter_dimension"], "scatter_dimension")
    return _shared_out(merged(row.joined, held), dim, len(held), flag(parameters, "tiled"))


def _exchanged(row: Row, parameters: Parameters, held: list[Array]) -> list[Array]:
    """Each device sends one part of its block to each device, and joins what it is sent: a dim is divided, and one
    multiplied, whether JAX calls it tiled or brings the dims along and takes them away itself."""
    split, concat = (integer(parameters[name], name) for name in ("split_axis", "concat_axis"))
    parts = [_shared_out(block, split, len(held), True) for block in held]
    return [np.concatenate([part[number] for part in parts], concat) for number in range(len(held))]


def _shared_out(block: Array, dim: int, count: int, tiled: bool) -> list[Array]:
    return np.split(block, count, dim) if tiled else [np.take(block, number, dim) for number in range(count)]


_MOVES: Final[dict[str, Callable[[Row, Parameters, list[Array]], list[Array]]]] = {
    "gather": _gathered,
    "scatter": _scattered,
    "exchange": _exchanged,
}


def broadcast_from(blocks: Blocks, sources: Blocks, grid: Grid, axes: Axes) -> Blocks:
    """The block of the device that a value names. Raises `CannotRun` where devices name different ones."""
    found: Blocks = list(blocks)
    for group in grid.groups(axes):
        named = {int(sources[number]) for number in group}
        if len(named) != 1 or not 0 <= min(named) < len(group):
            raise CannotRun(f"the devices of a group name the sources {sorted(named)}")
        for number in group:
            found[number] = blocks[group[named.copy().pop()]]
    return found


def sent(parameters: Parameters, blocks: Blocks, grid: Grid) -> Blocks:
    """What each device receives of what each sends; zeros where nobody sends to it."""
    found: Blocks = list(blocks)
    for group in grid.groups(names(parameters["axis_name"], "axis_name")):
        for number, block in zip(group, _permuted(parameters, [blocks[one] for one in group]), strict=True):
            found[number] = block
    return found


def ragged(operands: Sequence[Blocks], grid: Grid, axes: Axes) -> tuple[Blocks, int]:
    """The targets with the rows that devices send each other put in, and the most bytes that a device sends.

    operands: rows, targets; and a number for each device of the group: where its rows begin, how many they are, where
    they go in its target, and how many it is to receive. Raises `CannotRun` where the numbers do not fit.
    """
    rows, targets, starts, counts, places, awaited = operands
    found = [block.copy() for block in targets]
    most = 0
    for group in grid.groups(axes):
        for at, source in enumerate(group):
            size = 0
            for to, target in enumerate(group):
                begin, count, place = (int(one[source][to]) for one in (starts, counts, places))
                ends = begin + count <= len(rows[source]) and place + count <= len(found[target])
                if min(begin, count, place) < 0 or not ends or count != int(awaited[target][at]):
                    raise CannotRun("rows are sent from or to where there are none, or not as many as are awaited")
                found[target][place : place + count] = rows[source][begin : begin + count]
                size += rows[source][begin : begin + count].nbytes
            most = max(most, size)
    return found, most
