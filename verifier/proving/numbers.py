"""Definitions on numbers: what holds a definition against the kernel of the same primitive."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

import numpy as np

from calculus.elements import Call, Fold
from calculus.primitives.declaration import Primitive
from calculus.schemes import Indices, Scheme
from verifier.devices import Array, numpy_dtype
from verifier.samples import Sample

_STEPS: Final[Mapping[str, Any]] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


class Numbers:
    """The arithmetic of `calculus.elements` on numpy's numbers."""

    def where(self, condition: Any, then: Any, otherwise: Any) -> Any:
        return then if condition else otherwise

    def all(self, conditions: Iterable[Any]) -> Any:
        return all(conditions)

    def some(self, name: str, value: int, least: int | None = None) -> int:
        return value

    def divided(self, digit: Any, by: Any) -> tuple[Any, Any]:
        return digit // by, digit % by

    def mapped(
        self, name: str, count: int, digits: Sequence[Any], function: Callable[..., Sequence[int]]
    ) -> Sequence[int]:
        return function(*digits)

    def before(self, name: str, digit: Any, term: Callable[[Any], Any]) -> Any:
        return sum(int(term(one)) for one in range(digit))

    def ranked(self, name: str, digit: Any, size: Any, keys: Sequence[Callable[[Any], Any]], least: bool) -> Any:
        values = [np.asarray([key(one) for one in range(size)]) for key in keys]
        if least:
            return int(np.lexsort(values[::-1])[digit])
        return int(size - 1 - np.lexsort([one[::-1] for one in values[::-1]])[::-1][digit])

    def extreme(
        self, name: str, sizes: Sequence[Any], greatest: bool, seen: Callable[..., tuple[Any, Any]]
    ) -> tuple[Any, Sequence[Any]]:
        best: Any = None
        found: Sequence[Any] = (0,) * len(sizes)
        for digits in itertools.product(*map(range, sizes)):
            inside, element = seen(*digits)
            if inside and (best is None or (element > best if greatest else element < best)):
                best, found = element, digits
        return best is not None, found

    def find(self, name: str, sizes: Sequence[Any], holds: Callable[..., Any]) -> tuple[Any, Sequence[Any]]:
        for digits in itertools.product(*map(range, sizes)):
            if holds(*digits):
                return True, digits
        return False, (0,) * len(sizes)

    def combine(self, monoid: str, left: Any, right: Any) -> Any:
        return _STEPS[monoid](left, right)

    def negative(self, element: Any) -> Any:
        return np.negative(element)

    def identity(self, monoid: str, dtype: str) -> Any:
        kind = numpy_dtype(dtype)
        if monoid in ("max", "min"):
            if kind.kind == "b":
                return np.bool_(monoid == "min")
            ends = np.iinfo(kind) if kind.kind in "iu" else None
            least, most = (ends.min, ends.max) if ends else (-np.inf, np.inf)
            return kind.type(least if monoid == "max" else most)
        return kind.type({"sum": 0, "prod": 1, "or": 0, "xor": 0, "and": -1}[monoid])

    def constant(self, value: complex, dtype: str) -> Any:
        kind = numpy_dtype(dtype)
        return np.asarray(value if kind.kind == "c" else value.real).astype(kind)[()]

    def counted(self, digit: Any, dtype: str) -> Any:
        return np.asarray(digit).astype(numpy_dtype(dtype))[()]


class _Held:
    """An operand that is there. Outside of it there is nothing to read, so an element that a choice passes over may be
    anything."""

    def __init__(self, value: Array, indices: Indices, scheme: Scheme) -> None:
        self.value, self.indices, self.scheme = value, indices, scheme

    def __call__(self, digits: Mapping[int, Any]) -> Any:
        at = []
        for factors, size in zip(self.indices, self.value.shape, strict=True):
            flat = 0
            for factor in factors:
                flat = flat * int(str(self.scheme.sizes[factor])) + int(digits[factor])
            at.append(flat if 0 <= flat < size else 0)
        found = self.value[tuple(at)]
        return int(found) if self.value.dtype.kind in "iu" and self.index else found

    index = False

    def size(self, dim: int) -> int:
        return int(self.value.shape[dim])


def _folded(e: Numbers, fold: Fold, sizes: Mapping[int, int]) -> Any:
    each = itertools.product(*(range(fold.sizes[one] if one in fold.sizes else sizes[one]) for one in fold.over))
    terms = [fold.term(*digits) for digits in each]
    return reduce(partial(e.combine, fold.monoid), terms if fold.start is None else [fold.start, *terms])


def computed(primitive: Primitive, sample: Sample, values: Sequence[Array], number: int) -> Array:
    """A result, element by element, as the definition says. Raises `NotDefined`."""
    assert primitive.element is not None
    site = sample.site
    scheme = primitive.scheme(site)
    signature = primitive.read(site._replace(number=number))
    held = [_Held(value, indices, scheme) for value, indices in zip(values, scheme.operands, strict=True)]
    for position, one in enumerate(held):
        one.index = position in signature.index
    result = scheme.results[number]
    dtype = primitive.dtypes(site)[number]
    sizes = {factor: int(str(size)) for factor, size in enumerate(scheme.sizes)}
    shape = [int(str(size)) for size in scheme.shape(result)]
    made = [factor for dim in result for factor in dim]
    found = np.empty(shape, numpy_dtype(dtype))
    e = Numbers()
    for digits in itertools.product(*(range(sizes[factor]) for factor in made)):
        at = dict(zip(made, digits, strict=True))
        element = primitive.element(e, Call(site, scheme, tuple(held), at, sizes, dtype, number))
        if isinstance(element, Fold):
            element = _folded(e, element, sizes)
        index = []
        for factors in result:
            flat = 0
            for factor in factors:
                flat = flat * sizes[factor] + at[factor]
            index.append(flat)
        found[tuple(index)] = element
    return found
