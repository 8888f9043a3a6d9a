"""Inputs, drawn from their types with a seed: numbers of both signs that sums and products of a few keep exact."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from calculus.types import DTYPES, ArrayType, dtype_class
from verifier.devices import Array
from verifier.execution.arithmetic import CannotRun, dtype_of

MOST: Final = 4_000_000
"""The most elements of an input."""


def drawn(type: ArrayType, random: np.random.Generator, lead: tuple[int, ...] = (), scale: float = 1.0) -> Array:
    """A random array of a type's shape, with more dims before: odd eighths between -2 and 2, which floats of 16 bits
    write exactly, and none is zero; small integers, which are places in most arrays; any truth values and keys. scale:
    a power of two that floats are multiplied by."""
    if any(isinstance(size, str) for size in type.shape):
        raise CannotRun(f"an input is {type}, whose sizes are symbolic")
    shape = (*lead, *(int(size) for size in type.shape))
    if prod(shape) > MOST:
        raise CannotRun(f"an input is {type}, which is too large to be run here")
    dtype, kind = dtype_of(type.dtype), dtype_class(type.dtype)
    if type.dtype == "float0":
        return np.zeros(shape, dtype)
    if type.dtype.startswith("key<"):
        return random.integers(0, 2**63, shape, np.uint64)
    if kind == "b":
        return random.random(shape) < 0.5
    if kind in "iu":
        most = min(4, 2 ** (DTYPES[type.dtype][1] - 1) - 1)
        return random.integers(0, most, shape, endpoint=True).astype(dtype)
    if kind == "c":
        real, imaginary = (random.integers(-8, 8, shape) / 4 + 0.125 for _ in range(2))
        return (scale * (real + 1j * imaginary)).astype(dtype)
    if kind == "f":
        return (scale * (random.integers(-8, 8, shape) / 4 + 0.125)).astype(dtype)
    raise CannotRun(f"an input is {type}, of which no values are drawn")
