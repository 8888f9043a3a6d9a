"""The arithmetic of `calculus.elements` on terms of the solver, at sizes that are numbers.

Proofs hold for every size, and so know of a sort only that it is some order. Here all sizes are numbers, and what a
definition says is written out: where each element comes to stand. So what the solver answers is what kernels compute,
and not something that would do as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from calculus.types import dtype_class
from verifier.proving.terms import Pair, Terms, Value
from verifier.solver import FALSE, NUMBERS, TRUE, TRUTHS, And, If, Not, Or, Term, ToNumber, integer, is_term


class Loose(Exception):
    """Something of which the solver would only be told that it is some function."""


class Concrete(Terms):
    """Numbers that parameters say are those that they say. Raises `Loose` where less is said than what is computed."""

    def some(self, name: str, value: int, least: int | None = None) -> Term:
        return integer(value)

    def mapped(
        self, name: str, count: int, digits: Sequence[Any], function: Callable[..., Sequence[int]]
    ) -> Sequence[Any]:
        raise Loose(name)

    def before(self, name: str, digit: Any, term: Callable[[Any], Any]) -> Any:
        raise Loose(name)

    def opaque(self, name: str, arguments: Sequence[Any], dtype: str) -> Value:
        raise Loose(name)

    def identity(self, monoid: str, dtype: str) -> Any:
        if monoid in ("max", "min", "and", "or", "xor") and dtype_class(dtype) != "b":
            raise Loose(monoid)
        return super().identity(monoid, dtype)

    def combine(self, monoid: str, left: Any, right: Any) -> Any:
        pair = isinstance(left, Pair) or isinstance(right, Pair)
        truths = is_term(left) and left.sort() == TRUTHS
        if (pair and monoid not in ("sum", "prod")) or (not truths and monoid in ("and", "or", "xor")):
            raise Loose(monoid)
        return super().combine(monoid, left, right)

    def counted(self, digit: Any, dtype: str) -> Any:
        """The index itself."""
        kind, found = dtype_class(dtype), _numeral(digit)
        if kind not in "fiu":
            raise Loose(dtype)
        return ToNumber(found) if self.sort(dtype) == NUMBERS else found

    def ranked(self, name: str, digit: Any, size: Any, keys: Sequence[Callable[[Any], Any]], least: bool) -> Any:
        """An element comes to the place that says how many come before it."""
        values = [[key(integer(one)) for key in keys] for one in range(_count(size))]
        found = integer(0)
        for own in reversed(range(len(values))):
            ahead = [
                If(_ahead(values[other], values[own], least, other < own), integer(1), integer(0))
                for other in range(len(values))
                if other != own
            ]
            found = If(sum(ahead, integer(0)) == digit, integer(own), found)
        return found

    def extreme(
        self, name: str, sizes: Sequence[Any], greatest: bool, seen: Callable[..., tuple[Any, Any]]
    ) -> tuple[Any, Sequence[Any]]:
        """Each is held against the best of those before it."""
        there: Any = FALSE
        best: Any = None
        place: list[Term] = [integer(0) for _ in sizes]
        for digits in itertools.product(*(range(_count(size)) for size in sizes)):
            inside, element = seen(*map(integer, digits))
            inside = _truth(inside)
            if best is None:
                best = element
            better = And(inside, Or(Not(there), _less(element, best) if not greatest else _less(best, element)))
            best = self.where(better, element, best)
            place = [If(better, integer(one), other) for one, other in zip(digits, place, strict=True)]
            there = Or(there, inside)
        return there, place

    def find(self, name: str, sizes: Sequence[Any], holds: Callable[..., Any]) -> tuple[Any, Sequence[Any]]:
        """The first."""
        there: Any = FALSE
        place: list[Term] = [integer(0) for _ in sizes]
        for digits in itertools.product(*(range(_count(size)) for size in sizes)):
            condition = _truth(holds(*map(integer, digits)))
            first = And(Not(there), condition)
            place = [If(first, integer(one), other) for one, other in zip(digits, place, strict=True)]
            there = Or(there, condition)
        return there, place


def _count(size: Any) -> int:
    if not isinstance(size, int):
        raise Loose("a size that is no number")
    return size


def _numeral(digit: Any) -> Term:
    return digit if is_term(digit) else integer(int(digit))


def _truth(condition: Any) -> Any:
    return condition if is_term(condition) else TRUE if condition else FALSE


def _less(one: Any, other: Any) -> Any:
    if isinstance(one, Pair) or isinstance(other, Pair):
        raise Loose("complex numbers have no order")
    return And(Not(one), other) if one.sort() == TRUTHS else one < other


def _ahead(one: Sequence[Any], other: Sequence[Any], least: bool, earlier: bool) -> Any:
    """Whether one stands before the other in the order of their keys; of equal ones the earlier does."""
    found: Any = TRUE if earlier else FALSE
    for a, b in reversed([*zip(one, other, strict=True)]):
        found = Or(_less(a, b) if least else _less(b, a), And(a == b, found))
    return found
