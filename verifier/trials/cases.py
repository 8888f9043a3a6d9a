"""A sample call with random operands: what the laws of the declarations run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from calculus.primitives import TABLE
from calculus.primitives.declaration import ROUNDING_TO_INFINITY, Primitive, Site
from calculus.types import DTYPES, ArrayType
from verifier.devices import Array, numpy_dtype
from verifier.kernels import compute
from verifier.samples import NoSample, Sample, samples

WORDS: Final = 2
"""How many words of 32 bits a key has, of the generator that the samples are about."""

Elsewhere: TypeAlias = Callable[[Sample, Sequence[Array]], list[Array]]

_elsewhere: list[Elsewhere] = []


def computed_by(function: Elsewhere) -> None:
    """Say who computes the calls of which there is no function of ours (`DRAWN`)."""
    _elsewhere[:] = [function]


def every_sample() -> list[Sample]:
    """The sample calls of all primitives that have some; that all have some is a test of its own."""
    found = []
    for name in TABLE:
        with suppress(NoSample):
            found += samples(name)
    return found


def limits_of(dtype: np.dtype[Any]) -> Any:
    """The precision and the range of a float's dtype, of a complex one's those of its parts."""
    limits: Any = ml_dtypes.finfo  # numpy's does not know the small floats
    return limits(np.zeros((), dtype).real.dtype if dtype.kind == "c" else dtype)


def special(dtype: Any) -> list[Any]:
    """Numbers at which monotone maps have failed: the ends, both zeros, small and large ones, infinities, NaN."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return [False, True]
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return [ends.min, ends.min + 1, *range(max(-3, ends.min), 5), ends.max // 2, ends.max - 1, ends.max]
    largest = float(limits_of(dtype).max)
    found = [-largest, -3.0, -1.5, -1.0, -0.5, -0.0, 0.0, -0.0, 0.0, 0.25, 0.5, 1.0, 2.0, 40.0, largest, np.nan]
    return [*found, -np.inf, np.inf] if dtype.name in {DTYPES[one][0] for one in ROUNDING_TO_INFINITY} else found


@cache
def _specials(dtype: np.dtype[Any]) -> Array:
    return np.array(special(dtype))


def numbers(sample: Sample) -> list[int | None]:
    """The results of a call that have signatures of their own; `None` for all of them, where they have one."""
    primitive, site = TABLE[sample.primitive], sample.site
    results = range(len(primitive.scheme(site).results))
    said = {(primitive.signature(site._replace(number=one)), primitive.joins_at(site)) for one in results}
    return [*results] if len(said) > 1 else [None]


def runs(sample: Sample) -> bool:
    """Whether there is a function of ours to run: keys are JAX's own."""
    return TABLE[sample.primitive].kernel is not None or sample.primitive in (
        "broadcast_in_dim",
        "transpose",
        "dot_general",
    )


RUN: Final = [sample for sample in every_sample() if runs(sample)]
DRAWN: Final = [sample for sample in every_sample() if not runs(sample)]
"""The calls that JAX computes, of keys, and of what is drawn from them."""


def _words(type: ArrayType) -> tuple[int, ...]:
    return (WORDS,) if type.dtype.startswith("key<") else ()


class Case:
    """One sample call: random operands, and what comes out: one result, where a number says which, or all."""

    def __init__(self, sample: Sample, number: int | None = None) -> None:
        self.sample = sample
        self.primitive: Primitive = TABLE[sample.primitive]
        self.kind = sample.kind
        self.random = np.random.default_rng(7)
        self.site = sample.site
        self.parameters = sample.parameters
        #: of keys, the shapes and the dtype of their words
        self.shapes: list[tuple[int, ...]] = [(*type.shape, *_words(type)) for type in sample.operands]  # type: ignore[arg-type]
        self.dtypes = ["u32" if _words(type) else type.dtype for type in sample.operands]
        self.number = number
        self.signature = self.primitive.read(self.site._replace(number=number or 0))
        self.names = self.signature.names
        #: how far apart two results may be that functions which round make of one number; of the next one, not at all
        self.near = 0.0 if sample.primitive == "nextafter" else 1e-12

    def numpy_dtype(self, position: int) -> np.dtype[Any]:
        """The dtype of an operand."""
        return numpy_dtype(self.dtypes[position])

    def draw(self, position: int, whole: bool = False) -> Any:
        """A random operand from its range: powers of two with signs where results should be exact, else reals around
        zero; small integers and any."""
        dtype, shape, about = self.numpy_dtype(position), self.shapes[position], self.sample.ranges[position]
        if dtype.kind in "b":
            return self.random.random(shape) < 0.5
        if dtype.kind in "iu":
            if about is not None:
                return self.random.integers(*about, shape, dtype)
            return self.integers(position)
        real = self.random.uniform(*(about or (-3, 3)), shape)
        if whole:
            real = np.sign(real) * np.exp2(np.round(real))
        return (real + 1j * np.flip(real) if dtype.kind == "c" else real).astype(dtype)

    def special(self, position: int, pending: bool) -> Array:
        """An operand drawn from the whole dtype; where it is the same on every device, it is finite, or NaN."""
        dtype, shape, about = self.numpy_dtype(position), self.shapes[position], self.sample.ranges[position]
        if about is not None and dtype.kind in "iu":
            return self.random.integers(*about, shape, dtype)
        if dtype.kind == "c":
            real, imaginary = (self.random.integers(-9, 9, shape) for _ in range(2))
            return (real + 1j * imaginary).astype(dtype)
        if dtype.kind == "b":  # some arrays are nearly all true, or false
            return self.random.random(shape) < self.random.choice([0.1, 0.5, 0.9])
        found = self.random.choice(_specials(dtype), shape)
        if dtype.kind in "iu":  # the ends alone may be in order by chance
            found = np.where(self.random.random(shape) < 0.4, self.integers(position), found)
        else:
            found = np.where(self.random.random(shape) < 0.4, self.random.normal(0, 2, shape), found)
            # the exponent of `pow`, the bounds of `clamp` and the like: a copy is finite, or NaN
            found = found if pending else np.where(np.isinf(found), 0.75, found)
        return found.astype(dtype)

    def either_zero(self, merged: Array) -> Array:
        """The zeros are one number: of both, the maximum is either."""
        if merged.dtype.kind != "f":
            return merged
        return np.where(merged == 0, np.copysign(merged, self.random.random(merged.shape) - 0.5), merged)

    def integers(self, position: int) -> Array:
        """Small integers and any; sometimes nearly all of their bits are set."""
        dtype, shape = self.numpy_dtype(position), self.shapes[position]
        ends = np.iinfo(dtype)
        small = self.random.integers(max(-5, ends.min), 6, shape, dtype)
        anywhere = self.random.integers(ends.min, ends.max, shape, dtype, endpoint=True)
        dense = self.random.random() < 0.3
        return np.where(
            self.random.random(shape) < 0.5, ~small if dense else small, anywhere | ~small if dense else anywhere
        )

    def compute(self, site: Site, operands: list[Array]) -> list[Array]:
        """All results of a call on these operands, which a site is about. Raises `ValueError` or `TypeError` where the
        function is not defined on them."""
        if runs(self.sample):
            return compute(self.primitive, site, operands)
        if not _elsewhere:
            raise ValueError(f"there is no function of ours for {self.sample}")
        return _elsewhere[0](self.sample, operands)

    def run(self, operands: list[Array]) -> list[Array]:
        """The results that the case is about, of whole operands."""
        found = self.compute(self.site, operands)
        return found if self.number is None else [found[self.number]]

    def sums(self, group: tuple[int, ...], whole: bool) -> tuple[list[Any], list[Any]]:
        """f of a sum, and the sum of f, when the operands of a group are added and all others stay. Some sums are 0."""
        one = [self.draw(position, whole) for position in range(len(self.names))]
        other = list(one)
        for position in group:
            opposite = self.random.random(self.shapes[position]) < 0.2
            negative = one[position] if self.kind == "b" else -one[position]
            other[position] = np.where(opposite, negative, self.draw(position, whole))
        both = [a + b if position in group else a for position, (a, b) in enumerate(zip(one, other, strict=True))]
        return self.run(both), [a + b for a, b in zip(self.run(one), self.run(other), strict=True)]
