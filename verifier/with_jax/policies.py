"""Policies of `jax.checkpoint`, looked into: what they close over, which no text shows."""

from __future__ import annotations

import inspect
from typing import Any, Final

from calculus.programs import Call, Value, Word
from grammar.leaves import value_of

_NAMES: Final = {"save_only_these_names": "names_which_can_be_saved", "save_any_names_but_these": "names_not_to_save"}
_OFFLOADING: Final = ("names_which_can_be_saved", "names_which_can_be_offloaded")


def policy(value: Any) -> Value:
    """A policy as a value: `save_only_these_names('h')`. One that is not JAX's own is its name."""
    if not inspect.isfunction(value):
        return value_of(str(value))
    name = value.__qualname__.partition(".<locals>")[0]
    if not value.__module__.startswith("jax."):
        return Word(f"<function {value.__qualname__}>")
    held = inspect.getclosurevars(value).nonlocals
    if name in _NAMES:
        return Call(name, _texts(held[_NAMES[name]]))
    if name == "save_and_offload_only_these_names":
        return Call(name, (), tuple((key, _texts(held[key])) for key in _OFFLOADING))
    if name == "save_from_both_policies":
        return Call(name, (policy(held["policy_1"]), policy(held["policy_2"])))
    return Word(name)


def _texts(names: Any) -> tuple[str, ...]:
    return tuple(sorted(map(str, names)))
