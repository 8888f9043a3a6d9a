"""The arithmetic of `calculus.elements` on terms of the solver.

Floating numbers are real numbers, or with `extended` the extended ones with NaN. Complex numbers are pairs. Integers
are integers: what holds by the laws of a ring holds modulo 2^k too. Truth values are formulas. Keys are of a sort of
their own. What a kernel does that is no arithmetic is an uninterpreted function of what it is applied to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from calculus.types import dtype_class
from verifier.proving import extended
from verifier.solver import (
    FALSE,
    INTEGERS,
    NUMBERS,
    TRUE,
    TRUTHS,
    And,
    Constant,
    Formula,
    Function,
    If,
    Implies,
    Integer,
    Not,
    Or,
    Sort,
    Term,
    fresh,
    fresh_function,
    integer,
    is_term,
    number,
)


class Pair(NamedTuple):
    """A complex number."""

    real: Term
    imaginary: Term


Value: TypeAlias = "Term | Pair"

#: of what no value is known: the elements of keys, what a function of unknown arguments makes
_KEYS: Final = Sort("key")


class NeedsExtended(Exception):
    """A number that is no real number occurs."""


class Terms:
    """facts: what is known of the terms that were made, by name. extended: whether floats have infinities and NaN."""

    def __init__(self, extended: bool = False) -> None:
        self.extended = extended
        self.facts: list[tuple[str, Formula]] = []
        self._known: dict[Any, Any] = {}

    # what elements are

    def sort(self, dtype: str) -> Any:
        """The sort of the elements of a dtype; of complex ones that of a part."""
        kind = dtype_class(dtype)
        if kind in "fc":
            return extended.sort() if self.extended and kind == "f" else NUMBERS
        return {"b": TRUTHS, "o": _KEYS}.get(kind, INTEGERS)

    def function(self, name: str, digits: Sequence[Any], dtype: str) -> Callable[..., Value]:
        """An unknown array: a function of digits of these sorts."""
        if dtype_class(dtype) == "c":
            parts = [Function(f"{name}.{part}", *digits, NUMBERS) for part in ("re", "im")]
            return lambda *at: Pair(*(part(*at) for part in parts))
        found = Function(name, *digits, self.sort(dtype)) if digits else Constant(name, self.sort(dtype))
        return found if digits else lambda: found

    def same(self, left: Value, right: Value) -> Formula:
        if isinstance(left, Pair) or isinstance(right, Pair):
            one, other = self.paired(left), self.paired(right)
            return And(one.real == other.real, one.imaginary == other.imaginary)
        return left == right

    def paired(self, value: Value) -> Pair:
        return value if isinstance(value, Pair) else Pair(value, number(0))

    # the arithmetic of definitions

    def where(self, condition: Any, then: Any, otherwise: Any) -> Any:
        if condition is True or condition is False:
            return then if condition else otherwise
        if isinstance(then, Pair) or isinstance(otherwise, Pair):
            one, other = self.paired(then), self.paired(otherwise)
            return Pair(*(If(condition, a, b) for a, b in zip(one, other, strict=True)))
        return If(condition, then, otherwise)

    def all(self, conditions: Iterable[Any]) -> Any:
        said = [one for one in conditions if one is not True]
        return said[0] if len(said) == 1 else And(*said) if said else True

    def some(self, name: str, value: int, least: int | None = None) -> Term:
        """Any number, whatever the sample says."""

        def make() -> Term:
            found = Integer(name)
            if least is not None:
                self.facts.append((f"{name} is at least {least}", found >= least))
            return found

        return self.known(("some", name), make)

    def divided(self, digit: Any, by: Any) -> tuple[Any, Any]:
        """By witnesses: digit = quotient · by + rest, 0 ≤ rest < by, which determines both."""

        def make() -> tuple[Term, Term]:
            quotient, rest = fresh(INTEGERS, "quotient"), fresh(INTEGERS, "rest")
            self.facts.append(("digits are divided", And(digit == quotient * by + rest, rest >= 0, rest < by)))
            return quotient, rest

        quotient, rest = self.known(("divided", key_of(digit), key_of(by)), make)
        return quotient, rest

    def mapped(
        self, name: str, count: int, digits: Sequence[Any], function: Callable[..., Sequence[int]]
    ) -> Sequence[Any]:
        """Any function of these digits."""
        return [self.opaque(f"{name}{each}", digits, "i32") for each in range(count)]

    def before(self, name: str, digit: Any, term: Callable[[Any], Any]) -> Any:
        """Any function of the digit, for these terms."""
        said = term(self._any(name, 0))
        function = self.known(("before", name, key_of(said)), lambda: fresh_function(INTEGERS, INTEGERS))
        return function(integer(digit) if isinstance(digit, int) else digit)

    def ranked(self, name: str, digit: Any, size: Any, keys: Sequence[Callable[[Any], Any]], least: bool) -> Any:
        """Any order that depends on the keys alone."""
        said = [key(self._any(name, 0)) for key in keys]
        order = self.known(
            ("ranked", name, *map(key_of, said), key_of(size)), lambda: fresh_function(INTEGERS, INTEGERS)
        )
        found = order(digit)
        self.facts.append((f"{name} is an order", And(found >= 0, found < size)))
        return found

    def extreme(
        self, name: str, sizes: Sequence[Any], greatest: bool, seen: Callable[..., tuple[Any, Any]]
    ) -> tuple[Any, Sequence[Any]]:
        """Any choice that depends on what is seen alone."""
        inside, element = seen(*(self._any(name, each) for each in range(len(sizes))))
        key = ("extreme", name, key_of(inside), key_of(element), tuple(map(key_of, sizes)))

        def make() -> tuple[Term, tuple[Term, ...]]:
            return fresh(TRUTHS, f"{name}.seen"), tuple(fresh(INTEGERS, f"{name}.best") for _ in sizes)

        there, digits = self.known(key, make)
        if ("chosen", key) not in self._known:
            self._known["chosen", key] = True
            within = And(*(And(digit >= 0, digit < size) for digit, size in zip(digits, sizes, strict=True)))
            self.facts.append((f"{name} is in the window", Implies(there, And(within, seen(*digits)[0]))))
        return there, digits

    def _any(self, name: str, each: int) -> Term:
        return self.known(("bound", name, each), lambda: Integer(f"{name}.any{each}"))

    def find(self, name: str, sizes: Sequence[Any], holds: Callable[..., Any]) -> tuple[Any, Sequence[Any]]:
        """Digits of which it is only known that it holds of them, if there are any: a choice that depends on the
        condition alone, so the same where the conditions are the same."""
        if not sizes:
            return holds(), ()
        bound = [self._any(name, each) for each in range(len(sizes))]
        condition = holds(*bound)
        key = ("find", name, key_of(condition), tuple(key_of(size) for size in sizes))

        def make() -> tuple[Term, tuple[Term, ...]]:
            there = fresh(TRUTHS, f"{name}.there")
            return there, tuple(fresh(INTEGERS, f"{name}.first") for _ in sizes)

        there, digits = self.known(key, make)
        if ("found", key) not in self._known:
            self._known["found", key] = True
            within = And(*(And(digit >= 0, digit < size) for digit, size in zip(digits, sizes, strict=True)))
            self.facts.append((f"{name} is found", Implies(there, And(within, holds(*digits)))))
        return there, digits

    def combine(self, monoid: str, left: Any, right: Any) -> Any:
        if isinstance(left, Pair) or isinstance(right, Pair):
            return self._complex(monoid, self.paired(left), self.paired(right))
        if _is(left, TRUTHS) or _is(right, TRUTHS):
            if monoid == "xor":
                return left != right
            return Or(left, right) if monoid in ("max", "or", "sum") else And(left, right)
        if _is(left, "extended"):
            if monoid in ("max", "min"):
                return extended.choice(left, right, monoid == "max")
            return extended.total(left, right) if monoid == "sum" else extended.product(left, right)
        if monoid in ("max", "min"):
            return If(left >= right, left, right) if monoid == "max" else If(left <= right, left, right)
        if monoid in ("sum", "prod"):
            return left + right if monoid == "sum" else left * right
        return Function(f"bitwise {monoid}", INTEGERS, INTEGERS, INTEGERS)(left, right)

    def _complex(self, monoid: str, left: Pair, right: Pair) -> Pair:
        if monoid == "sum":
            return Pair(left.real + right.real, left.imaginary + right.imaginary)
        if monoid == "prod":
            return Pair(
                left.real * right.real - left.imaginary * right.imaginary,
                left.real * right.imaginary + left.imaginary * right.real,
            )
        return Pair(*(Function(f"{monoid}.{part}", *[NUMBERS] * 5)(*left, *right) for part in ("re", "im")))

    def negative(self, element: Any) -> Any:
        if isinstance(element, Pair):
            return Pair(-element.real, -element.imaginary)
        return extended.negative(element) if _is(element, "extended") else -element

    def identity(self, monoid: str, dtype: str) -> Any:
        """The identity of a maximum of integers or of reals is only known to be none above or below it."""
        kind = dtype_class(dtype)
        if kind == "b":
            return TRUE if monoid in ("min", "and", "prod") else FALSE
        if monoid in ("sum", "prod"):
            return self.constant(0 if monoid == "sum" else 1, dtype)
        if self.extended and kind == "f":
            return extended.constant(float("-inf") if monoid == "max" else float("inf"))
        return Constant(f"the end of {monoid}", self.sort(dtype))

    def constant(self, value: complex, dtype: str) -> Any:
        kind = dtype_class(dtype)
        value = complex(value)
        if kind == "b":
            return TRUE if value else FALSE
        if kind in "iu":
            return integer(int(value.real))
        if kind == "f" and self.extended:
            return extended.constant(value.real)
        if value != value or abs(value) == float("inf"):
            raise NeedsExtended
        return Pair(number(value.real), number(value.imag)) if kind == "c" else number(value.real)

    def counted(self, digit: Any, dtype: str) -> Any:
        return self.opaque(f"counted as {dtype}", [digit], dtype)

    # beyond definitions

    def opaque(self, name: str, arguments: Sequence[Any], dtype: str) -> Value:
        """A function of these arguments of which nothing is known."""
        flat = [part for one in arguments for part in (one if isinstance(one, Pair) else (one,))]
        flat = [one if is_term(one) else integer(int(one)) for one in flat]
        return self.function(name, [one.sort() for one in flat], dtype)(*flat)

    def known(self, key: Any, make: Callable[[], Any]) -> Any:
        """One term for one key."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


def key_of(term: Any) -> Any:
    """What tells terms apart; it holds on to the term, since numbers of terms that are gone are used again."""
    if isinstance(term, Pair):
        return tuple(map(key_of, term))
    return ("term", term.get_id(), _Kept(term)) if is_term(term) else term


class _Kept:
    """A term, alike with every other where keys are compared."""

    def __init__(self, term: Term) -> None:
        self.term = term

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept)

    def __hash__(self) -> int:
        return 0


def _is(term: Any, sort: Any) -> bool:
    if not is_term(term):
        return isinstance(term, bool) and sort is TRUTHS
    return bool(term.sort() == (extended.sort() if isinstance(sort, str) else sort))


def negated(condition: Any) -> Any:
    """Not."""
    return (not condition) if isinstance(condition, bool) else Not(condition)
