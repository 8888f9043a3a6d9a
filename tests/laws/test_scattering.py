"""Scatters: the kernels against JAX's own, the scheme against blocks of the kernels, and what is said of bodies.

The ways to scatter are those to gather (`tests.laws.test_gathering`), read backwards: what is taken there is put here.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import jax
import numpy as np
import pytest
from jax import lax

from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Call, Parameters, Program, Value, Word
from calculus.refusals import Refused
from grammar.read import read
from tests.laws import test_gathering as gathering

WAYS: Final = gathering.WAYS
SCATTERS: Final = {"scatter": "set", **{f"scatter-{one}": one for one in ("add", "sub", "mul", "max", "min")}}
MODES: Final = ("CLIP", "FILL_OR_DROP")


class Way(NamedTuple):
    """Shapes, and the parameters of a scatter. The order of the last five is that of `ScatterDimensionNumbers`."""

    shape: tuple[int, ...]
    where: tuple[int, ...]
    update: tuple[int, ...]
    windowed: tuple[int, ...]
    inserted: tuple[int, ...]
    starts: tuple[int, ...]
    batched: tuple[int, ...] = ()
    meeting: tuple[int, ...] = ()

    def parameters(self, body: Value, mode: str = "FILL_OR_DROP", unique: bool = False) -> Parameters:
        names = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims")
        paired = ("operand_batching_dims", "scatter_indices_batching_dims")
        numbers = Call("ScatterDimensionNumbers", (), tuple(zip((*names, *paired), self[3:], strict=True)))
        return Parameters(
            (
                ("dimension_numbers", numbers),
                ("mode", Word(f"GatherScatterMode.{mode}")),
                ("unique_indices", unique),
                ("update_jaxpr", body),
            )
        )

    def site(self, body: Value = None, dtype: str = "f32", unique: bool = False, indices: str = "i32") -> Site:
        shapes = self.shape, self.where, self.update
        return Site(self.parameters(body, unique=unique), shapes, (dtype, indices, dtype), (None,))


def combining(combiner: str) -> Program | None:
    """The body that JAX prints for a scatter."""
    if combiner == "set":
        return None
    return read(f"{{ lambda ; a:f32[] b:f32[]. let c:f32[] = {combiner} a b in (c,) }}").program


def way(name: str) -> Way:
    """The way to scatter what a way to gather takes."""
    found = WAYS[name]
    gathered = TABLE["gather"].scheme(found.site())
    update: Any = gathered.shape(gathered.results[0])
    return Way(found.shape, found.where, update, *found[3:])


def draw(name: str) -> tuple[Any, Any, Any]:
    x, indices = WAYS[name].draw()
    random = np.random.default_rng(5)
    return x, indices, random.integers(-9, 9, way(name).update).astype(np.float32)


def run(primitive: str, parameters: Parameters, *operands: Any) -> Any:
    kernel = TABLE[primitive].kernel
    assert kernel is not None
    return kernel(np, parameters, *operands)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("primitive", SCATTERS)
def test_the_kernel_computes_what_jax_computes(primitive: str, name: str, mode: str) -> None:
    """Where updates overlap, what is written is not defined; on a CPU both write one after the other."""
    said, operands = way(name), draw(name)
    theirs = getattr(lax, primitive.replace("-", "_"))(
        *map(jax.numpy.asarray, operands),
        lax.ScatterDimensionNumbers(*said[3:]),
        mode=getattr(lax.GatherScatterMode, mode),
    )
    body = combining(SCATTERS[primitive])
    ours = run(primitive, said.parameters(body, mode), *operands)
    np.testing.assert_array_equal(ours, np.asarray(theirs))
    scheme = TABLE[primitive].scheme(said.site(body))
    assert [scheme.shape(indices) for indices in (*scheme.operands, *scheme.results)] == [
        *(one.shape for one in operands),
        ours.shape,
    ]


#: the dims of the array that may be cut with its updates, the places that each have updates of their own, and the
#: dims of the array in which a window has one element, read off what each of these ways means
CUT: Final[dict[str, tuple[set[int], set[int], set[int]]]] = {
    "rows": ({1}, {0, 1}, {0}),
    "columns": ({0}, {0}, {1}),
    "one row": ({1}, set(), {0}),
    "elements": (set(), {0}, {0, 1}),
    "windows": (set(), {0}, set()),
    "windows between": ({1, 2}, {0, 1}, set()),
    "along a dim": ({0}, {1}, {1}),
    "batched the other way": ({0, 1}, {2}, {2}),
    "batched windows": ({0, 2}, {0}, set()),
    "an entire dim that has a number": ({1}, {0}, {0}),
    "a dim of size one": ({1}, {0}, {0}),
    "nothing": ({1}, {0}, {0}),
}


def halves(scheme: Any, factor: int, operands: tuple[Any, ...]) -> list[list[Any]]:
    """What each of two devices has where a factor is cut: a block of each operand that has it."""
    found: list[list[Any]] = [[], []]
    for array, dims in zip(operands, scheme.operands, strict=True):
        cut = np.split(array, 2, axis=dims.index((factor,))) if (factor,) in dims else [array, array]
        for device in range(2):
            found[device].append(cut[device])
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("primitive", SCATTERS)
def test_blocks_of_the_result_are_made_of_blocks(primitive: str, name: str, mode: str) -> None:
    said, operands = way(name), draw(name)
    parameters = said.parameters(combining(SCATTERS[primitive]), mode)
    scheme = TABLE[primitive].scheme(said.site(combining(SCATTERS[primitive])))
    passed = [dim for dim, (factor,) in enumerate(scheme.results[0]) if factor not in scheme.roles]
    assert set(passed) == CUT[name][0]
    whole = run(primitive, parameters, *operands)
    for dim in passed:
        blocks = [run(primitive, parameters, *each) for each in halves(scheme, scheme.results[0][dim][0], operands)]
        np.testing.assert_array_equal(np.concatenate(blocks, axis=dim), whole)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("primitive", SCATTERS)
def test_places_that_are_cut_leave_the_result_pending(primitive: str, name: str, mode: str) -> None:
    """Two devices have an update each of two: sums are pending beside a piece of the array, and one that is whole is
    counted twice; extremes are pending beside a copy. Of products and of what is written nothing is said."""
    said, operands = way(name), draw(name)
    parameters = said.parameters(combining(SCATTERS[primitive]), mode)
    scheme = TABLE[primitive].scheme(said.site(combining(SCATTERS[primitive])))
    reduced = {factor for factor, role in scheme.roles.items() if role != "whole"}
    merge = {"sub": "add"}.get(SCATTERS[primitive], SCATTERS[primitive])
    assert reduced == (CUT[name][1] if merge in ("add", "max", "min") else set())
    assert scheme.accumulator == 0
    x, whole = operands[0], run(primitive, parameters, *operands)
    for factor in reduced:
        parts = halves(scheme, factor, operands)
        pieces = [x - 7, np.full_like(x, 7)] if merge == "add" else [x, x]
        found = [
            run(primitive, parameters, piece, *rest) for piece, (_, *rest) in zip(pieces, parts, strict=True)
        ]  # fmt: skip
        merged = {"add": np.add, "max": np.maximum, "min": np.minimum}[merge](*found)
        np.testing.assert_array_equal(merged, whole)
        if merge == "add" and x.any():
            twice = sum(run(primitive, parameters, *part) for part in parts)
            assert not np.array_equal(twice, whole)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("primitive", SCATTERS)
def test_a_device_writes_what_falls_into_its_own_block(primitive: str, name: str) -> None:
    """Along a dim in which a window has one element: the numbers that begin windows count from the block's first. What
    then lies outside is another device's."""
    said, operands = way(name), draw(name)
    parameters = said.parameters(combining(SCATTERS[primitive]))
    scheme = TABLE[primitive].scheme(said.site(combining(SCATTERS[primitive])))
    assert scheme.along is not None
    own = set(scheme.along.values())
    assert own == CUT[name][2]
    assert all(scheme.results[0][dim] == scheme.operands[0][dim] == (factor,) for factor, dim in scheme.along.items())
    x, indices, updates = operands
    whole = run(primitive, parameters, *operands)
    for dim in own if x.size else ():
        parts = x.shape[dim] if x.shape[dim] == 1 else 2
        blocks = []
        for device, block in enumerate(np.split(x, parts, axis=dim)):
            shifted = indices.copy()
            shifted[..., said.starts.index(dim)] -= device * block.shape[dim]
            blocks.append(run(primitive, parameters, block, shifted, updates))
        np.testing.assert_array_equal(np.concatenate(blocks, axis=dim), whole)


@pytest.mark.parametrize("primitive", SCATTERS)
def test_what_is_written_twice_depends_on_the_order(primitive: str) -> None:
    """Devices may write in different orders. Then pieces of a sum do not meet, whatever the kernel does on one device;
    where the updates are promised not to meet, or there is one, no order can be seen."""
    said, (x, indices, updates) = way("rows"), draw("rows")
    parameters = said.parameters(combining(SCATTERS[primitive]))
    forth = run(primitive, parameters, x, indices, updates)
    back = run(primitive, parameters, x, indices[::-1], updates[::-1])
    assert np.array_equal(forth, back) == (primitive != "scatter")
    if primitive == "scatter":
        sites = [way("rows").site(), way("rows").site(unique=True), way("one row").site()]
        assert [TABLE[primitive].signature(site) for site in sites] == [
            "/ x u ; indices",
            "x u ; indices",
            "x u ; indices",
        ]
        assert [TABLE[primitive].joins_at(site) for site in sites] == ["", "x u", "x u"]


@pytest.mark.parametrize("dtype", ["c64", "f32"])
def test_complex_numbers_have_no_extreme_that_is_pending(dtype: str) -> None:
    for primitive in ("scatter-max", "scatter-min", "scatter-add"):
        scheme = TABLE[primitive].scheme(way("rows").site(combining(SCATTERS[primitive]), dtype))
        expected = {"scatter-max": "max", "scatter-min": "min"}.get(primitive, "sum")
        assert scheme.roles[0] == ("whole" if dtype == "c64" and expected != "sum" else expected)


def test_a_function_that_is_applied_is_no_choice() -> None:
    """What `x.at[i].apply` prints; and what the older dialect printed of a plain scatter."""
    applied = read("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a in (c,) }").program
    written = read("{ lambda ; a:f32[] b:f32[]. let  in (b,) }").program
    scatter = TABLE["scatter"]
    assert scatter.signature(way("rows").site(applied, unique=True)) == "/ x u ; indices"
    assert scatter.signature(way("rows").site(written, unique=True)) == "x u ; indices"
    x, indices, updates = draw("one row")
    (found,) = np.flatnonzero((run("scatter", way("one row").parameters(applied), x, indices, updates) != x).any(1))
    assert found == indices[0]
    np.testing.assert_array_equal(
        run("scatter", way("one row").parameters(applied), x, indices, updates)[found], np.sin(x[found])
    )


def test_a_function_that_closes_over_a_value_is_refused() -> None:
    applied = read("{ lambda c:f32[]; a:f32[] b:f32[]. let d:f32[] = mul a c in (d,) }").program
    with pytest.raises(Refused) as caught:
        TABLE["scatter"].scheme(way("rows").site(applied))
    assert caught.value.refusal.code == "unmodelled-construct"


@pytest.mark.parametrize(
    "body",
    [
        "{ lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c,) }",
        "{ lambda ; a:f32[] b:f32[]. let c:f32[] = add a a in (c,) }",
        "{ lambda ; a:f32[] b:f32[]. let c:f32[] = add a b in (b,) }",
        "{ lambda ; a:f32[] b:f32[]. let c:f32[] = add a b; d:f32[] = add c b in (d,) }",
        "{ lambda ; a:f32[] b:f32[]. let  in (b,) }",
        None,
    ],
)
def test_a_body_that_does_something_else_is_refused(body: str | None) -> None:
    program = None if body is None else read(body.replace("; d", "\n d")).program
    with pytest.raises(Refused) as caught:
        TABLE["scatter-add"].scheme(way("rows").site(program))
    assert caught.value.refusal.code == "bad-parameter"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"windowed": (3,)}, "bad-parameter"),
        ({"windowed": ()}, "bad-parameter"),
        ({"inserted": (2,)}, "bad-parameter"),
        ({"starts": (2,)}, "bad-parameter"),
        ({"where": (6, 2, 2)}, "shape"),
        ({"where": ()}, "shape"),
        ({"update": (6, 2)}, "shape"),
        ({"update": (6, 2, 5)}, "shape"),
        ({"update": (5, 2, 4)}, "shape"),
    ],
)
def test_a_scatter_that_means_nothing_is_refused(change: dict[str, Any], code: str) -> None:
    with pytest.raises(Refused) as caught:
        TABLE["scatter"].scheme(way("rows")._replace(**change).site())
    assert caught.value.refusal.code == code


def test_batched_dims_are_paired() -> None:
    for change in ({"where": (3, 2, 1), "update": (3, 2)}, {"update": (3, 2)}):
        with pytest.raises(Refused) as caught:
            TABLE["scatter"].scheme(way("along a dim")._replace(**change).site())
        assert caught.value.refusal.code == "shape"


def test_dtypes_are_of_integers_and_alike() -> None:
    site = way("rows").site()
    assert TABLE["scatter"].dtypes(site) == ("f32",)
    for dtypes in (("f32", "f32", "f32"), ("f32", "i32", "f64")):
        with pytest.raises(Refused) as caught:
            TABLE["scatter"].dtypes(site._replace(dtypes=dtypes))
        assert caught.value.refusal.code == "dtype"
