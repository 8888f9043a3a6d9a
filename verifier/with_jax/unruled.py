"""What JAX has no rule for at all, told as a refusal at the author's line: functions that read the spec of a value as a
tuple of dims, where the spec of what is reduced or unreduced is none."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any, Final

from calculus.refusals import Place, Refusal, refuse
from verifier.with_jax.lines import kind, shown
from verifier.with_jax.listed import listed, without_gradient
from verifier.with_jax.untyped import raised_by_jax

_SIGNS: Final = ("non-empty unreduced/reduced set", "when self P(", "unreduced/reduced rule for")


def told(f: Any, args: Any, kwargs: Any, mesh: Any, error: Exception) -> Refusal | None:
    """The refusal that an error is which a function's trace ends in: that JAX has no gradient of something, or no rule,
    or refuses its types; `None` where it is the author's own mistake."""
    whole = raised_by_jax(f, args, kwargs, mesh)
    if whole is None:
        return None
    return without_gradient(whole) or unruled(error, listed(whole).number) or _refused(error)


def unruled(error: Exception, number: str = "") -> Refusal | None:
    """The refusal that an error of JAX is, where it has no rule for what is reduced or unreduced; else `None`. number:
    says which difference it is."""
    first = _first(error)
    frames = _frames(error)
    last = _last(frames)
    if last is None or not any(sign in first for sign in _SIGNS):
        return None
    called = next((frame.name for frame in frames[last + 1 :] if not frame.name.startswith("_")), "")
    name = _NAMES.get(called, called)
    what = f"for {name}" if name else "here"
    found = refuse(
        "unmodelled-construct",
        f"JAX has no rule {what}: a value is reduced or unreduced ({type(error).__name__}: {first}){number}",
        because="it reads the spec of the value as a list of dims, and what is reduced or pending is in none of them",
        help="reshard the value to a type that is neither, jax.reshard(value, P(...)), before this line: of what is "
        "reduced that is free, of a pending sum it is an all-reduce; or write it with operations that have a rule "
        "(slices and a concatenate for roll, an einsum for vmap)",
        place=Place("primitive"),
    ).refusal
    return _at(found, frames[last])


def _refused(error: Exception) -> Refusal | None:
    """The refusal that an error of JAX is, where it says itself that it has no rule, or asserts a type that is not
    there."""
    named = isinstance(error, NotImplementedError | AssertionError) or type(error).__name__ == "ShardingTypeError"
    first = _first(error)
    if not named and not first.startswith("unexpected JAX type"):
        return None
    found = refuse(
        "unmodelled-construct",
        f"JAX does not trace this: {type(error).__name__}{f': {first}' if first else ''}",
        because="JAX refuses the function, and leaves no program to judge",
        place=Place("primitive"),
    ).refusal
    frames = _frames(error)
    last = _last(frames)
    return found if last is None else _at(found, frames[last])


def _first(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _frames(error: Exception) -> list[traceback.FrameSummary]:
    """The frames of the user's and of JAX's."""
    every = traceback.extract_tb(error.__traceback__)
    return [frame for frame in every if kind(frame.filename) in ("user", "engine")]


def _last(frames: Sequence[traceback.FrameSummary]) -> int | None:
    """Which is the user's innermost."""
    return max((at for at, frame in enumerate(frames) if kind(frame.filename) == "user"), default=None)


def _at(found: Refusal, frame: traceback.FrameSummary) -> Refusal:
    found.line = frame.lineno or 0
    found.trail = (f"at {shown(frame.filename)}:{found.line}",)
    return found


_NAMES: Final = {"vmap_f": "vmap", "reraise_with_filtered_traceback": "", "cache_miss": "jit", "bind": ""}
"""What people call the functions that stand in tracebacks."""
