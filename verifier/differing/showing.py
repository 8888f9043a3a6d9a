"""Arrays of a counterexample in words: which elements are not like most, and which differ."""

from __future__ import annotations

from typing import Final

import numpy as np

from verifier.devices import Array
from verifier.execution.comparing import comparable
from verifier.report import count

_SHOWN: Final = 16
_DIFFERING: Final = 8
_MOST: Final = 1e-3
"""What share of the largest difference counts as one."""


def text(value: Array) -> str:
    """An array: all of a small one; of others what most elements are, and those that are not."""
    if value.size <= _SHOWN:
        return str(value.tolist())
    kinds, counts = np.unique(comparable(value).ravel(), return_counts=True)
    usual = kinds[np.argmax(counts)]
    shape = f"{value.dtype}{list(value.shape)}"
    others = [tuple(map(int, at)) for at in np.argwhere(comparable(value) != usual)] if usual == usual else []
    if not others:
        return f"{shape}, all {usual}"
    if counts.max() == 1:
        others, start = [tuple(map(int, at)) for at in np.ndindex(value.shape)], f"{shape}: "
    else:
        start = f"{shape}, all {usual} but "
    shown = ", ".join(f"{list(at)} = {value[at]}" for at in others[:_SHOWN])
    more = f", and {count(len(others) - _SHOWN, 'more element')}" if len(others) > _SHOWN else ""
    return f"{start}{shown}{more}"


def differing(one: Array, two: Array) -> list[tuple[int, ...]]:
    """Where two arrays differ, but for what is small beside the largest difference."""
    if one.shape != two.shape:
        return []
    left, right = comparable(one), comparable(two)
    same = (left == right) | ((left != left) & (right != right))
    if one.dtype.kind not in "iub":
        with np.errstate(all="ignore"):
            distance = np.abs(left - right)
        finite = np.isfinite(distance)
        same |= finite & (distance < _MOST * np.max(distance, where=finite & ~same, initial=0))
    return [tuple(map(int, at)) for at in np.argwhere(~same)]


def together(one: Array, two: Array, old: str, new: str) -> str:
    """Both values: whole where they are small, else the first elements that differ."""
    if one.size <= _SHOWN and two.size <= _SHOWN:
        return f"is {one.tolist()} by {old}, and {two.tolist()} by {new}"
    places = differing(one, two)
    shown = "; ".join(f"at {list(at)} {one[at]} and {two[at]}" for at in places[:_DIFFERING])
    more = f"; and at {count(len(places) - _DIFFERING, 'more place')}" if len(places) > _DIFFERING else ""
    return f"differs, by {old} and by {new}: {shown}{more}"


def elements(one: Array, two: Array) -> list[dict[str, object]]:
    """As plain data, each element that differs."""
    return [{"at": list(at), "old": str(one[at]), "new": str(two[at])} for at in differing(one, two)]
