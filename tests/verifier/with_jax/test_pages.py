"""What JAX's page on distributed arrays says, on eight CPU devices, beside what we say: types, placements and verdicts.
The numbers are those of tests/spec/seeds-arrays.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, SingleDeviceSharding, auto_axes
from jax.sharding import PartitionSpec as P

import verifier
from calculus.concrete import refines
from calculus.meshes import AxisMode
from calculus.types import ArrayType
from verifier.functions import FunctionReport
from verifier.with_jax.meshes import ours
from verifier.with_jax.stored import stored

EXPLICIT, AUTO = AxisType.Explicit, AxisType.Auto


def grid(*modes: AxisType) -> jax.sharding.Mesh:
    return jax.make_mesh((4, 2), ("X", "Y"), axis_types=modes or (EXPLICIT, EXPLICIT))


MESH, HIDDEN, MIXED = grid(), grid(AUTO, AUTO), grid(EXPLICIT, AUTO)


def placed(mesh: jax.sharding.Mesh, spec: P, *shape: int) -> jax.Array:
    made: jax.Array = jax.device_put(jnp.arange(float(np.prod(shape))).reshape(shape), NamedSharding(mesh, spec))
    return made


def types(f: Callable[..., Any], *args: Any, mesh: jax.sharding.Mesh = MESH) -> tuple[str, FunctionReport]:
    """The type of a function's result as JAX runs it, and our report on it, which must say the same type."""
    with jax.set_mesh(mesh):
        type = jax.typeof(f(*args)).str_short(short_dtypes=True)
        report = verifier.check(f, *args)
    assert report.verdict == "ok", str(report)
    assert str(report.types["result"]) == type
    return type, report


def moved(report: FunctionReport) -> list[tuple[object, ...]]:
    return [(row.kind, row.axes, row.bytes) for row in report.communication]


def refused(f: Callable[..., Any], *args: Any, mesh: jax.sharding.Mesh = MESH) -> str:
    """The code by which we refuse what JAX refuses."""
    with jax.set_mesh(mesh):
        with pytest.raises(Exception, match=r"\w"):
            f(*args)
        (refusal,) = verifier.check(f, *args).refusals
    assert refusal.because
    assert refusal.help
    return refusal.code


def test_b1_three_styles_in_one_program() -> None:
    """X explicit, Y auto in a region, and a sum by hand over X in a shard_map: one program, which runs. Of f32[8@X,4] a
    device has two rows; their sum is 4 numbers, 16 bytes."""

    def hinted(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.tanh(x), P(None, "Y"))

    by_the_compiler = auto_axes(hinted, axes="Y", out_sharding=P("X", None))

    def by_hand(x: Any) -> Any:
        return jax.lax.psum(x.sum(0), "X")

    def program(x: Any) -> Any:
        return jax.shard_map(by_hand, in_specs=P("X", None), out_specs=P())(by_the_compiler(x)) * 2.0

    found, report = types(program, placed(MESH, P("X", None), 8, 4))
    assert found == "f32[4]"
    assert ("all-reduce", ("X",), 16) in moved(report)
    assert {axes for kind, axes, _ in moved(report) if kind == "unknown"} == {("Y",)}


def test_b7_explicit_by_default_and_auto_by_the_constructor() -> None:
    assert {ours(jax.make_mesh((4, 2), ("X", "Y"))).mode(axis) for axis in "XY"} == {AxisMode.EXPLICIT}
    devices = np.array(jax.devices()).reshape(4, 2)
    assert {ours(jax.sharding.Mesh(devices, ("X", "Y"))).mode(axis) for axis in "XY"} == {AxisMode.AUTO}


def test_b8_the_context_is_asked_at_the_top_and_its_abstract_mesh_under_jit() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(jax.sharding.get_abstract_mesh())
        with pytest.raises(ValueError, match="get_mesh"):
            jax.sharding.get_mesh()
        return x

    with jax.set_mesh(MESH):
        assert jax.sharding.get_mesh() == MESH
        jax.jit(f)(jnp.ones(8))
        report = verifier.check(f, jax.ShapeDtypeStruct((8,), jnp.float32, sharding=P("X")))
    assert [ours(mesh) for mesh in seen] == [ours(MESH)] * 2
    assert str(report.types["x"]) == "f32[8@X]"


def renamed(names: tuple[str, ...], sizes: tuple[int, ...], spec: P) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        with jax.sharding.use_abstract_mesh(AbstractMesh(sizes, names, axis_types=(EXPLICIT,) * len(names))):
            return jax.reshard(x, spec) * 2.0

    return f


@pytest.mark.parametrize(
    ("names", "sizes", "spec", "type", "bytes"),
    [
        (("A",), (8,), P("A"), "f32[8@A,4]", [("all-to-all", ("Y",), 16)]),
        (("A", "B"), (4, 2), P("A", "B"), "f32[8@A,4@B]", []),
        (("U", "V", "W"), (2, 2, 2), P(("U", "V"), "W"), "f32[8@(U,V),4@W]", []),
    ],
)
def test_b9_b10_another_abstract_mesh_over_the_same_devices(
    names: tuple[str, ...], sizes: tuple[int, ...], spec: P, type: str, bytes: list[tuple[object, ...]]
) -> None:
    """f32[8@X,4@Y] has blocks of 2 by 2, 16 bytes. Renamed axes, and a 4 taken apart into 2 times 2, leave them."""
    x = placed(MESH, P("X", "Y"), 8, 4)
    found, report = types(jax.jit(renamed(names, sizes, spec)), x)
    assert (found, moved(report)) == (type, bytes)


def test_b9_not_over_more_devices() -> None:
    x = placed(MESH, P("X", "Y"), 8, 4)
    with jax.set_mesh(MESH), pytest.raises(ValueError, match="size"):
        jax.jit(renamed(("A",), (16,), P("A")))(x)


def test_b11_every_array_has_a_sharding() -> None:
    found, mesh = stored(placed(MESH, P("X", "Y"), 8, 4))
    assert (str(found), str(mesh)) == ("f32[8@X,4@Y]", "X=4, Y=2")
    alone = jnp.ones((8, 4))
    assert isinstance(alone.sharding, SingleDeviceSharding)
    found, mesh = stored(alone)
    assert (str(found), mesh.axes) == ("f32[8,4]", ())


@pytest.mark.parametrize(
    "spec", [P("Y", "X"), P("X"), P(), P(("X", "Y")), P(None, ("Y", "X")), P("X", unreduced={"Y"})]
)
def test_b13_device_put_and_reshard_are_one_relayout(spec: P) -> None:
    x = placed(MESH, P("X", "Y"), 8, 8)
    with jax.set_mesh(MESH):
        put, again = jax.device_put(x, spec), jax.reshard(x, spec)
        under_jit = jax.jit(lambda x: jax.reshard(x, spec))(x)
        prices = [
            moved(verifier.check(f, x))
            for f in (lambda x: jax.reshard(x, spec), jax.jit(lambda x: jax.reshard(x, spec)))
        ]
    assert stored(put) == stored(again) == stored(under_jit)
    assert refines(stored(put)[0], type_at(put), ours(MESH))
    assert prices[0] == prices[1]


def type_at(array: Any) -> ArrayType:
    from grammar.read import read_type

    found = read_type(jax.typeof(array).str_short(short_dtypes=True))
    assert isinstance(found, ArrayType)
    return found


def rows_of(array: jax.Array) -> dict[int, list[int]]:
    """Which rows of an array each device holds."""
    return {shard.device.id: list(range(len(array)))[shard.index[0]] for shard in array.addressable_shards}


def test_b14_what_is_not_mentioned_is_replicated() -> None:
    x = placed(MESH, P("X", None), 8, 4)
    assert stored(x) == stored(placed(MESH, P("X"), 8, 4))
    blocks = {shard.device.id: np.asarray(shard.data).tolist() for shard in x.addressable_shards}
    assert all(blocks[2 * row] == blocks[2 * row + 1] for row in range(4))


def test_b15_one_dim_over_two_axes_in_order() -> None:
    """Device 2x + y holds row 2x + y by (X, Y), and row x + 4y by (Y, X)."""
    assert rows_of(placed(MESH, P(("X", "Y")), 8, 4)) == {device: [device] for device in range(8)}
    assert rows_of(placed(MESH, P(("Y", "X")), 8, 4)) == {2 * x + y: [x + 4 * y] for x in range(4) for y in range(2)}
    _, report = types(lambda x: jax.reshard(x, P(("Y", "X"))), placed(MESH, P(("X", "Y")), 8, 4))
    assert moved(report) == [("collective-permute", ("X", "Y"), 16)]


def test_b16_the_value_is_the_sum_of_the_pieces() -> None:
    x = placed(MESH, P("X", "Y"), 8, 4)
    with jax.set_mesh(MESH):
        y = jax.device_put(x, P("X", None, unreduced={"Y"}))
    pieces = {shard.device.id: np.asarray(shard.data) for shard in y.addressable_shards}
    value = np.arange(32.0).reshape(8, 4)
    for row in range(4):
        assert (pieces[2 * row] + pieces[2 * row + 1] == value[2 * row : 2 * row + 2]).all()
    assert str(stored(y)[0]) == "f32[8@X,4]{U:Y}"


def test_b17_arrays_on_two_meshes_do_not_add_and_one_may_be_moved() -> None:
    other = jax.make_mesh((8,), ("A",))
    x, y = placed(MESH, P(("X", "Y")), 8), placed(other, P("A"), 8)
    with pytest.raises(Exception, match="mesh"):
        jax.jit(lambda x, y: x + y)(x, y)
    with jax.set_mesh(MESH):
        found, report = types(lambda x, y: x + jax.reshard(y, NamedSharding(MESH, P(("X", "Y")))), x, y)
    assert (found, moved(report)) == ("f32[8@(X,Y)]", [])


COLUMN, ROW = placed(MESH, P("X", None), 4, 1), placed(MESH, P(None, "Y"), 1, 8)
ROWS, BOTH, WHOLE = placed(MESH, P("X", None), 8, 4), placed(MESH, P("X", "Y"), 8, 4), placed(MESH, P(), 8, 4)
V, W = placed(MESH, P("X"), 8), placed(MESH, P("Y"), 4)

FOLLOWS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "b20, at the top": (lambda x, y: x + y, (COLUMN, ROW), "f32[4@X,8@Y]"),
    "b20, under jit": (jax.jit(lambda x, y: x + y), (COLUMN, ROW), "f32[4@X,8@Y]"),
    "b24, nothing": (lambda: jnp.zeros((8, 4)), (), "f32[8,4]"),
    "b24, a count": (lambda: jnp.arange(8), (), "i32[8]"),
    "b24, on request": (lambda: jnp.zeros((8, 4), out_sharding=P("X")), (), "f32[8@X,4]"),
    "b24, a count on request": (lambda: jnp.arange(8, out_sharding=P("X")), (), "i32[8@X]"),
    "b25, unary": (jnp.exp, (BOTH,), "f32[8@X,4@Y]"),
    "b25, zipped": (lambda x, y: x * y, (BOTH, BOTH), "f32[8@X,4@Y]"),
    "b25, one is a copy": (lambda x, y: x - y, (BOTH, WHOLE), "f32[8@X,4@Y]"),
    "b25, both say something": (lambda x, y: x + y, (ROWS, jnp.ones((1, 4))), "f32[8@X,4]"),
    "b25, outer": (lambda v, w: jnp.einsum("i,j->ij", v, w), (V, W), "f32[8@X,4@Y]"),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_results_follow_their_operands(name: str) -> None:
    f, args, type = FOLLOWS[name]
    found, report = types(f, *args)
    assert (found, moved(report)) == (type, [])


NO_ANSWER: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "b23, X against Y": (lambda x, y: x + y, (V, placed(MESH, P("Y"), 8)), "conflicting-sharding"),
    "b23, (X, Y) against (Y, X)": (
        lambda x, y: x + y, (placed(MESH, P(("X", "Y")), 8), placed(MESH, P(("Y", "X")), 8)), "misaligned",
    ),
    "b25, X twice by broadcasting": (
        lambda x, y: x * y, (placed(MESH, P("X"), 8, 1), placed(MESH, P(None, "X"), 1, 4)), "axis-used-twice",
    ),
    "b25, X twice in an outer product": (lambda x, y: jnp.einsum("i,j->ij", x, y), (V, V), "axis-used-twice"),
    "b31, X twice": (
        lambda x, y: x + y, (placed(MESH, P("X"), 4, 4), placed(MESH, P(None, "X"), 4, 4)), "axis-used-twice",
    ),
    "b27, a contraction without a target": (
        lambda x, y: x @ y, (placed(MESH, P(None, "X"), 8, 4), placed(MESH, P("X"), 4, 16)), "contraction-target",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_ANSWER)
def test_where_there_are_several_answers_none_is_guessed(name: str) -> None:
    f, args, code = NO_ANSWER[name]
    assert refused(f, *args) == code
