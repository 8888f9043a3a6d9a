"""Index schemes written by hand, to compare with: `n,(o k),i | k,i,f -> n,o,f ; k i`.

A letter is a factor, and where it is a capital, one that is needed whole. After `;` stand the factors that are reduced.
A dim of one element may have none: `1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from calculus.schemes import Scheme


def written(text: str) -> tuple[Any, ...]:
    """A scheme by hand, with its factors numbered as they appear."""
    arrays, _, reduced = text.partition(";")
    left, _, right = arrays.partition("->")
    lists = [
        [tuple(dim.strip(" ()").replace("1", "").split()) for dim in side.split(",")] if side.strip() else []
        for side in (*left.split("|"), *right.split("|"))
    ]
    roles = {letter: "whole" for one in lists for dim in one for letter in dim if letter.isupper()}
    return _numbered(lists, {**roles, **dict.fromkeys(reduced.split(), "reduced")})


def canonical(scheme: Scheme) -> tuple[Any, ...]:
    """A scheme with its factors numbered as they appear."""
    roles = {factor: "whole" if role == "whole" else "reduced" for factor, role in scheme.roles.items()}
    return _numbered([*scheme.operands, *scheme.results], roles)


def _numbered(lists: Any, roles: dict[Any, str]) -> tuple[Any, ...]:
    order: dict[Any, int] = {}
    shown = tuple(tuple(tuple(order.setdefault(one, len(order)) for one in dim) for dim in each) for each in lists)
    return shown, frozenset((order[factor], role) for factor, role in roles.items() if factor in order)


def letters(scheme: Scheme) -> Iterator[int]:
    """The factors that may be cut."""
    arrays = (*scheme.operands, *scheme.results)
    present = {factor for indices in arrays for dim in indices for factor in dim}
    yield from sorted(factor for factor in present if scheme.roles.get(factor) != "whole")
