"""The microbatch step of JAX's page on explicit sharding: one all-reduce outside the loops, or one inside both.

Five microbatches go through three layers, data parallel. `accumulated` casts the weights to *reduced* first and adds
up gradients that are *unreduced*: one all-reduce at the end. `summed_each_time` leaves the weights replicated, so that
each layer's gradient of each microbatch is summed over all devices: fifteen times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh((4096,), ("X",), axis_types=(AxisType.Explicit,))
LAYERS, WIDTH, MICROBATCHES, BATCH = 3, 4, 5, 8192


def loss(weights: jax.Array, x: jax.Array) -> jax.Array:
    """The sum of squares behind all layers."""
    x, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)
    return jnp.sum(x**2)


def gradients(weights: jax.Array, start: jax.Array, batches: jax.Array) -> jax.Array:
    """The sum of the gradients of all microbatches."""
    return jax.lax.scan(lambda total, x: (total + jax.grad(loss)(weights, x), None), start, batches)[0]


def step_accumulated(weights: jax.Array, batches: jax.Array) -> jax.Array:
    """Gradients stay pieces until all are added up."""
    start = jax.reshard(jnp.zeros(weights.shape), P(unreduced={"X"}))
    used = jax.reshard(weights, P(None, None, None, reduced={"X"}))
    return jax.reshard(gradients(used, start, batches), P())


def step_summed_each_time(weights: jax.Array, batches: jax.Array) -> jax.Array:
    """Each gradient is whole."""
    return gradients(weights, jnp.zeros(weights.shape), batches)


def arguments() -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    """Weights that every device has, and microbatches that are cut over all devices."""
    return (
        jax.ShapeDtypeStruct((LAYERS, WIDTH, WIDTH), jnp.float32, sharding=NamedSharding(MESH, P())),
        jax.ShapeDtypeStruct(
            (MICROBATCHES, BATCH, WIDTH), jnp.float32, sharding=NamedSharding(MESH, P(None, "X", None))
        ),
    )


def accumulated() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """One all-reduce, outside both loops."""
    return step_accumulated, arguments()


def summed_each_time() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """One all-reduce inside both loops."""
    return step_summed_each_time, arguments()


if __name__ == "__main__":
    for variant in (accumulated, summed_each_time):
        step, given = variant()
        print(f"{variant.__name__}\n{verifier.check(step, *given)}\n")
