"""Ring attention in a `shard_map`: sequences are cut over `context`, and keys and values travel once around the ring.

Look for the collective-permutes inside the scan, eight turns each, two forward and two backward. Around the
`shard_map`, in explicit mode, each weight's gradient is finished over `context` and over `data`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, use_abstract_mesh
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh((512, 8), ("data", "context"), axis_types=(AxisType.Explicit,) * 2)
BATCH, LENGTH, WIDTH, HEADS, HEAD = 1024, 32768, 1024, 8, 128
BLOCKS = P("data", "context", None, None)
OPTIMIZER = optax.adam(1e-4)


def ring_attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Softmax attention of this chip's queries to all keys of the ring; blocks are [batch, time, head, channel]."""
    chips = jax.lax.axis_size("context")
    ring = [(chip, (chip + 1) % chips) for chip in range(chips)]

    def turn(carry: Any, _: None) -> tuple[Any, None]:
        key, value, peak, total, out = carry
        scores = jnp.einsum("bthc,bshc->bhts", query, key) * HEAD**-0.5
        higher = jnp.maximum(peak, scores.max(axis=-1))
        weights = jnp.exp(scores - higher[..., None])
        decay = jnp.exp(peak - higher)
        total = total * decay + weights.sum(axis=-1)
        out = out * decay[..., None] + jnp.einsum("bhts,bshc->bhtc", weights, value)
        key, value = jax.lax.ppermute((key, value), "context", ring)
        return (key, value, higher, total, out), None

    out = jnp.zeros_like(query).swapaxes(1, 2)
    total = out[..., 0]
    (_, _, _, total, out), _ = jax.lax.scan(turn, (key, value, total - jnp.inf, total, out), length=chips)
    return (out / total[..., None]).swapaxes(1, 2)


def loss(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error of one attention layer."""
    query, key, value = (jnp.einsum("btd,dhc->bthc", x, params[name]) for name in ("query", "key", "value"))
    # made at the call, since a shard_map keeps to the first mesh that it meets: a check here, a run there
    attention = jax.shard_map(ring_attention, in_specs=(BLOCKS, BLOCKS, BLOCKS), out_specs=BLOCKS)
    heads = attention(query, key, value)
    return jnp.mean((jnp.einsum("bthc,hcd->btd", heads, params["output"]) - y) ** 2)


def train_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step `(params, state, x, y) -> (params, state, loss)` and its abstract arguments."""

    def array(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))

    params = {name: array(WIDTH, HEADS, HEAD, spec=P(None, None, None)) for name in ("query", "key", "value")}
    params["output"] = array(HEADS, HEAD, WIDTH, spec=P(None, None, None))
    x = y = array(BATCH, LENGTH, WIDTH, spec=P("data", "context", None))
    with use_abstract_mesh(MESH):
        state = jax.eval_shape(OPTIMIZER.init, params)

    @jax.jit(donate_argnames=("params", "state"))
    def step(
        params: dict[str, jax.Array], state: optax.OptState, x: jax.Array, y: jax.Array
    ) -> tuple[dict[str, jax.Array], optax.OptState, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(params, x, y)
        updates, state = OPTIMIZER.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    return step, (params, state, x, y)


if __name__ == "__main__":
    step, arguments = train_step()
    print(verifier.check(step, *arguments))
