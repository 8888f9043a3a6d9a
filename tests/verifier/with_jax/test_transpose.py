"""Our transposes beside JAX's: of a linear function, what `jax.linear_transpose` gives; and our linearizations, whose
two programs, one after the other, are `jax.jvp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from calculus.equivalence import difference
from calculus.gradients import jvp
from grammar.meshes import parse_meshes
from grammar.read import read
from tests.verifier.with_jax.test_backward import communication, manual, printed, reduced
from verifier.backward import derive, linear_part, linearized
from verifier.texts import check_text

if jax.__version_info__ < (0, 12):
    pytest.skip("the older JAX types no gradients: it has neither reduced values nor casts", allow_module_level=True)

P = jax.P
MESH = parse_meshes("X=2, Y=2")
X, N, W = ((8, 4), P("X")), ((8, 4), P()), ((4, 4), P())


def weighted(x: Any, w: Any) -> Any:
    return lax.scan(lambda h, w: (h @ w, jnp.sum(h)), x, w)


# fmt: off
LINEAR: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a product": (lambda x, w: x @ w, (X, W)),
    "a product with what is reduced": (lambda x, w: x @ reduced(w), (X, W)),
    "a known factor": (lambda x, w: x * jnp.sin(w), (X, N)),
    "a sum over the mesh": (lambda x, w: jnp.sum(x, axis=0) + w[0, 0] * x[0], (N, W)),
    "another placement": (lambda x, w: jax.reshard(x, P(None, "X")) * w, (X, ((8, 4), P(None, "X")))),
    "a gather": (lambda x, w: jax.reshard(x, P()) @ w, (X, W)),
    "two results": (lambda x, w: (x @ w, jnp.sum(x)), (X, W)),
    "layers": (weighted, (X, ((3, 4, 4), P()))),
    "a call": (lambda x, w: jax.jit(lambda x: x @ w)(x), (X, W)),
    "manual": (lambda x, w: manual(lambda x: lax.psum(x, "X"), P("X"), P())(x) * w[:4], (X, N)),
}
# fmt: on


def arguments_of(specs: tuple[Any, ...], mesh: Any) -> list[Any]:
    return [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=jax.NamedSharding(mesh, spec)) for shape, spec in specs]


@pytest.mark.parametrize("name", LINEAR)
def test_our_transpose_is_jaxs(name: str) -> None:
    from calculus.linear_programs import transposed

    function, specs = LINEAR[name]
    mesh = jax.make_mesh((2, 2), ("X", "Y"), devices=jax.devices()[:4])
    with jax.set_mesh(mesh):
        x, w = arguments_of(specs, mesh)
        forward = printed(function, [x, w])
        results = jax.eval_shape(function, x, w)
        seeds = jax.tree.map(lambda one: seed(one, mesh), results)
        theirs = printed(lambda w, *cts: jax.linear_transpose(lambda x: function(x, w), x)(back(results, cts)),
                         [w, *jax.tree.leaves(seeds)])  # fmt: skip
    ours = derive(forward, MESH, "it", transposed, [read(forward).program.inputs[0]])
    assert ours.text, [refusal.message for refusal in (ours.backward or ours.forward).refusals]
    assert communication(check_text(ours.text, MESH, "ours")) == communication(check_text(theirs, MESH, "theirs"))
    assert difference(read(ours.text).program, read(theirs).program) == ""


def back(results: Any, leaves: tuple[Any, ...]) -> Any:
    return jax.tree.unflatten(jax.tree.structure(results), leaves)


def seed(one: Any, mesh: Any) -> Any:
    """The shape of a cotangent: reduced and unreduced change places."""
    spec = one.sharding.spec
    turned = P(*spec, reduced=spec.unreduced, unreduced=spec.reduced)
    return jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=jax.NamedSharding(mesh, turned))


@pytest.mark.parametrize("name", LINEAR)
def test_our_linearization_is_jaxs_jvp(name: str) -> None:
    """Called one after the other, the two programs communicate as JAX's does, and give what `jvp` gives in one."""
    function, specs = LINEAR[name]
    mesh = jax.make_mesh((2, 2), ("X", "Y"), devices=jax.devices()[:4])
    with jax.set_mesh(mesh):
        x, w = arguments_of(specs, mesh)
        forward = printed(function, [x, w])
        theirs = printed(lambda x, w, t: jax.jvp(lambda x: function(x, w), (x,), (t,)), [x, w, x])
    first = [read(forward).program.inputs[0]]
    ours = derive(forward, MESH, "it", linearized, first)
    assert communication(check_text(ours.text, MESH, "ours")) == communication(check_text(theirs, MESH, "theirs"))
    whole = derive(forward, MESH, "it", jvp, first)
    assert difference(read(ours.text).program, read(whole.text).program) == ""
    assert derive(forward, MESH, "it", linear_part, first).text
