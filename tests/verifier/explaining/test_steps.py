"""Steps that have their gradient in them: of each collective of the backward pass, the weight whose gradient it sums.
Case 61: two layers, each weight cut in rows, f32[8,8] of 256 bytes; on one line of the author's, as people write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh((4,), ("X",), axis_types=(AxisType.Explicit,))
SQUARE = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(MESH, P("X", None)))


def implicit(a: Any, b: Any, x: Any) -> Any:
    return ((jnp.tanh(x @ a) @ b) ** 2).sum()


def reduced(a: Any, b: Any, x: Any) -> Any:
    how = P(None, None, reduced={"X"})
    return implicit(*(jax.sharding.reshard(a, how), jax.sharding.reshard(b, how)), x)


def looped(a: Any, b: Any, x: Any) -> Any:
    for weight in (a, b):
        x = jnp.tanh(x @ weight)
    return (x**2).sum()


@pytest.mark.parametrize("loss", [implicit, reduced, looped, jax.checkpoint(reduced)])
def test_each_gradient_is_that_of_its_own_weight(loss: Callable[..., Any]) -> None:
    """The backward pass comes to the later weight first."""
    with jax.sharding.use_abstract_mesh(MESH):
        found = verifier.explain(jax.grad(loss, argnums=(0, 1)), SQUARE, SQUARE, SQUARE, mesh=MESH)
    sums = [one for one in found.of("backward") if one.row.kind == "reduce-scatter"]
    assert [(one.row.value, one.row.bytes) for one in sums] == [("gradient of b", 256), ("gradient of a", 256)]
    assert [one.fact.value for one in sums if one.fact is not None] == ["b", "a"]


def layer(x: Any, weight: Any) -> Any:
    return jnp.tanh(x @ weight)


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint])
def test_a_layer_that_is_called_twice_has_the_weights_of_both_calls(wrap: Callable[..., Any]) -> None:
    """Both calls share one body, whose operands are those of either."""
    shared, whole = wrap(layer), jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(MESH, P()))

    def loss(weights: Any, x: Any) -> Any:
        return (shared(shared(x, weights["a"]), weights["b"]) ** 2).sum()

    with jax.sharding.use_abstract_mesh(MESH):
        found = verifier.explain(loss, {"a": whole, "b": whole}, SQUARE, mesh=MESH)
    sums = found.of("backward")
    named = ["gradient of weights['b']", "gradient of weights['a']"]
    assert [(one.row.kind, one.row.value) for one in sums] == [("all-reduce", one) for one in named]
    assert [one.fact.value for one in sums if one.fact is not None] == ["weights['b']", "weights['a']"]
