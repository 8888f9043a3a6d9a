"""Assertions about communication in people's own tests: what holds, what fails, and what a failure shows.

The steps are those of the page on explicit sharding (fifteen all-reduces, or one); a column-parallel product sums the
cotangent of its input over `model`, an FSDP product gathers its weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from examples import microbatches
from verifier import testing
from verifier.testing import Bytes, Communicates, assert_communication, at_most, exactly, no_collectives, nothing

MESH = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)


def array(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))


X, COLUMNS, SHARDS = array(8, 4, spec=P("data")), array(4, 4, spec=P(None, "model")), array(4, 4, spec=P("data"))


def product(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(x @ w)


@pytest.mark.parametrize(
    "backward",
    [
        {"X": {"all-reduce": 15}},
        exactly({"X": 15}),
        {("X",): {"all-reduce": Bytes(15 * 64)}},
        at_most({"X": {"all-reduce": 15, "all-gather": 2}}),
        at_most({"X": Bytes(1000)}),
    ],
)
def test_what_the_page_says_holds(backward: Any) -> None:
    step, arguments = microbatches.summed_each_time()
    assert_communication(step, arguments, forward=nothing, backward=backward, update=nothing)


@pytest.mark.parametrize(
    ("backward", "says"),
    [
        (nothing, "the backward pass communicates along X"),
        (nothing("X"), "the backward pass communicates along X"),
        ({"X": 14}, "the backward pass has 15 runs of collectives over X; expected: 14"),
        (at_most({"X": {"all-reduce": 14}}), "15 runs of all-reduce over X; expected: at most 14"),
        ({"X": Bytes(64)}, "the backward pass has 960 bytes of collectives over X; expected: 64"),
        ({"X": {"all-gather": 15}}, "the backward pass communicates what is not expected"),
    ],
)
def test_a_failure_shows_the_rows_that_are_extra(backward: Any, says: str) -> None:
    step, arguments = microbatches.summed_each_time()
    with pytest.raises(Communicates) as failed:
        assert_communication(step, arguments, backward=backward)
    assert says in str(failed.value)
    assert "weights is replicated along X: its gradient is summed in every iteration" in str(failed.value)
    assert len(failed.value.explanation.entries) == 1


def test_the_other_step_of_the_page() -> None:
    step, arguments = microbatches.accumulated()
    assert_communication(step, arguments, forward=nothing, backward=nothing, update={"X": {"all-reduce": 1}})


def test_what_is_missing_fails() -> None:
    with pytest.raises(Communicates, match="0 runs of collectives over model; expected: 1"):
        assert_communication(product, (X, COLUMNS), forward={"model": 1})


def test_the_backward_pass_is_derived_where_there_is_none() -> None:
    assert_communication(product, (X, COLUMNS), forward=nothing, backward={"model": {"all-reduce": 1}})
    assert_communication(product, (X, COLUMNS), wrt="w", backward={"data": {"all-reduce": 1}})


def test_what_the_types_do_not_determine_is_not_guaranteed() -> None:
    """Two dims move at once: a partitioner searches. Along an axis that neither type mentions there is no doubt."""

    def swap(x: jax.Array) -> jax.Array:
        moved: jax.Array = jax.reshard(x, P("model", "data"))
        return moved

    moving = array(8, 8, spec=P("data", "model"))
    for asked in (nothing, nothing("data"), at_most({"data": 9, "model": 9})):
        with pytest.raises(Communicates, match="not guaranteed"):
            assert_communication(swap, (moving,), forward=asked)


def test_a_decorated_function_is_held_when_it_is_traced() -> None:
    fsdp = no_collectives("data")(product)
    with jax.sharding.use_abstract_mesh(MESH):
        assert jax.eval_shape(no_collectives()(product), X, COLUMNS).shape == (8, 4)
        with pytest.raises(Communicates, match="all-gather over data  w  64 bytes"):
            jax.jit(fsdp).trace(X, SHARDS)
        jax.jit(no_collectives("model")(product)).trace(X, SHARDS)
        with pytest.raises(Communicates, match="the backward pass communicates along model"):
            jax.jit(no_collectives("model", backward=True)(product)).trace(X, COLUMNS)


def summed(x: jax.Array) -> jax.Array:
    total: jax.Array = jax.lax.psum(x, "data")
    return total


def local(x: jax.Array) -> jax.Array:
    return x * jax.lax.axis_index("data")


def test_per_device_code_is_held_too() -> None:
    def around(f: Callable[..., Any], out: P) -> Any:
        return jax.make_jaxpr(jax.shard_map(f, in_specs=P("data"), out_specs=out))(X)

    with jax.sharding.use_abstract_mesh(MESH):
        around(no_collectives()(local), P("data"))
        with pytest.raises(Communicates, match="all-reduce over data"):
            around(no_collectives("data")(summed), P())


def jax_accepts(f: Callable[..., Any], *arguments: Any) -> bool:
    """Whether JAX's own `no_collectives` lets a function pass."""
    with jax.sharding.use_abstract_mesh(MESH), jax.sharding.no_collectives({"data"}):
        try:
            jax.jit(f).trace(*arguments)
        except Exception:  # noqa: BLE001  # whatever it raises, it does not let it pass
            return False
    return True


@pytest.mark.skipif(not hasattr(jax.sharding, "no_collectives"), reason="this release has no no_collectives")
@pytest.mark.parametrize(
    ("f", "arguments"),
    [
        (product, (X, SHARDS)),
        (lambda x: x[1:5], (X,)),
        (lambda x: jnp.concatenate([x, x]), (X,)),
    ],
    ids=["fsdp", "slice", "concatenate"],
)
def test_what_jax_lets_pass_and_xla_moves_is_refused(f: Callable[..., Any], arguments: Any) -> None:
    if not jax_accepts(f, *arguments):
        pytest.fail("JAX refuses it now: this is no example any more")
    with jax.sharding.use_abstract_mesh(MESH), pytest.raises(Communicates):
        jax.eval_shape(no_collectives("data")(f), *arguments)


@pytest.mark.parametrize(
    "call",
    [
        lambda: assert_communication(product, X),  # type: ignore[arg-type]
        lambda: assert_communication(product, (X, COLUMNS), forward=3),
        lambda: assert_communication(product, (X, COLUMNS), forward={"data": True}),
        lambda: assert_communication(product, (X, COLUMNS), forward={3: 1}),
        lambda: no_collectives(product),  # type: ignore[arg-type]
        lambda: at_most({"data": 1})("data"),
        lambda: at_most(5),  # type: ignore[arg-type]
        lambda: assert_communication(product, (X, COLUMNS), forward={"data": at_most({"data": 5})}),
    ],
)
def test_misuse_is_a_type_error(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()


def test_misspelt_words_are_said() -> None:
    with pytest.raises(ValueError, match="'allreduce' is no kind of collective"):
        assert_communication(product, (X, COLUMNS), forward={"data": {"allreduce": 1}})
    for asked in (nothing("modle"), {"modle": 0}, at_most({("data", "modle"): 3})):
        with pytest.raises(ValueError, match="there is no mesh axis modle: there are data, model"):
            assert_communication(product, (X, COLUMNS), forward=asked)


def test_what_is_not_well_typed_fails() -> None:
    with pytest.raises(AssertionError, match="unsound"):
        assert_communication(jnp.cos, (array(4, spec=P(unreduced={"data"})),), forward=nothing)


def test_types_are_asserted_by_the_same_function() -> None:
    assert testing.assert_type is verifier.assert_type
    assert testing.WrongType is verifier.WrongType


@jax.custom_vjp
def totalled(x: jax.Array) -> jax.Array:
    return x * 2


def _twice(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x * 2, x


def _by_total(x: jax.Array, ct: jax.Array) -> tuple[jax.Array]:
    return (ct * x.sum(0)[None],)


totalled.defvjp(_twice, _by_total)


def test_what_only_the_derivative_is_computed_from_belongs_to_the_backward_pass() -> None:
    """JAX's gradient of a maximum counts where it occurs; that of a product gathers the factors; a rule of one's own
    may add up what it has kept. XLA moves that, though no cotangent is moved (measured)."""
    for function, forward, backward in (
        (totalled, nothing, {"data": {"all-reduce": Bytes(16)}}),
        (lambda x: x.max(0), {"data": {"all-reduce": Bytes(16)}}, {"data": {"all-reduce": Bytes(16)}}),
        (lambda x: jnp.prod(x, 0), {"data": {"all-reduce": 1}}, {"data": {"all-gather": Bytes(128)}}),
        (lambda x: x.sum(0), {"data": {"all-reduce": 1}}, nothing),
        (jnp.sin, nothing, nothing),
    ):
        found = assert_communication(function, (X,), forward=forward, backward=backward)
        assert {one.fact.state for one in found.of("backward") if one.fact is not None} <= {"beside"}


@jax.custom_vjp
def gathered_back(x: jax.Array) -> jax.Array:
    return x * 2


def _by_gathering(_: None, ct: jax.Array) -> tuple[jax.Array]:
    return (jax.reshard(jax.reshard(ct, P()) * 2, P("data")),)


gathered_back.defvjp(lambda x: (x * 2, None), _by_gathering)


def test_what_a_backward_rule_does_itself_stands_where_it_is_called() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return gathered_back(x).sum()

    found = assert_communication(loss, (X,), backward={"data": {"all-gather": 1}})
    (row,) = found.of("backward")
    assert row.fact is not None
    assert row.fact.state == "rule"
    who = "the backward rule of gathered_back (custom_vjp)"
    assert row.fact.says == f"{who} communicates along data itself: its reshard does"
    assert row.row.where.endswith(f"test_testing.py:{loss.__code__.co_firstlineno + 1}")
