"""Functions of JAX's that are replaced for a while by others, which look first and then do the same."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

import jax

Place: TypeAlias = "tuple[str, str, Callable[[Any], Any]]"
"""The module, the name in it (`custom_vjp.__call__`), and what makes the other function of the one that is there."""

_apart: Final = jax.make_user_context(None)
_generations: Final = itertools.count(1)
_lock: Final = threading.RLock()
_depths: Final[dict[int, int]] = {}
_kept: Final[dict[int, tuple[list[tuple[Any, str, Any]], list[str]]]] = {}


@contextlib.contextmanager
def replaced(places: Sequence[Place]) -> Iterator[list[str]]:
    """Within this, the functions at these places are others; the places that this release does not have. Several
    threads may be within it, and others trace meanwhile: whoever looks must know for whom."""
    with _lock:
        key = id(places)
        _depths[key] = _depths.get(key, 0) + 1
        if _depths[key] == 1:
            _kept[key] = _replace(places)
        unseen = list(_kept[key][1])
    try:
        yield unseen
    finally:
        with _lock:
            _depths[key] -= 1
            if not _depths[key]:
                for owner, name, before in reversed(_kept.pop(key)[0]):
                    setattr(owner, name, before)


def _replace(places: Sequence[Place]) -> tuple[list[tuple[Any, str, Any]], list[str]]:
    kept: list[tuple[Any, str, Any]] = []
    unseen: list[str] = []
    for module, path, made in places:
        *owners, name = path.split(".")
        try:
            owner = import_module(module)
            for one in owners:
                owner = getattr(owner, one)
            before = getattr(owner, name)
        except (ImportError, AttributeError):
            unseen.append(f"{module}.{path}")
            continue
        kept.append((owner, name, before))
        setattr(owner, name, functools.wraps(before)(made(before)))
    return kept, unseen


def generation() -> int:
    """A number that no trace has had yet: see `traced_apart`."""
    return next(_generations)


@contextlib.contextmanager
def traced_apart(number: int) -> Iterator[None]:
    """Within this, what JAX remembers of its traces is what it remembers of traces with this number."""
    with _apart(number):
        yield


def active(places: Sequence[Place]) -> bool:
    """Whether somebody is within `replaced` of these."""
    return id(places) in _kept
