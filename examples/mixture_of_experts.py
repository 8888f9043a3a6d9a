"""A mixture of experts: a router, a `shard_map` with two all-to-alls, and a loss that balances the experts.

Each chip along `expert` holds one expert. Its tokens choose an expert each and are sent there, up to a capacity, and
come back: look for the all-to-all before and after the experts, and for their mirror images backward. The `pmean` of
the load is the only all-reduce that the layer itself asks for; the rest are gradients: those of experts over `data`,
those of the dense weight and the router over everything.
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

EXPERTS, CAPACITY = 8, 512
MESH = AbstractMesh((512, EXPERTS), ("data", "expert"), axis_types=(AxisType.Explicit,) * 2)
TOKENS, WIDTH, HIDDEN = 512 * EXPERTS * 2048, 1024, 4096
TOKEN_BLOCKS = P(("data", "expert"), None)
OPTIMIZER = optax.adam(1e-4)


def experts(x: jax.Array, router: jax.Array, up: jax.Array, down: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Switch layer on this chip's tokens [token, channel]: new tokens, and how uneven the load is over all chips."""
    chances = jax.nn.softmax(x @ router)
    chosen = jax.nn.one_hot(chances.argmax(axis=-1), EXPERTS)
    place = (jnp.cumsum(chosen, axis=0) * chosen).sum(axis=-1).astype(jnp.int32) - 1
    slot = chosen[:, :, None] * jax.nn.one_hot(place, CAPACITY)[:, None, :]

    sent = jnp.einsum("tec,td->ecd", slot, x)
    received = jax.lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
    worked = jax.nn.gelu(received @ up) @ down
    returned = jax.lax.all_to_all(worked, "expert", split_axis=1, concat_axis=0, tiled=True)

    gate = slot * (chances * chosen).sum(axis=-1)[:, None, None]
    uneven = EXPERTS * jnp.sum(chosen.mean(axis=0) * chances.mean(axis=0))
    return jnp.einsum("tec,ecd->td", gate, returned), jax.lax.pmean(uneven, ("data", "expert"))


def loss(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error of a dense and a sparse layer, and a little of the load's unevenness."""
    # made at the call, since a shard_map keeps to the first mesh that it meets: a check here, a run there
    layer = jax.shard_map(
        experts,
        in_specs=(TOKEN_BLOCKS, P(None, None), P("expert", None, None), P("expert", None, None)),
        out_specs=(TOKEN_BLOCKS, P()),
    )
    x = x @ params["dense"]
    out, uneven = layer(x, params["router"], params["up"], params["down"])
    return jnp.mean((x + out - y) ** 2) + 0.01 * uneven


def train_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step `(params, state, x, y) -> (params, state, loss)` and its abstract arguments."""

    def array(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))

    params = {
        "dense": array(WIDTH, WIDTH, spec=P(None, None)),
        "router": array(WIDTH, EXPERTS, spec=P(None, None)),
        "up": array(EXPERTS, WIDTH, HIDDEN, spec=P("expert", None, None)),
        "down": array(EXPERTS, HIDDEN, WIDTH, spec=P("expert", None, None)),
    }
    x = y = array(TOKENS, WIDTH, spec=TOKEN_BLOCKS)
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
