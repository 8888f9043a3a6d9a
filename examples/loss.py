"""A loss whose weight is used as *reduced*, which is free: its gradient is summed over devices once, where the cast is.

`shardproof grad examples.loss:loss_and_arguments` prints the gradient and what it communicates. JAX traces the loss
alone; its backward program follows from the types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh((2,), ("X",), axis_types=(AxisType.Explicit,))


def array(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
    """The shape of an array that is nowhere yet."""
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))


def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """The sum of squares of a linear layer, the batch cut over X."""
    weight = jax.reshard(params["w"], P(None, None, reduced={"X"}))
    return jnp.sum((x @ weight) ** 2)


ARGUMENTS = {"w": array(4, 2, spec=P(None, None))}, array(8, 4, spec=P("X", None))


def loss_and_arguments() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The loss `(params, x) -> number`, and its abstract arguments."""
    return loss, ARGUMENTS


if __name__ == "__main__":
    print(verifier.check(loss, *ARGUMENTS).backward())
