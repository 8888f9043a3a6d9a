"""A Pallas attention kernel inside a transformer layer, through a `shard_map` with `check_vma=False`.

A kernel is opaque: look for its printed types among the notes, as *assumed*, with their number. Nothing stops there.
The layer around it is typed and priced as ever: all-reduces of activations over `model`, two forward and one backward,
and those of four weights' gradients over `data`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.experimental import pallas as pl
from jax.sharding import AbstractMesh, AxisType, NamedSharding, use_abstract_mesh
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh((512, 8), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
BATCH, LENGTH, WIDTH, HEADS, HEAD, HIDDEN = 1024, 2048, 2048, 16, 128, 8192
TILE = 256
HEADS_SPLIT = P("data", "model", None, None)
ACTIVATIONS = P("data", None, None)
OPTIMIZER = optax.adam(1e-4)


def kernel(query: Any, key: Any, value: Any, out: Any) -> None:
    """One tile of queries of one head, against all its keys."""
    scores = query[0, 0] @ key[0, 0].T * HEAD**-0.5
    weights = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
    out[0, 0] = weights @ value[0, 0] / weights.sum(axis=-1, keepdims=True)


def reference(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """What the kernel computes; blocks are [batch, head, time, channel]."""
    scores = jnp.einsum("bhtc,bhsc->bhts", query, key) * HEAD**-0.5
    return jnp.einsum("bhts,bhsc->bhtc", jax.nn.softmax(scores, axis=-1), value)


@jax.custom_vjp
def flash(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """The kernel over a grid of batches, heads and tiles of queries."""
    batch, heads, length, channels = query.shape
    tile = pl.BlockSpec((1, 1, TILE, channels), lambda b, h, t: (b, h, t, 0))
    whole = pl.BlockSpec((1, 1, length, channels), lambda b, h, t: (b, h, 0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(query.shape, query.dtype),
        grid=(batch, heads, length // TILE),
        in_specs=[tile, whole, whole],
        out_specs=tile,
        name="flash_attention",
    )(query, key, value)


def forward(*blocks: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """The kernel, and what its backward needs: the operands."""
    return flash(*blocks), blocks


def backward(blocks: tuple[jax.Array, ...], cotangent: jax.Array) -> tuple[jax.Array, ...]:
    """Attention again, in plain JAX, and its cotangents."""
    return jax.vjp(reference, *blocks)[1](cotangent)


flash.defvjp(forward, backward)


def layer(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Attention and an MLP, whose heads and hidden dim are cut over `model`."""
    query, key, value = jnp.einsum("btd,dnhc->nbhtc", x, weights["qkv"])
    # made at the call, since a shard_map keeps to the first mesh that it meets: a check here, a run there
    attention = jax.shard_map(flash, in_specs=(HEADS_SPLIT,) * 3, out_specs=HEADS_SPLIT, check_vma=False)
    heads = attention(query, key, value)
    x = x + jnp.einsum("bhtc,hcd->btd", heads, weights["output"], out_sharding=ACTIVATIONS)
    return x + jnp.einsum("btf,fd->btd", jax.nn.gelu(x @ weights["up"]), weights["down"], out_sharding=ACTIVATIONS)


def train_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step `(weights, state, x, y) -> (weights, state, loss)` and its abstract arguments."""

    def array(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))

    weights = {
        "qkv": array(WIDTH, 3, HEADS, HEAD, spec=P(None, None, "model", None)),
        "output": array(HEADS, HEAD, WIDTH, spec=P("model", None, None)),
        "up": array(WIDTH, HIDDEN, spec=P(None, "model")),
        "down": array(HIDDEN, WIDTH, spec=P("model", None)),
    }
    x = y = array(BATCH, LENGTH, WIDTH, spec=ACTIVATIONS)
    with use_abstract_mesh(MESH):
        state = jax.eval_shape(OPTIMIZER.init, weights)

    @jax.jit(donate_argnames=("weights", "state"))
    def step(
        weights: dict[str, jax.Array], state: optax.OptState, x: jax.Array, y: jax.Array
    ) -> tuple[dict[str, jax.Array], optax.OptState, jax.Array]:
        value, gradient = jax.value_and_grad(lambda weights: jnp.mean((layer(weights, x) - y) ** 2))(weights)
        updates, state = OPTIMIZER.update(gradient, state)
        return optax.apply_updates(weights, updates), state, value

    return step, (weights, state, x, y)


if __name__ == "__main__":
    step, arguments = train_step()
    print(verifier.check(step, *arguments))
