"""Functions without a derivative: JAX is asked, and says why."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh((4,), ("X",), axis_types=(AxisType.Explicit,))
X = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=NamedSharding(MESH, P("X")))


def test_jax_says_why_there_is_no_backward_pass() -> None:
    def greatest(x: Any) -> Any:
        return jax.shard_map(lambda x: jax.lax.pmax(x, "X"), mesh=MESH, in_specs=P("X"), out_specs=P())(x)

    found = verifier.explain(greatest, X)
    assert (found.verdict, [one.direction for one in found.entries]) == ("ok", ["forward"])
    assert "JAX has none either (NotImplementedError: Differentiation rule for 'pmax' not implemented)" in found.none


def test_what_jax_leaves_of_a_forward_pass_is_nobodys() -> None:
    """The loss is summed, and its gradient alone is used: nothing is said of that."""

    def step(w: Any, x: Any, tracked: bool) -> Any:
        def loss(w: Any, x: Any) -> Any:
            return jax.lax.psum(jnp.sum(w * x), "X")

        mapped = jax.shard_map(
            loss, mesh=MESH, in_specs=(P(), P("X")), out_specs=P(), check_vma=tracked
        )  # fmt: skip
        return jax.grad(lambda w: jax.lax.scan(lambda c, _: (c + jax.jit(mapped)(w, x), None), 0.0, None, length=2)[0])(
            w
        )

    w = jax.ShapeDtypeStruct((), jnp.float32, sharding=NamedSharding(MESH, P()))
    assert [one.code for one in verifier.explain(lambda w, x: step(w, x, True), w, X).warnings] == ["in-a-loop"]
    assert [one.code for one in verifier.explain(lambda w, x: step(w, x, False), w, X).warnings] == ["untracked"]
