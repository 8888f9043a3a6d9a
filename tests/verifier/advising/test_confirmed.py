"""What is proposed for networks of eight layers costs what XLA makes of it: both programs are compiled, and counted."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from verifier.advising.advice import advise
from verifier.advising.making import propose
from verifier.advising.subjects import of_function

LAYERS, WIDTH, HIDDEN, BATCH = 8, 16, 32, 8
MESH = AbstractMesh((4,), ("data",), axis_types=(AxisType.Explicit,))


def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Residual layers, under remat; weights that are cut are gathered where they are used."""

    def layer(x: jax.Array, weights: dict[str, jax.Array]) -> tuple[jax.Array, None]:
        whole = jax.tree.map(
            lambda w: w if jax.typeof(w).sharding.is_fully_replicated else jax.reshard(w, P()), weights
        )
        return x + jnp.tanh(x @ whole["up"]) @ whole["down"], None

    kept = jax.checkpoint_policies.nothing_saveable
    x, _ = jax.lax.scan(jax.checkpoint(layer, policy=kept), x, params)
    return jnp.mean(x**2)


def arguments(spec: P) -> tuple[Any, Any]:
    def one(shape: tuple[int, ...], spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))

    weights = {"up": one((LAYERS, WIDTH, HIDDEN), spec), "down": one((LAYERS, HIDDEN, WIDTH), spec)}
    return weights, one((BATCH, WIDTH), P("data"))


@pytest.mark.parametrize(
    ("spec", "microbatches", "said"),
    [
        # the gradients of two weights a layer, four times, and the loss; then of both stacks, once
        (P(), 4, f"{2 * LAYERS * 4 + 4} collectives before, {2 + 4} after"),
        # two weights a layer gathered, and again under remat, and a gradient of each, and the loss. XLA for CPU writes
        # the scatter of a gradient as a sum of which each device keeps its block
        (P(None, "data"), 1, f"{3 * 2 * LAYERS + 1} collectives before, {3 * 2 * LAYERS + 1} "
                             "(reduced, then sliced 2) after"),
    ],
)  # fmt: skip
def test_both_programs_are_compiled_as_priced(spec: P, microbatches: int, said: str) -> None:
    report = verifier.check(loss, *arguments(spec))
    found = propose(of_function("loss", report, ["params"], False, microbatches), confirm=True)
    assert found.advice.better
    assert found.checks.compiled == f"compiled by XLA for CPU: {said}, as priced"
    assert found.checks.equal.startswith("equal in value")
    assert found.checks.jax.endswith("takes it, and its gradient")
    assert not found.checks.failed


def test_a_gradient_of_what_is_computed_again_follows_its_weight() -> None:
    """Microbatches whose gradients are added up, in the author's own loop: under remat, `down` multiplies what the
    forward pass has not kept, and its gradient is no less one of its cotangent type."""

    def step(params: Any, batches: jax.Array) -> Any:
        def microbatch(sums: Any, x: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, jax.grad(loss)(params, x)), None

        return jax.lax.scan(microbatch, jax.tree.map(lambda w: jnp.zeros(w.shape), params), batches)[0]

    weights, x = arguments(P())
    batches = jax.ShapeDtypeStruct((4, *x.shape), x.dtype, sharding=NamedSharding(MESH, P(None, "data")))
    of = of_function("step", verifier.check(step, weights, batches), None, False, 1)
    found = advise(of.program, of.meshes, plain=True, transposed=of.transposed)
    ((_, made),) = found.steps
    assert {str(type) for type in made.inputs.values()} == {"f32[8,16,32]{R:data}", "f32[8,32,16]{R:data}"}
    assert made.asked == []
    assert (found.before.runs, found.after.runs) == (2 * LAYERS * 4, 2)
