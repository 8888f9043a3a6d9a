"""What the calculus says a collective or a move costs, as terms of the solver: for every number of devices, and for
every number of bytes.

The wire price is the calculus' own function, run on terms instead of numbers. Which collectives a move takes is asked
on a mesh whose size is not known, so that the answer holds for every size. On which block each is priced is read off at
a few sizes, at which no two blocks are alike.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Final, NamedTuple

from calculus.communication import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    PERMUTE,
    REDUCE_SCATTER,
    Collective,
    move,
)
from calculus.cotangents import State
from calculus.meshes import Axis, Mesh
from calculus.types import ArrayType, array_type
from verifier.solver import Integer, Number, Term, as_number, number

STATES: Final[tuple[State, ...]] = ("N", "R", ("S", 0), ("S", 1), ("S", 2), "U")
"""The states of an array of three dims along one axis. More dims add nothing: a move is about two of them."""

SIZES: Final = (2, 3, 5, 7)
"""Sizes at which blocks are told apart: a whole array, one n-th of it, one n²-th."""

_SHAPE: Final = (210, 210, 210)
KINDS: Final = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, PERMUTE)


class Exact:
    """A term that divides without a remainder: what is left of the calculus' numbers when they are terms."""

    __slots__ = ("term",)

    def __init__(self, term: Term) -> None:
        self.term = term

    def __sub__(self, other: int) -> Exact:
        return Exact(self.term - other)

    def __mul__(self, other: Exact) -> Exact:
        return Exact(self.term * other.term)

    def __rmul__(self, other: int) -> Exact:
        return Exact(other * self.term)

    def __mod__(self, other: Exact) -> int:
        return 0

    def __floordiv__(self, other: Exact) -> Exact:
        return Exact(self.term / other.term)


def wire(kind: str, payload: Term, group: Term) -> Term:
    """What a ring of so many devices sends per device, by the calculus. payload: bytes, a real number. group: the
    number of devices, a whole one."""
    asked = Collective(kind, ("X",), Exact(payload), Exact(as_number(group)))  # type: ignore[arg-type]
    found: Exact = asked.wire  # type: ignore[assignment]
    return found.term


class Step(NamedTuple):
    """A collective of a move: its kind, and how often the array is divided by the number of devices before it is
    priced."""

    kind: str
    divided: int


def in_state(state: State, shape: tuple[int, ...] = _SHAPE, dtype: str = "u8") -> ArrayType:
    """An array, of bytes, in a state along the axis X, and whole along all others."""
    only = ("X",)
    lists = tuple(only if state == ("S", dim) else () for dim in range(len(shape)))
    return array_type(
        dtype, shape, lists, only if state == "V" else (), only if state == "U" else (), only if state == "R" else ()
    )


@cache
def steps(source: State, target: State) -> tuple[Step, ...]:
    """The collectives of a move along one axis, for every number of devices. Raises `ValueError` where the calculus
    prices one of them on a block that is no power's part of the array, or otherwise at another size, or only
    estimates."""
    types = in_state(source), in_state(target)
    unsized = move(*types, Mesh((Axis("X", None),)))
    whole = prod(_SHAPE)
    found: tuple[Step, ...] | None = None
    for size in SIZES:
        moved = move(*types, Mesh((Axis("X", size),)))
        blocks = {whole // size**power: power for power in range(3)}
        if any(one.payload not in blocks or one.exactness != "exact" for one in moved):
            raise ValueError(f"from {source} to {target}, {moved} is priced on no block")
        read = tuple(Step(one.kind, blocks[one.payload or 0]) for one in moved)
        if found not in (None, read) or [one.kind for one in moved] != [one.kind for one in unsized]:
            raise ValueError(f"from {source} to {target}, what moves depends on the number of devices")
        found = read
    return found or ()


DEVICES: Final = "n"
BYTES: Final = "F"


def devices() -> Term:
    """The number of devices along the axis."""
    return Integer(DEVICES)


def array_bytes() -> Term:
    """The bytes of the whole array."""
    return Number(BYTES)


def price(found: tuple[Step, ...]) -> Term:
    """The wire price of the steps of a move, in `devices` and `array_bytes`."""
    count = devices()
    bytes_, sent = array_bytes(), number(0)
    for step in found:
        payload = bytes_
        for _ in range(step.divided):
            payload = payload / as_number(count)
        sent = sent + wire(step.kind, payload, count)
    return sent
