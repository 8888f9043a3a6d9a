"""Convolutions: the kernel against JAX's own, the scheme against one written by hand and against blocks of the kernel.

The ways to convolve are written out, with the factors that each should have: an input of batch, spatial dim and
features, a kernel of window, features of the input and of the output.
"""

from __future__ import annotations

import itertools
from typing import Any, Final, NamedTuple

import jax
import numpy as np
import pytest
from jax import lax

from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Call, Parameters, Word
from calculus.refusals import Refused
from calculus.schemes import Scheme
from tests.laws.schemes import canonical, letters, written

CONVOLUTION: Final = TABLE["conv_general_dilated"]
LAST: Final = ((0, 2, 1), (2, 1, 0), (0, 2, 1))


class Way(NamedTuple):
    """Shapes, the factors by hand, and what the parameters say where it is not the usual."""

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    factors: str
    stride: tuple[int, ...] = (1,)
    padding: tuple[tuple[int, int], ...] = ((0, 0),)
    dilation: tuple[int, ...] = (1,)
    window_dilation: tuple[int, ...] = (1,)
    feature_groups: int = 1
    batch_groups: int = 1
    numbers: tuple[tuple[int, ...], ...] = LAST

    def parameters(self, shared: int = 1, **said: Any) -> Parameters:
        """The parameters; with the groups divided among `shared` devices."""
        numbers = zip(("lhs_spec", "rhs_spec", "out_spec"), self.numbers, strict=True)
        parameters: dict[str, Any] = {
            "dimension_numbers": Call("ConvDimensionNumbers", (), tuple(numbers)),
            "window_strides": self.stride,
            "padding": self.padding,
            "lhs_dilation": self.dilation,
            "rhs_dilation": self.window_dilation,
            "feature_group_count": max(1, self.feature_groups // shared),
            "batch_group_count": max(1, self.batch_groups // shared),
            "precision": None,
            "preferred_element_type": None,
            "out_sharding": None,
        }
        return Parameters(tuple((parameters | said).items()))

    def site(self, **said: Any) -> Site:
        return Site(self.parameters(**said), (self.input, self.kernel), ("f32", "f32"), (None,))

    def draw(self) -> list[Any]:
        random = np.random.default_rng(5)
        return [random.integers(-9, 9, shape).astype(np.float32) for shape in (self.input, self.kernel)]


WAYS: Final = {
    "windows that overlap": Way((2, 8, 4), (3, 4, 6), "n,S,i | K,i,f -> n,O,f ; i", padding=((1, 1),)),
    "one element": Way((2, 8, 4), (1, 4, 6), "n,s,i | 1,i,f -> n,s,f ; i"),
    "one element, dilated": Way((2, 8, 4), (1, 4, 6), "n,s,i | 1,i,f -> n,s,f ; i", window_dilation=(3,)),
    "one element, padded": Way((2, 8, 4), (1, 4, 6), "n,S,i | 1,i,f -> n,O,f ; i", padding=((1, -1),)),
    "one element in two": Way((2, 8, 4), (1, 4, 6), "n,(o J),i | 1,i,f -> n,o,f ; i", stride=(2,)),
    "side by side": Way((2, 8, 4), (2, 4, 6), "n,(o k),i | k,i,f -> n,o,f ; k i", stride=(2,)),
    "side by side, with a rest": Way((2, 9, 4), (2, 4, 6), "n,S,i | K,i,f -> n,O,f ; i", stride=(2,)),
    "side by side, shifted": Way(
        (2, 8, 4), (2, 4, 6), "n,S,i | K,i,f -> n,O,f ; i", stride=(2,), padding=((1, 1),)
    ),
    "with gaps between": Way((2, 12, 4), (3, 4, 6), "n,(o J),i | K,i,f -> n,o,f ; i", stride=(4,)),
    "with gaps between, cropped": Way(
        (2, 12, 4), (2, 4, 6), "n,(o J),i | K,i,f -> n,o,f ; i", stride=(4,), padding=((-1, 0),)
    ),
    "with gaps inside": Way(
        (2, 12, 4), (2, 4, 6), "n,(o J),i | K,i,f -> n,o,f ; i", stride=(4,), window_dilation=(3,)
    ),
    "a stride less than the window": Way((2, 12, 4), (3, 4, 6), "n,S,i | K,i,f -> n,O,f ; i", stride=(2,)),
    "everything": Way((2, 8, 4), (8, 4, 6), "n,k,i | k,i,f -> n,1,f ; k i"),
    "everything, wide strides": Way((2, 8, 4), (8, 4, 6), "n,k,i | k,i,f -> n,1,f ; k i", stride=(5,)),
    "within one stretch": Way((2, 8, 4), (6, 4, 6), "n,J,i | K,i,f -> n,1,f ; i", stride=(5,)),
    "stretches of the kernel": Way(
        (2, 8, 4), (4, 4, 6), "n,(k o),i | k,i,f -> n,o,f ; k i", window_dilation=(2,)
    ),
    "stretches of the kernel, the first of each": Way(
        (2, 8, 4), (4, 4, 6), "n,(k J),i | k,i,f -> n,1,f ; k i", window_dilation=(2,), padding=((0, -1),)
    ),
    "stretches of the kernel, some of each": Way(
        (2, 12, 4), (4, 4, 6), "n,(k J),i | k,i,f -> n,O,f ; k i",
        window_dilation=(3,), padding=((0, -1),),
    ),
    "stretches of the result": Way(
        (2, 4, 4), (2, 4, 6), "n,s,i | K,i,f -> n,(s J),f ; i", dilation=(2,), padding=((1, 1),)
    ),
    "stretches of the result, wider": Way(
        (2, 4, 4), (2, 4, 6), "n,s,i | K,i,f -> n,(s J),f ; i", dilation=(3,), padding=((1, 2),)
    ),
    "stretches of the result, one element": Way(
        (2, 4, 4), (1, 4, 6), "n,s,i | 1,i,f -> n,(s J),f ; i", dilation=(2,), padding=((0, 1),)
    ),
    "dilated, overlapping": Way(
        (2, 4, 4), (3, 4, 6), "n,S,i | K,i,f -> n,O,f ; i", dilation=(2,), padding=((1, 2),)
    ),
    "dilated, shifted": Way(
        (2, 4, 4), (2, 4, 6), "n,S,i | K,i,f -> n,O,f ; i", dilation=(2,), padding=((0, 2),)
    ),
    "one of one": Way((2, 1, 4), (1, 4, 6), "n,s,i | 1,i,f -> n,s,f ; i", stride=(3,)),
    "one of nothing but padding": Way((2, 1, 4), (1, 4, 6), "n,S,i | 1,i,f -> n,O,f ; i", padding=((1, -1),)),
    "no element": Way((2, 0, 4), (1, 4, 6), "n,s,i | 1,i,f -> n,s,f ; i"),
    "no place": Way((2, 2, 4), (3, 4, 6), "n,S,i | K,i,f -> n,O,f ; i"),
    "groups of features": Way((2, 5, 8), (1, 2, 12), "n,s,(g i) | 1,i,(g f) -> n,s,(g f) ; i", feature_groups=4),
    "a group for each feature": Way((2, 5, 8), (1, 1, 24), "n,s,g | 1,1,(g f) -> n,s,(g f)", feature_groups=8),
    "a group for each feature of both": Way((2, 5, 8), (1, 1, 8), "n,s,g | 1,1,g -> n,s,g", feature_groups=8),
    "groups of windows that overlap": Way(
        (2, 8, 8), (3, 4, 4), "n,S,(g i) | K,i,(g f) -> n,O,(g f) ; i", padding=((1, 1),), feature_groups=2
    ),
    "groups of the batch": Way((8, 5, 6), (1, 6, 4), "(g n),s,i | 1,i,(g f) -> n,s,(g f) ; i", batch_groups=2),
    "a group for each of the batch": Way((8, 5, 6), (1, 6, 8), "g,s,i | 1,i,g -> 1,s,g ; i", batch_groups=8),
    "no spatial dim": Way(
        (2, 4), (4, 6), "n,i | i,f -> n,f ; i", (), (), (), (), numbers=((0, 1), (1, 0), (0, 1))
    ),
    "two spatial dims, in other orders": Way(
        (4, 2, 8, 6), (5, 3, 2, 4), "i,n,(o k),T | f,U,k,i -> V,n,f,o ; i k",
        (1, 2), ((1, 1), (0, 0)), (1, 1), (1, 1), numbers=((1, 0, 3, 2), (0, 3, 1, 2), (1, 2, 0, 3)),
    ),
}  # fmt: skip


def run(parameters: Parameters, x: Any, kernel: Any) -> Any:
    assert CONVOLUTION.kernel is not None
    return CONVOLUTION.kernel(np, parameters, x, kernel)


@pytest.mark.parametrize("name", WAYS)
def test_the_kernel_computes_what_jax_computes(name: str) -> None:
    way = WAYS[name]
    x, kernel = way.draw()
    theirs = lax.conv_general_dilated(
        jax.numpy.asarray(x),
        jax.numpy.asarray(kernel),
        way.stride,
        way.padding,
        way.dilation,
        way.window_dilation,
        lax.ConvDimensionNumbers(*way.numbers),
        way.feature_groups,
        way.batch_groups,
    )
    ours = run(way.parameters(), x, kernel)
    np.testing.assert_array_equal(ours, np.asarray(theirs))
    scheme = CONVOLUTION.scheme(way.site())
    assert scheme.shape(scheme.results[0]) == ours.shape


@pytest.mark.parametrize("name", WAYS)
def test_factors_are_those_written_by_hand(name: str) -> None:
    way = WAYS[name]
    assert canonical(CONVOLUTION.scheme(way.site())) == written(way.factors)


def _majors(scheme: Scheme, factor: int) -> set[int]:
    """The factors that must be cut entirely before this one is, so that blocks of a dim are consecutive."""
    arrays = (*scheme.operands, *scheme.results)
    found = {one for indices in arrays for dim in indices if factor in dim for one in dim[: dim.index(factor)]}
    return found | {other for one in found for other in _majors(scheme, one)}


@pytest.mark.parametrize("name", [name for name in WAYS if 0 not in (*WAYS[name].input, *WAYS[name].kernel)])
def test_blocks_of_a_factor_make_blocks_of_the_result(name: str) -> None:
    """Each factor that may be cut is cut, in as many blocks as it has elements or in two; each device runs the kernel
    on its own blocks. What they make is put where the result's block lies, and added up where the factor is reduced."""
    way = WAYS[name]
    x, kernel = way.draw()
    scheme = CONVOLUTION.scheme(way.site())
    sizes: Any = scheme.sizes
    whole = run(way.parameters(), x, kernel)
    everywhere = [factor for factor in letters(scheme) if all(_has(one, factor) for one in _arrays(scheme))]
    for factor in letters(scheme):
        majors = _majors(scheme, factor)
        cuts = {one: sizes[one] for one in majors} | {factor: 2 if sizes[factor] % 2 == 0 else sizes[factor]}
        if any(scheme.roles.get(one) == "whole" for one in majors):
            continue  # it is never cut
        shared = next((cuts[one] for one in everywhere if one in cuts), 1)
        found = np.zeros(_apart(scheme, scheme.results[0]), whole.dtype)
        for device in itertools.product(*(range(count) for count in cuts.values())):
            part = {
                one: slice(at * sizes[one] // count, (at + 1) * sizes[one] // count)
                for (one, count), at in zip(cuts.items(), device, strict=True)
            }
            blocks = [_block(scheme, one, part, array) for one, array in zip(scheme.operands, (x, kernel), strict=True)]
            made = run(way.parameters(shared), *blocks)
            where = tuple(part.get(one, slice(None)) for dim in scheme.results[0] for one in dim)
            found[where] += made.reshape(found[where].shape)
        np.testing.assert_array_equal(found.reshape(whole.shape), whole)


def _arrays(scheme: Scheme) -> tuple[Any, ...]:
    return (*scheme.operands, *scheme.results)


def _has(indices: Any, factor: int) -> bool:
    return any(factor in dim for dim in indices)


def _apart(scheme: Scheme, indices: Any) -> list[Any]:
    return [scheme.sizes[factor] for dim in indices for factor in dim]


def _block(scheme: Scheme, indices: Any, part: dict[int, slice], array: Any) -> Any:
    taken = tuple(part.get(factor, slice(None)) for dim in indices for factor in dim)
    block = array.reshape(_apart(scheme, indices))[taken]
    sizes = iter(block.shape)
    return block.reshape([int(np.prod([next(sizes) for _ in dim])) for dim in indices])


OVERLAP: Final = WAYS["windows that overlap"]


@pytest.mark.parametrize(
    ("way", "said", "code"),
    [
        (OVERLAP, {"dimension_numbers": Word("None")}, "bad-parameter"),
        (OVERLAP._replace(numbers=((0, 2, 2), *LAST[1:])), {}, "bad-parameter"),
        (OVERLAP._replace(numbers=((0, 2), *LAST[1:])), {}, "bad-parameter"),
        (OVERLAP, {"window_strides": (0,)}, "bad-parameter"),
        (OVERLAP, {"window_strides": (1, 1)}, "bad-parameter"),
        (OVERLAP, {"lhs_dilation": (0,)}, "bad-parameter"),
        (OVERLAP, {"padding": ((1,),)}, "bad-parameter"),
        (OVERLAP, {"padding": ()}, "bad-parameter"),
        (OVERLAP, {"padding": ((-5, -4),)}, "shape"),
        (OVERLAP, {"feature_group_count": 0}, "bad-parameter"),
        (OVERLAP, {"feature_group_count": 2, "batch_group_count": 2}, "bad-parameter"),
        (OVERLAP, {"feature_group_count": 2}, "shape"),
        (OVERLAP, {"feature_group_count": 3}, "shape"),
        (OVERLAP, {"batch_group_count": 3}, "shape"),
        (OVERLAP._replace(kernel=(3, 5, 6)), {}, "shape"),
        (OVERLAP._replace(kernel=(4, 6)), {}, "shape"),
        (OVERLAP._replace(kernel=(3, 4, 5), batch_groups=2), {}, "shape"),
    ],
)
def test_a_convolution_that_means_nothing_is_refused(way: Way, said: dict[str, Any], code: str) -> None:
    with pytest.raises(Refused) as caught:
        CONVOLUTION.scheme(way.site(**said))
    assert caught.value.refusal.code == code


@pytest.mark.parametrize(
    ("dtypes", "preferred", "signature", "role"),
    [
        (("f32", "f32"), None, "x | kernel", "sum"),
        (("bf16", "bf16"), "float32", "x | kernel", "sum"),
        (("i32", "i32"), None, "x | kernel", "sum"),
        (("i8", "i8"), "int32", "/ x kernel", "sum"),
        (("bool", "bool"), None, "; x kernel", "max"),
    ],
)
def test_products_are_formed_in_their_own_arithmetic(
    dtypes: tuple[str, str], preferred: str | None, signature: str, role: str
) -> None:
    site = OVERLAP.site(preferred_element_type=preferred and Word(preferred))._replace(dtypes=dtypes)
    assert CONVOLUTION.signature(site) == signature
    assert set(CONVOLUTION.scheme(site).roles.values()) == {"whole", role}
