"""The inputs on which two programs are compared, by family; and smaller ones that still tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from calculus.types import ArrayType, Type, dtype_class
from verifier.devices import Array
from verifier.execution.arithmetic import CannotRun, dtype_of
from verifier.execution.drawing import drawn

MOST_SMALLER: Final = 200
"""How often a smaller input is tried."""
_SIMPLE: Final = (0, 1, 2)


def _shape(type: ArrayType) -> tuple[int, ...]:
    if any(isinstance(size, str) for size in type.shape):
        raise CannotRun(f"an input is {type}, whose sizes are symbolic")
    return tuple(int(size) for size in type.shape)


def _made(type: Type | None, random: np.random.Generator, numbers: Callable[[tuple[int, ...]], Array]) -> Array:
    """An array of a type; keys and the like as they are drawn."""
    if not isinstance(type, ArrayType):
        raise CannotRun(f"an input is {type}, which is no array")
    drawn(type, np.random.default_rng(0))  # what is too large, or has no values, is told there
    if dtype_class(type.dtype) not in "fiubc" or type.dtype == "float0":
        return drawn(type, random)
    return numbers(_shape(type)).astype(dtype_of(type.dtype))


def ones(type: Type | None, random: np.random.Generator) -> Array:
    """Ones alone."""
    return _made(type, random, np.ones)


def _zeros(type: Type | None, random: np.random.Generator) -> Array:
    return _made(type, random, np.zeros)


def binary(type: Type | None, random: np.random.Generator) -> Array:
    """Zeros and ones."""
    return _made(type, random, lambda shape: random.integers(0, 2, shape))


def _single(type: Type | None, random: np.random.Generator) -> Array:
    def one(shape: tuple[int, ...]) -> Array:
        found = np.zeros(shape)
        found[tuple(int(random.integers(size)) for size in shape)] = 1
        return found

    return _made(type, random, lambda shape: one(shape) if 0 not in shape else np.zeros(shape))


def _integers(type: Type | None, random: np.random.Generator) -> Array:
    low = -3 if isinstance(type, ArrayType) and dtype_class(type.dtype) in "fic" else 0
    return _made(type, random, lambda shape: random.integers(low, 4, shape))


def _drawn(type: Type | None, random: np.random.Generator) -> Array:
    return _made(type, random, lambda shape: random.integers(-16, 16, shape) / 8 + 1 / 16)


def _large(type: Type | None, random: np.random.Generator) -> Array:
    """Thirty to a hundred; integers, which may be indices, stay small."""
    if isinstance(type, ArrayType) and dtype_class(type.dtype) not in "fc":
        return _integers(type, random)
    return _made(type, random, lambda shape: random.integers(30, 101, shape))


def _alike(type: Type | None, random: np.random.Generator) -> Array:
    """The halves, quarters and so on of every dim are alike, however many devices cut it."""

    def tiled(shape: tuple[int, ...]) -> Array:
        cuts = [bool(axes) for axes in type.axes] if isinstance(type, ArrayType) else []
        block = tuple(1 if cut else size for size, cut in zip(shape, cuts, strict=True))
        return np.broadcast_to(random.integers(1, 4, block), shape)

    return _made(type, random, tiled)


FAMILIES: Final[dict[str, Callable[[Type | None, np.random.Generator], Array]]] = {
    "ones": ones,
    "alike on every device": _alike,
    "zeros and ones": binary,
    "small integers": _integers,
    "one element": _single,
    "drawn": _drawn,
    "zeros": _zeros,
    "large": _large,
}


def seed(type: Type | None, at: int, random: np.random.Generator) -> Array:
    """A cotangent: ones, and from the second round on small integers."""
    return ones(type, random) if at < len(FAMILIES) else _integers(type, random)


def smaller(values: list[Array], count: int, fails: Callable[[list[Array]], bool]) -> list[Array]:
    """Inputs of zeros, ones and twos, as far as they still fail."""
    left = MOST_SMALLER
    for at in range(count):
        for simple in _SIMPLE:
            trial = [*values[:at], np.full_like(values[at], simple), *values[at + 1 :]]
            if left and values[at].dtype.kind in "fiub" and not np.array_equal(trial[at], values[at]):
                left -= 1
                if fails(trial):
                    values = trial
                    break
    for at in range(count):
        for place in np.ndindex(values[at].shape) if values[at].size <= MOST_SMALLER else ():
            for simple in _SIMPLE:
                if not left or values[at].dtype.kind not in "fiub" or values[at][place] == simple:
                    break
                left -= 1
                changed = values[at].copy()
                changed[place] = simple
                trial = [*values[:at], changed, *values[at + 1 :]]
                if fails(trial):
                    values = trial
                    break
    return values
