"""A flax linen transformer with dropout and a clipped `optax.adamw`: explicit data parallelism, and auto mode.

Look at `data_parallel`: most equations have no line of their own here, they come from linen and optax, and yet every
all-reduce but the loss's is the gradient of a parameter that has a path. In `automatic` every axis is auto: types say
nothing about the mesh, the compiler decides what communicates, and the report says so first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jax.sharding import AbstractMesh, AxisType, NamedSharding, use_abstract_mesh
from jax.sharding import PartitionSpec as P

import verifier

BATCH, LENGTH, VOCABULARY, WIDTH, HEADS, LAYERS = 4096, 128, 1024, 256, 8, 2
OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4))


class Dropout(nn.Module):
    """Dropout whose mask is laid out like its operand: explicit sharding refuses the whole mask of `nn.Dropout`."""

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        keep = jax.random.bernoulli(
            self.make_rng("dropout"), 1 - self.rate, x.shape, out_sharding=jax.typeof(x).sharding
        )
        return jnp.where(keep, x / (1 - self.rate), 0)


class Block(nn.Module):
    """Causal attention and an MLP, each after a LayerNorm, each with dropout."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        attention = nn.MultiHeadDotProductAttention(num_heads=HEADS, dropout_rate=0.1, deterministic=False)
        x = x + attention(nn.LayerNorm()(x), mask=nn.make_causal_mask(jnp.ones((1, LENGTH))))
        h = nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x))))
        return x + Dropout(0.1)(h)


class Transformer(nn.Module):
    """Token and position embeddings, the blocks, and logits."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Dense(WIDTH, use_bias=False, name="embedding")(jax.nn.one_hot(tokens, VOCABULARY))
        x = x + self.param("positions", nn.initializers.normal(0.02), (LENGTH, WIDTH))
        for layer in range(LAYERS):
            x = Block(name=f"layer_{layer}")(x)
        return nn.Dense(VOCABULARY, use_bias=False, name="logits")(nn.LayerNorm()(x))


def train_step(mesh: AbstractMesh, spec: P) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step `(variables, state, key, tokens) -> (variables, state, loss)` and its abstract arguments."""
    model = Transformer()
    tokens = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32, sharding=NamedSharding(mesh, spec))
    key = jax.eval_shape(jax.random.key, 0)
    with use_abstract_mesh(mesh):
        variables = jax.eval_shape(model.init, {"params": key, "dropout": key}, tokens)
        state = jax.eval_shape(OPTIMIZER.init, variables)

    def loss(variables: Any, key: jax.Array, tokens: jax.Array) -> jax.Array:
        logits = model.apply(variables, tokens, rngs={"dropout": key})
        targets = jax.nn.one_hot(jnp.roll(tokens, -1, axis=1), VOCABULARY)
        return optax.softmax_cross_entropy(logits, targets).mean()

    @jax.jit(donate_argnames=("variables", "state"))
    def step(variables: Any, state: Any, key: jax.Array, tokens: jax.Array) -> tuple[Any, Any, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(variables, key, tokens)
        updates, state = OPTIMIZER.update(gradient, state, variables)
        return optax.apply_updates(variables, updates), state, value

    return step, (variables, state, key, tokens)


def data_parallel() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The batch is cut 4096 ways, in types."""
    mesh = AbstractMesh((512, 8), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    return train_step(mesh, P(("data", "model"), None))


def automatic() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The same step on a mesh whose axes are all auto: types are plain."""
    mesh = AbstractMesh((512, 8), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    return train_step(mesh, P(("data", "model"), None))


if __name__ == "__main__":
    for variant in (data_parallel, automatic):
        step, arguments = variant()
        print(f"{variant.__name__}\n{verifier.check(step, *arguments)}\n")
