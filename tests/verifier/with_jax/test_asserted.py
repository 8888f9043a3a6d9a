"""Types asserted inside traced code. Seed A32: "the gradients are unreduced" can be checked while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from verifier import WrongType, assert_type

MESH = AbstractMesh((2, 2), ("X", "Y"), axis_types=(AxisType.Explicit,) * 2)
AUTO = AbstractMesh((2, 2), ("X", "Y"), axis_types=(AxisType.Explicit, AxisType.Auto))


def struct(shape: tuple[int, ...], spec: P, mesh: AbstractMesh = MESH) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))


def holding(type: str) -> Callable[[Any], Any]:
    return lambda x: assert_type(x, type) * 1.0


def traced(f: Callable[..., Any], *args: Any) -> str:
    with jax.sharding.use_abstract_mesh(MESH):
        return str(jax.make_jaxpr(f)(*args))


def test_the_gradients_of_the_page_are_unreduced() -> None:
    """The seed's microbatched step, with our assertion in place of its own: it holds where the weights are reduced, and
    not where they are copies."""

    def step(ws: Any, xs: Any) -> Any:
        def loss(ws: Any, batch: Any) -> Any:
            final, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), batch, ws)
            return jnp.sum(final**2)

        def microbatch(acc: Any, batch: Any) -> Any:
            return acc + assert_type(jax.grad(loss)(ws, batch), "f32[3,4,4]{U:X}"), None

        start = jax.reshard(jnp.zeros((3, 4, 4)), P(unreduced={"X"}))
        return jax.reshard(jax.lax.scan(microbatch, start, xs)[0], P())

    xs = struct((5, 2, 4), P(None, "X", None))
    report = verifier.check(step, struct((3, 4, 4), P(reduced={"X"})), xs)
    assert (report.verdict, [row.bytes for row in report.communication]) == ("ok", [192])
    with pytest.raises(WrongType, match=r"the value is f32\[3,4,4\], and f32\[3,4,4\]\{U:X\} is asserted"):
        verifier.check(step, struct((3, 4, 4), P()), xs)


@pytest.mark.parametrize(
    ("spec", "type"),
    [
        (P("X"), "f32[8@X,4]"),
        (P("X"), "float32[8@X,4]"),
        (P(("X", "Y")), "f32[8@(X,Y),4]"),
        (P(unreduced={"X", "Y"}), "f32[8,4]{U:(Y,X)}"),
        (P(None, "Y", reduced={"X"}), "f32[8,4@Y]{R:X}"),
        (P(), "f32[8,4]"),
    ],
)
def test_what_holds_leaves_nothing_in_the_program(spec: P, type: str) -> None:
    x = struct((8, 4), spec)
    assert traced(lambda x: assert_type(x, type), x) == traced(lambda x: x, x)


@pytest.mark.parametrize(
    ("spec", "type", "because", "help"),
    [
        (P("X"), "f32[8,4]", "along X it is sharded, not replicated", "reshard the value to f32[8,4] (all-gather"),
        (P(), "f32[8,4]{U:X}", "along X it is replicated, not unreduced", "to f32[8,4]{U:X} (free forward, free"),
        (P("X"), "f32[8,4@X]", "its dim 0 is sharded on (X) not on ()", "reshard the value to f32[8,4@X] (all-to-all"),
        (P(("X", "Y")), "f32[8@(Y,X),4]", "its dim 0 is sharded on (X, Y) not on (Y, X)", "(collective-permute over"),
        (P("X"), "bf16[8@X,4]", "its dtype is f32, not bf16", "assert f32[8@X,4]"),
        (P("X"), "f32[4@X,4]", "its shape is [8, 4], not [4, 4]", "assert f32[8@X,4]"),
        (P("X"), "f32[8@X,4@X]", "a device has one coordinate along an axis", "drop all but one mention of X"),
        (P("X"), "f32[8@Z,4]", "a type's axes are those of its mesh", "name one of X, Y"),
        (P("X"), "f32[8@", "", ""),
    ],
)
def test_what_does_not_hold_says_in_what(spec: P, type: str, because: str, help: str) -> None:
    with pytest.raises(WrongType) as raised:
        traced(holding(type), struct((8, 4), spec))
    assert because in raised.value.refusal.because
    assert help in raised.value.refusal.help
    assert str(raised.value).startswith(raised.value.refusal.message)


def test_on_auto_axes_types_say_nothing() -> None:
    x = struct((8, 4), P("X", "Y"), AUTO)
    assert verifier.check(holding("f32[8@X,4]"), x).verdict == "ok"
    with pytest.raises(WrongType, match="mentions axis Y, which is auto"):
        verifier.check(holding("f32[8@X,4@Y]"), x)


def test_per_device_code() -> None:
    def inside(type: str) -> Callable[[Any], Any]:
        return jax.shard_map(holding(type), mesh=MESH, in_specs=P("X"), out_specs=P("X"))

    x = struct((8, 4), P("X"))
    assert verifier.check(inside("f32[4,4]{V:X}"), x).verdict == "ok"
    with pytest.raises(WrongType, match=r"along X it is varying, not replicated"):
        verifier.check(inside("f32[4,4]"), x)


def test_arrays_outside_of_traced_code() -> None:
    x = jnp.ones((2, 2))
    assert assert_type(x, "f32[2,2]") is x
    with pytest.raises(WrongType):
        assert_type(x, "f32[2,2,1]")


@pytest.mark.parametrize(("type", "verdict"), [("f32[8,4]{U:X}", "ok"), ("f32[8,4]", "refused")])
def test_an_assertion_holds_where_jax_does_not_trace_the_types(type: str, verdict: str) -> None:
    """JAX has no rule for a pending sum times a number, so types are inferred, and held against what is asserted."""
    report = verifier.check(lambda x: assert_type(x * 2.0, type) * 3.0, struct((8, 4), P(unreduced={"X"})))
    assert report.verdict == verdict
    assert [refusal.code for refusal in report.refusals] == ["inconsistent-type"] * (verdict == "refused")


def test_a_type_is_text() -> None:
    with pytest.raises(TypeError, match="a type is asserted as text"):
        assert_type(jnp.ones(4), None)  # type: ignore[arg-type]
