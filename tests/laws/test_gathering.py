"""Gathers: the kernel against JAX's own, the scheme against blocks of the kernel, and the signature against constants.

The ways to gather are written out by hand, one for each role that a dim can have.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import jax
import ml_dtypes  # noqa: F401  (numpy knows the small floats by it)
import numpy as np
import pytest
from jax import lax

from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Call, Parameters, Real, Value, Word
from calculus.refusals import Refused
from calculus.types import DTYPES

GATHER: Final = TABLE["gather"]


class Way(NamedTuple):
    """Shapes, and the parameters of a gather. The order of the last five is that of `GatherDimensionNumbers`."""

    shape: tuple[int, ...]
    where: tuple[int, ...]
    window: tuple[int, ...]
    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    starts: tuple[int, ...]
    batched: tuple[int, ...] = ()
    meeting: tuple[int, ...] = ()

    def parameters(self, mode: str = "CLIP", fill: Value = None, window: tuple[int, ...] | None = None) -> Parameters:
        names = ("offset_dims", "collapsed_slice_dims", "start_index_map")
        paired = ("operand_batching_dims", "start_indices_batching_dims")
        numbers = Call("GatherDimensionNumbers", (), tuple(zip((*names, *paired), self[3:], strict=True)))
        return Parameters(
            (
                ("dimension_numbers", numbers),
                ("fill_value", fill),
                ("mode", Word(f"GatherScatterMode.{mode}")),
                ("slice_sizes", self.window if window is None else window),
            )
        )

    def site(self, dtype: str = "f32", mode: str = "CLIP", fill: Value = None) -> Site:
        return Site(self.parameters(mode, fill), (self.shape, self.where), (dtype, "i32"), (None,))

    def draw(self) -> tuple[Any, Any]:
        random = np.random.default_rng(3)
        x = random.integers(-99, 99, self.shape).astype(np.float32)
        return x, random.integers(-3, 10, self.where).astype(np.int32)


WAYS: Final = {
    "rows": Way((8, 4), (6, 2, 1), (1, 4), (2,), (0,), (0,)),
    "columns": Way((4, 8), (6, 1), (4, 1), (0,), (1,), (1,)),
    "one row": Way((8, 4), (1,), (1, 4), (0,), (0,), (0,)),
    "elements": Way((8, 4), (6, 2), (1, 1), (), (0, 1), (1, 0)),
    "windows": Way((8, 4), (6, 2), (2, 3), (0, 2), (), (0, 1)),
    "windows between": Way((8, 4, 2), (4, 2, 1), (3, 4, 2), (0, 2, 4), (), (0,)),
    "along a dim": Way((4, 8), (4, 2, 1), (1, 1), (), (1,), (1,), (0,), (0,)),
    "batched the other way": Way((4, 2, 8), (2, 4, 6, 1), (1, 1, 1), (), (2,), (2,), (0, 1), (1, 0)),
    "batched windows": Way((2, 8, 4), (6, 2, 1), (1, 2, 4), (0, 3), (), (1,), (0,), (1,)),
    "an entire dim that has a number": Way((8, 4), (6, 2), (1, 4), (1,), (0,), (0, 1)),
    "a dim of size one": Way((1, 4), (6, 1), (1, 4), (1,), (0,), (0,)),
    "nothing": Way((0, 4), (0, 1), (1, 4), (1,), (0,), (0,)),
}


def run(parameters: Parameters, x: Any, indices: Any) -> Any:
    assert GATHER.kernel is not None
    return GATHER.kernel(np, parameters, x, indices)


@pytest.mark.parametrize("mode", ["CLIP", "FILL_OR_DROP"])
@pytest.mark.parametrize("name", WAYS)
def test_the_kernel_computes_what_jax_computes(name: str, mode: str) -> None:
    way = WAYS[name]
    x, indices = way.draw()
    theirs = lax.gather(
        jax.numpy.asarray(x),
        jax.numpy.asarray(indices),
        lax.GatherDimensionNumbers(*way[3:]),
        way.window,
        mode=getattr(lax.GatherScatterMode, mode),
        fill_value=7.0,
    )
    ours = run(way.parameters(mode, Real("7.0")), x, indices)
    np.testing.assert_array_equal(ours, np.asarray(theirs))
    scheme = GATHER.scheme(way.site())
    assert scheme.shape(scheme.results[0]) == ours.shape


#: the dims of the result that may be cut, read off what each of these means
CUT: Final = {
    "rows": {0, 1, 2},
    "columns": {0, 1},
    "one row": {0},
    "elements": {0},
    "windows": {1},
    "windows between": {1, 2, 3, 4},
    "along a dim": {0, 1},
    "batched the other way": {0, 1, 2},
    "batched windows": {1, 2, 3},
    "an entire dim that has a number": {0, 1},
    "a dim of size one": {0, 1},
    "nothing": {0, 1},
}


@pytest.mark.parametrize("mode", ["CLIP", "FILL_OR_DROP"])
@pytest.mark.parametrize("name", WAYS)
def test_blocks_of_the_result_are_gathered_from_blocks(name: str, mode: str) -> None:
    way = WAYS[name]
    scheme = GATHER.scheme(way.site())
    passed = [dim for dim, (factor,) in enumerate(scheme.results[0]) if factor not in scheme.roles]
    assert set(passed) == CUT[name]
    x, indices = way.draw()
    whole = run(way.parameters(mode, Real("nan")), x, indices)
    for dim in passed:
        (factor,) = scheme.results[0][dim]
        blocks = []
        for half in range(2):
            parts, window = [], list(way.window)
            for array, dims in zip((x, indices), scheme.operands, strict=True):
                if (factor,) in dims:
                    at = dims.index((factor,))
                    if array is x and at not in way.batched:
                        window[at] //= 2
                    parts.append(np.split(array, 2, axis=at)[half])
                else:
                    parts.append(array)
            blocks.append(run(way.parameters(mode, Real("nan"), tuple(window)), *parts))
        np.testing.assert_array_equal(np.concatenate(blocks, axis=dim), whole)


CONSTANTS: Final[list[tuple[str, Value]]] = [
    *((dtype, fill) for dtype in ("f32", "bf16", "f8_e4m3b11fnuz") for fill in (Real("nan"), Real("0.0"), 0, 1)),
    *((dtype, fill) for dtype in ("f4_e2m1fn", "f8_e8m0fnu") for fill in (Real("nan"), Real("0.0"), 1)),
    *(("c64", fill) for fill in (Real("nan"), Real("0.0"), Real("1.5"))),
    *(("i32", fill) for fill in (-(2**31), -1, 0, 3)),
    *(("i8", fill) for fill in (-128, 0)),
    *(("u32", fill) for fill in (2**32 - 1, 0)),
]


@pytest.mark.parametrize(("dtype", "fill"), CONSTANTS)
def test_a_fill_is_linear_where_the_constant_sums_to_itself(dtype: str, fill: Value) -> None:
    long = np.dtype(DTYPES[dtype][0])
    constant = np.array([int(fill) if isinstance(fill, int) else float(str(fill))]).astype(long)
    with np.errstate(all="ignore"):
        twice = (constant + constant).astype(long)
    wide = np.complex128 if DTYPES[dtype][2] == "c" else np.float64
    lasting = np.array_equal(twice.astype(wide), constant.astype(wide), equal_nan=True)
    signature = GATHER.signature(WAYS["rows"].site(dtype, "FILL_OR_DROP", fill))
    if signature == "x ; indices":
        assert lasting
    else:
        assert signature == "/ x ; indices"
        assert not lasting or dtype in ("f4_e2m1fn", "f8_e8m0fnu")  # these are not told apart
    assert GATHER.signature(WAYS["rows"].site(dtype, "CLIP")) == "x ; indices"


@pytest.mark.parametrize(
    ("fill", "shown"), [(Word("jnp.inf"), "a name"), (Real("inf"), "an infinity"), (True, "a truth value")]
)
def test_other_constants_are_taken_for_ones_that_do_not(fill: Value, shown: str) -> None:
    assert GATHER.signature(WAYS["rows"].site("f32", "FILL_OR_DROP", fill)) == "/ x ; indices", shown


@pytest.mark.parametrize(
    ("way", "code"),
    [
        (WAYS["rows"]._replace(offset=(3,)), "bad-parameter"),
        (WAYS["rows"]._replace(offset=()), "bad-parameter"),
        (WAYS["rows"]._replace(collapsed=(2,)), "bad-parameter"),
        (WAYS["rows"]._replace(starts=(2,)), "bad-parameter"),
        (WAYS["windows"]._replace(offset=(2, 0)), "bad-parameter"),
        (WAYS["along a dim"]._replace(starts=(0,)), "bad-parameter"),
        (WAYS["along a dim"]._replace(meeting=()), "bad-parameter"),
        (WAYS["along a dim"]._replace(meeting=(2,)), "bad-parameter"),
        (WAYS["along a dim"]._replace(where=(3, 2, 1)), "shape"),
        (WAYS["rows"]._replace(where=(6, 2, 2)), "shape"),
        (WAYS["rows"]._replace(where=()), "shape"),
        (WAYS["rows"]._replace(window=(2, 4)), "shape"),
        (WAYS["rows"]._replace(window=(1, 5)), "shape"),
        (WAYS["rows"]._replace(window=(1,)), "shape"),
        (WAYS["rows"]._replace(window=(1, -1)), "bad-parameter"),
    ],
)
def test_a_gather_that_means_nothing_is_refused(way: Way, code: str) -> None:
    with pytest.raises(Refused) as caught:
        GATHER.scheme(way.site())
    assert caught.value.refusal.code == code


@pytest.mark.parametrize(("mode", "fill"), [("ONE_HOT", None), ("FILL_OR_DROP", None)])
def test_what_becomes_of_windows_outside_is_said(mode: str, fill: Value) -> None:
    with pytest.raises(Refused) as caught:
        GATHER.scheme(WAYS["rows"].site("f32", mode, fill))
    assert caught.value.refusal.code == "bad-parameter"
