"""A function traced while functions of JAX's do otherwise, for this trace alone: nothing of it is remembered of others,
and what other threads trace meanwhile is as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from verifier.with_jax.replaced import Place, generation, replaced, traced_apart
from verifier.with_jax.trace import Trace, trace

T = TypeVar("T")


def traced_otherwise(
    told: ContextVar[T], value: T, places: Sequence[Place], f: Callable[..., Any], args: Sequence[Any],
    kwargs: Mapping[str, Any], mesh: Any,
) -> Trace | None:  # fmt: skip
    """The program of a function, traced with those in these places; `None` where JAX does not trace it so. told: says
    to them that it is this trace, by a value."""
    token = told.set(value)
    try:
        with contextlib.suppress(Exception), replaced(places), traced_apart(generation()):
            return trace(f, *args, mesh=mesh, **kwargs)
    finally:
        told.reset(token)
    return None
