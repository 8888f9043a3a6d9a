"""How far apart two computations of one value may be.

A sum of n numbers that is taken in another order differs by at most (n - 1)·u of the sum of their sizes, where u is the
unit roundoff of the dtype that they are added in (Higham, Accuracy and Stability of Numerical Algorithms, 4.2); any
other function by a few u of its own. To first order these errors add up over the equations that lead to a value. So two
results may differ by u · Σ terms of the largest element, u that of the coarsest dtype met on the way: norms, not
elements, because sums cancel; and where pieces are k times as large as what they add up to, by k times as much. Where
all of a value cancels, its own elements say nothing: then `verifier.execution.rounding` measures what the terms do.
Integers, truth values and keys are equal, or different.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from verifier.devices import Array


def unit(dtype: np.dtype[Any]) -> float:
    """The unit roundoff of a dtype; 0 where nothing is rounded."""
    if dtype.kind in "iub":
        return 0.0
    if dtype.kind == "c":
        return float(np.finfo(dtype).eps)
    try:
        limits: Any = ml_dtypes.finfo  # numpy's does not know the small floats
        return float(limits(dtype).eps)
    except ValueError:
        return 0.0


def smallest(dtype: np.dtype[Any]) -> float:
    """The smallest normal number of a dtype; 0 where nothing is rounded."""
    if not unit(dtype):
        return 0.0
    limits: Any = np.finfo if dtype.kind == "c" else ml_dtypes.finfo
    return float(limits(dtype).smallest_normal)


def size_of(array: Array) -> float:
    """The size of the largest finite element; 0 of what is not rounded."""
    if not unit(array.dtype) or not array.size:
        return 0.0
    numbers = np.abs(comparable(array))
    return float(np.max(numbers, where=np.isfinite(numbers), initial=0))


def apart(one: Array, other: Array, allowed: float, beside: float = 0.0) -> str:
    """How two arrays differ by more than a share `allowed` of their largest element, or by more than `beside`, whatever
    their size; empty where they do not. NaN is itself, an infinity equal only to itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype}{list(one.shape)} and {other.dtype}{list(other.shape)}"
    left, right = (comparable(array) for array in (one, other))
    with np.errstate(all="ignore"):
        same = (left == right) | ((left != left) & (right != right))
        if not unit(one.dtype):
            off = ~same
        else:
            finite = np.isfinite(left) & np.isfinite(right)
            largest = float(np.max(np.abs(np.where(finite, left, 0)), initial=0))
            most = max(max(allowed, 2 * unit(one.dtype)) * largest, beside)
            off = ~same & ~(finite & (np.abs(left - right) <= most))
    if not off.any():
        return ""
    at = tuple(int(index) for index in np.argwhere(off)[0])
    place = f"at [{', '.join(map(str, at))}] " if at else ""
    more = f", and {int(off.sum()) - 1} more elements" if off.sum() > 1 else ""
    return f"{place}{one[at]} whole, {other[at]} on devices{more}"


def comparable(array: Array) -> Array:
    """Numbers that numpy compares and subtracts as such."""
    if array.dtype.kind == "V":
        return array.astype(np.float32)
    return (
        array if array.dtype.kind in "iub" else array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    )
