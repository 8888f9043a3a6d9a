"""Blocks of the fixed family: layers in loops, calls and choices, computed again, mapped; gradients of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from verifier.with_jax.backward_programs.layouts import (
    BATCH,
    HIDDEN,
    LAYERS,
    TOKENS,
    WIDTH,
    Layout,
    attend,
    block,
    layer_weights,
    mlp,
    norm,
    out,
)
from verifier.with_jax.gradients import Array


# fmt: off
def _stack(here: Layout, wrap: Callable[[Any], Any] = lambda step: step, **how: Any) -> Any:
    def step(x: Any, w: Any) -> Any:
        x = x + attend(here, norm(x, w["norm"]), w["heads"])
        return x + mlp(here, norm(x, w["norm"]), w["up"], w["down"]), None

    return (lambda x, w: here.sum(lax.scan(wrap(step), x, w, **how)[0]),
            (here.data(BATCH, TOKENS, WIDTH), layer_weights(here, LAYERS)))


@block
def _layers_in_a_loop(here: Layout) -> Any:
    return _stack(here)


@block
def _layers_in_a_loop_computed_again(here: Layout) -> Any:
    return _stack(here, jax.checkpoint)


@block
def _layers_in_a_loop_backward(here: Layout) -> Any:
    return _stack(here, reverse=True)


@block
def _layers_in_an_unrolled_loop(here: Layout) -> Any:
    return _stack(here, unroll=LAYERS)


@block
def _layers_gathered_at_once(here: Layout) -> Any:
    def loss(x: Any, up: Any, down: Any) -> Any:
        def step(x: Any, w: Any) -> Any:
            hidden = jnp.tanh(x @ w[0])
            return jnp.einsum("bf,fd->bd", hidden, w[1], out_sharding=out(here, 2)), None

        return here.sum(lax.scan(step, x, (here.use(up), here.use(down)))[0])

    return loss, (here.data(BATCH, WIDTH), here.wide(LAYERS, WIDTH, HIDDEN), here.narrow(LAYERS, HIDDEN, WIDTH))


@block
def _one_layer_many_times(here: Layout) -> Any:
    def loss(x: Any, up: Any, down: Any) -> Any:
        return here.sum(lax.scan(lambda x, _: (mlp(here, x, up, down), None), x, None, length=LAYERS)[0])

    return loss, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.narrow(HIDDEN, WIDTH))


@block
def _a_recurrent_network(here: Layout) -> Any:
    def loss(xs: Any, w: Any, u: Any, start: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(x @ here.use(w) + h @ here.use(u))
            return h, h

        last, every = lax.scan(step, start, xs.swapaxes(0, 1))
        return here.sum(last) + here.sum(every)

    if here.model:
        return None
    return loss, (here.data(BATCH, TOKENS, WIDTH), here.wide(WIDTH, WIDTH), here.wide(WIDTH, WIDTH),
                  here.data(BATCH, WIDTH))


@block
def _microbatches(here: Layout) -> Any:
    def loss(xs: Any, up: Any, down: Any) -> Any:
        def step(total: Any, x: Any) -> Any:
            return total + here.sum(mlp(here, x, up, down)), None

        return lax.scan(step, jnp.zeros(()), xs)[0]

    return loss, (Array((3, BATCH, WIDTH), P(None, here.batch, None)), here.wide(WIDTH, HIDDEN),
                  here.narrow(HIDDEN, WIDTH))


@block
def _microbatches_accumulated(here: Layout) -> Any:
    """The sum of the microbatches' gradients, squared: a gradient of gradients."""
    def loss(xs: Any, w: Any) -> Any:
        def step(total: Any, x: Any) -> Any:
            return total + jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w)))(used), None

        used = here.use(w)
        spec = jax.typeof(used).sharding.spec
        start = jax.reshard(jnp.zeros(w.shape), P(*spec.partitions, unreduced=spec.reduced))
        total = lax.scan(step, start, xs)[0]
        return jnp.sum(jax.reshard(total, P()) ** 2)

    return loss, (Array((3, BATCH, WIDTH), P(None, here.batch, None)), here.wide(WIDTH, HIDDEN))


@block
def _computed_again(here: Layout) -> Any:
    return (lambda x, up, down: here.sum(jax.checkpoint(lambda *a: mlp(here, *a))(x, up, down)),
            (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.narrow(HIDDEN, WIDTH)))


@block
def _a_call(here: Layout) -> Any:
    return (lambda x, up, down: here.sum(jax.jit(lambda *a: mlp(here, *a))(jnp.sin(x), up, down) * x),
            (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.narrow(HIDDEN, WIDTH)))


@block
def _a_call_used_twice(here: Layout) -> Any:
    layer = jax.jit(lambda x, up, down: mlp(here, x, up, down))
    return (lambda x, up, down: here.sum(layer(layer(x, up, down), up, down)),
            (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.narrow(HIDDEN, WIDTH)))


@block
def _a_choice_of_layers(here: Layout) -> Any:
    def loss(x: Any, up: Any, down: Any, which: Any) -> Any:
        return here.sum(lax.cond(which > 0, lambda x: mlp(here, x, up, down), lambda x: x * 2.0, x))

    return loss, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.narrow(HIDDEN, WIDTH),
                  Array((), P(), "int32"))


@block
def _a_switch(here: Layout) -> Any:
    def loss(x: Any, up: Any, down: Any, which: Any) -> Any:
        branches = [lambda x: mlp(here, x, up, down), jnp.sin, lambda x: mlp(here, x, up, down, jnp.tanh)]
        return here.sum(lax.switch(which, branches, x))

    return loss, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.narrow(HIDDEN, WIDTH),
                  Array((), P(), "int32"))


@block
def _mapped_over_samples(here: Layout) -> Any:
    def loss(x: Any, w: Any, gain: Any) -> Any:
        used = here.use(w)
        return here.sum(jax.vmap(lambda row: jnp.tanh(norm(row, gain) @ used))(x))

    return loss, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.gain(WIDTH))


@block
def _mapped_over_members(here: Layout) -> Any:
    def loss(x: Any, w: Any) -> Any:
        return here.sum(jax.vmap(lambda w: jnp.tanh(x @ w))(here.use(w)))

    return loss, (here.data(BATCH, WIDTH), here.wide(LAYERS, WIDTH, HIDDEN))


@block
def _an_optimizers_step(here: Layout) -> Any:
    """The loss after a step of gradient descent, by the weight before it."""
    def loss(x: Any, w: Any) -> Any:
        after = w - 0.1 * jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w)))(w)
        return jnp.sum(jnp.tanh(x @ after))

    if here.reduced or (here.cut and here.gathered):
        return None
    return loss, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN))


@block
def _several_results(here: Layout) -> Any:
    def layer(x: Any, up: Any, down: Any) -> Any:
        hidden = jnp.tanh(x @ here.use(up))
        return {"hidden": hidden, "out": jnp.einsum("bf,fd->bd", hidden, here.use(down), out_sharding=out(here, 2)),
                "best": jnp.argmax(x, -1)}

    return layer, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.narrow(HIDDEN, WIDTH))
# fmt: on
