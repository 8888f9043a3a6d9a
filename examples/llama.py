"""A Llama in plain JAX: fsdp and tensor parallelism, a scan over layers with remat, a scan over microbatches.

Weights live in float32 shards over `data` and `model`. To use one, a chip casts it to bfloat16 and gathers it over
`data`, as *reduced*, so that its gradient stays *unreduced* until it is scattered back. Compare the two reports:
`gather_each_time` holds one layer at a time, and communicates its weights three times per microbatch (forward, again
under remat, gradient); `gather_once` holds the model's `model` share, and communicates every weight twice per step.
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

MESH = AbstractMesh((512, 8), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
FEW = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
LAYERS, WIDTH, GROUPS, QUERIES, HEAD, HIDDEN, VOCABULARY = 32, 4096, 8, 4, 128, 14336, 32768
MICROBATCHES, BATCH, LENGTH = 4, 1024, 2048
OPTIMIZER = optax.adamw(3e-4)

#: of one layer: shapes, and where the shards are
LAYER: dict[str, tuple[tuple[int, ...], P]] = {
    "attention_norm": ((WIDTH,), P(None)),
    "query": ((WIDTH, GROUPS, QUERIES, HEAD), P("data", "model", None, None)),
    "key": ((WIDTH, GROUPS, HEAD), P("data", "model", None)),
    "value": ((WIDTH, GROUPS, HEAD), P("data", "model", None)),
    "output": ((GROUPS, QUERIES, HEAD, WIDTH), P("model", None, None, "data")),
    "mlp_norm": ((WIDTH,), P(None)),
    "gate": ((WIDTH, HIDDEN), P("data", "model")),
    "up": ((WIDTH, HIDDEN), P("data", "model")),
    "down": ((HIDDEN, WIDTH), P("model", "data")),
}
ENDS: dict[str, tuple[tuple[int, ...], P]] = {
    "embedding": ((VOCABULARY, WIDTH), P("model", "data")),
    "final_norm": ((WIDTH,), P(None)),
    "logits": ((WIDTH, VOCABULARY), P("data", "model")),
}
ACTIVATIONS = P("data", None, None)
#: activations on their way into several column-parallel weights: reduced, so that the cotangents add before their sum
SPLIT = P("data", None, None, reduced={"model"})


def whole(spec: P, **state: Any) -> P:
    """The spec without `data`, in which the axis is reduced or unreduced instead."""
    return P(*(None if axis == "data" else axis for axis in spec.partitions), **state)


def gather(weights: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Weights in bfloat16, gathered over `data`, as reduced. Norms are whole already; those that are gathered pass."""

    def one(weight: jax.Array) -> jax.Array:
        spec = jax.typeof(weight).sharding.spec
        if "data" not in spec.partitions:
            return weight
        return jax.reshard(weight.astype(jnp.bfloat16), whole(spec, reduced={"data"}))

    return jax.tree.map(one, weights)


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMS norm, in float32."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide**2, axis=-1, keepdims=True) + 1e-6) * scale).astype(x.dtype)


def rotate(x: jax.Array) -> jax.Array:
    """Rotary positions on the last dim of [batch, length, ..., head]."""
    angles = jnp.arange(LENGTH)[:, None] * 500000.0 ** (-jnp.arange(0, HEAD, 2) / HEAD)
    angles = angles.reshape(1, LENGTH, *[1] * (x.ndim - 3), HEAD // 2)
    left, right = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1).astype(x.dtype)


def layer(x: jax.Array, weights: dict[str, jax.Array]) -> jax.Array:
    """Grouped-query attention and a gated MLP. Heads and hidden dim are cut over `model`: two all-reduces forward."""
    weights = gather(weights)
    h = jax.reshard(norm(x, weights["attention_norm"]), SPLIT)
    query = rotate(jnp.einsum("btd,dgqh->btgqh", h, weights["query"]))
    key = rotate(jnp.einsum("btd,dgh->btgh", h, weights["key"]))
    value = jnp.einsum("btd,dgh->btgh", h, weights["value"])
    scores = jnp.einsum("btgqh,bsgh->bgqts", query, key).astype(jnp.float32) * HEAD**-0.5
    causal = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), 0.0, -jnp.inf)
    seen = jax.nn.softmax(scores + causal[None, None, None], axis=-1).astype(x.dtype)
    heads = jnp.einsum("bgqts,bsgh->btgqh", seen, value)
    x = x + jnp.einsum("btgqh,gqhd->btd", heads, weights["output"], out_sharding=ACTIVATIONS)
    h = jax.reshard(norm(x, weights["mlp_norm"]), SPLIT)
    hidden = jax.nn.silu(h @ weights["gate"]) * (h @ weights["up"])
    return x + jnp.einsum("bth,hd->btd", hidden, weights["down"], out_sharding=ACTIVATIONS)


def loss(params: dict[str, Any], tokens: jax.Array) -> jax.Array:
    """The mean cross entropy of each next token."""
    ends = gather({name: params[name] for name in ENDS})
    words = jax.nn.one_hot(tokens, VOCABULARY, dtype=jnp.bfloat16)
    words = jax.reshard(words, P("data", None, "model"))
    x = jnp.einsum("btv,vd->btd", words, ends["embedding"], out_sharding=ACTIVATIONS)
    x, _ = jax.lax.scan(lambda x, weights: (jax.checkpoint(layer)(x, weights), None), x, params["layers"])
    logits = (norm(x, ends["final_norm"]) @ ends["logits"]).astype(jnp.float32)
    targets = jnp.roll(words, -1, axis=1)
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * targets, axis=-1))


def train_step(
    once: bool, layers: int = LAYERS, batch: int = BATCH, mesh: AbstractMesh = MESH
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step `(params, state, tokens) -> (params, state, loss)` and its abstract arguments."""

    def array(shape: tuple[int, ...], spec: P, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    params: dict[str, Any] = {name: array(shape, spec) for name, (shape, spec) in ENDS.items()}
    params["layers"] = {name: array((layers, *shape), P(None, *spec)) for name, (shape, spec) in LAYER.items()}
    with use_abstract_mesh(mesh):
        state = jax.eval_shape(OPTIMIZER.init, params)

    @jax.jit(donate_argnames=("params", "state"))
    def step(
        params: dict[str, Any], state: optax.OptState, tokens: jax.Array
    ) -> tuple[dict[str, Any], optax.OptState, jax.Array]:
        used = gather(params) if once else params

        def microbatch(sums: Any, tokens: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, jax.value_and_grad(loss)(used, tokens)[::-1]), None

        sums = jax.tree.map(like_gradient, used), jnp.zeros(())
        (gradient, total), _ = jax.lax.scan(microbatch, sums, tokens)
        gradient = jax.tree.map(lambda g, w: jax.reshard(g, jax.typeof(w).sharding) / MICROBATCHES, gradient, params)
        updates, state = OPTIMIZER.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, total / MICROBATCHES

    return step, (params, state, array((MICROBATCHES, batch, LENGTH), P(None, "data", None), jnp.int32))


def like_gradient(weight: jax.Array) -> jax.Array:
    """Float32 zeros, placed like a weight's gradient: unreduced where the weight is reduced."""
    spec = jax.typeof(weight).sharding.spec
    return jax.reshard(jnp.zeros(weight.shape), P(*spec.partitions, unreduced=spec.reduced))


def gather_each_time() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Each layer gathers its weights when it runs."""
    return train_step(once=False)


def gather_once() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """All weights are gathered before the microbatches, and all gradients scattered after them."""
    return train_step(once=True)


def two_layers_gather_each_time() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """At full width with two layers and eight sequences, which eight chips have memory for."""
    return train_step(once=False, layers=2, batch=8, mesh=FEW)


def two_layers_gather_once() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Likewise, with all weights gathered before the microbatches."""
    return train_step(once=True, layers=2, batch=8, mesh=FEW)


if __name__ == "__main__":
    for variant in (gather_each_time, gather_once, two_layers_gather_each_time, two_layers_gather_once):
        step, arguments = variant()
        print(f"{variant.__name__}\n{verifier.check(step, *arguments)}\n")
