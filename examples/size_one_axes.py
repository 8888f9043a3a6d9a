"""One program for every mesh: axes that a run does not use have size 1, as configuration files have it.

The types are the same on all meshes, and so is the verdict. Compare what communicates. On (512, 1, 8) the gathers over
`fsdp` are no rows at all, and each gradient is one all-reduce over `data`. On (1, 64, 8) weights are gathered, and
gradients scattered, over `fsdp`. On one device, (1, 1, 1), nothing communicates.
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

BATCH, WIDTH, HIDDEN = 4096, 2048, 8192
ROWS = P(("data", "fsdp"), None)
UP, DOWN = P("fsdp", "model"), P("model", "fsdp")
OPTIMIZER = optax.adam(1e-3)


def gather(weight: jax.Array, spec: P) -> jax.Array:
    """A weight at its use: whole over `fsdp`, and reduced over the axes of the batch."""
    whole = (None if axis == "fsdp" else axis for axis in spec)
    return jax.reshard(weight, P(*whole, reduced={"data", "fsdp"}))


def loss(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error of an MLP."""
    hidden = jax.nn.relu(x @ gather(params["up"], UP))
    out = jnp.einsum("bh,hd->bd", hidden, gather(params["down"], DOWN), out_sharding=ROWS)
    return jnp.mean((out - y) ** 2)


def train_step(data: int, fsdp: int, model: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step `(params, state, x, y) -> (params, state, loss)` and its abstract arguments, on a mesh."""
    mesh = AbstractMesh((data, fsdp, model), ("data", "fsdp", "model"), axis_types=(AxisType.Explicit,) * 3)

    def array(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))

    params = {"up": array(WIDTH, HIDDEN, spec=UP), "down": array(HIDDEN, WIDTH, spec=DOWN)}
    x = y = array(BATCH, WIDTH, spec=ROWS)
    with use_abstract_mesh(mesh):
        state = jax.eval_shape(OPTIMIZER.init, params)

    @jax.jit(donate_argnames=("params", "state"))
    def step(
        params: dict[str, jax.Array], state: optax.OptState, x: jax.Array, y: jax.Array
    ) -> tuple[dict[str, jax.Array], optax.OptState, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(params, x, y)
        updates, state = OPTIMIZER.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    return step, (params, state, x, y)


def replicas() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """512 replicas of 8 chips."""
    return train_step(512, 1, 8)


def shards() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """64 shards of 8 chips."""
    return train_step(1, 64, 8)


def one_device() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A laptop."""
    return train_step(1, 1, 1)


if __name__ == "__main__":
    for variant in (replicas, shards, one_device):
        step, arguments = variant()
        print(f"{variant.__name__}\n{verifier.check(step, *arguments)}\n")
