"""Kernels that compute element by element, run on terms: the kernel that runs on numbers is the definition.

A kernel is handed one element of each operand, and in numpy's place a namespace of the functions that are arithmetic.
Every other function of numpy's is some function of numbers, of which nothing is known but its name. A kernel that does
more than call functions is, as a whole, such a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from calculus.primitives.declaration import Primitive, Site
from calculus.types import DTYPES, SHORT_NAMES, dtype_class
from verifier.kernels import plain
from verifier.proving import extended
from verifier.proving.terms import NeedsExtended, Pair, Terms, Value, key_of
from verifier.solver import And, If, Not, Or, ToInteger, ToNumber, number


class _Word(NamedTuple):
    """A dtype of numpy's that kernels call to make numbers, and convert to."""

    short: str

    def __call__(self, value: int) -> int:
        return int(value)


class Untraceable(Exception):
    """A kernel that does more than call functions."""


class _Kind(NamedTuple):
    """A dtype as kernels ask for it."""

    short: str

    @property
    def kind(self) -> str:
        return dtype_class(self.short)

    @property
    def name(self) -> str:
        return DTYPES[self.short][0]


class _Shape:
    """The shape of an array of which one element is seen: it is handed on, and says nothing."""

    def _unknown(self, *_: object) -> Any:
        raise Untraceable

    __eq__ = __ne__ = __len__ = __iter__ = __getitem__ = __bool__ = __contains__ = __add__ = __getattr__ = _unknown
    __hash__ = None  # type: ignore[assignment]


class Element:
    """One element, as a kernel sees it, whatever the array is. looked: the unknown functions that it is made by."""

    shape: Final = _Shape()

    def __init__(self, terms: Terms, value: Value, short: str, looked: list[str]) -> None:
        self.terms, self.value, self.short, self.looked = terms, value, short, looked

    def __getattr__(self, name: str) -> Any:
        raise Untraceable

    @property
    def dtype(self) -> _Kind:
        return _Kind(self.short)

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
        """Between floats, and from real to complex, the number itself; of integers see `_whole`."""
        short = (
            "i32"
            if target is int
            else target.short
            if isinstance(target, _Kind | _Word)
            else SHORT_NAMES.get(str(target), "")
        )
        if short not in DTYPES:
            raise Untraceable
        before, after = dtype_class(self.short), dtype_class(short)
        if short == self.short or (before == after and before in "fc"):
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


class _Reduced(NamedTuple):
    """A function of numpy's that a list is reduced by."""

    monoid: str

    def reduce(self, ones: Sequence[Element]) -> Element:
        found = ones[0]
        for one in ones[1:]:
            found = found.combined(self.monoid, one)
        return found


class _Functions:
    """What stands in numpy's place."""

    complex64: Final = _Kind("c64")
    uint32: Final = _Word("u32")
    uint64: Final = _Word("u64")

    def __init__(self, first: Element) -> None:
        self.first = first

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Some function of numbers: only what numpy itself calls element by element, with one result."""
        found = getattr(np, name, None)
        if not isinstance(found, np.ufunc) or found.signature is not None or found.nout != 1:
            raise Untraceable  # it may look at other elements, as a sort does
        short = "bool" if name.startswith("is") else ""

        def made(x: Any, *others: Any, **how: Any) -> Element:
            if how or len(others) != found.nin - 1:
                raise Untraceable
            return self.lift(x).made(name, *others, short=short)

        return made

    def lift(self, x: Any) -> Element:
        return self.first.lift(x)

    def result_type(self, *ones: Any) -> _Kind:
        if any(isinstance(one, _Kind) and one.kind == "c" for one in ones):
            wide = isinstance(ones[0], Element) and ones[0].short in ("f64", "c128")
            return _Kind("c128" if wide else "c64")
        raise Untraceable

    def maximum(self, x: Any, y: Any) -> Any:
        return self._extreme(x, y, "max")

    def minimum(self, x: Any, y: Any) -> Any:
        return self._extreme(x, y, "min")

    def _extreme(self, x: Any, y: Any, kind: str) -> Any:
        return self.lift(x).combined(kind, y)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        return self.minimum(self.maximum(x, low), high)

    def where(self, condition: Any, then: Any, otherwise: Any) -> Any:
        one, other = self.lift(then), self.lift(otherwise)
        return one.of(one.terms.where(condition.value, one.value, other.value))

    def broadcast_arrays(self, *ones: Any) -> list[Element]:
        return [self.lift(one) for one in ones]

    def stack(self, ones: Sequence[Element]) -> list[Element]:
        return list(ones)

    @property
    def bitwise_xor(self) -> _Reduced:
        return _Reduced("xor")

    def zeros_like(self, x: Element) -> Element:
        return x.lift(0)

    def broadcast_to(self, x: Element, shape: Any) -> Element:
        return x

    def choose(self, which: Element, cases: Sequence[Element], mode: str) -> Element:
        if which.short == "bool":
            which = which.astype("int32")
        found = cases[-1]
        for position in reversed(range(len(cases) - 1)):
            value = found.terms.where(which.real_value <= position, cases[position].value, found.value)
            found = found.of(value)
        return found

    def abs(self, x: Element) -> Element:
        value = x.value
        if isinstance(value, Pair):
            return x.made("abs", short="f64" if x.short == "c128" else "f32")
        if x.terms.extended and dtype_class(x.short) == "f":
            return x.of(extended.choice(value, extended.negative(value), greatest=True))
        return x.of(If(value >= 0, value, -value))

    def sign(self, x: Element) -> Element:
        value = x.value
        if isinstance(value, Pair):
            return x.made("sign")
        if x.terms.extended and dtype_class(x.short) == "f":
            e, zero = extended.sort(), extended.constant(0.0)
            up = And(extended.below(zero, value), value != zero)
            one = If(value == zero, zero, If(up, extended.constant(1.0), extended.constant(-1.0)))
            return x.of(If(extended.is_nan(value), e.nan, one))
        return x.of(
            If(
                value > 0,
                x.terms.constant(1, x.short),
                If(value < 0, x.terms.constant(-1, x.short), x.terms.constant(0, x.short)),
            )
        )

    def floor(self, x: Element) -> Element:
        return self._rounded(x, lambda value: ToNumber(ToInteger(value)), "floor")

    def ceil(self, x: Element) -> Element:
        def above(value: Any) -> Any:
            below = ToNumber(ToInteger(value))
            return If(below == value, below, below + 1)

        return self._rounded(x, above, "ceil")

    def round(self, x: Element) -> Element:
        return x.made("round")

    def _rounded(self, x: Element, by: Callable[[Any], Any], name: str) -> Element:
        if dtype_class(x.short) != "f":
            return x.made(name)
        if not x.terms.extended:
            return x.of(by(x.value))
        e = extended.sort()
        return x.of(If(extended.is_finite(x.value), e.real(by(e.value(x.value))), x.value))

    def real(self, x: Element) -> Element:
        if x.terms.extended:
            raise Untraceable
        return x.of(x.terms.paired(x.value).real, _part(x.short))

    def imag(self, x: Element) -> Element:
        if x.terms.extended:
            raise Untraceable
        return x.of(x.terms.paired(x.value).imaginary, _part(x.short))

    def conj(self, x: Element) -> Element:
        if not isinstance(x.value, Pair):
            return x
        return x.of(Pair(x.value.real, -x.value.imaginary))


def _part(short: str) -> str:
    return {"c64": "f32", "c128": "f64"}.get(short, short)


class Traced(NamedTuple):
    """What a kernel makes of one element of each operand. looked: the functions of which nothing is known. seen:
    whether the kernel was looked into."""

    value: Value
    looked: tuple[str, ...]
    seen: bool


def traced(
    terms: Terms, primitive: Primitive, site: Site, values: Sequence[Value], dtype: str, number: int = 0
) -> Traced:
    """The one element of a result that the kernel makes of these; where it does more than call functions, some function
    of them."""
    shorts = [one or dtype for one in site.dtypes]
    try:
        if primitive.kernel is None or not values:
            raise Untraceable
        found, looked = _made(terms, primitive.kernel, site, values, tuple(shorts))
        found = found[number] if isinstance(found, list | tuple) else found
        if not isinstance(found, Element):
            raise Untraceable
        value = terms.paired(found.value) if dtype_class(dtype) == "c" else found.value
        part = value.real if isinstance(value, Pair) else value
        if isinstance(value, Pair) != (dtype_class(dtype) == "c") or part.sort() != terms.sort(dtype):
            raise Untraceable
        return Traced(value, looked, seen=True)
    except Untraceable:
        name = f"kernel {primitive.name} {number}" if number else f"kernel {primitive.name}"  # some are other theories'
        return Traced(terms.opaque(name, values, dtype), (primitive.name,), seen=False)


_MADE: Final[dict[tuple[Any, ...], tuple[Any, tuple[str, ...]]]] = {}
_MOST: Final = 256
"""Of so many uses of kernels it is kept what they made: of the same terms it is the same, of every result at once."""


def _made(
    terms: Terms, kernel: Callable[..., Any], site: Site, values: Sequence[Value], shorts: tuple[str, ...]
) -> tuple[Any, tuple[str, ...]]:
    """What a kernel makes of these, and by which unknown functions. Raises `Untraceable`."""
    key = (kernel, repr(site.parameters), terms.extended, shorts, *map(key_of, values))
    if key not in _MADE:
        looked: list[str] = []
        elements = [Element(terms, value, short, looked) for value, short in zip(values, shorts, strict=True)]
        try:
            made = kernel(_Functions(elements[0]), plain(site.parameters), *elements)
        except (NeedsExtended, Untraceable):
            raise
        except Exception as error:  # it asks an element for what only arrays have
            raise Untraceable from error
        if len(_MADE) >= _MOST:
            del _MADE[next(iter(_MADE))]
        _MADE[key] = made, tuple(looked)
    return _MADE[key]
