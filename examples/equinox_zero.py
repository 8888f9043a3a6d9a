"""An equinox residual network, vmapped over its batch, whose optimizer state alone is sharded (ZeRO, stage 1).

Parameters are whole on every chip. The step reads matrices as *reduced*, so their gradients stay *unreduced* and are
reduced and scattered in one; adam runs on shards; updated parameters are gathered. Look for one reduce-scatter and one
all-gather per matrix, half the wire of an all-reduce each, and an all-reduce for each small vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, use_abstract_mesh
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh((4096,), ("data",), axis_types=(AxisType.Explicit,))
BATCH, WIDTH, DEPTH, CLASSES = 8192, 4096, 3, 8192
OPTIMIZER = optax.adam(1e-3)


class Residual(eqx.Module):
    """x + dropout(gelu(linear(norm(x)))), for one example."""

    norm: eqx.nn.LayerNorm
    linear: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key: jax.Array) -> None:
        self.norm = eqx.nn.LayerNorm(WIDTH)
        self.linear = eqx.nn.Linear(WIDTH, WIDTH, key=key)
        self.dropout = eqx.nn.Dropout(0.1)

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        return x + self.dropout(jax.nn.gelu(self.linear(self.norm(x))), key=key)


class Network(eqx.Module):
    """Residual layers and logits, for one example."""

    layers: list[Residual]
    logits: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        *keys, last = jax.random.split(key, DEPTH + 1)
        self.layers = [Residual(key) for key in keys]
        self.logits = eqx.nn.Linear(WIDTH, CLASSES, use_bias=False, key=last)

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        for layer, own in zip(self.layers, jax.random.split(key, DEPTH), strict=True):
            x = layer(x, own)
        return self.logits(x)


def placed(tree: Any, spec: P) -> Any:
    """A tree of arrays with its matrices placed by `spec`, and everything else as it is."""
    return jax.tree.map(lambda leaf: jax.reshard(leaf, spec) if leaf.ndim == 2 else leaf, tree)


def zero() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step `(params, state, key, x, y) -> (params, state, loss)` and its abstract arguments."""
    key = jax.eval_shape(jax.random.key, 0)
    x = jax.ShapeDtypeStruct((BATCH, WIDTH), jnp.float32, sharding=NamedSharding(MESH, P("data", None)))
    y = jax.ShapeDtypeStruct((BATCH,), jnp.int32, sharding=NamedSharding(MESH, P("data")))
    with use_abstract_mesh(MESH):
        model = eqx.filter_eval_shape(Network, key)
        params, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
        state = jax.eval_shape(lambda params: OPTIMIZER.init(placed(params, P("data", None))), params)

    def loss(params: Network, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        keys = jax.reshard(jax.random.split(key, BATCH), P("data"))
        logits = jax.vmap(eqx.combine(params, static))(x, keys)
        return optax.softmax_cross_entropy(logits, jax.nn.one_hot(y, CLASSES)).mean()

    @jax.jit(donate_argnames=("params", "state"))
    def step(
        params: Network, state: optax.OptState, key: jax.Array, x: jax.Array, y: jax.Array
    ) -> tuple[Network, optax.OptState, jax.Array]:
        reduced = placed(params, P(None, None, reduced={"data"}))
        value, gradient = jax.value_and_grad(loss)(reduced, key, x, y)
        gradient = placed(gradient, P("data", None))
        updates, state = OPTIMIZER.update(gradient, state)
        params = optax.apply_updates(placed(params, P("data", None)), updates)
        return placed(params, P(None, None)), state, value

    return step, (params, state, key, x, y)


if __name__ == "__main__":
    step, arguments = zero()
    print(verifier.check(step, *arguments))
