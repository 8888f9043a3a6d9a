"""Cells on the machine: what a Ref holds, read and written part by part. Seeds A40, B9."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from calculus.effects import wanted_of
from calculus.types import ArrayType, held
from calculus.uses import operand_type
from verifier.devices import Array
from verifier.execution.arithmetic import CannotRun, dtype_of, widened
from verifier.execution.grid import Blocks, local_shape
from verifier.execution.machine import Cell, Frame, Machine, Step, Value
from verifier.execution.moves import lying, settled


def _new(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    blocks = machine.blocks(operands[0], step)
    return [Cell([block.copy() for block in blocks])]


def _empty(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    """What a cell holds before it is written is no value: here zeros."""
    inner = held(step.typing.types[0])
    assert isinstance(inner, ArrayType)
    grid = machine.grid_of(inner, frame.scope)
    shape = local_shape(machine.seen(inner, frame.scope.mesh), grid.mesh)
    return [Cell([np.zeros(shape, dtype_of(inner.dtype)) for _ in range(grid.count)])]


def _end(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    return [list(_cell(operands[0], step).blocks) for _ in step.equation.binders]


def _read(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    cell = _cell(operands[0], step)
    return [[block[at].copy() for block, at in zip(cell.blocks, _parts(machine, step, operands, frame), strict=True)]]


def _write(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    cell = _cell(operands[0], step)
    parts = _parts(machine, step, operands, frame)
    before = [block[at].copy() for block, at in zip(cell.blocks, parts, strict=True)]
    given = _fitting(machine, step, operands[1], before, frame)
    cell.blocks = [_with(block, at, new) for block, at, new in zip(cell.blocks, parts, given, strict=True)]
    return [before] if step.equation.binders else []


def _add(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    cell = _cell(operands[0], step)
    parts = _parts(machine, step, operands, frame)
    before = [block[at] for block, at in zip(cell.blocks, parts, strict=True)]
    given = _fitting(machine, step, operands[1], before, frame)
    found: Blocks = []
    for block, at, new in zip(cell.blocks, parts, given, strict=True):
        with np.errstate(all="ignore"):
            if any(isinstance(one, np.ndarray) and one.ndim for one in at):  # places may repeat
                wide = widened(block).copy()
                np.add.at(wide, at, widened(new))
                found.append(wide.astype(block.dtype))
            else:
                found.append(_with(block, at, (widened(block[at]) + widened(new)).astype(block.dtype)))
    cell.blocks = found
    return []


def _run_state(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    (inner,) = step.inner
    made = [Cell([block.copy() for block in machine.blocks(value, step)]) for value in operands]
    used = wanted_of(machine.pricing, inner, step.equation.inputs, step.equation.binders, frame.needed)
    machine.run(inner.body, frame.scope, list(made), used)
    return [cell.blocks for cell in made]


def _cell(value: Value, step: Step) -> Cell:
    if isinstance(value, Cell):
        return value
    raise CannotRun(f"{step.equation.primitive} of what is no cell here")


def _with(block: Array, at: tuple[Any, ...], new: Array) -> Array:
    found = block.copy()
    found[at] = new
    return found


def _fitting(machine: Machine, step: Step, value: Value, parts: Blocks, frame: Frame) -> Blocks:
    """A value that is written, as the part of the cell lies: a copy is sliced, a literal is the same everywhere."""
    blocks = machine.blocks(value, step)
    if all(block.shape in ((), part.shape) for block, part in zip(blocks, parts, strict=True)):
        return [block.astype(part.dtype) for block, part in zip(blocks, parts, strict=True)]
    type, cell = operand_type(step.given[1]), held(operand_type(step.given[0]))
    if isinstance(type, ArrayType) and isinstance(cell, ArrayType) and type.shape == cell.shape:
        grid = machine.grid_of(cell, frame.scope)
        return settled(lying(blocks, type, grid), cell).blocks
    raise CannotRun("a copy is written to a part of a cell that is cut")


_WINDOW: Final = re.compile(r"([^\W\d]\w*):\1\+([0-9]+)")
_SLICE: Final = re.compile(r"([0-9]*):([0-9]*)")


def _parts(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[tuple[Any, ...]]:
    """For each device, the part of its block that a statement means. On a dim that is cut that is all of it."""
    equation = step.equation
    assert equation.cell is not None
    if "][" in equation.cell.indices:
        raise CannotRun("a part of a part of a cell")
    if step.typing.collectives and not machine.whole:
        raise CannotRun("a part of a cell that communicates")
    cell = _cell(operands[0], step)
    type = held(operand_type(step.given[0]))
    assert isinstance(type, ArrayType)
    names = equation.cell.names
    given = dict(zip(names, operands[len(operands) - len(names) :], strict=True))
    text = equation.cell.indices
    pieces = [piece.strip() for piece in text.split(",")] if text.strip() else []
    if "..." in pieces:
        at = pieces.index("...")
        pieces[at : at + 1] = [":"] * (type.rank - len(pieces) + 1)
    found = []
    for device, block in enumerate(cell.blocks):
        part: list[Any] = []
        for piece, size in zip(pieces, block.shape, strict=True):
            window = _WINDOW.fullmatch(piece)
            if piece == ":":
                part.append(slice(None))
            elif piece.lstrip("-").isdigit():
                part.append(int(piece))
            elif piece in given:
                index = np.asarray(machine.blocks(given[piece], step)[device]).astype(np.int64)
                index = np.where(index < 0, index + size, index)
                clipped = np.clip(index, 0, max(size - 1, 0))
                part.append(clipped if clipped.ndim else int(clipped))
            elif window is not None:
                start = int(machine.blocks(given[window[1]], step)[device])
                count = int(window[2])
                start = min(max(start, 0), size - count)
                part.append(slice(start, start + count))
            else:
                bounds = _SLICE.fullmatch(piece)
                if bounds is None:
                    raise CannotRun(f"the index {piece} of a cell")
                part.append(slice(int(bounds[1] or 0), int(bounds[2]) if bounds[2] else None))
        found.append(tuple(part))
    return found


HANDLERS: Final = {
    "new_ref": _new,
    "empty_ref": _empty,
    **dict.fromkeys(("freeze", "free_ref"), _end),
    "get": _read,
    "swap": _write,
    "addupdate": _add,
    "run_state": _run_state,
}
