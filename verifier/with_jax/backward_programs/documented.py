"""Programs of JAX's pages on explicit sharding, and of questions that people have asked about it, as functions to
differentiate; each in the words of its source where that is a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from verifier.with_jax.gradients import Array, Sample

R: Final = {"X"}
WEIGHT: Final = Array((2, 2), P(None, None, reduced=R))
ROWS: Final = Array((4, 2), P("X"))
SCALE: Final = Array((2,), P(None, reduced=R))


def _reduced(value: Any, *axes: str) -> Any:
    return jax.reshard(value, P(*(None,) * value.ndim, reduced=set(axes) or R))


def _predict(weights: Any, x: Any) -> Any:
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


def _loss(weights: Any, x: Any) -> Any:
    return jnp.sum(_predict(weights, x) ** 2)


def _accumulated(weights: Any, batches: Any, pending: bool) -> Any:
    used = _reduced(weights) if pending else weights
    start = jnp.zeros((3, 4, 4))
    start = jax.reshard(start, P(unreduced=R)) if pending else start
    total = lax.scan(lambda total, x: (total + jax.grad(_loss)(used, x), None), start, batches)[0]
    return jnp.sum(jax.reshard(total, P()) ** 2)


def _table(x: Any, table: Any) -> Any:
    return jnp.sum(table.at[x].get(out_sharding=P("X")) ** 2)


def _convolved(k: Any, x: Any) -> Any:
    return jnp.sum(lax.conv_general_dilated(x, k, (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")) ** 2)


PAGES: Final[dict[str, tuple[Callable[..., Any], tuple[Array, ...]]]] = {
    "loss": (lambda a, b: jnp.sum(a @ b), (Array((4, 2)), Array((2, 8), P(None, "X")))),
    "loss, contracted": (
        lambda a, b: jnp.sum(jnp.dot(a, b, out_sharding=P())),
        (Array((4, 8), P(None, "X")), Array((8, 2), P("X"))),
    ),
    "loss, reduced first": (lambda a, b: jnp.sum(b @ _reduced(a)), (Array((4, 2)), Array((8, 4), P("X")))),
    "fan-out": (
        lambda a, b, c: jnp.sum(b @ a) + jnp.sum(c @ a),
        (Array((4, 2)), Array((8, 4), P("X")), Array((8, 4), P("X"))),
    ),
    "fan-out, reduced first": (
        lambda a, b, c: jnp.sum(b @ _reduced(a)) + jnp.sum(c @ _reduced(a)),
        (Array((4, 2)), Array((8, 4), P("X")), Array((8, 4), P("X"))),
    ),
    "fan-out of one reshard": (
        lambda a, b, c: (lambda r: jnp.sum(b @ r) + jnp.sum(c @ r))(_reduced(a)),
        (Array((4, 2)), Array((8, 4), P("X")), Array((8, 4), P("X"))),
    ),
    "layers": (_loss, (Array((3, 4, 4)), Array((8, 4), P("X")))),
    "layers, reduced": (lambda w, x: _loss(_reduced(w), x), (Array((3, 4, 4)), Array((8, 4), P("X")))),
    "microbatches": (lambda w, xs: _accumulated(w, xs, False), (Array((3, 4, 4)), Array((5, 8, 4), P(None, "X")))),
    "microbatches, reduced": (
        lambda w, xs: _accumulated(w, xs, True),
        (Array((3, 4, 4)), Array((5, 8, 4), P(None, "X"))),
    ),
    "einsum to pieces": (
        lambda x, y: jnp.sum(
            jax.reshard(jnp.einsum("ij,jk->ik", x, y, out_sharding=P(None, None, unreduced=R)), P()) ** 2
        ),
        (Array((4, 8), P(None, "X")), Array((8, 2), P("X"))),
    ),
    "pieces scattered": (
        lambda x, y: jnp.sum(
            jax.reshard(jnp.einsum("ij,jk->ik", x, y, out_sharding=P(None, None, unreduced=R)), P("X")) ** 2
        ),
        (Array((4, 8), P(None, "X")), Array((8, 2), P("X"))),
    ),
    "pieces along two axes": (
        lambda x, y: jnp.sum(
            jax.reshard(jnp.einsum("ij,jk->ik", x, y, out_sharding=P(None, None, unreduced={"X", "Y"})), P("X", None))
            ** 2
        ),
        (Array((4, 8), P(None, ("X", "Y"))), Array((8, 4), P(("X", "Y")))),
    ),
    "pieces left along one": (
        lambda x, y: jnp.sum(
            jax.reshard(
                jax.reshard(
                    jnp.einsum("ij,jk->ik", x, y, out_sharding=P(None, None, unreduced={"X", "Y"})),
                    P("X", None, unreduced={"Y"}),
                ),
                P(),
            )
            ** 2
        ),
        (Array((4, 8), P(None, ("X", "Y"))), Array((8, 4), P(("X", "Y")))),
    ),
    "several results": (lambda x, w: (x @ w, jnp.sum(w)), (Array((8, 4), P("X")), Array((4, 4)))),
    "a region of auto axes": (
        lambda x: jnp.sum(jax.sharding.auto_axes(lambda x: jnp.sin(x) * 2, out_sharding=P("X"))(x) ** 2),
        (Array((8, 4), P("X")),),
    ),
    "looked up": (_table, (Array((8,), P("X"), "int32"), Array((16, 4)))),
    "looked up in pieces": (_table, (Array((8,), P("X"), "int32"), Array((16, 4), P(None, "Y")))),
    "constants": (lambda x: jnp.sum(x * jnp.array([1.0, 2.0, 3.0, 4.0])), (Array((8, 4), P("X")),)),
    "weak numbers": (lambda x: jnp.sum(x * 2 + 1.5), (Array((8, 4), P("X")),)),
    "whole numbers": (lambda x: jnp.sum(x.astype(jnp.int32).astype(jnp.float32) * x), (Array((8, 4), P("X")),)),
    "a counter carried": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * jnp.sin(x) + i, x).sum(),
        (Array((8, 4), P("X")),),
    ),
    "a choice, unused operand": (
        lambda x, y: jnp.sum(lax.cond(x[0] > 0, lambda x, y: x, lambda x, y: x * 2, x, y)),
        (Array((4,)), Array((4,))),
    ),
}

PARAMETERS: Final[dict[str, tuple[Array, Callable[[Any], Any]]]] = {
    "decay": (WEIGHT, lambda w: (w**2).sum()),
    "decay, a product": (WEIGHT, lambda w: (w * w).sum()),
    "decay, square": (WEIGHT, lambda w: jnp.square(w).sum()),
    "sizes": (WEIGHT, lambda w: jnp.abs(w).sum()),
    "mean": (WEIGHT, jnp.mean),
    "logsumexp": (WEIGHT, jax.nn.logsumexp),
    "twice itself": (WEIGHT, lambda w: (w + w).sum()),
    "less half of itself": (WEIGHT, lambda w: (w - w / 2.0).sum()),
    "sine": (WEIGHT, lambda w: jnp.sin(w).sum()),
    "turned": (WEIGHT, lambda w: w.T.sum()),
    "running sum": (WEIGHT, lambda w: jnp.cumsum(w, 0).sum()),
}

USED: Final[dict[str, tuple[Array, Callable[[Any, Any], Any]]]] = {
    "scale": (SCALE, lambda s, x: (x * s).sum()),
    "bias": (SCALE, lambda s, x: ((x + s) ** 2).sum()),
    "scale by einsum": (SCALE, lambda s, x: (jnp.einsum("bi,i->bi", x, s) ** 2).sum()),
    "scale, broadcast first": (SCALE, lambda s, x: (x * jnp.broadcast_to(s, (4, 2))).sum()),
    "scaled weight": (WEIGHT, lambda w, x: (x @ (2.0 * w)).sum()),
    "product and sum": (WEIGHT, lambda w, x: (x @ w).sum() + w.sum()),
    "computed again": (WEIGHT, lambda w, x: jax.checkpoint(lambda w: jnp.sin(x @ w))(w).sum()),
    "loop over rows": (WEIGHT, lambda w, x: lax.scan(lambda c, r: (c + (x @ r).sum(), None), 0.0, w)[0]),
    "choice": (WEIGHT, lambda w, x: lax.cond(True, lambda w: (x @ w).sum(), lambda w: (x @ (w + w)).sum(), w)),
    "tied": (WEIGHT, lambda w, x: ((x @ w) @ w.T).sum()),
    "triangle": (WEIGHT, lambda w, x: (x @ jnp.tril(w)).sum()),
    "split": (WEIGHT, lambda w, x: (x @ jnp.split(w, 2, 1)[0]).sum()),
    "column": (WEIGHT, lambda w, x: (x @ w[:, 0]).sum()),
    "row": (WEIGHT, lambda w, x: (x * w[0]).sum()),
    "softmax": (WEIGHT, lambda w, x: (x @ jax.nn.softmax(w)).sum()),
    "normalised": (WEIGHT, lambda w, x: (x @ (w / jnp.sqrt((w**2).sum()))).sum()),
    "stopped": (WEIGHT, lambda w, x: (x @ (w * lax.stop_gradient(w))).sum()),
    "half precision": (WEIGHT, lambda w, x: (x @ w.astype(jnp.bfloat16)).sum()),
    "regrouped": (WEIGHT, lambda w, x: (x @ w.reshape(4).reshape(2, 2)).sum()),
    "padded": (WEIGHT, lambda w, x: (x @ jnp.pad(w, ((0, 0), (0, 2)))).sum()),
    "joined": (WEIGHT, lambda w, x: (x @ jnp.concatenate([w, w], 1)).sum()),
    "maximum": (WEIGHT, lambda w, x: (x @ jnp.maximum(w, 2 * w)).sum()),
    "chosen": (WEIGHT, lambda w, x: (x @ jnp.where(w > 1, w, 2 * w)).sum()),
    "two products": (WEIGHT, lambda w, x: ((x @ w) @ w).sum()),
    "product of both first": (WEIGHT, lambda w, x: (x @ (w @ w)).sum()),
    "scaled norm": (WEIGHT, lambda w, x: ((x @ w) * jnp.exp(w[0])).sum()),
}

ASKED: Final[dict[str, tuple[Callable[..., Any], tuple[Array, ...], str]]] = {
    "a convolution of a cut batch": (_convolved, (Array((3, 1, 2)), Array((8, 8, 1), P("X"))), "X=4"),
    "taken along a dim": (
        lambda x, i: jnp.take_along_axis(x, i[:, None], 1).sum(),
        (Array((4, 3), P("X")), Array((4,), P("X"), "int32")),
        "X=4",
    ),
    "an axis of one device": (lambda x: jnp.expand_dims(x, -1).sum(), (Array((1,), P("X")),), "X=1"),
    "a norm of one row": (
        lambda x: (x * lax.rsqrt(jnp.mean(x**2, -1, keepdims=True))).sum(),
        (Array((1, 4), P("X")),),
        "X=1",
    ),
    "one element broadcast": (
        lambda v, w: (jnp.broadcast_to(v, (4,)) * w).sum(),
        (Array((1,)), Array((4,), P("X"))),
        "X=2",
    ),
    "gathered layers": (
        lambda a, b, x: ((jnp.tanh(x @ jax.reshard(a, P())) @ jax.reshard(b, P())) ** 2).sum(),
        (Array((8, 8), P("X")), Array((8, 8), P("X")), Array((8, 8), P("X"))),
        "X=4",
    ),
    "gathered layers, reduced": (
        lambda a, b, x: ((jnp.tanh(x @ _reduced(a)) @ _reduced(b)) ** 2).sum(),
        (Array((8, 8), P("X")), Array((8, 8), P("X")), Array((8, 8), P("X"))),
        "X=4",
    ),
    "implicitly gathered layers": (
        lambda a, b, x: ((jnp.tanh(x @ a) @ b) ** 2).sum(),
        (Array((8, 8), P("X")), Array((8, 8), P("X")), Array((8, 8), P("X"))),
        "X=4",
    ),
    "a stencil": (lambda x: ((jnp.roll(x, 1) + jnp.roll(x, -1)) ** 2).sum(), (Array((8,), P("X")),), "X=4"),
    "a transposed stencil": (
        lambda x: (jax.linear_transpose(lambda c: jnp.roll(c, 1) + jnp.roll(c, -1), x)(x)[0] ** 2).sum(),
        (Array((8,)),),
        "X=4",
    ),
    "a second derivative": (lambda x: (jax.grad(lambda x: (x**3).sum())(x) * x).sum(), (Array((8,), P("X")),), "X=4"),
    "a masked mean": (
        lambda w, x, mask: ((w * x) * mask).sum() / mask.sum(),
        (Array(), Array((4,), P("X")), Array((4,), P("X"))),
        "X=2",
    ),
    "pieces and a reduced bias": (
        lambda a, b, bias: (
            jax.reshard(jnp.einsum("ij,jk->ik", a, b, out_sharding=P(None, None, unreduced=R)) * _reduced(bias), P())
            ** 2
        ).sum(),
        (Array((2, 8), P(None, "X")), Array((8, 2), P("X")), Array((2,))),
        "X=4",
    ),
    "a step of ZeRO": (
        lambda w, mu, x: jnp.sum(
            (
                w
                - jax.reshard(
                    0.1
                    * (
                        0.9 * mu
                        + jax.reshard(jax.grad(lambda w, x: ((x @ w) ** 2).sum())(_reduced(w), x), P("X", None))
                    ),
                    P(None, None),
                )
            )
            ** 2
        ),
        (Array((8, 4)), Array((8, 4), P("X")), Array((8, 8), P("X"))),
        "X=4",
    ),
    "row set": (lambda x: (x.at[:, 1].set(0.0) ** 2).sum(), (Array((4, 3), P("X")),), "X=4"),
    "a row of a cut array": (lambda v: v[3] ** 2, (Array((8,), P("X")),), "X=2"),
    "a padded maximum pooling": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 1), "SAME").sum(),
        (Array((8, 4), P("X")),),
        "X=2",
    ),
}


def documented() -> Iterator[tuple[str, Callable[[], Sample]]]:
    """Every program, by name."""
    for name, (function, arrays) in PAGES.items():
        yield name, functools.partial(Sample, function, arrays)
    for name, (array, alone) in PARAMETERS.items():
        yield f"a reduced parameter: {name}", functools.partial(Sample, alone, (array,))
    for name, (array, use) in USED.items():
        yield f"a reduced parameter: {name} of rows", functools.partial(Sample, use, (array, ROWS))
    for name, (function, arrays, mesh) in ASKED.items():
        yield name, functools.partial(Sample, function, arrays, mesh)
