"""Blocks of the fixed family: layers, and what stands at the ends of a network."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from verifier.with_jax.backward_programs.layouts import (
    BATCH,
    HEADS,
    HIDDEN,
    TOKENS,
    WIDTH,
    WORDS,
    Layout,
    attend,
    block,
    heads,
    layer_weights,
    mlp,
    norm,
    out,
)
from verifier.with_jax.gradients import Array


# fmt: off
@block
def _product(here: Layout) -> Any:
    return lambda x, w: here.sum(x @ here.use(w)), (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN))


@block
def _two_products(here: Layout) -> Any:
    return (lambda x, up, down: here.sum(mlp(here, x, up, down, jnp.tanh)),
            (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.narrow(HIDDEN, WIDTH)))


@block
def _biases(here: Layout) -> Any:
    def loss(x: Any, up: Any, one: Any, down: Any, two: Any) -> Any:
        hidden = jax.nn.gelu(x @ here.use(up) + one)
        return here.sum(jnp.dot(hidden, here.use(down), out_sharding=out(here, 2)) + two)

    return loss, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), Array((HIDDEN,), P(here.model)),
                  here.narrow(HIDDEN, WIDTH), here.gain(WIDTH))


@block
def _gated(here: Layout) -> Any:
    def loss(x: Any, gate: Any, up: Any, down: Any) -> Any:
        hidden = jax.nn.silu(x @ here.use(gate)) * (x @ here.use(up))
        return here.sum(x + jnp.einsum("btf,fd->btd", hidden, here.use(down), out_sharding=out(here, 3)))

    wide = here.wide(WIDTH, HIDDEN)
    return loss, (here.data(BATCH, TOKENS, WIDTH), wide, wide, here.narrow(HIDDEN, WIDTH))


@block
def _root_mean_square_norm(here: Layout) -> Any:
    return (lambda x, g, w: here.sum(norm(x, g) @ here.use(w)),
            (here.data(BATCH, WIDTH), here.gain(WIDTH), here.wide(WIDTH, HIDDEN)))


@block
def _layer_norm(here: Layout) -> Any:
    def loss(x: Any, gain: Any, bias: Any, w: Any) -> Any:
        calm = (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-5)
        return here.sum((calm * gain + bias) @ here.use(w))

    return loss, (here.data(BATCH, WIDTH), here.gain(WIDTH), here.gain(WIDTH), here.wide(WIDTH, HIDDEN))


@block
def _batch_norm(here: Layout) -> Any:
    def loss(x: Any, gain: Any, w: Any) -> Any:
        return here.sum((x - jnp.mean(x, 0)) * lax.rsqrt(jnp.var(x, 0) + 1e-5) * gain @ here.use(w))

    return loss, (here.data(BATCH, WIDTH), here.gain(WIDTH), here.wide(WIDTH, HIDDEN))


@block
def _group_norm(here: Layout) -> Any:
    def loss(x: Any, gain: Any, w: Any) -> Any:
        groups = lax.reshape(x @ here.use(w), (BATCH, 4, 4), out_sharding=P(here.batch, here.model, None))
        calm = (groups - groups.mean(-1, keepdims=True)) / (groups.std(-1, keepdims=True) + 1e-5)
        return here.sum(calm * gain)

    return loss, (here.data(BATCH, WIDTH), here.gain(4), here.wide(WIDTH, HIDDEN))


@block
def _attention(here: Layout) -> Any:
    return (lambda x, w: here.sum(attend(here, x, w)), (here.data(BATCH, TOKENS, WIDTH), heads(here)))


@block
def _transformer_layer(here: Layout) -> Any:
    def loss(x: Any, w: Any) -> Any:
        x = x + attend(here, norm(x, w["norm"]), w["heads"])
        return here.sum(x + mlp(here, norm(x, w["norm"]), w["up"], w["down"]))

    return loss, (here.data(BATCH, TOKENS, WIDTH), layer_weights(here))


def _likely(logits: Any, targets: Any, words: int = WORDS) -> Any:
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits, -1) * jax.nn.one_hot(targets, words), -1))


@block
def _cross_entropy(here: Layout) -> Any:
    """Words as one-hot vectors, in and out."""
    def loss(tokens: Any, targets: Any, table: Any, last: Any) -> Any:
        x = jnp.einsum("btw,wd->btd", jax.nn.one_hot(tokens, HIDDEN), here.use(table), out_sharding=out(here, 3))
        return _likely(x @ here.use(last), targets, HIDDEN)

    words = here.data(BATCH, TOKENS, dtype="int32")
    return loss, (words, words, here.narrow(HIDDEN, WIDTH), here.wide(WIDTH, HIDDEN))


@block
def _looked_up_words(here: Layout) -> Any:
    def loss(tokens: Any, targets: Any, table: Any, last: Any) -> Any:
        x = here.use(table).at[tokens].get(out_sharding=P(here.batch, None, None))
        logits = x @ here.use(last)
        return jnp.mean(jax.nn.logsumexp(logits, -1)) - jnp.mean(
            jnp.take_along_axis(logits, targets[..., None], -1))

    if here.model:
        return None
    words = here.data(BATCH, TOKENS, dtype="int32")
    return loss, (words, words, Array((WORDS, WIDTH), P(None, here.batch if here.cut else None)),
                  here.wide(WIDTH, WORDS))


@block
def _looked_up_words_and_tied(here: Layout) -> Any:
    def loss(tokens: Any, targets: Any, table: Any) -> Any:
        used = here.use(table)
        x = used.at[tokens].get(out_sharding=P(here.batch, None, None))
        return _likely(jnp.einsum("btd,wd->btw", x, used), targets)

    words = here.data(BATCH, TOKENS, dtype="int32")
    return loss, (words, words, Array((WORDS, WIDTH), P(None, here.batch if here.cut else None)))


@block
def _experts_by_weight(here: Layout) -> Any:
    """Each token through all experts, weighed."""
    def loss(x: Any, router: Any, up: Any, down: Any) -> Any:
        gate = jax.nn.softmax(x @ router, -1)
        hidden = jax.nn.silu(jnp.einsum("btd,edf->btef", x, here.use(up)))
        return here.sum(jnp.einsum("btef,efd,bte->btd", hidden, here.use(down), gate, out_sharding=out(here, 3)))

    return loss, (here.data(BATCH, TOKENS, WIDTH), here.gain(WIDTH, 3), here.wide(3, WIDTH, HIDDEN),
                  here.narrow(3, HIDDEN, WIDTH))


@block
def _experts_by_choice(here: Layout) -> Any:
    """The best experts of each token, their weights one-hot."""
    def loss(x: Any, router: Any, up: Any, down: Any) -> Any:
        gate, chosen = lax.top_k(jax.nn.softmax(x @ router, -1), 2)
        weight = jnp.einsum("btk,btke->bte", gate, jax.nn.one_hot(chosen, 3))
        hidden = jax.nn.gelu(jnp.einsum("btd,edf->btef", x, here.use(up)))
        returned = jnp.einsum("btef,efd->bted", hidden, here.use(down),
                              out_sharding=P(here.batch, None, None, None) if here.out() else None)
        return here.sum(jnp.einsum("bted,bte->btd", returned, weight))

    return loss, (here.data(BATCH, TOKENS, WIDTH), here.gain(WIDTH, 3), here.wide(3, WIDTH, HIDDEN),
                  here.narrow(3, HIDDEN, WIDTH))


@block
def _low_rank(here: Layout) -> Any:
    """A frozen weight, and two thin ones beside it."""
    def loss(x: Any, w: Any, a: Any, b: Any) -> Any:
        return here.sum(x @ here.use(lax.stop_gradient(w)) + (x @ here.use(a)) @ here.use(b))

    thin = here.wide(WIDTH, 2) if not here.model else here.gain(WIDTH, 2)
    return loss, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), thin, here.wide(2, HIDDEN))


@block
def _low_rank_multiplied_first(here: Layout) -> Any:
    def loss(x: Any, a: Any, b: Any) -> Any:
        return here.sum(x @ (here.use(a) @ here.use(b)))

    thin = here.wide(WIDTH, 2) if not here.model else here.gain(WIDTH, 2)
    return loss, (here.data(BATCH, WIDTH), thin, here.wide(2, HIDDEN))


@block
def _decay(here: Layout) -> Any:
    return (lambda x, w: here.sum(x @ here.use(w)) + 0.1 * jnp.sum(w**2),
            (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN)))


@block
def _half_precision(here: Layout) -> Any:
    def loss(x: Any, up: Any, down: Any) -> Any:
        small = jnp.bfloat16
        return here.sum(mlp(here, x.astype(small), up.astype(small), down.astype(small)).astype(jnp.float32))

    return loss, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN), here.narrow(HIDDEN, WIDTH))


@block
def _convolution(here: Layout) -> Any:
    def loss(x: Any, kernel: Any) -> Any:
        return here.sum(lax.conv_general_dilated(
            x, here.use(kernel), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))

    if here.model or (here.cut and not here.gathered):
        return None
    return loss, (here.data(BATCH, 4, 4, 2), here.wide(3, 3, 2, 2))


@block
def _strided_convolution_and_pooling(here: Layout) -> Any:
    def loss(x: Any, kernel: Any) -> Any:
        y = jax.nn.relu(lax.conv_general_dilated(
            x, here.use(kernel), (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        pooled = lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return here.sum(pooled)

    if here.model or (here.cut and not here.gathered):
        return None
    return loss, (here.data(BATCH, 8, 8, 2), here.wide(3, 3, 2, 2))


@block
def _maximum_pooling(here: Layout) -> Any:
    def loss(x: Any, kernel: Any) -> Any:
        y = lax.conv_general_dilated(x, here.use(kernel), (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
        return here.sum(lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 1), (1, 2, 1), "VALID"))

    if here.model or (here.cut and not here.gathered):
        return None
    return loss, (here.data(BATCH, 8, 2), here.wide(3, 2, 2))


@block
def _rotary_embeddings(here: Layout) -> Any:
    def loss(x: Any, w: Any) -> Any:
        turn = jnp.arange(TOKENS, dtype=jnp.float32)[:, None, None] * jnp.array([1.0, 0.1])
        y = jnp.einsum("btd,dhk->bthk", x, here.use(w))
        left, right = jnp.split(y, 2, -1)
        return here.sum(jnp.concatenate([left * jnp.cos(turn) - right * jnp.sin(turn),
                                         right * jnp.cos(turn) + left * jnp.sin(turn)], -1) ** 2)

    cut = here.batch if here.cut else None
    return loss, (here.data(BATCH, TOKENS, WIDTH), Array((WIDTH, HEADS, 4), P(cut, here.model, None)))


@block
def _grouped_queries(here: Layout) -> Any:
    def loss(x: Any, q: Any, k: Any) -> Any:
        query = jnp.einsum("btd,dghk->btghk", x, here.use(q))
        key = jnp.einsum("btd,dgk->btgk", x, here.use(k))
        scores = jnp.einsum("btghk,bsgk->bghts", query, key)
        return here.sum(jax.nn.softmax(scores, -1))

    cut = here.batch if here.cut else None
    return loss, (here.data(BATCH, TOKENS, WIDTH), Array((WIDTH, 2, 2, 2), P(cut, here.model, None, None)),
                  Array((WIDTH, 2, 2), P(cut, here.model, None)))


@block
def _dropout(here: Layout) -> Any:
    def loss(x: Any, w: Any, mask: Any) -> Any:
        return here.sum(jnp.where(mask, x @ here.use(w) / 0.9, 0.0))

    return loss, (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN),
                  Array((BATCH, HIDDEN), P(here.batch, here.model), "bool"))


@block
def _a_rule_of_ones_own(here: Layout) -> Any:
    @jax.custom_jvp
    def soft(x: Any) -> Any:
        return jnp.log1p(jnp.exp(x))

    soft.defjvps(lambda t, y, x: t * jax.nn.sigmoid(x))
    return (lambda x, w: here.sum(soft(x @ here.use(w))), (here.data(BATCH, WIDTH), here.wide(WIDTH, HIDDEN)))
# fmt: on
