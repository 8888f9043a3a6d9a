"""Derivatives of loops, rematerialised bodies, moves, and what only looks on, beside JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax._src import compute_on
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Layout, with_layout_constraint

from calculus.programs import Word
from grammar.read import read
from tests.verifier.with_jax.compared import (
    INT,
    TYPED,
    N,
    P,
    Traced,
    W,
    X,
    needs_types,
    refused,
    same_gradient,
    same_tangents,
)  # fmt: skip

HOST, DEVICE = jax.memory.Space.Host, jax.memory.Space.Device


# Loops whose end the data decide


def newton(x: Any) -> Any:
    """Two carries that come to have a tangent, a counter that has none, and a number that the condition reads."""

    def step(state: Any) -> Any:
        count, guess, _ = state
        return count + 1, 0.5 * (guess + x / guess), guess

    return lax.while_loop(lambda state: (state[0] < 9) & (state[1] > 1e-3), step, (0, x, jnp.ones_like(x)))[1]


WHILES: dict[str, Callable[..., Any]] = {
    "a carry": lambda x: lax.while_loop(lambda c: c < 10.0, lambda c: c * c, jnp.sum(x)),
    "a constant": lambda x: lax.while_loop(lambda c: c < 10.0, lambda c: c + jnp.sum(x), jnp.zeros(())),
    "carries that come to have a tangent": lambda x: newton(jnp.sum(x * x)),
    "one carry without": lambda x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1]), jnp.zeros(()), 2 * c[3]), (0, x, jnp.sum(x), 1.0)
    )[1:],
    "a loop in a loop": lambda x: lax.while_loop(
        lambda c: jnp.sum(c) < 9.0, lambda c: lax.while_loop(lambda d: d[0, 0] < 1, lambda d: d * x, c), x
    ),
    "dynamic bounds": lambda x, n: lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * x, x),
}


@pytest.mark.parametrize("name", WHILES)
def test_tangents_through_a_while_loop(name: str) -> None:
    same_tangents(WHILES[name], N, *([INT] if name == "dynamic bounds" else []))


def test_a_while_loop_has_no_way_back() -> None:
    """JAX says so too, in other words."""
    said = refused(lambda x: lax.while_loop(lambda c: c < 10.0, lambda c: c * c, jnp.sum(x)), N)
    assert said == "the derivative of a while loop, in reverse"
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        jax.grad(lambda x: lax.while_loop(lambda c: c < 10.0, lambda c: c * c, jnp.sum(x)))(jnp.ones(3))


def test_a_while_loop_that_only_counts_is_no_hindrance() -> None:
    same_gradient(lambda x: jnp.sum(x) * lax.while_loop(lambda c: c < 10, lambda c: c * 2, 1), X)


# Rematerialised bodies

policies = jax.checkpoint_policies


def gathered(w: Any) -> Any:
    """A weight that every use gathers, where there is a mesh."""
    return jax.reshard(w, P()) if TYPED else jnp.sin(w)


def named_layer(x: Any, w: Any) -> Any:
    return jnp.sin(checkpoint_name(jnp.cos(x @ gathered(w)), "h"))


KEPT: dict[str, tuple[Any, bool]] = {
    "nothing": (policies.nothing_saveable, True),
    "everything": (policies.everything_saveable, True),
    "products": (policies.dots_saveable, True),
    "products without batch": (policies.dots_with_no_batch_dims_saveable, True),
    "names": (policies.save_only_these_names("h"), not TYPED),
    "no names": (policies.save_any_names_but_these("k"), not TYPED),
    "anything": (policies.save_anything_except_these_names("h"), True),
}
"""Policies, and whether JAX prints all that there is to know of one."""


@pytest.mark.parametrize("name", KEPT)
def test_what_a_policy_keeps(name: str) -> None:
    """What is kept is not computed again, nor is what it alone needs; the rest is, gathers included."""
    policy, read = KEPT[name]
    checkpointed = jax.checkpoint(named_layer, policy=policy)
    weight = ((4, 4), P("X"))
    bench = same_gradient(lambda x, w: jnp.sum(checkpointed(x, w)), X, weight)
    assert bool(bench.assumed) is not read
    twice = same_gradient(lambda x, w: jnp.sum(checkpointed(checkpointed(x, w), w)), X, weight)
    assert bool(twice.assumed) is not read


def test_what_a_policy_keeps_in_a_loop_and_in_a_call() -> None:
    layer = jax.checkpoint(lambda h, w: (jnp.sin(h @ gathered(w)), None), policy=policies.dots_saveable)
    same_gradient(lambda x, w: jnp.sum(lax.scan(layer, x, w)[0]), X, ((3, 4, 4), P(None, "X")))
    call = jax.checkpoint(jax.jit(lambda x, w: jnp.sin(x @ gathered(w))), policy=policies.dots_saveable)
    same_gradient(lambda x, w: jnp.sum(call(x, w)), X, ((4, 4), P("X")))
    unbatched = jax.checkpoint(
        lambda x, w: jnp.sin(jnp.einsum("bij,bjk->bik", x, w)), policy=policies.dots_with_no_batch_dims_saveable
    )
    same_gradient(lambda x, w: jnp.sum(unbatched(x, w)), ((3, 8, 4), P()), ((3, 4, 4), P()))


def test_what_is_not_read_of_a_policy_is_said() -> None:
    """Inside of a loop nothing is taken to be kept, and of a function of one's own nothing is known."""
    body = jax.checkpoint(
        lambda x, w: lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, w)[0], policy=policies.dots_saveable
    )
    traced = Traced(lambda x, w: jnp.sum(body(x, w)), (X, ((3, 4, 4), P())))
    _, bench = traced.gradient()
    assert bench.assumed == {"what a policy keeps inside of a scan is taken to be computed again"}

    def mine(*_: Any, **__: Any) -> bool:
        return False

    own = jax.checkpoint(named_layer, policy=mine)
    bench = same_gradient(lambda x, w: jnp.sum(own(x, w)), X, ((4, 4), P("X")))
    assert bench.assumed == {"which values mine keeps is not printed; it is taken to keep none"}


@needs_types
def test_a_barrier_and_recomputation_without_one() -> None:
    for prevent in (True, False):
        layer = jax.checkpoint(named_layer, prevent_cse=prevent)
        same_gradient(lambda x, w, layer=layer: jnp.sum(layer(x, w)), X, ((4, 4), P("X")))


# Changes of placement, and what only looks on


def two(x: Any, y: Any) -> Any:
    one, other = lax.optimization_barrier((x * 2, jnp.cos(y)))
    return jnp.sum(jnp.sin(one) * other)


PLACED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a barrier": (two, (X, X)),
    **({"a barrier, one of two used": (
        lambda x, y: jnp.sum(lax.optimization_barrier((x * 2, jnp.cos(y)))[0] ** 2), (X, X))} if TYPED else {}),
    "a barrier beside an integer": (
        lambda x, n: jnp.sum(jnp.multiply(*lax.optimization_barrier((jnp.sin(x), n)))), (X, INT)),
    "a copy": (lambda x: jnp.sum(jnp.sin(jnp.array(x, copy=True))), (X,)),
    "a layout": (lambda x: jnp.sum(jnp.sin(with_layout_constraint(x, Layout((1, 0))))), (X,)),
    "a look": (lambda x: (jax.debug.print("{}", x[0, 0]), jnp.sum(jnp.sin(x)))[1], (N,)),
    "a look at every step": (
        lambda x: jnp.sum(lax.scan(lambda c, _: (jax.debug.print("{}", c[0, 0]), (jnp.sin(c), None))[1], x, None,
                                   length=3)[0]), (N,)),
    "counters in a loop": (
        lambda x: jnp.sum(lax.scan(lambda c, _: ((c[0] + 1, jnp.sin(c[1]) * c[0]), c[0]), (0, x), None,
                                   length=3)[0][1]), (X,)),
    "integers along a loop": (
        lambda x, n: jnp.sum(lax.scan(lambda c, k: (jnp.sin(c) * k, k), x, n)[0]), (X, ((3,), P(), jnp.int32))),
    "a carry that comes to have a cotangent": (
        lambda x: jnp.sum(lax.scan(lambda c, _: (c * 0.5 + jnp.sin(x), None), jnp.zeros_like(x), None,
                                   length=3)[0]), (X,)),
    "truth values along a loop": (
        lambda x: jnp.sum(lax.scan(lambda c, _: (jnp.sin(c), c > 0), x, None, length=3)[1] * x), (X,)),
    "integers in branches": (
        lambda x, n: jnp.sum(lax.switch(n, [lambda x, n: jnp.sin(x) * n, lambda x, n: x * x, lambda x, n: x], x, n)),
        (X, INT)),
    "an integer out of branches": (
        lambda x, n: jnp.sum(jnp.multiply(*lax.cond(n > 0, lambda x: (jnp.sin(x), 2), lambda x: (x * x, 3), x))),
        (X, INT)),
    "a constant out of a branch": (
        lambda x, n: jnp.sum(jnp.multiply(*lax.cond(n > 0, lambda x: (jnp.sin(x), 1.0), lambda x: (x * x, 3.0), x))),
        (X, INT)),
    "keys in a loop": (
        lambda x, k: jnp.sum(lax.scan(
            lambda c, _: ((jax.random.split(c[0])[0], jnp.sin(c[1]) * jax.random.bernoulli(c[0])), None),
            (jax.random.wrap_key_data(k), x), None, length=2)[0][1]), (N, ((2,), P(), jnp.uint32))),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
def test_what_moves_or_watches(name: str) -> None:
    function, arguments = PLACED[name]
    same_gradient(function, *arguments)


def on_the_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """A region that is computed on the host, its results back in the memory of the device."""
    made: Any = getattr(compute_on, "compute_on2", None) or compute_on.compute_on
    found: Callable[..., Any] = made(jax.jit(function), compute_type="device_host", out_memory_spaces=DEVICE)
    return found


ELSEWHERE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "linear": (lambda x: jnp.sum(jnp.sin(on_the_host(lambda x: x * 2.0)(x))), (X,)),
    "with residuals": (lambda x: jnp.sum(jnp.sin(on_the_host(lambda x: jnp.sin(x) * 2.0)(x))), (X,)),
    "a product": (lambda x, w: jnp.sum(jnp.sin(on_the_host(lambda x, w: jnp.sin(x) @ w)(x, w))), (X, W)),
    "of an operand again": (lambda x: jnp.sum(on_the_host(lambda x, y: jnp.sin(x) * y)(x, jnp.sum(x))), (X,)),
    "two results, one used": (lambda x: jnp.sum(on_the_host(lambda x: (jnp.sin(x), x * x))(x)[1]), (X,)),
    "what has no tangent": (
        lambda x, n: jnp.sum(on_the_host(lambda x, n: (x * n, n + 1))(x, n)[0]), (X, INT)),
    "in a loop": (
        lambda x: jnp.sum(lax.scan(lambda c, _: (on_the_host(jnp.sin)(c), None), x, None, length=3)[0]), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_computed_elsewhere(name: str) -> None:
    """What follows from the body is computed where the body is, and its residuals wait in the device's memory."""
    function, arguments = ELSEWHERE[name]
    same_gradient(function, *arguments)


def test_where_a_cotangent_is_computed() -> None:
    ours, _ = Traced(ELSEWHERE["with residuals"][0], (X,)).gradient()
    forward, backward = (one for one in read(ours).program.equations if one.primitive == "compute_on")
    device = Word("MemorySpace.Device")
    assert forward.parameters["out_memory_spaces"] == (device, device)
    assert backward.parameters["out_memory_spaces"] == (device,)
    assert backward.parameters["compute_type"] == forward.parameters["compute_type"] == Word("device_host")


@needs_types
def test_a_move_to_another_memory_or_place_goes_back() -> None:
    """The older release types the cotangent in the wrong memory, and fails."""

    def through(x: Any) -> Any:
        return jax.device_put(jnp.sin(jax.device_put(jax.device_put(x, HOST), DEVICE)), HOST)

    def loss(x: Any) -> Any:
        return jnp.sum(jax.device_put(through(x), DEVICE) ** 2)

    traced = Traced(loss, (X,))
    ours, _ = traced.gradient()
    assert len([one for one in read(ours).program.equations if one.primitive == "device_put"]) >= 6
    traced.alike(ours, traced.text(jax.grad(loss)))
    placed = Traced(lambda x: jnp.sum(jnp.sin(jax.device_put(x, P(None, "X")))), (X,))
    placed.alike(placed.gradient()[0], placed.text(jax.grad(placed.function)))


def test_code_from_elsewhere_has_no_derivative_here() -> None:
    """JAX refuses them too."""

    def called(x: Any) -> Any:
        return jnp.sum(jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((8, 4), jnp.float32), x))

    assert refused(called, N) == "the derivative of pure_callback"
    with pytest.raises(ValueError, match="Pure callbacks do not support JVP"):
        jax.grad(called)(jnp.ones((8, 4)))
