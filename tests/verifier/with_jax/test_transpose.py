"""Our transposes beside JAX's: of a linear function, what `jax.linear_transpose` gives; and our linearizations, whose
two programs, one after the other, are `jax.jvp`."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from calculus.equivalence import difference
from calculus.gradients import jvp
from grammar.meshes import parse_meshes
from grammar.read import read
from verifier.backward import derive, linear_part, linearized
from verifier.texts import check_text

if jax.__version_info__ < (0, 12):
    pytest.skip("the older JAX types no gradients: it has neither reduced values nor casts", allow_module_level=True)

from tests.verifier.with_jax.test_backward import communication, manual, printed, reduced  # which is skipped likewise

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


Step = Callable[[Any, Any, Any], Any]
STEPS: dict[str, Step] = {
    "sin": lambda a, b, w: jnp.sin(a),
    "a known factor": lambda a, b, w: a * w,
    "a product": lambda a, b, w: a * b,
    "a sum": lambda a, b, w: a + b,
    "a difference": lambda a, b, w: a - b,
    "a constant": lambda a, b, w: a + 1.0,
    "nothing": lambda a, b, w: a * 0.0,
    "floor": lambda a, b, w: jnp.floor(a),
    "sign": lambda a, b, w: a * jnp.sign(b),
    "stopped": lambda a, b, w: jax.lax.stop_gradient(a),
    "chosen by what is known": lambda a, b, w: jnp.where(w > 2, a, b),
    "chosen by itself": lambda a, b, w: jnp.where(a > 0, a, b),
    "an entry that is largest": lambda a, b, w: a[jnp.argmax(a)] * w,
    "as integers": lambda a, b, w: a.astype(jnp.int32).astype(jnp.float32),
    "padded with ones": lambda a, b, w: jnp.pad(a, 1, constant_values=1.0)[:4],
    "a quotient": lambda a, b, w: w / a,
    "cumulated": lambda a, b, w: jnp.cumsum(a),
    "a branch": lambda a, b, w: lax.cond(w[0] > 0, lambda a, b: a * 2, lambda a, b: b, a, b),
    "its own branch": lambda a, b, w: lax.cond(a[0] > 0, lambda a, b: a * 2, lambda a, b: b, a, b),
    "a loop": lambda a, b, w: lax.fori_loop(0, 3, lambda i, c: c * (w + i) + b, a),
    "a loop of products": lambda a, b, w: lax.scan(lambda c, x: (c * x, c), 1.0, a)[1],
}


def test_what_is_accepted_as_linear_is() -> None:
    """A quarter of all pairs of steps, one after the other: where ours gives a transpose, P(2x + 3y) is 2 P(x) + 3 P(y)
    at random numbers. Of the single steps, those that are linear are accepted."""
    from calculus.linear_programs import transposed

    random = np.random.default_rng(0)
    x, y = (jnp.asarray(random.normal(size=4) * 3, jnp.float32) for _ in range(2))
    w = jnp.asarray(random.uniform(0.5, 2.5, size=4), jnp.float32)

    def accepts(function: Callable[..., Any]) -> bool:
        text = printed(function, [x, w])
        if not derive(text, [], "it", transposed, [read(text).program.inputs[0]]).text:
            return False
        np.testing.assert_allclose(
            function(2 * x + 3 * y, w), 2 * function(x, w) + 3 * function(y, w), rtol=1e-3, atol=1e-3
        )
        return True

    single = {name for name, step in STEPS.items() if accepts(lambda x, w, step=step: step(x, x, w))}
    assert single == {
        "a known factor", "a sum", "a difference", "nothing", "chosen by what is known", "cumulated", "a branch",
        "a loop",
    }  # fmt: skip
    both = [
        accepts(lambda x, w, one=one, other=other: other(one(x, x, w), x, w))
        for one, other in list(itertools.product(STEPS.values(), repeat=2))[::4]
    ]
    assert 10 < sum(both) < len(both) // 2
