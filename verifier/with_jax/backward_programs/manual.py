"""Programs with a shard_map: collectives and casts of manual mode, loops and choices inside, one axis of two manual."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from verifier.with_jax.gradients import Array, Sample

X: Final = Array((8, 4), P("X"))
N: Final = Array((8, 4), P())
W: Final = Array((4, 4), P())
REDUCED: Final = P(None, None, reduced={"X"})
PENDING: Final = P(None, None, unreduced={"X"})


def _mapped(f: Callable[..., Any], ins: Any, outs: Any, **how: Any) -> Callable[..., Any]:
    """A shard_map on the mesh in context, whichever that is each time."""

    def mapped(*arrays: Any) -> Any:
        return jax.shard_map(f, in_specs=ins, out_specs=outs, **how)(*arrays)

    return mapped


def _varying(value: Any) -> Any:
    return lax.pcast(value, "X", to="varying")


def _pending(value: Any) -> Any:
    return lax.pcast(value, "X", to="unreduced")


def _product(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.sin(x @ w))


def _total(w: Any, x: Any) -> Any:
    return jnp.sum(x * x)


def _reduced(value: Any) -> Any:
    return jax.reshard(value, P(*(None,) * value.ndim, reduced={"X"}))


def _squared(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays: jnp.sum(f(*arrays) ** 2)


def _loop(step: Callable[[Any], Any], start: Any, count: int = 3) -> Any:
    return lax.scan(lambda c, _: (step(c), None), start, None, length=count)[0]


def _ring(x: Any) -> Any:
    """Everybody's block, turned round a ring of two."""

    def step(carry: Any, _: Any) -> Any:
        total, block = carry
        return (total + jnp.tanh(x * block), lax.ppermute(block, "X", [(0, 1), (1, 0)])), None

    return lax.scan(step, (jnp.zeros_like(x), x), None, length=2)[0][0]


BODIES: Final[dict[str, tuple[Callable[..., Any], Any, Any, tuple[Array, ...]]]] = {
    "element by element": (jnp.sin, P("X"), P("X"), (X,)),
    "psum": (lambda x: lax.psum(jnp.sin(x), "X"), P("X"), P(), (X,)),
    "psum of a sum": (lambda x: lax.psum(jnp.sum(x * x), "X"), P("X"), P(), (X,)),
    "psum twice": (lambda x: lax.psum(lax.psum(x, "X"), "X"), P("X"), P(), (X,)),
    "pmean": (lambda x: lax.pmean(jnp.sin(x), "X"), P("X"), P(), (X,)),
    "psum over both": (lambda x: lax.psum(x, ("X", "Y")), P("X", "Y"), P(), (Array((8, 4), P("X", "Y")),)),
    "psum over one of two": (lambda x: lax.psum(x * x, "Y"), P("X", "Y"), P("X", None), (Array((8, 4), P("X", "Y")),)),
    "pmax, stopped": (lambda x: jnp.exp(x - lax.pmax(lax.stop_gradient(jnp.max(x)), "X")), P("X"), P("X"), (X,)),
    "all_gather": (lambda x: jnp.sin(lax.all_gather(x, "X", tiled=True)), P("X"), P("X"), (X,)),
    "all_gather, new dim": (lambda x: jnp.sin(lax.all_gather(x, "X")), P("X"), P(None, "X"), (X,)),
    "all_gather of columns": (lambda x: jnp.sin(lax.all_gather(x, "X", axis=1, tiled=True)), P("X"), P("X"), (X,)),
    "psum_scatter": (lambda x: jnp.sin(lax.psum_scatter(x, "X", tiled=True)), P("X"), P("X"), (X,)),
    "psum_scatter of columns": (
        lambda x: lax.psum_scatter(x, "X", scatter_dimension=1, tiled=True),
        P("X"),
        P(None, "X"),
        (X,),
    ),
    "ppermute": (lambda x: jnp.sin(lax.ppermute(x, "X", [(0, 1)])), P("X"), P("X"), (X,)),
    "a rotation": (lambda x: x * lax.ppermute(x, "X", [(0, 1), (1, 0)]), P("X"), P("X"), (X,)),
    "a ring": (_ring, P("X"), P("X"), (X,)),
    "all_to_all": (lambda x: jnp.sin(lax.all_to_all(x, "X", 1, 0, tiled=True)), P("X"), P("X"), (X,)),
    "all_to_all back": (
        lambda x: lax.all_to_all(jnp.sin(lax.all_to_all(x, "X", 1, 0, tiled=True)), "X", 0, 1, tiled=True),
        P("X"),
        P("X"),
        (X,),
    ),
    "axis_index": (lambda x: x * lax.axis_index("X"), P("X"), P("X"), (X,)),
    "a weight, varying": (lambda x, w: jnp.tanh(x @ _varying(w)), (P("X"), P()), P("X"), (X, W)),
    "a weight, implicitly varying": (lambda x, w: jnp.tanh(x @ w), (P("X"), P()), P("X"), (X, W)),
    "a weight twice": (lambda x, w: jnp.tanh(x @ w) @ w, (P("X"), P()), P("X"), (X, W)),
    "a weight, gathered": (
        lambda x, w: x @ lax.all_gather(w, "X", tiled=True),
        (P("X"), P("X")),
        P("X"),
        (X, Array((4, 4), P("X"))),
    ),
    "a weight, gathered in a loop": (
        lambda x, w: _loop(lambda c: jnp.tanh(c @ lax.all_gather(w, "X", tiled=True)), x),
        (P("X"), P("X")),
        P("X"),
        (X, Array((4, 4), P("X"))),
    ),
    "a weight, gathered, computed again": (
        jax.checkpoint(lambda x, w: jnp.tanh(x @ lax.all_gather(w, "X", tiled=True))),
        (P("X"), P("X")),
        P("X"),
        (X, Array((4, 4), P("X"))),
    ),
    "rows and columns": (
        lambda x, a, b: lax.psum(jax.nn.silu(x @ a) @ b, "X"),
        (P(), P(None, "X"), P("X")),
        P(),
        (N, Array((4, 8), P(None, "X")), Array((8, 4), P("X"))),
    ),
    "rows and columns, scattered": (
        lambda x, a, b: lax.psum_scatter(jax.nn.gelu(lax.all_gather(x, "X", tiled=True) @ a) @ b, "X", tiled=True),
        (P("X"), P(None, "X"), P("X")),
        P("X"),
        (X, Array((4, 8), P(None, "X")), Array((8, 4), P("X"))),
    ),
    "a sum that stays": (lambda x: jnp.sin(jnp.sum(x))[None], P("X"), P("X"), (X,)),
    "layers in a loop": (
        lambda x, w: lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, w)[0],
        (P("X"), P()),
        P("X"),
        (X, Array((3, 4, 4))),
    ),
    "layers in a loop, computed again": (
        lambda x, w: lax.scan(jax.checkpoint(lambda h, w: (jnp.tanh(h @ w), None)), x, w)[0],
        (P("X"), P()),
        P("X"),
        (X, Array((3, 4, 4))),
    ),
    "psum in a loop": (lambda x: _loop(lambda c: c + lax.psum(jnp.sum(x) * c, "X"), 1.0), P("X"), P(), (X,)),
    "a choice": (
        lambda x: lax.cond(jnp.sum(lax.stop_gradient(x)) > 0, jnp.sin, lambda x: x * x, x),
        P("X"),
        P("X"),
        (X,),
    ),
    "a call": (jax.jit(lambda x, w: jnp.tanh(x @ w)), (P("X"), P()), P("X"), (X, W)),
    "a mean of parts": (lambda w, x: lax.pmean(jnp.mean(w * x), "X"), (P(), P("X")), P(), (Array(), X)),
    "a ratio of sums": (
        lambda w, x: lax.psum(jnp.sum(w * x), "X") / lax.psum(jnp.sum(x * x), "X"),
        (P(), P("X")),
        P(),
        (Array(), X),
    ),
    "a batch norm": (
        lambda x, g: (x - lax.pmean(x.mean(0), "X")) * lax.rsqrt(lax.pmean((x**2).mean(0), "X") + 1e-5) * g,
        (P("X"), P()),
        P("X"),
        (X, Array((4,))),
    ),
    "a softmax over what is cut": (
        lambda x: (
            jnp.exp(x - lax.pmax(lax.stop_gradient(x).max(1, keepdims=True), "X"))
            / lax.psum(
                jnp.exp(x - lax.pmax(lax.stop_gradient(x).max(1, keepdims=True), "X")).sum(1, keepdims=True), "X"
            )
        ),
        P(None, "X"),
        P(None, "X"),
        (Array((8, 4), P(None, "X")),),
    ),
    "results of two kinds": (lambda x: x * lax.psum(jnp.sum(x), "X"), P("X"), P("X"), (X,)),
    "a gradient inside": (jax.grad(lambda w, x: jnp.sum((x * w) ** 3)), (P(), P("X")), P(), (Array(), X)),
    "mapped": (jax.vmap(lambda r: jnp.tanh(r) * r.sum()), P("X"), P("X"), (X,)),
    "a stage of its own on each device": (
        lambda w, x: lax.psum(lax.cond(lax.axis_index("X") == 0, _product, _total, w, x), "X"),
        (P(), P("X")),
        P(),
        (W, X),
    ),
    "a choice by what each device has": (
        lambda w, x: lax.psum(lax.cond(jnp.sum(lax.stop_gradient(x)) > 0, _product, _total, w, x), "X"),
        (P(), P("X")),
        P(),
        (W, X),
    ),
    "sorted": (lambda x: jnp.sort(x, 0), P("X"), P("X"), (X,)),
    "looked up": (lambda x, t: t[lax.iota("int32", 3)] * x[:3], (P("X"), P()), P("X"), (X, W)),
}

WHOLE: Final[dict[str, tuple[Callable[..., Any], tuple[Array, ...]]]] = {
    "a partial product": (
        lambda a, b: jnp.sum(
            jax.reshard(_mapped(lambda a, b: _pending(a @ b), (P(None, "X"), P("X")), PENDING)(a, b), P()) ** 2
        ),
        (Array((4, 4), P(None, "X")), Array((4, 4), P("X"))),
    ),
    "a reduced weight": (
        lambda x, w: jnp.sum(
            _mapped(lambda x, w: jnp.tanh(x @ _varying(w)), (P("X"), REDUCED), P("X"))(x, _reduced(w)) ** 2
        ),
        (X, W),
    ),
    "a reduced weight, implicitly varying": (
        lambda x, w: jnp.sum(_mapped(lambda x, w: jnp.tanh(x @ w), (P("X"), REDUCED), P("X"))(x, _reduced(w)) ** 2),
        (X, W),
    ),
    "reduced layers in a loop": (
        lambda x, w: jnp.sum(
            _mapped(
                lambda x, w: lax.scan(lambda h, w: (jnp.tanh(h @ _varying(w)), None), x, w)[0],
                (P("X"), P(None, None, None, reduced={"X"})),
                P("X"),
            )(x, _reduced(w))
            ** 2
        ),
        (X, Array((3, 4, 4))),
    ),
    "a round trip": (
        lambda a, b: jnp.sum(
            jax.reshard(
                _mapped(lambda u: u, PENDING, PENDING)(jnp.einsum("ij,jk->ik", a, b, out_sharding=PENDING)), P()
            )
            ** 2
        ),
        (Array((4, 4), P(None, "X")), Array((4, 4), P("X"))),
    ),
    "some results unused": (
        lambda x, y, r: jnp.sum(
            _mapped(lambda x, y, r: (x * r, y * 1.0, r * 3.0), (P("X"), P("X"), P()), (P("X"), P("X"), P()))(x, y, r)[0]
        ),
        (X, X, Array()),
    ),
    "the other result used": (
        lambda x, y, r: jnp.sum(
            _mapped(lambda x, y, r: (x * r, y * 1.0, r * 3.0), (P("X"), P("X"), P()), (P("X"), P("X"), P()))(x, y, r)[2]
        ),
        (X, X, Array()),
    ),
    "one axis of two": (
        lambda x, w: jnp.sum(
            _mapped(lambda x, w: lax.psum(x @ w, "X"), (P(None, "X"), P("X")), P(), axis_names={"X"})(x, w) ** 2
        ),
        (Array((8, 4), P("Y", "X")), Array((4, 4), P("X"))),
    ),
    "one axis of two, gathered": (
        lambda x: jnp.sum(
            _mapped(lambda x: jnp.sin(lax.all_gather(x, "X", tiled=True)), P("X"), P("X"), axis_names={"X"})(x) ** 2
        ),
        (Array((8, 4), P("X", "Y")),),
    ),
    "mapped, then a shard_map": (
        lambda x: jnp.sum(jax.vmap(_mapped(lambda v: lax.psum(v, "X"), P("X"), P()))(x) ** 2),
        (Array((2, 8), P(None, "X")),),
    ),
    "a shard_map in a loop": (
        lambda x, w: jnp.sum(_loop(lambda c: _mapped(lambda c, w: jnp.tanh(c @ w), (P("X"), P()), P("X"))(c, w), x)),
        (X, W),
    ),
    "a shard_map, computed again": (
        lambda x, w: jnp.sum(jax.checkpoint(_mapped(lambda c, w: jnp.tanh(c @ w), (P("X"), P()), P("X")))(x, w) ** 2),
        (X, W),
    ),
    "a shard_map in a call": (
        lambda x, w: jnp.sum(jax.jit(_mapped(lambda c, w: jnp.tanh(c @ w), (P("X"), P()), P("X")))(x, w) ** 2),
        (X, W),
    ),
    "what varies is not tracked": (
        lambda w, x: jnp.sum(
            _mapped(lambda w, x: lax.psum((w * x).sum(), "X")[None], (P(), P("X")), P("X"), check_vma=False)(w, x)
        ),
        (Array(), X),
    ),
    "what is reduced enters where nothing is tracked": (
        lambda w, x: jnp.sum(
            _mapped(lambda w, x: jnp.tanh(x @ w), (REDUCED, P("X")), P("X"), check_vma=False)(_reduced(w), x) ** 2
        ),
        (W, X),
    ),
    "experts": (
        lambda x, r, u, d: jnp.sum(_mapped(_experts, (P("X"), P(), P("X"), P("X")), P("X"))(x, r, u, d) ** 2),
        (X, Array((4, 2)), Array((2, 4, 6), P("X")), Array((2, 6, 4), P("X"))),
    ),
}


def _experts(x: Any, router: Any, up: Any, down: Any) -> Any:
    """Every device has one expert; tokens go there, weighed, and come back."""
    gate = jax.nn.softmax(x @ router, -1)
    sent = jnp.einsum("td,te->etd", x, gate)
    there = lax.all_to_all(sent, "X", 0, 1, tiled=True)
    worked = jnp.einsum("etf,efd->etd", jax.nn.silu(jnp.einsum("etd,edf->etf", there, up)), down)
    return jnp.sum(lax.all_to_all(worked, "X", 1, 0, tiled=True), 0)


def manual() -> Iterator[tuple[str, Callable[[], Sample]]]:
    """Every program, by name."""
    for name, (body, ins, outs, arrays) in BODIES.items():
        yield name, functools.partial(Sample, _squared(_mapped(body, ins, outs)), arrays)
    for name, (whole, arrays) in WHOLE.items():
        yield name, functools.partial(Sample, whole, arrays)
