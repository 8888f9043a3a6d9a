"""Joins against kernels: where a primitive commutes with a maximum or minimum over devices, recovered from numpy.

Each kernel runs on three devices. Some operands are pending, each device holding a piece; the others are the same on
every device. The law f(max of pieces) = max of f(pieces) is tried on every set of pending operands, both kinds, and
both kinds of result; the declaration must say exactly what was found. So a false mark fails, and so does a forgotten
one. Pieces are drawn from the whole dtype: its ends, infinities, NaN, both zeros; copies are finite, or NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

from calculus.primitives import TABLE
from calculus.primitives.declaration import ROUNDING_TO_INFINITY, Site
from calculus.programs import Parameters, Real, Value, Word
from calculus.signatures import Signature
from calculus.types import DTYPES, array_type, dtype_class
from verifier.samples import Sample, samples
from verifier.trials.cases import RUN, Case, numbers, special

SHAPE: Final = (4, 8)
DEVICES: Final = 3
TRIALS: Final = 60
MERGE: Final = {"max": np.maximum.reduce, "min": np.minimum.reduce}

#: what numpy's kernel does at places that the operation leaves undefined, so that no mark is declared
UNDEFINED = {
    ("shift_right_logical", "u", (1,)): "a shift by more than the bits there are",
}


class Joined(Case):
    """A case whose operands are drawn from the whole dtype."""

    def __init__(self, sample: Sample, number: int | None = None) -> None:
        super().__init__(sample, number)
        self.random = np.random.default_rng(11)

    def commutes(self, pending: tuple[int, ...], kind: str) -> set[str]:
        """The kinds by which the results on the devices merge to the result of the merged pieces, every time."""
        left = set(MERGE)
        for _ in range(TRIALS):
            copies = [self.special(position, pending=False) for position in range(len(self.names))]
            devices = [
                [self.special(i, pending=True) if i in pending else copy for i, copy in enumerate(copies)]
                for _ in range(DEVICES)
            ]
            merged = [
                self.either_zero(MERGE[kind]([held[i] for held in devices])) if i in pending else copy
                for i, copy in enumerate(copies)
            ]
            whole, parts = self.run(merged), [self.run(held) for held in devices]
            for target in sorted(left):
                gathered = [MERGE[target](list(each)) for each in zip(*parts, strict=True)]
                if not all(map(_same, whole, gathered)):
                    left.discard(target)
            if not left:
                break
        return left

    def sets(self) -> Iterator[tuple[int, ...]]:
        """Every set of operands that may be pending, of those that are looked at."""
        places = [position for position in range(len(self.names)) if position not in self.signature.unseen]
        for count in range(1, len(places) + 1):
            yield from itertools.combinations(places, count)


def _same(one: Any, other: Any) -> bool:
    """Equal as numpy counts: the zeros are equal, and so are two NaNs; functions that round may differ in the last
    places."""
    if one.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            return bool(np.allclose(one, other, rtol=1e-14, atol=0, equal_nan=True))
    if one.dtype.kind == "V":  # small floats
        return bool(np.array_equal(one.astype(np.float64), other.astype(np.float64), equal_nan=True))
    return bool(np.array_equal(one, other))


def recovered(cases: Sequence[Joined]) -> None:
    """The declaration says what the kernel does, neither more nor less, in calls of which it says the same."""
    (one, *_) = cases
    for pending in one.sets():
        for kind in MERGE:
            found, declared = set(MERGE), one.signature.joined(set(pending), kind)
            for case in cases:
                assert case.signature == one.signature
                found &= case.commutes(pending, kind)
            names = [one.names[position] for position in pending]
            if (one.primitive.name, one.kind, pending) in UNDEFINED:
                assert found, "the kernel needs no exception"
                assert not declared
                continue
            assert declared == found, f"a pending {kind} in {names} commutes into {found or 'nothing'}"


def alike(name: str, kind: str) -> list[list[Joined]]:
    """The sample calls on a class of dtypes, together those of which the same is declared."""
    found: dict[Signature, list[Joined]] = {}
    for sample in samples(name):
        for number in numbers(sample) if sample.kind == kind and ordered(sample) else ():
            case = Joined(sample, number)
            found.setdefault(case.signature, []).append(case)
    return list(found.values())


def ordered(sample: Sample) -> bool:
    """Complex numbers have no order, and truth values no sum."""
    dtypes = (*(type.dtype for type in sample.operands), *TABLE[sample.primitive].dtypes(sample.site))
    classes = set(map(dtype_class, dtypes))
    return "c" not in classes and (sample.primitive, sample.kind) != ("add_any", "b")


ORDERED = dict.fromkeys((sample.primitive, sample.kind) for sample in RUN if sample.operands and ordered(sample))


@pytest.mark.parametrize(("name", "kind"), ORDERED)
def test_joins_are_those_of_the_kernel(name: str, kind: str) -> None:
    for cases in alike(name, kind):
        recovered(cases)


def test_every_declared_join_is_tried() -> None:
    tried = {name for name, _ in ORDERED}
    assert {name for name, one in TABLE.items() if one.joins} <= tried


def call(name: str, kind: str, **parameters: Value) -> Joined:
    """The first sample call on a class of dtypes, with other parameters."""
    sample = next(sample for sample in samples(name) if sample.kind == kind)
    return Joined(sample._replace(parameters=Parameters(tuple((dict(sample.parameters) | parameters).items()))))


@pytest.mark.parametrize(("y", "kind"), [(1, "f"), (2, "f"), (5, "f"), (-1, "f"), (5, "i"), (2, "u")])
def test_odd_powers_of_floats_commute_and_others_do_not(y: int, kind: str) -> None:
    case = call("integer_pow", kind, y=y)
    recovered([case])
    assert bool(case.signature.joins) == ((y, kind) in ((1, "f"), (5, "f")))


@pytest.mark.parametrize(
    ("kind", "fill"), [("f", Real("nan")), ("f", Real("1.5")), ("i", -(2**31)), ("u", 2**32 - 1), ("b", True)]
)
def test_what_is_filled_with_a_constant_commutes(kind: str, fill: Value) -> None:
    """A constant is its own maximum, whatever it is, as it need not be its own sum."""
    case = call("gather", kind, mode=Word("GatherScatterMode.FILL_OR_DROP"), fill_value=fill)
    recovered([case])
    assert case.signature.joins


@pytest.mark.parametrize("sample", [sample for sample in RUN if sample.kind == "c"], ids=str)
def test_complex_numbers_may_only_be_moved(sample: Sample) -> None:
    """They have no order of their own. Numpy has one all the same, under which what is declared is true."""
    case = Joined(sample)
    for join in case.signature.joins:
        for kind in MERGE:
            assert case.commutes(join.operands, kind) == {kind}
            assert not join.antitone
            assert join.kinds == ("max", "min")


@pytest.mark.parametrize("name", ["add", "sub"])
def test_an_infinite_copy_is_the_limit_of_a_sum(name: str) -> None:
    """Why joins are stated for copies that are finite: a piece at the other end would become NaN."""
    kernel = TABLE[name].kernel
    assert kernel is not None
    pieces, copy = np.array([-np.inf, 0.0]), np.inf if name == "add" else -np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(kernel(np, {}, pieces, copy).max())
    assert kernel(np, {}, pieces.max(), copy) == np.inf


@pytest.mark.parametrize("name", ["max", "min", "clamp", "select_n"])
def test_choices_commute_beside_infinite_copies_too(name: str) -> None:
    class Unbounded(Joined):
        def special(self, position: int, pending: bool) -> Any:
            return super().special(position, pending=True)

    recovered([Unbounded(next(sample for sample in samples(name) if sample.kind == "f"))])


# --- conversions ------------------------------------------------------------------------------------------------------

_NUMPY: Final = [
    name
    for name in DTYPES
    if name.startswith(("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bf16", "f"))
    and name not in ("float0", "f4_e2m1fn", "f8_e8m0fnu")
]  # these lack NaN, or a sign


@pytest.mark.parametrize("target", _NUMPY)
@pytest.mark.parametrize("source", _NUMPY)
def test_conversions(source: str, target: str) -> None:
    one = TABLE["convert_element_type"]
    long = DTYPES[target][0]
    site = Site(Parameters((("new_dtype", Word(long)),)), (SHAPE,), (source,), (array_type(target, SHAPE),))
    declared = bool(one.joins_at(site))
    with np.errstate(all="ignore"):
        pool = np.array(special(DTYPES[source][0])).astype(DTYPES[source][0])
        left, right = (each.ravel() for each in np.meshgrid(pool, pool))
        true = all(
            _same(
                merge([left, right]).astype(long),
                merge([left.astype(long), right.astype(long)]),
            )
            for merge in MERGE.values()
        )
    if declared or target in ROUNDING_TO_INFINITY or DTYPES[target][2] != "f":
        assert declared == true


@pytest.mark.parametrize(("name", "count"), [("add", 2), ("sub", 2), ("neg", 1), ("exp", 1)])
def test_floats_without_infinities_are_not_claimed(name: str, count: int) -> None:
    """448 is the largest number of float8_e4m3fn, and twice that is NaN, as is twice -448, which is below 0."""
    site = Site(Parameters(()), ((),) * count, ("f8_e4m3fn",) * count, (None,))
    assert TABLE[name].joins_at(site) == ""
    if name == "add":
        pieces = np.array([-448.0, 0.0], ml_dtypes.float8_e4m3fn)
        assert np.isnan(np.maximum.reduce(pieces + pieces[0]))
        assert np.maximum.reduce(pieces) + pieces[0] == pieces[0]


# --- the laws can fail ------------------------------------------------------------------------------------------------

WRONG: Final = [
    ("log", "f", "x"), ("sqrt", "f", "x"), ("mul", "f", "x"), ("square", "f", "x"), ("cumsum", "f", "x"),
    ("sort", "f", "x0"), ("asin", "f", "min(x)"), ("rsqrt", "f", "-max(x)"),
    ("reduce_sum", "f", "x"), ("gt", "f", "x | -y"), ("add", "i", "x | y"), ("neg", "i", "-x"), ("neg", "f", "x"),
    ("sub", "f", "x | y"), ("cummax", "f", "x"), ("max", "f", "x y"), ("clamp", "f", "low x high"), ("exp", "f", ""),
    ("add", "f", "x y"), ("select_n", "f", "which x"), ("is_finite", "f", "x"), ("shift_right_logical", "i", "x"),
    ("gather", "f", ""), ("gather", "i", "x indices"), ("lt_to", "f", "-max(x)"), ("mulhi", "i", "x | y"),
    ("igamma", "f", "a | x"), ("clz", "i", "-x"), ("nextafter", "f", "x y"), ("lgamma", "f", "x"), ("erfc", "f", "x"),
    ("scatter", "f", "x"), ("scatter-add", "f", "x u"),
    ("scatter-add", "i", "x"), ("scatter-mul", "f", "x"), ("scatter-max", "f", "x u"), ("scatter-sub", "f", "x | u"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "wrong"), WRONG)
def test_a_wrong_mark_is_seen(name: str, kind: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, name, replace(TABLE[name], joins=wrong))
    with pytest.raises(AssertionError, match="commutes into"):
        test_joins_are_those_of_the_kernel(name, kind)
