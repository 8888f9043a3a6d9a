"""Pooling and its derivatives: kernels against JAX's own, schemes against ones written by hand and against blocks."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import jax
import numpy as np
import pytest
from jax import lax
from jax._src.lax import windowed_reductions

from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Parameters, Word
from calculus.refusals import Refused
from grammar.read import read
from tests.laws.schemes import canonical, letters, written


class Way(NamedTuple):
    """The base, windows along each of its dims, and the factors by hand: of a sum, and of a choice. Where windows are
    not dilated, the derivatives of maxima are computed too."""

    base: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    summed: str
    chosen: str
    padding: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))
    dilation: tuple[int, ...] = (1, 1)
    window_dilation: tuple[int, ...] = (1, 1)

    @property
    def places(self) -> tuple[int, ...]:
        """The shape of the result, as JAX has it."""
        found: tuple[int, ...] = windowed_reductions.reduce_window_shape_tuple(
            self.base, self.window, self.stride, self.padding, self.dilation, self.window_dilation
        )
        return found

    def parameters(self, **said: Any) -> Parameters:
        parameters: dict[str, Any] = {
            "window_dimensions": self.window,
            "window_strides": self.stride,
            "padding": self.padding,
            "base_dilation": self.dilation,
            "window_dilation": self.window_dilation,
            "select_prim": Word("ge"),
        }
        return Parameters(tuple((parameters | said).items()))

    def site(self, *shapes: tuple[int, ...], **said: Any) -> Site:
        return Site(self.parameters(**said), shapes, ("f32",) * len(shapes), (None,))


WAYS: Final = {
    "side by side": Way((4, 8), (1, 2), (1, 2), "n,(o k) -> n,o ; k", "n,(o K) -> n,o"),
    "overlapping": Way((4, 8), (1, 3), (1, 1), "n,S -> n,O", "n,S -> n,O", ((0, 0), (1, 1))),
    "side by side, with a rest": Way((4, 9), (1, 2), (1, 2), "n,S -> n,O", "n,S -> n,O"),
    "side by side, padded": Way((4, 8), (1, 2), (1, 2), "n,S -> n,O", "n,S -> n,O", ((0, 0), (1, 1))),
    "with gaps between": Way((4, 16), (1, 2), (1, 4), "n,(o K) -> n,o", "n,(o K) -> n,o"),
    "with gaps inside": Way(
        (4, 16), (1, 2), (1, 4), "n,(o K) -> n,o", "n,(o K) -> n,o", window_dilation=(1, 3)
    ),
    "everything": Way((4, 8), (1, 8), (1, 1), "n,k -> n,1 ; k", "n,K -> n,1"),
    "all of both": Way((4, 8), (4, 8), (1, 1), "j,k -> 1,1 ; j k", "J,K -> 1,1"),
    "nothing": Way((4, 8), (1, 1), (1, 1), "n,s -> n,s", "n,s -> n,s"),
    "every other": Way((4, 8), (1, 1), (1, 2), "n,(o K) -> n,o", "n,(o K) -> n,o"),
    "a dilated base": Way(
        (4, 8), (1, 2), (1, 1), "n,s -> n,(s J)", "n,s -> n,(s J)", ((0, 0), (1, 1)), dilation=(1, 2)
    ),
    "a dilated base, overlapping": Way(
        (4, 8), (1, 3), (1, 1), "n,S -> n,O", "n,S -> n,O", ((0, 0), (1, 1)), dilation=(1, 2)
    ),
    "both dims": Way((8, 6), (2, 3), (2, 3), "(m j),(n k) -> m,n ; j k", "(m J),(n K) -> m,n"),
}  # fmt: skip

UNDILATED: Final = [name for name, way in WAYS.items() if way.dilation == way.window_dilation == (1, 1)]


def draw(*shapes: tuple[int, ...]) -> list[Any]:
    """Arrays of whole numbers, no two of one array equal."""
    random = np.random.default_rng(5)
    return [random.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32) - 9 for shape in shapes]


def run(name: str, parameters: Parameters, *arrays: Any) -> Any:
    kernel = TABLE[name].kernel
    assert kernel is not None
    return kernel(np, parameters, *arrays)


@pytest.mark.parametrize("primitive", ["reduce_window_sum", "reduce_window_max", "reduce_window_min"])
@pytest.mark.parametrize("name", WAYS)
def test_reductions_compute_what_jax_computes(primitive: str, name: str) -> None:
    way = WAYS[name]
    (x,) = draw(way.base)
    start, combine = {"sum": (0.0, lax.add), "max": (-np.inf, lax.max), "min": (np.inf, lax.min)}[primitive[-3:]]
    theirs = lax.reduce_window(
        x, start, combine, way.window, way.stride, way.padding, way.dilation, way.window_dilation
    )
    ours = run(primitive, way.parameters(), x)
    np.testing.assert_array_equal(ours, np.asarray(theirs))
    scheme = TABLE[primitive].scheme(way.site(way.base))
    assert scheme.shape(scheme.results[0]) == ours.shape == way.places
    assert canonical(scheme) == written(way.summed)
    assert set(scheme.roles.values()) <= {"whole", primitive[-3:]}


@pytest.mark.parametrize("greatest", [True, False])
@pytest.mark.parametrize("name", WAYS)
def test_tangents_of_the_chosen_are_those_of_jax(name: str, greatest: bool) -> None:
    way = WAYS[name]
    tangents, x = draw(way.base, way.base)
    which = lax.ge_p if greatest else lax.le_p
    theirs = windowed_reductions._select_and_gather_add(
        tangents, x, which, way.window, way.stride, way.padding, way.dilation, way.window_dilation
    )
    said = {"select_prim": Word(str(which))}
    np.testing.assert_array_equal(run("select_and_gather_add", way.parameters(**said), tangents, x), np.asarray(theirs))
    scheme = TABLE["select_and_gather_add"].scheme(way.site(way.base, way.base, **said))
    base, _, result = way.chosen.partition("->")
    assert canonical(scheme) == written(f"{base} | {base} -> {result}")


@pytest.mark.parametrize("greatest", [True, False])
@pytest.mark.parametrize("name", UNDILATED)
def test_sources_go_where_jax_has_them(name: str, greatest: bool) -> None:
    way = WAYS[name]
    source, x = draw(way.places, way.base)
    which = lax.ge_p if greatest else lax.le_p
    theirs = windowed_reductions._select_and_scatter_add(source, x, which, way.window, way.stride, way.padding)
    said = {"select_prim": Word(str(which))}
    np.testing.assert_array_equal(run("select_and_scatter_add", way.parameters(**said), source, x), np.asarray(theirs))
    scheme = TABLE["select_and_scatter_add"].scheme(way.site(way.places, way.base, **said))
    base, _, result = way.chosen.partition("->")
    assert canonical(scheme) == written(f"{result} | {base} -> {base}")


PRODUCT: Final = read("{ lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c,) }").program
TWO: Final = read(
    "{ lambda ; a:f32[] b:f32[] c:f32[] d:f32[]. let\n e:f32[] = mul a c\n f:f32[] = max b d\n in (e, f) }"
).program
SUM: Final = read("{ lambda ; a:f32[] b:f32[]. let c:f32[] = add a b in (c,) }").program
LESS: Final = read("{ lambda ; a:f32[] b:f32[]. let c:bool[] = lt a b in (c,) }").program
REVERSED: Final = read(
    "{ lambda ; a:f32[] b:f32[]. let c:f32[] = sort[dimension=0 is_stable=True num_keys=1] a in (c,) }"
).program


@pytest.mark.parametrize("name", WAYS)
def test_windows_are_reduced_by_any_function(name: str) -> None:
    way = WAYS[name]
    x, y = (each / 8 for each in draw(way.base, way.base))
    theirs = lax.reduce_window(
        (x, y),
        (1.0, -np.inf),
        lambda one, other: (one[0] * other[0], lax.max(one[1], other[1])),
        way.window,
        way.stride,
        way.padding,
        way.dilation,
        way.window_dilation,
    )
    starts = np.float32(1.0), np.float32(-np.inf)
    ours = run("reduce_window", way.parameters(jaxpr=TWO, consts=()), x, y, *starts)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-6)
    scheme = TABLE["reduce_window"].scheme(way.site(way.base, way.base, (), (), jaxpr=TWO, consts=()))
    base, _, result = way.chosen.partition("->")
    shown = canonical(scheme)
    assert shown[0][0] == shown[0][1]
    assert shown[0][4] == shown[0][5]
    one = TABLE["reduce_window"].scheme(way.site(way.base, (), jaxpr=PRODUCT, consts=()))
    assert canonical(type(one)(one.operands[:1], one.results, one.sizes, one.roles)) == written(f"{base} -> {result}")


@pytest.mark.parametrize("name", UNDILATED)
def test_any_function_chooses_and_scatters(name: str) -> None:
    way = WAYS[name]
    x, source = draw(way.base, way.places)
    theirs = windowed_reductions._select_and_scatter(
        x, lax.lt, way.window, way.stride, way.padding, source, jax.numpy.float32(1.0), lax.add
    )
    said = {"select_jaxpr": LESS, "scatter_jaxpr": SUM, "select_consts": (), "scatter_consts": ()}
    ours = run("select_and_scatter", way.parameters(**said), x, source, np.float32(1.0))
    np.testing.assert_array_equal(ours, np.asarray(theirs))
    assert TABLE["select_and_scatter"].scheme(way.site(way.base, way.places, (), **said)).results


@pytest.mark.parametrize("name", WAYS)
def test_halves_of_what_passes_make_halves_of_the_result(name: str) -> None:
    """Each factor of the base that passes through, the first of its dim, is cut in two; each device runs the kernel."""
    way = WAYS[name]
    tangents, x = draw(way.base, way.base)
    scheme = TABLE["select_and_gather_add"].scheme(way.site(way.base, way.base))
    for factor in letters(scheme):
        (dim,) = (dim for dim, factors in enumerate(scheme.operands[0]) if factors[:1] == (factor,))
        halves = zip(np.split(tangents, 2, dim), np.split(x, 2, dim), strict=True)
        for primitive in ("select_and_gather_add", "reduce_window_sum"):
            arrays = (tangents, x) if primitive == "select_and_gather_add" else (x,)
            parts = [np.split(each, 2, dim) for each in arrays]
            made = [run(primitive, way.parameters(), *blocks) for blocks in zip(*parts, strict=True)]
            np.testing.assert_array_equal(np.concatenate(made, dim), run(primitive, way.parameters(), *arrays))
        if name in UNDILATED:
            (source,) = draw(way.places)
            made = [
                run("select_and_scatter_add", way.parameters(), piece, block)
                for piece, (_, block) in zip(np.split(source, 2, dim), halves, strict=True)
            ]
            whole = run("select_and_scatter_add", way.parameters(), source, x)
            np.testing.assert_array_equal(np.concatenate(made, dim), whole)


SIDE: Final = WAYS["side by side"]


@pytest.mark.parametrize(
    ("primitive", "shapes", "said", "code"),
    [
        ("reduce_window_sum", (SIDE.base,), {"window_dimensions": (1,)}, "bad-parameter"),
        ("reduce_window_sum", (SIDE.base,), {"window_dimensions": (1, 0)}, "bad-parameter"),
        ("reduce_window_sum", (SIDE.base,), {"window_strides": (1, 0)}, "bad-parameter"),
        ("reduce_window_sum", (SIDE.base,), {"base_dilation": (1, 0)}, "bad-parameter"),
        ("reduce_window_sum", (SIDE.base,), {"padding": ((0, 0), (-9, 0))}, "shape"),
        ("select_and_gather_add", (SIDE.base, (4, 4)), {}, "shape"),
        ("select_and_gather_add", (SIDE.base,) * 2, {"select_prim": Word("gt")}, "bad-parameter"),
        ("select_and_scatter_add", (SIDE.base,) * 2, {}, "shape"),
        ("select_and_scatter_add", ((4,), SIDE.base), {}, "shape"),
        ("reduce_window", (SIDE.base, (4,)), {"jaxpr": PRODUCT, "consts": ()}, "shape"),
        ("reduce_window", (SIDE.base,), {"jaxpr": PRODUCT, "consts": ()}, "shape"),
        ("reduce_window", (SIDE.base, ()), {"jaxpr": Word("None"), "consts": ()}, "bad-parameter"),
        ("reduce_window", (SIDE.base, ()), {"jaxpr": TWO, "consts": ()}, "bad-parameter"),
        ("reduce_window", (SIDE.base, ()), {"jaxpr": LESS, "consts": ()}, "bad-parameter"),
        ("reduce_window", (SIDE.base, ()), {"jaxpr": REVERSED, "consts": ()}, "unmodelled-construct"),
        ("reduce_window", (SIDE.base, ()), {"jaxpr": PRODUCT, "consts": (Word("a"),)}, "unmodelled-construct"),
    ],
)
def test_windows_that_mean_nothing_are_refused(
    primitive: str, shapes: tuple[tuple[int, ...], ...], said: dict[str, Any], code: str
) -> None:
    with pytest.raises(Refused) as caught:
        TABLE[primitive].scheme(SIDE.site(*shapes, **said))
    assert caught.value.refusal.code == code
