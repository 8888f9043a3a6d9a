"""One element of an array, as a kernel sees it: a scalar, whatever the array is. What only arrays have it has not."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from calculus.types import DTYPES, SHORT_NAMES, dtype_class
from verifier.proving import extended
from verifier.proving.terms import Pair, Terms, Value
from verifier.solver import And, If, Not, Or, ToNumber, number

ROUNDING: Final = "rounding to "
"""So begins the note of a number that is rounded to fewer bits, which changes nothing of a real number."""


class Word(NamedTuple):
    """A dtype of numpy's that kernels call to make numbers, and convert to."""

    short: str

    def __call__(self, value: int) -> int:
        return int(value)


class Untraceable(Exception):
    """A kernel that does more than call functions."""


class Kind(NamedTuple):
    """A dtype as kernels ask for it."""

    short: str

    @property
    def kind(self) -> str:
        return dtype_class(self.short)

    @property
    def name(self) -> str:
        return DTYPES[self.short][0]


class Shape:
    """The shape of an array of which one element is seen: it is handed on, and says nothing."""

    def _unknown(self, *_: object) -> Any:
        raise Untraceable

    __eq__ = __ne__ = __len__ = __iter__ = __getitem__ = __bool__ = __contains__ = __add__ = __getattr__ = _unknown
    __hash__ = None  # type: ignore[assignment]


class Element:
    """One element, as a kernel sees it, whatever the array is. looked: the unknown functions that it is made by."""

    shape: Final = Shape()

    def __init__(self, terms: Terms, value: Value, short: str, looked: list[str]) -> None:
        self.terms, self.value, self.short, self.looked = terms, value, short, looked

    def __getattr__(self, name: str) -> Any:
        raise Untraceable

    @property
    def dtype(self) -> Kind:
        return Kind(self.short)

    @property
    def real_value(self) -> Any:
        """The value of what is not complex."""
        if isinstance(self.value, Pair):
            raise Untraceable
        return self.value

    def of(self, value: Value, short: str = "") -> Element:
        return Element(self.terms, value, short or self.short, self.looked)

    def lift(self, other: Any) -> Element:
        """A number beside it, in its dtype; a complex one makes both complex."""
        if isinstance(other, Element):
            return other
        if isinstance(other, bool | int | float | complex):
            short = self.short if not isinstance(other, complex) or dtype_class(self.short) == "c" else "c64"
            if isinstance(other, float) and dtype_class(short) in "iu":
                raise Untraceable
            return self.of(self.terms.constant(other, short), short)
        raise Untraceable

    def made(self, name: str, *others: Any, short: str = "") -> Element:
        """By a function of which only the name is known."""
        self.looked.append(name)
        arguments = [self.value, *(self.lift(one).value for one in others)]
        short = short or self.short
        return self.of(self.terms.opaque(f"{name} on {self.short}", arguments, short), short)

    def combined(self, monoid: str, other: Any) -> Element:
        one = self.lift(other)
        short = self.short if dtype_class(self.short) == "c" else one.short
        left, right = self.value, one.value
        if dtype_class(short) == "c":
            if self.terms.extended:
                raise Untraceable
            left, right = self.terms.paired(left), self.terms.paired(right)
        return self.of(self.terms.combine(monoid, left, right), short)

    def __add__(self, other: Any) -> Any:
        return self.combined("or" if self.short == "bool" else "sum", other)

    def __radd__(self, other: Any) -> Any:
        return self.lift(other) + self

    def __neg__(self) -> Any:
        return self.of(self.terms.negative(self.value))

    def __sub__(self, other: Any) -> Any:
        return self + (-self.lift(other))

    def __rsub__(self, other: Any) -> Any:
        return self.lift(other) - self

    def __mul__(self, other: Any) -> Any:
        return self.combined("and" if self.short == "bool" else "prod", other)

    def __rmul__(self, other: Any) -> Any:
        return self.lift(other) * self

    def __truediv__(self, other: Any) -> Any:
        """By the inverse, which is some number; integers are not divided so."""
        if dtype_class(self.short) not in "fc":
            return self.made("quotient", other)
        return self * self.lift(other).made("inverse")

    def __rtruediv__(self, other: Any) -> Any:
        return self.lift(other) / self

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 <= other <= 8:
            found: Any = self.lift(1)
            for _ in range(other):
                found = found * self
            return found
        if isinstance(other, int):
            return self.made(f"power {other}")
        return self.made("power", other)

    def _ordered(self, other: Any, strict: bool, swap: bool) -> Element:
        left, right = (self.lift(other), self) if swap else (self, self.lift(other))
        x, y = left.value, right.value
        if isinstance(x, Pair) or isinstance(y, Pair):
            raise Untraceable
        if self.short == "bool":
            found = And(Not(x), y) if strict else Or(Not(x), y)
        elif self.terms.extended and dtype_class(self.short) == "f":
            found = And(extended.below(x, y), x != y) if strict else extended.below(x, y)
        else:
            found = x < y if strict else x <= y
        return self.of(found, "bool")

    def __lt__(self, other: Any) -> Any:
        return self._ordered(other, strict=True, swap=False)

    def __le__(self, other: Any) -> Any:
        return self._ordered(other, strict=False, swap=False)

    def __gt__(self, other: Any) -> Any:
        return self._ordered(other, strict=True, swap=True)

    def __ge__(self, other: Any) -> Any:
        return self._ordered(other, strict=False, swap=True)

    def __eq__(self, other: object) -> Any:
        one = self.lift(other)
        same = self.terms.same(self.value, one.value)
        if self.terms.extended and dtype_class(self.short) == "f":
            same = And(same, Not(extended.is_nan(self.value)))
        return self.of(same, "bool")

    def __ne__(self, other: object) -> Any:
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]

    def __invert__(self) -> Any:
        """Of an integer the one that makes -1 of both together; without a sign, the greatest."""
        kind = dtype_class(self.short)
        if kind == "b":
            return self.of(Not(self.value))
        if kind not in "iu":
            raise Untraceable
        return (-1 if kind == "i" else 2 ** DTYPES[self.short][1] - 1) - self

    def __and__(self, other: Any) -> Any:
        return self.combined("and", other)

    def __or__(self, other: Any) -> Any:
        return self.combined("or", other)

    def __rshift__(self, other: Any) -> Any:
        return self.made("shift right", other)

    def __lshift__(self, other: Any) -> Any:
        """By a power of two, whichever; none is left of a shift by more than there are bits."""
        return self * self.lift(other).made("power of two")

    def __xor__(self, other: Any) -> Any:
        return self.combined("xor", other)

    def __bool__(self) -> bool:
        raise Untraceable

    def copy(self) -> Element:
        return self

    def astype(self, target: Any) -> Element:
        """Between floats, and from real to complex, the number itself; where it is rounded that is noted. Of integers
        see `_whole`."""
        short = (
            "i32"
            if target is int
            else target.short
            if isinstance(target, Kind | Word)
            else SHORT_NAMES.get(str(target), "")
        )
        if short not in DTYPES:
            raise Untraceable
        before, after = dtype_class(self.short), dtype_class(short)
        if short == self.short or (before == after and before in "fc"):
            if short != self.short and DTYPES[short][1] <= DTYPES[self.short][1]:
                self.looked.append(f"{ROUNDING}{short}")
            return self.of(self.value, short)
        if after == "c" and before == "f":
            return self.of(Pair(self.value, number(0)), short)
        if target is int and before in "iu":
            return self
        return self._whole(short, before, after)

    def _whole(self, short: str, before: str, after: str) -> Element:
        """Integers add up modulo 2^k: so one that is cut down, or only read with another sign, is the same one; of an
        order that is so where it is held without loss."""
        narrower = DTYPES[short][1] <= DTYPES[self.short][1]
        if (
            before in "iu"
            and after in "iu"
            and narrower != self.terms.extended
            and (narrower or before == "u" or after == "i")
        ):
            return self.of(self.value, short)
        if before == "b" and after in "iu":
            return self.of(If(self.value, self.terms.constant(1, short), self.terms.constant(0, short)), short)
        if self.terms.extended and after == "f" and before in "iu":
            return self.of(extended.real(ToNumber(self.value)), short)
        if before == "b" and after == "f":
            return self.of(
                self.terms.where(self.value, self.terms.constant(1, short), self.terms.constant(0, short)), short
            )
        if self.terms.extended and before == "u" and after == "b":
            return self.of(self.real_value > 0, short)
        return self.made(f"as {short}", short=short)
