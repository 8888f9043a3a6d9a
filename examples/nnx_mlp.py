"""A flax nnx MLP with biases, LayerNorm and dropout, trained with `optax.adamw`, in three layouts over 512 x 8 chips.

Look at the rows of the gradients. `data_parallel` finishes every parameter's gradient in an all-reduce. `fsdp` keeps
parameters and optimizer state in shards: each kernel is gathered once, and its gradient, which stays unreduced, is
reduced and scattered in one. `tensor_parallel` adds one all-reduce of activations over `model` in each direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import AbstractMesh, AxisType, NamedSharding, use_abstract_mesh
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh((512, 8), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
BATCH, WIDTH, HIDDEN, CLASSES = 8192, 4096, 16384, 512
OPTIMIZER = optax.adamw(1e-3)
WHOLE = P()


@dataclass(frozen=True)
class Layout:
    """Where things are: the batch, the two kernels, the bias between them; and the kernels when they are used."""

    batch: Any
    up: P = WHOLE
    bias: P = WHOLE
    down: P = WHOLE
    gathered: P | None = None


class MLP(nnx.Module):
    """LayerNorm, up, GELU, dropout, down."""

    def __init__(self, layout: Layout, rngs: nnx.Rngs) -> None:
        self.layout = layout
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(
            WIDTH,
            HIDDEN,
            kernel_metadata={"out_sharding": layout.up},
            bias_metadata={"out_sharding": layout.bias},
            rngs=rngs,
        )
        self.dropout = nnx.Dropout(0.1)
        self.down = nnx.Linear(HIDDEN, CLASSES, kernel_metadata={"out_sharding": layout.down}, rngs=rngs)

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        x = nnx.gelu(self.up(self.norm(x)))
        x = self.dropout(x, rngs=key)
        return self.down(x, out_sharding=P(self.layout.batch, None))


def train_step(layout: Layout) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step `(params, state, key, x, y) -> (params, state, loss)` and its abstract arguments."""

    def array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        spec = P(layout.batch, *[None] * (len(shape) - 1))
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, spec))

    with use_abstract_mesh(MESH):
        model = nnx.eval_shape(lambda: MLP(layout, nnx.Rngs(0)))
        graph, params = nnx.split(model)
        state = jax.eval_shape(OPTIMIZER.init, params)

    def gathered(weight: jax.Array) -> jax.Array:
        return weight if layout.gathered is None or weight.ndim < 2 else jax.reshard(weight, layout.gathered)

    def loss(params: nnx.State, key: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        logits = nnx.merge(graph, jax.tree.map(gathered, params))(x, key)
        return optax.softmax_cross_entropy(logits, jax.nn.one_hot(y, CLASSES)).mean()

    @jax.jit(donate_argnames=("params", "state"))
    def step(
        params: nnx.State, state: optax.OptState, key: jax.Array, x: jax.Array, y: jax.Array
    ) -> tuple[nnx.State, optax.OptState, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(params, key, x, y)
        updates, state = OPTIMIZER.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    key = jax.eval_shape(jax.random.key, 0)
    return step, (params, state, key, array(BATCH, WIDTH), array(BATCH, dtype=jnp.int32))


def data_parallel() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Every chip holds all parameters; the batch is cut 4096 ways."""
    return train_step(Layout(batch=("data", "model")))


def fsdp() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Kernels live in 4096 shards. At their use they are gathered, as *reduced*, so that gradients scatter."""
    chips = ("data", "model")
    shards = P(chips, None)
    return train_step(Layout(batch=chips, up=shards, down=shards, gathered=P(None, None, reduced=set(chips))))


def tensor_parallel() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The hidden dim is cut over `model`, the batch over `data`."""
    return train_step(Layout(batch="data", up=P(None, "model"), bias=P("model"), down=P("model", None)))


if __name__ == "__main__":
    for variant in (data_parallel, fsdp, tensor_parallel):
        step, arguments = variant()
        print(f"{variant.__name__}\n{verifier.check(step, *arguments)}\n")
