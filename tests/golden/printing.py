"""What the makers of `printed/` share: marking a function as a maker, and having JAX print a program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

X = jnp.ones(4)
S = jnp.float32(1)

Texts = str | dict[str, str]
MAKERS: list[tuple[Callable[[], Texts], dict[str, int] | None]] = []


def text(function: Callable[[], Texts]) -> Callable[[], Texts]:
    """Mark a maker of texts that need no mesh."""
    MAKERS.append((function, None))
    return function


def text_on(**mesh: int) -> Callable[[Callable[[], Texts]], Callable[[], Texts]]:
    """Mark a maker of texts under a mesh whose axes are explicit."""

    def mark(function: Callable[[], Texts]) -> Callable[[], Texts]:
        MAKERS.append((function, mesh))
        return function

    return mark


def printed(function: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """What JAX prints for this function; `options` are those of its printer."""
    program = jax.make_jaxpr(function)(*arguments)
    program = getattr(program, "jaxpr", program)
    shown = program.pretty_print(use_color=False, **options)
    return re.sub(r" at 0x([0-9a-f]+)", lambda found: " at 0x" + "X" * len(found[1]), shown)


def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under another name, jitted."""

    def renamed(*arguments: Any) -> Any:
        return function(*arguments)

    renamed.__name__ = renamed.__qualname__ = name
    return jax.jit(renamed)
