"""One step in three modes: `pod` is manual, `data` explicit, `model` auto.

Pods are joined by a slow network, so the step sums gradients over them by hand, in bfloat16, in a `shard_map` over
`pod` alone. Inside, types track the batch over `data`, and the compiler is free along `model`, but for one constraint.
Look at the mesh in the first lines, at the all-reduces over `data` that types decide and those over `pod` that the
program asks for, at half the bytes; what happens along `model` is marked as the compiler's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh(
    (4, 128, 8), ("pod", "data", "model"), axis_types=(AxisType.Explicit, AxisType.Explicit, AxisType.Auto)
)
BATCH, WIDTH, HIDDEN = 4096, 2048, 8192


def loss(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error of an MLP whose hidden dim the compiler is asked to cut over `model`."""
    hidden = jax.nn.gelu(x @ params["up"])
    hidden = jax.lax.with_sharding_constraint(hidden, P(None, "model"))
    return jnp.mean((hidden @ params["down"] - y) ** 2)


def across_pods(gradient: jax.Array) -> jax.Array:
    """The mean over pods, sent as bfloat16."""
    return jax.lax.pmean(gradient.astype(jnp.bfloat16), "pod").astype(gradient.dtype)


def gradient(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Loss and gradient of one pod, averaged over all. Without the cast, each backward product would sum over `pod`."""
    mine = jax.lax.pcast(params, "pod", to="varying")
    value, gradient = jax.value_and_grad(loss)(mine, x, y)
    return jax.lax.pmean(value, "pod"), jax.tree.map(across_pods, gradient)


def train_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step `(params, x, y) -> (params, loss)` and its abstract arguments."""

    def array(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))

    params = {"up": array(WIDTH, HIDDEN, spec=P(None, None)), "down": array(HIDDEN, WIDTH, spec=P(None, None))}
    x = y = array(BATCH, WIDTH, spec=P(("pod", "data"), None))

    @jax.jit(donate_argnames="params")
    def step(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        # made at the call, since a shard_map keeps to the first mesh that it meets: a check here, a run there
        per_pod = jax.shard_map(gradient, axis_names={"pod"}, in_specs=(P(), P("pod"), P("pod")), out_specs=(P(), P()))
        value, slope = per_pod(params, x, y)
        return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, params, slope), value

    return step, (params, x, y)


if __name__ == "__main__":
    step, arguments = train_step()
    print(verifier.check(step, *arguments))
