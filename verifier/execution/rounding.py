"""How far roundings may move a value where terms cancel: by the sizes of the terms, not of what is left of them.

A program is run again, whole, a few times; each time what an equation computes is moved by as much as the rounding of
its terms may move it, up or down at random (Monte Carlo arithmetic; Parker 1997). A sum of n numbers is off by n·u of
the sum of their sizes at most (Higham, Accuracy and Stability of Numerical Algorithms, 4.2), any other value by u of
itself; a value that is one of the operands is exact. Where devices finish a sum whose pieces the whole run does not
have, it is moved by u of the sizes of the pieces, and where it is zero it has either sign. What is smaller than the
smallest normal number, which compilers take for zero, is zero in every other run. What these moves come to in the end
is what two orders of the same arithmetic may differ by. What such a move turns (an index, a truth value, the sign of an
infinity) is decided by roundings: it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from calculus.primitives.declaration import Primitive, Site
from verifier.devices import Array
from verifier.execution.arithmetic import CannotRun, applied
from verifier.execution.comparing import comparable, size_of, smallest, unit
from verifier.execution.grid import Blocks

RUNS: Final = 4
"""How often a program is run again."""
_MARGIN: Final = 2.0
"""A move is half its bound at least, so that twice as far bounds what one rounding does."""
_LEAST: Final = float(np.finfo(np.float32).smallest_normal)
"""Shorter floats are computed with as float32, in which all of theirs are normal."""


class Spread:
    """How far roundings move what the names of a program stand for. again: the program run whole once more, with
    its results moved as this says; it gives the values by name. factor: how many times larger than the values the
    pieces are that the sums came in which were given; pieces: likewise of all sums. least: how far the sum of pieces
    is off that all but cancel, each time."""

    def __init__(
        self,
        again: Callable[[Rounding], Mapping[str, Array]],
        values: Mapping[str, Array],
        factor: float,
        least: float,
        pieces: float = 1.0,
    ) -> None:
        self._least = least
        self._pieces = pieces
        self._again = again
        self._values = values
        self._factor = factor
        self._found: dict[str, float] | None = None
        self._turned: dict[str, Array] = {}

    def of(self, name: str) -> float:
        """The distance of two computations of this value, 0 where nothing is known of it."""
        return max(_MARGIN * self._factor * self._measured().get(name, 0.0), self._least)

    def turned(self, name: str) -> Array | None:
        """Which elements roundings decide, of what is not rounded itself, or no finite number; `None` where none."""
        self._measured()
        return self._turned.get(name)

    def _measured(self) -> dict[str, float]:
        if self._found is None:
            self._found = {}
            for number in range(RUNS):
                for each, moved in self._again(
                    Rounding(np.random.default_rng(number), self._pieces, bool(number % 2))
                ).items():
                    value = self._values.get(each)
                    self._found[each] = max(self._found.get(each, 0.0), _distance(moved, value))
                    other = _turned(moved, value)
                    if other is not None:
                        self._turned[each] = self._turned.get(each, other) | other
        return self._found


def _turned(moved: Array, value: Array | None) -> Array | None:
    """Where they differ, of what is not rounded; of floats, where not both are finite."""
    if value is None or moved.shape != value.shape or moved.dtype != value.dtype:
        return None
    one, two = comparable(moved), comparable(value)
    other = np.asarray((one != two) & ((one == one) | (two == two)))
    if unit(value.dtype):
        other &= ~(np.isfinite(one) & np.isfinite(two))
    return other if other.any() else None


def _distance(moved: Array, value: Array | None) -> float:
    if value is None or moved.shape != value.shape or not unit(value.dtype):
        return 0.0
    with np.errstate(all="ignore"):
        distances = np.abs(comparable(moved) - comparable(value))
    return float(np.max(distances, where=np.isfinite(distances), initial=0))


class Rounding:
    """Moves results as far as their rounding may. pieces: how many times larger than what they add up to those are that
    a program run whole does not have. negative: the sign of the zeros that they add up to."""

    def __init__(self, random: np.random.Generator, pieces: float = 1.0, negative: bool = False) -> None:
        self.random = random
        self.pieces = pieces
        self.zero = -0.0 if negative else 0.0
        self._flushes = negative

    def finished(self, blocks: Blocks) -> Blocks:
        """The sum that devices finish, in each block of a program run whole, moved. Equal blocks are moved alike."""
        if not unit(blocks[0].dtype):
            return blocks
        steps = unit(blocks[0].dtype) * self.pieces * self._signs(blocks[0])

        def one(block: Array) -> Array:
            value, size = comparable(block), size_of(block)
            return np.where(value == 0, self.zero, value + steps * size if size else value).astype(block.dtype)

        with np.errstate(all="ignore"):
            return [one(block) for block in blocks]

    def moved(
        self, primitive: Primitive, site: Site, operands: Sequence[Blocks], results: Sequence[Blocks], terms: int
    ) -> list[Blocks]:
        """The results of one equation, each device's block of them, moved. Equal blocks are moved alike."""
        found = []
        for index, blocks in enumerate(results):
            dtype = blocks[0].dtype
            if not unit(dtype):
                found.append(blocks)
                continue
            signs = self._signs(blocks[0])
            known: dict[tuple[int, ...], Array] = {}
            each: Blocks = []
            for number, block in enumerate(blocks):
                given = [one[number] for one in operands]
                key = (id(block), *map(id, given))
                if key not in known:
                    known[key] = self._one(primitive, site, given, index, block, terms, signs)
                each.append(known[key])
            found.append(each)
        return found

    def _signs(self, block: Array) -> Array:
        def drawn() -> Array:
            return self.random.choice([-1.0, 1.0], block.shape) * self.random.uniform(0.5, 1.0, block.shape)

        return drawn() + 1j * drawn() if block.dtype.kind == "c" else np.asarray(drawn())

    def _one(
        self,
        primitive: Primitive,
        site: Site,
        given: Sequence[Array],
        index: int,
        block: Array,
        terms: int,
        signs: Array,
    ) -> Array:
        value = comparable(block)
        with np.errstate(all="ignore"):
            left = np.abs(value)
            size = _of_terms(primitive, site, given, index, left)
            step = unit(block.dtype) * terms * size * signs
            held = [np.abs(comparable(one)).ravel() for one in given if unit(one.dtype)]
            exact = np.isin(left, np.concatenate(held)) & (size == left) if held else False
            found = np.where(exact | ~np.isfinite(step), value, value + step)
            if self._flushes:
                found = np.where(np.abs(found) < min(smallest(block.dtype), _LEAST), 0 * found, found)
            return np.asarray(found.astype(block.dtype))


def _of_terms(primitive: Primitive, site: Site, given: Sequence[Array], index: int, left: Array) -> Array:
    """The sum of the sizes of the terms of each element, `left` being the size of what is left of them: of what is
    linear, what it computes of the operands' sizes. Where it is linear in several together, a term may be taken off,
    so that the sizes of every second one are taken off too, to be added."""
    names = {name.removesuffix("...") for name in re.split("[/;~]", primitive.signature(site))[0].split()}
    linear = [
        number
        for number, one in enumerate(given)
        if unit(one.dtype) and primitive.operands[min(number, len(primitive.operands) - 1)].removesuffix("...") in names
    ]
    if not linear:
        return left
    for turned in ((), linear[1::2]) if len(linear) > 1 else ((),):
        sizes = [
            (-np.abs(one) if number in turned else np.abs(one)).astype(one.dtype) if number in linear else one
            for number, one in enumerate(given)
        ]
        try:
            found = np.abs(comparable(applied(primitive, site, sizes)[index]))
        except CannotRun:
            continue
        left = np.fmax(left, np.where(np.isfinite(found), found, 0))
    return left
