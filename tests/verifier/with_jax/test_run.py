"""The reference executor against JAX on devices: the same function, the same inputs, every device's block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from grammar.meshes import parse_meshes
from grammar.read import read
from verifier.execution.texts import run_text

NEAR: Final = 1e-5
"""How far apart the devices of XLA and ours may be, relatively: both round sums of a few terms."""


def product(a: Any, b: Any) -> Any:
    return jnp.einsum("ij,jk->ik", a, b, out_sharding=P(None, None))


def pending(a: Any, b: Any) -> Any:
    return jnp.einsum("ij,jk->ik", a, b, out_sharding=P(None, None, unreduced={"X"}))


def added(a: Any, b: Any) -> Any:
    return jax.reshard(pending(a, b) + pending(2 * a, b), P("X", None))


def by_hand(a: Any, b: Any) -> Any:
    def body(a: Any, b: Any) -> Any:
        return jax.lax.psum_scatter(jnp.tanh(a @ b), "X", tiled=True)

    return jax.shard_map(body, in_specs=(P(None, "X"), P("X", None)), out_specs=P("X", None))(a, b)


def loss(a: Any, b: Any) -> Any:
    return jnp.sum(jnp.sin(product(a, b)) ** 2)


CASES: Final[dict[str, Callable[..., Any]]] = {
    "product": product,
    "pending": pending,
    "added": added,
    "by hand": by_hand,
    "value and gradient": jax.value_and_grad(loss, (0, 1)),
    "rows": lambda a, b: jax.reshard(jnp.cumsum(b, 1), P(None, "X")),
}


def blocks(array: Any) -> Sequence[Any]:
    return [np.asarray(shard.data) for shard in sorted(array.addressable_shards, key=lambda one: one.device.id)]


@pytest.mark.parametrize("name", CASES)
def test_every_block_is_that_of_jax(name: str) -> None:
    if len(jax.devices()) < 4:
        pytest.skip("JAX has fewer than four devices here")
    mesh = jax.make_mesh((4,), ("X",), axis_types=(AxisType.Explicit,), devices=jax.devices()[:4])
    random = np.random.default_rng(3)
    values = [random.normal(size=shape).astype(np.float32) for shape in ((8, 4), (4, 8))]
    with jax.set_mesh(mesh):
        operands = [
            jax.device_put(value, NamedSharding(mesh, spec))
            for value, spec in zip(values, (P(None, "X"), P("X", None)), strict=True)
        ]
        text = str(jax.make_jaxpr(CASES[name])(*operands))
        expected = jax.tree.leaves(jax.jit(CASES[name])(*operands))
    given = dict(zip(read(text).program.inputs, values, strict=True))
    ran = run_text(text, parse_meshes("X=4"), name, given=given)
    assert ran.verdict == "equal", ran.outcome
    assert ran.outcome is not None
    assert len(expected) == len(ran.outcome.results)
    for want, one in zip(expected, ran.outcome.results, strict=True):
        for theirs, ours in zip(blocks(want), one.blocks, strict=True):
            assert theirs.shape == ours.shape
            np.testing.assert_allclose(ours, theirs, rtol=NEAR, atol=NEAR)
