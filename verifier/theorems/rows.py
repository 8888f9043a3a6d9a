"""The rows of per-device code as matrices: what each device gets of what the devices hold, by the row's collective; and
from it what a row makes of values, by its states.

A family of blocks is a vector, device by device, `size` entries each. Reading back is a matrix from families to values:
of copies one is read, pieces are added up, what varies is read as it is, all blocks in a row. A row is sound if what it
makes of every family that is legal in its first state is legal in its second, and has a value that depends on the value
alone. Then it is a matrix between values, and its transpose's matrix has to be that, turned.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calculus.collectives import COLLECTIVES, Row
from calculus.communication import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, PERMUTE, REDUCE_SCATTER
from verifier.devices import Array

SIZES: Final = ((2, 1), (2, 2), (3, 1), (3, 2))
"""Numbers of devices, and of entries of the smallest block."""

_GROWS: Final = {"": (1, 1), "gather": (1, 0), "scatter": (0, 1), "exchange": (0, 0)}
"""What a row says of dims: whether the block of the operand, and of the result, is the smallest; else it is as many
times as large as there are devices."""


class Unsound(ValueError):
    """A row that makes no values of values. The message says why."""


def linear_rows() -> list[str]:
    """The rows that add, or move, what is there."""
    return [name for name, row in COLLECTIVES.items() if row.before and row.joined == "sum" and not row.future]


def sent(row: Row, count: int, size: int, turned: bool = False) -> Array:
    """The matrix from all entries of the devices' operands to all entries of their results, by what is sent. turned:
    a permutation goes back. Raises `Unsound` where the result has not the size that the row says."""
    small_in, small_out = _GROWS[row.move]
    entering, leaving = (size if small else size * count for small in (small_in, small_out))
    made = _made(row.kind, count, entering, turned)
    if made.shape[0] != count * leaving:
        raise Unsound(f"{row.kind or 'a cast'} makes blocks of {made.shape[0] // count} entries, and not of {leaving}")
    return made


def _made(kind: str, count: int, size: int, turned: bool) -> Array:
    one: Any = np.eye(size, dtype=int)
    devices: Any = np.eye(count, dtype=int)
    everywhere: Any = np.ones((count, count), int)
    if kind == "":
        return np.kron(devices, one)
    if kind == ALL_REDUCE:
        return np.kron(everywhere, one)
    if kind == PERMUTE:
        return np.kron(np.roll(devices, -1 if turned else 1, axis=0), one)
    if kind == BROADCAST:
        return np.kron(np.outer(np.ones(count, int), devices[0]), one)
    if kind == ALL_GATHER:
        return np.kron(np.ones((count, 1), int), np.eye(count * size, dtype=int))
    if size % count:
        raise Unsound(f"a block of {size} entries is cut among {count} devices")
    part = size // count
    if kind == REDUCE_SCATTER:  # device d gets entries d·part … of every device
        return np.kron(np.ones((1, count), int), np.eye(size, dtype=int))
    if kind == ALL_TO_ALL:  # device d gets part d of each device, in the order of the devices
        found = np.zeros((count * size, count * size), int)
        for d in range(count):
            for e in range(count):
                for at in range(part):
                    found[d * size + e * part + at, e * size + d * part + at] = 1
        return found
    raise Unsound(f"nobody has said what {kind} sends")


def reading(state: str, count: int, size: int) -> Array:
    """From families to values."""
    one = np.eye(size, dtype=int)
    if state == "V":
        return np.eye(count * size, dtype=int)
    if state == "U":
        return np.kron(np.ones((1, count), int), one)
    return np.kron(np.eye(1, count, dtype=int), one)


def placing(state: str, count: int, size: int) -> Array:
    """From values to families: one that has the value, of pieces the first device's."""
    if state in ("N", "R"):
        return np.kron(np.ones((count, 1), int), np.eye(size, dtype=int))
    return reading(state, count, size).T if state == "V" else reading("N", count, size).T


def _moving(count: int, size: int) -> Array:
    """Changes of a family of pieces that leave its value: something is taken from one device to the first."""
    one, devices = np.eye(size, dtype=int), np.eye(count, dtype=int)
    found: Array = np.hstack([np.kron(devices[:, [0]] - devices[:, [d]], one) for d in range(1, count)])
    return found


def values(row: Row, count: int, size: int, turned: bool = False) -> Array:
    """The matrix from a row's operand, as a value, to its result's. Raises `Unsound`."""
    matrix = sent(row, count, size, turned)
    entering, leaving = matrix.shape[1] // count, matrix.shape[0] // count
    held = matrix @ placing(row.before, count, entering)
    changed = matrix @ _moving(count, entering) if row.before == "U" else held[:, :0]
    if row.after in ("N", "R"):
        blocks = np.hstack([held, changed]).reshape(count, leaving, -1)
        if np.any(blocks != blocks[:1]):
            raise Unsound("devices hold different blocks of what the row says is a copy")
    read = reading(row.after, count, leaving)
    if np.any(read @ changed):
        raise Unsound("the result depends on which device holds which piece")
    found: Array = read @ held
    return found


def unsound() -> str:
    """A row that is not sound; nothing where all are."""
    for name in linear_rows():
        for count, size in SIZES:
            try:
                values(COLLECTIVES[name], count, size)
            except Unsound as error:
                return f"{name}, from {COLLECTIVES[name].before} to {COLLECTIVES[name].after}: {error}"
    return ""


def not_adjoint() -> str:
    """A row whose transpose has not its matrix, turned; nothing where all have."""
    for name in linear_rows():
        row = COLLECTIVES[name]
        back = COLLECTIVES.get(row.transpose)
        if back is None:
            continue
        for count, size in SIZES:
            try:
                forth, turned = values(row, count, size), values(back, count, size, turned=True)
            except Unsound as error:
                return f"{name}, or its transpose {row.transpose}: {error}"
            if forth.shape != turned.shape[::-1] or np.any(forth != turned.T):
                return f"{row.transpose} is not the transpose of {name} on {count} devices"
    return ""
