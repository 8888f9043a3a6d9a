"""What every device of JAX's holds, beside what ours hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from calculus.types import ArrayType
from verifier.devices import Array, NotAFamily, read_back
from verifier.execution.arithmetic import stored
from verifier.execution.comparing import apart, comparable, smallest, unit
from verifier.execution.run import Outcome, Shown

ULPS = 8.0
"""How many times further than our own two runs JAX's may be off: its functions are other ones."""


def difference(shown: Shown, theirs: Sequence[Array], outcome: Outcome, gradient: bool) -> str:
    """How the blocks of a result differ from JAX's; empty where they do not. gradient: it says nothing where it is
    no number, for zero times infinity is none, and either side may leave it out."""
    allowed = outcome.allowed * ULPS
    blocks = [one.astype(bool) if one.dtype.names or (one.dtype.kind == "V" and not one.dtype.itemsize) else one
              for one in theirs]  # fmt: skip
    if gradient:
        blocks = [_where_numbers(*pair) for pair in zip(shown.blocks, blocks, strict=True)]
    if not any(apart(ours, theirs, allowed) for ours, theirs in zip(shown.blocks, blocks, strict=True)):
        return ""
    beside = ULPS * (outcome.spread.of(shown.name) if outcome.spread is not None else 0.0)
    beside = max(beside, smallest(shown.blocks[0].dtype))  # XLA takes smaller numbers for zero
    said = [apart(ours, theirs, allowed, beside) for ours, theirs in zip(shown.blocks, blocks, strict=True)]
    wrong = next((device for device, one in enumerate(said) if one), None)
    if wrong is None:
        return ""
    turned = outcome.spread.turned(shown.name) if outcome.spread is not None else None
    pending = isinstance(shown.type, ArrayType) and bool(shown.type.unreduced)
    if isinstance(shown.type, ArrayType) and (pending or turned is not None):  # pieces may be other ones
        whole = _whole(blocks, shown.type, outcome)
        if whole is not None and turned is not None and turned.shape == whole.shape:
            whole = np.where(turned, shown.value, whole)
        if whole is not None and not apart(shown.value, whole, allowed, beside):
            return ""
    words = said[wrong].replace(" whole", " ours").replace(" on devices", " JAX's")
    return f"{shown.type}, device {wrong}: {words}"


def _where_numbers(ours: Array, theirs: Array) -> Array:
    """Theirs, and ours where either is no number."""
    if ours.shape != theirs.shape or not unit(ours.dtype):
        return theirs
    return np.where(np.isnan(comparable(ours)) | np.isnan(comparable(theirs)), ours, theirs)


def _whole(blocks: Sequence[Array], type: ArrayType, outcome: Outcome) -> Array | None:
    """What the pieces add up to; `None` where they are no array."""
    sizes = [range(axis.size or 1) for axis in outcome.mesh.axes]
    places = list(itertools.product(*sizes))
    try:
        return read_back(dict(zip(places, blocks, strict=True)), stored(type), outcome.mesh)
    except NotAFamily:
        return None
