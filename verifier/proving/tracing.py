"""Kernels that compute element by element, run on terms: the kernel that runs on numbers is the definition.

A kernel is handed one element of each operand, and in numpy's place a namespace of the functions that are arithmetic.
Every other function that numpy computes element by element is some function of numbers, of which nothing is known but
its name. A kernel that does more than call such functions is, as a whole, some function of all that lies in the array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from calculus.primitives.declaration import Primitive, Site
from calculus.types import dtype_class
from verifier.kernels import plain
from verifier.proving import extended
from verifier.proving.scalars import ROUNDING, Element, Kind, Untraceable, Word
from verifier.proving.terms import NeedsExtended, Pair, Terms, Value, key_of
from verifier.solver import And, If, ToInteger, ToNumber


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

    complex64: Final = Kind("c64")
    uint32: Final = Word("u32")
    uint64: Final = Word("u64")

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

    def result_type(self, *ones: Any) -> Kind:
        if any(isinstance(one, Kind) and one.kind == "c" for one in ones):
            wide = isinstance(ones[0], Element) and ones[0].short in ("f64", "c128")
            return Kind("c128" if wide else "c64")
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
    whether the kernel was looked into. rounded: the dtypes to which it rounds, which counts as the identity."""

    value: Value
    looked: tuple[str, ...]
    seen: bool
    rounded: tuple[str, ...] = ()


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
        unknown = tuple(one for one in looked if not one.startswith(ROUNDING))
        rounded = tuple(one.removeprefix(ROUNDING) for one in looked if one.startswith(ROUNDING))
        return Traced(value, unknown, seen=True, rounded=rounded)
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
