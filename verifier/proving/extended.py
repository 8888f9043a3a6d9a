"""The extended real numbers with NaN, as terms: what floating dtypes order, and what is pending by a maximum.

The infinities are the ends, and NaN absorbs: numpy's `maximum` and `minimum`. Rounding keeps order, so a sum or product
is the exact one here; what holds for all orders of rounding is said in proofs/signatures.md.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from verifier.solver import NUMBERS, And, If, Not, Or, Term, datatype, number


@cache
def sort() -> Any:
    """NaN, the two infinities, and the real numbers."""
    made = datatype("extended")
    made.declare("nan")
    made.declare("least")
    made.declare("most")
    made.declare("real", ("value", NUMBERS))
    return made.create()


def real(value: Term) -> Term:
    """A real number among them."""
    return sort().real(value)


def constant(value: float) -> Term:
    """A number, an infinity or NaN."""
    if value != value:
        return sort().nan
    if value in (float("inf"), float("-inf")):
        return sort().most if value > 0 else sort().least
    return real(number(value))


def is_nan(x: Term) -> Term:
    """Whether it is none of them."""
    return sort().is_nan(x)


def is_finite(x: Term) -> Term:
    """Whether it is a real number."""
    return sort().is_real(x)


def below(x: Term, y: Term) -> Term:
    """x ≤ y, false where either is NaN."""
    e = sort()
    both = And(e.is_real(x), e.is_real(y), e.value(x) <= e.value(y))
    return And(Not(is_nan(x)), Not(is_nan(y)), Or(e.is_least(x), e.is_most(y), both))


def choice(x: Term, y: Term, greatest: bool) -> Term:
    """The greater or the lesser of two; NaN if either is."""
    first = below(y, x) if greatest else below(x, y)
    return If(is_nan(x), x, If(is_nan(y), y, If(first, x, y)))


def negative(x: Term) -> Term:
    """-x."""
    e = sort()
    return If(e.is_real(x), e.real(-e.value(x)), If(e.is_least(x), e.most, If(e.is_most(x), e.least, e.nan)))


def total(x: Term, y: Term) -> Term:
    """x + y."""
    e = sort()
    apart = Or(And(e.is_least(x), e.is_most(y)), And(e.is_most(x), e.is_least(y)))
    undefined = Or(is_nan(x), is_nan(y), apart)
    infinite = If(Or(e.is_most(x), e.is_most(y)), e.most, e.least)
    return If(undefined, e.nan, If(And(e.is_real(x), e.is_real(y)), e.real(e.value(x) + e.value(y)), infinite))


def product(x: Term, y: Term) -> Term:
    """x · y."""
    e = sort()

    def sign(one: Term) -> tuple[Term, Term]:
        positive = Or(e.is_most(one), And(e.is_real(one), e.value(one) > 0))
        return positive, Or(e.is_least(one), And(e.is_real(one), e.value(one) < 0))

    (up_x, down_x), (up_y, down_y) = sign(x), sign(y)
    infinite = If(Or(And(up_x, up_y), And(down_x, down_y)), e.most, e.least)
    nothing = Or(And(e.is_real(x), e.value(x) == 0), And(e.is_real(y), e.value(y) == 0))
    both = And(e.is_real(x), e.is_real(y))
    undefined = Or(is_nan(x), is_nan(y), And(Not(both), nothing))
    return If(undefined, e.nan, If(both, e.real(e.value(x) * e.value(y)), infinite))
