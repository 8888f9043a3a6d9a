"""A declaration proposed from a numpy function, by sampling: which dims it leaves alone, and in which operands it is
linear. Sampling proves nothing; it finds what is not so."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from calculus.primitives.declaration import Primitive, same_dtype
from calculus.primitives.elementwise import aligned
from calculus.types import ArrayType
from verifier.devices import numpy_dtype

TRIES: Final = 8


class NoProposal(ValueError):
    """A function of which nothing can be proposed. The message says why."""


def propose(name: str, function: Callable[..., Any], operands: Sequence[ArrayType]) -> Primitive:
    """Declare an elementwise function. Raises `NoProposal` where it is not one, or does not run."""
    random = np.random.default_rng(0)

    def draw() -> list[Any]:
        return [_draw(type, random) for type in operands]

    try:
        with np.errstate(all="ignore"):
            if not all(_elementwise(function, draw()) for _ in range(TRIES)):
                raise NoProposal(
                    f"{name}: what it gives of a part is not that part of what it gives: it is not elementwise, "
                    "and its scheme has to be written; give --declaration"
                )
            names = tuple(f"x{index}" for index in range(len(operands)))
            groups = _groups(function, draw, len(operands))
    except NoProposal:
        raise
    except Exception as error:  # somebody else's function
        raise NoProposal(f"{name} raised {type(error).__name__} of {', '.join(map(str, operands))}: {error}") from error
    linear = {index for group in groups for index in group}
    said = " | ".join(" ".join(names[index] for index in group) for group in groups)
    rest = " ".join(names[index] for index in range(len(operands)) if index not in linear)

    def kernel(np: Any, parameters: Any, *values: Any) -> Any:
        return function(*values)

    return Primitive(name, names, f"{said} / {rest}".strip() if rest else said, aligned, same_dtype, kernel=kernel)


def _draw(type: ArrayType, random: np.random.Generator) -> Any:
    """Numbers of both signs, of which sums and products of a few are exact."""
    shape = [int(size) for size in type.shape]
    found: Any = random.choice([-0.25, 0.25], shape)
    return (found * random.integers(1, 9, shape)).astype(numpy_dtype(type.dtype))


def _elementwise(function: Callable[..., Any], values: Sequence[Any]) -> bool:
    whole = np.asarray(function(*values))
    shape = np.broadcast_shapes(*(value.shape for value in values))
    if whole.shape != shape:
        return False
    for dim, size in enumerate(shape):
        for half in (slice(0, size // 2), slice(size // 2, size)):
            at = (slice(None),) * dim + (half,)
            part = np.asarray(function(*(value[at] for value in values)))
            if part.shape != whole[at].shape or not np.allclose(part, whole[at], equal_nan=True):
                return False
    return True


def _groups(function: Callable[..., Any], draw: Callable[[], list[Any]], count: int) -> list[tuple[int, ...]]:
    """The largest groups of operands in which it is jointly linear; a group of which another is part is enough."""
    found: list[tuple[int, ...]] = []
    for size in range(count, 0, -1):
        for group in itertools.combinations(range(count), size):
            taken = any(set(group) & set(other) for other in found)
            if not taken and all(_linear(function, draw(), draw(), group) for _ in range(TRIES)):
                found.append(group)
    return found


def _linear(function: Callable[..., Any], one: list[Any], other: list[Any], group: tuple[int, ...]) -> bool:
    second = [other[index] if index in group else one[index] for index in range(len(one))]
    mixed = [2 * a - 3 * b if index in group else a for index, (a, b) in enumerate(zip(one, second, strict=True))]
    wanted = 2 * np.asarray(function(*one)) - 3 * np.asarray(function(*second))
    return bool(np.allclose(np.asarray(function(*mixed)), wanted, rtol=1e-4, atol=1e-4))
