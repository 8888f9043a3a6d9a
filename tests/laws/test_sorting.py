"""Sorts of several arrays, and reductions by a function that has no name: kernels against JAX's own, on blocks, and
what each result depends on."""

from __future__ import annotations

from typing import Any, Final

import jax
import numpy as np
import pytest

from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Parameters
from calculus.refusals import Refused
from grammar.read import read

SORT: Final = TABLE["sort"]
REDUCE: Final = TABLE["reduce"]


def parameters(keys: int, stable: bool = True, dim: int = 1) -> Parameters:
    return Parameters((("dimension", dim), ("is_stable", stable), ("num_keys", keys)))


def site(count: int, keys: int, stable: bool = True) -> Site:
    return Site(parameters(keys, stable), ((4, 8),) * count, ("f32",) * count, (None,) * count)


def run(primitive: Any, given: Parameters, *arrays: Any) -> list[Any]:
    return [np.asarray(one) for one in primitive.kernel(np, given, *arrays)]


def arrays(dtype: str) -> list[Any]:
    """Keys with many that are equal, both zeros and NaN, and what follows them."""
    random = np.random.default_rng(3)
    first = random.choice([-1.0, -0.0, 0.0, 2.0, np.nan], (4, 8)).astype(np.float32)
    second = random.integers(0, 3, (4, 8)).astype(dtype)
    if dtype == "complex64":
        second = second + 1j * random.integers(-1, 2, (4, 8)).astype(dtype)
    return [first, second, random.normal(size=(4, 8)).astype(np.float32)]


@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64", "bool"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_the_kernel_sorts_as_jax_does(keys: int, dim: int, dtype: str) -> None:
    for order in ([0, 1, 2], [1, 0, 2]):
        these = [arrays(dtype)[index] for index in order]
        theirs = jax.lax.sort([jax.numpy.asarray(one) for one in these], dimension=dim, num_keys=keys)
        for ours, expected in zip(run(SORT, parameters(keys, dim=dim), *these), theirs, strict=True):
            np.testing.assert_array_equal(ours, np.asarray(expected))


def test_rows_are_sorted_apart() -> None:
    these = arrays("int32")
    whole = run(SORT, parameters(2), *these)
    scheme = SORT.scheme(site(3, 2))
    assert dict(scheme.roles) == {1: "whole"}
    assert scheme.operands == scheme.results == (((0,), (1,)),) * 3
    halves = [run(SORT, parameters(2), *(np.split(one, 2)[half] for one in these)) for half in range(2)]
    for ours, blocks in zip(whole, zip(*halves, strict=True), strict=True):
        np.testing.assert_array_equal(ours, np.concatenate(blocks))


@pytest.mark.parametrize(
    ("count", "keys", "stable", "signatures"),
    [
        (1, 1, True, ["/ x0 ;  ~ "]),
        (1, 1, False, ["/ x0 ;  ~ "]),
        (3, 1, True, ["/ x0 ;  ~ x1 x2", "x1 ; x0 ~ x2", "x2 ; x0 ~ x1"]),
        (3, 1, False, ["/ x0 ;  ~ x1 x2", "/ x1 ; x0 ~ x2", "/ x2 ; x0 ~ x1"]),
        (3, 2, True, ["/ x0 ;  ~ x1 x2", "/ x1 ; x0 ~ x2", "x2 ; x0 x1 ~ "]),
    ],
)
def test_keys_decide_and_others_follow(count: int, keys: int, stable: bool, signatures: list[str]) -> None:
    found = [site(count, keys, stable)._replace(number=number) for number in range(count)]
    assert [SORT.signature(one) for one in found] == signatures
    moved = [number for number in range(count) if number >= keys and stable]
    assert [SORT.joins_at(one) for one in found] == [f"x{n}" if n in moved else "" for n in range(count)]


def test_equal_keys_may_be_left_in_any_order() -> None:
    """Two devices that leave equal keys in two orders, and have pieces of what follows: the sums are of other pairs."""
    keys, pieces = np.zeros(2), np.array([[1.0, 2.0], [10.0, 20.0]])
    one = run(SORT, parameters(1, dim=0), keys, pieces[0])[1]
    other = run(SORT, parameters(1, dim=0), keys, pieces[1])[1][::-1]
    assert sorted(one + other) != sorted(pieces.sum(0))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (site(2, 1)._replace(shapes=((4, 8), (8, 4))), "shape"),
        (site(2, 0), "bad-parameter"),
        (site(2, 3), "bad-parameter"),
        (site(2, 1)._replace(parameters=parameters(1, dim=2)), "bad-parameter"),
        (site(2, 1)._replace(parameters=Parameters((("dimension", 0), ("num_keys", 1)))), "bad-parameter"),
    ],
)
def test_a_sort_that_means_nothing_is_refused(given: Site, code: str) -> None:
    with pytest.raises(Refused) as caught:
        SORT.scheme(given)
    assert caught.value.refusal.code == code


# --- reductions by a function -----------------------------------------------------------------------------------------

PAIRS: Final = """{ lambda ; a:f32[] b:f32[] c:f32[] d:f32[]. let
    e:f32[] = add a c
    f:f32[] = mul b d
    g:f32[] = mul f 1.0:f32[]
  in (e, g) }"""


def folding(text: str, *dims: int) -> Parameters:
    return Parameters((("computation", None), ("dimensions", dims), ("jaxpr", read(text).program)))


def reduction(text: str = PAIRS, **changes: Any) -> Site:
    shapes = ((4, 8), (4, 8), (), ())
    return Site(folding(text, 1), shapes, ("f32", "f32", "f32", "f32"), (None, None))._replace(**changes)


def test_the_kernel_reduces_as_jax_does() -> None:
    random = np.random.default_rng(4)
    x, y = (random.integers(1, 3, (4, 8)).astype(np.float32) for _ in range(2))
    for dims in ((0,), (1,), (0, 1)):
        theirs = jax.lax.reduce((x, y), (np.float32(5), np.float32(3)), lambda a, b: (a[0] + b[0], a[1] * b[1]), dims)
        ours = run(REDUCE, folding(PAIRS, *dims), x, y, np.float32(5), np.float32(3))
        for one, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, np.asarray(expected))


def test_a_dim_that_a_function_goes_along_is_needed_whole() -> None:
    """5 is where each device would start: two devices would count it twice."""
    scheme = REDUCE.scheme(reduction())
    assert scheme.operands == (((0,), (1,)), ((0,), (1,)), (), ())
    assert scheme.results == (((0,),), ((0,),))
    assert dict(scheme.roles) == {1: "whole"}
    x = np.ones((4, 8), np.float32)
    start = np.float32(5), np.float32(3)
    whole = run(REDUCE, folding(PAIRS, 1), x, x, *start)[0]
    halves = [run(REDUCE, folding(PAIRS, 1), one, one, *start)[0] for one in np.split(x, 2, axis=1)]
    assert (whole != halves[0] + halves[1]).all()


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (reduction(shapes=((4, 8), (8, 4), (), ())), "shape"),
        (reduction(shapes=((4, 8), (4, 8), (), (8,))), "shape"),
        (reduction(shapes=((4, 8), (4, 8), ())), "shape"),
        (reduction("{ lambda ; a:f32[] b:f32[]. let c:f32[] = add a b in (c,) }"), "bad-parameter"),
        (reduction(PAIRS.replace("(e, g)", "(e,)")), "bad-parameter"),
        (reduction(parameters=folding(PAIRS, 2)), "bad-parameter"),
        (reduction(parameters=folding(PAIRS, 1, 1)), "bad-parameter"),
        (reduction(PAIRS.replace("lambda ;", "lambda h:f32[];").replace("1.0:f32[]", "h")), "unmodelled-construct"),
        (reduction(PAIRS.replace("mul b d", "dot_general b d")), "unmodelled-construct"),
        (reduction(PAIRS.replace("g:f32[]", "g:i32[]")), "dtype"),
    ],
)
def test_a_reduction_that_means_nothing_is_refused(given: Site, code: str) -> None:
    with pytest.raises(Refused) as caught:
        REDUCE.scheme(given)
    assert caught.value.refusal.code == code


def test_each_array_starts_from_a_number_of_its_dtype() -> None:
    with pytest.raises(Refused) as caught:
        REDUCE.dtypes(reduction(dtypes=("f32", "f32", "f32", "i32")))
    assert caught.value.refusal.code == "dtype"
