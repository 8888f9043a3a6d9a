"""Advice about programs of JAX's: what it takes, and what XLA makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from calculus.types import ArrayType
from grammar.meshes import parse_meshes
from tests.verifier.advising.test_advise_command import STEP
from verifier.advising.making import propose
from verifier.advising.proposals import Proposal
from verifier.advising.subjects import of_function, of_text
from verifier.functions import FunctionReport
from verifier.with_jax.advising import placed_as

NEWER = jax.__version_info__ >= (0, 12)
MESH = AbstractMesh((8,), ("data",), axis_types=(AxisType.Explicit,))
BATCHES = 4


@pytest.fixture(scope="module")
def block() -> Proposal:
    """A block of flax: LayerNorm, a linear layer, GELU, another; over four microbatches."""
    nnx = pytest.importorskip("flax.nnx")

    class Block(nnx.Module):  # type: ignore[name-defined, misc]
        def __init__(self, rngs: Any) -> None:
            self.norm = nnx.LayerNorm(16, rngs=rngs)
            self.up = nnx.Linear(16, 32, rngs=rngs)
            self.down = nnx.Linear(32, 16, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return x + self.down(nnx.gelu(self.up(self.norm(x))))

    with jax.sharding.use_abstract_mesh(MESH):
        graph, params = nnx.split(nnx.eval_shape(lambda: Block(nnx.Rngs(0))))

    def loss(params: Any, x: jax.Array) -> jax.Array:
        found: jax.Array = (nnx.merge(graph, params)(x) ** 2).sum()
        return found

    x = jax.ShapeDtypeStruct((64, 16), jnp.float32, sharding=NamedSharding(MESH, P("data", None)))

    def again(types: Mapping[str, ArrayType]) -> FunctionReport:
        args, _ = placed_as(loss, (params, x), {}, types)
        return verifier.check(loss, *args)

    subject = of_function("block", verifier.check(loss, params, x), None, False, BATCHES, again)
    return propose(subject, confirm=True)


@pytest.mark.skipif(not NEWER, reason="what the older release takes is another list")
def test_where_biases_and_norms_may_not_be_reduced_the_kernels_are(block: Proposal) -> None:
    """JAX refuses {R} beside a sharded array in add and mul. What is left per microbatch, by hand: the gradients of two
    biases and of the norm's scale and bias, and the loss: five all-reduces, of 16 + 32 + 16 + 16 + 1 numbers."""
    plain = block.plain
    assert plain is not None
    assert plain.inputs == {
        "params['down']['kernel']": "P(reduced={'data'})",
        "params['up']['kernel']": "P(reduced={'data'})",
    }
    kernels, rest = 2 * 16 * 32 * 4, (16 + 32 + 16 + 16 + 1) * 4
    inside = [one for one in plain.advice.after.charges if one.inside]
    assert sum((one.collective.payload or 0) * (one.times or 0) for one in inside) == BATCHES * rest
    outside = [one for one in plain.advice.after.charges if not one.inside]
    assert sum(one.collective.payload or 0 for one in outside) == kernels
    assert {refusal.cell.split()[0] for refusal in plain.advice.refused} == {"add", "mul"}


@pytest.mark.skipif(not NEWER, reason="what the older release takes is another list")
def test_written_anew_inside_all_are(block: Proposal) -> None:
    """Broadcast first, then resharded: nothing of a gradient is left in the loop."""
    assert len(block.inputs) == 6
    assert sum(one.equation.primitive == "dot_general" for one in block.advice.after.charges) == 0
    assert len(block.widened) == 4
    assert {one["to"] for one in block.data()["broadcasts"]} == {"f32[64@data,16]", "f32[64@data,32]"}  # type: ignore[attr-defined]


@pytest.mark.skipif(not NEWER, reason="what the older release takes is another list")
def test_everybody_agrees(block: Proposal) -> None:
    """The executor, JAX forward and backward, and XLA: as many collectives as the prices say, before and after."""
    for one in (block, block.plain):
        assert one is not None
        assert one.checks.equal == "equal in value, run by the reference executor on (data=2)"
        assert one.checks.jax == f"JAX {jax.__version__} takes it, and its gradient"
        before, after = one.advice.before.runs, one.advice.after.runs
        assert one.checks.compiled == f"compiled by XLA for CPU: {before} collectives before, {after} after, as priced"


@pytest.mark.skipif(not NEWER, reason="what the older release takes is another list")
def test_specs_alone_are_enough_for_the_block_as_it_is(block: Proposal) -> None:
    """The author's function, traced by JAX with nothing changed but the specs of its parameters, costs what is said: of
    8 devices, 4 times 2 * 7/8 of what is left inside, and once 2 * 7/8 of the kernels."""
    assert block.plain is not None
    inside, kernels = (16 + 32 + 16 + 16 + 1) * 4, 2 * 16 * 32 * 4
    total = round(2 * 7 / 8 * (BATCHES * inside + kernels))
    said = f"your function, traced at these PartitionSpecs: {total:,} bytes on the wire in all, as priced"
    assert block.plain.checks.own == said


@pytest.mark.skipif(not NEWER, reason="the printed program has primitives that the older release has not")
def test_the_microbatch_step_is_compiled_to_one_all_reduce() -> None:
    with open(STEP, encoding="utf-8") as file:
        subject = of_text("step", file.read(), parse_meshes("X=2"), None, True, 1)
    found = propose(subject, confirm=True)
    assert found.checks.jax == f"JAX {jax.__version__} takes it"
    assert found.checks.compiled == "compiled by XLA for CPU: 15 collectives before, 1 after, as priced"
    assert [cast.name for _, cast in found.casts if cast.carried] == ["c"]


def test_bodies_that_are_not_gone_into_are_named() -> None:
    """A shard_map of blocks whose shapes are written down is run on the mesh at hand, and its sum stays."""
    mesh = AbstractMesh((4, 2), ("X", "Y"), axis_types=(AxisType.Explicit,) * 2)
    rows = P(("X", "Y"))

    def loss(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        inside: Any = jax.shard_map(lambda x, w: jnp.tanh(x @ w), in_specs=(rows, P()), out_specs=rows)
        return jnp.sum(inside(x, params["a"]) @ params["b"])

    def array(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))

    params = {"a": array(4, 4, spec=P()), "b": array(4, 4, spec=P())}
    report = verifier.check(loss, params, array(16, 4, spec=rows))
    found = propose(of_function("loss", report, None, False, 4))
    assert found.inputs == {"params['b']": "P(reduced={'X', 'Y'})"}
    assert found.checks.equal == "equal in value, run by the reference executor on (X=4, Y=2)"
    assert any("not looked into: the body of shard_map" in line and "4 collectives" in line for line in found.lines())
