"""The fixed family, second part: one operation each, on an array of each placement, squared and summed.

Where JAX refuses a placement there is no program: the rest is the family.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from verifier.with_jax.gradients import Array, Sample

PLACEMENTS: Final = {
    "whole": P(),
    "first dim": P("X"),
    "second dim": P(None, "X"),
    "both dims": P("X", "Y"),
    "one dim twice": P(("X", "Y")),
    "reduced": P(None, None, reduced={"X"}),
    "first dim, reduced": P("Y", None, reduced={"X"}),
}

ONE: Final[dict[str, Callable[[Any], Any]]] = {
    # element by element
    **{
        name: getattr(jnp, name)
        for name in (
            "sin",
            "cos",
            "tan",
            "tanh",
            "sinh",
            "cosh",
            "exp",
            "expm1",
            "exp2",
            "abs",
            "square",
            "arctan",
            "arcsinh",
            "negative",
            "sign",
            "floor",
            "nan_to_num",
        )
    },
    **{
        name: getattr(jax.nn, name)
        for name in (
            "sigmoid",
            "softplus",
            "elu",
            "gelu",
            "silu",
            "relu",
            "relu6",
            "leaky_relu",
            "selu",
            "log_sigmoid",
            "hard_tanh",
            "hard_swish",
            "mish",
            "softmax",
            "log_softmax",
            "logsumexp",
            "standardize",
        )
    },
    "log": lambda x: jnp.log(x * x + 1),
    "log1p": lambda x: jnp.log1p(x * x),
    "sqrt": lambda x: jnp.sqrt(x * x + 1),
    "rsqrt": lambda x: lax.rsqrt(x * x + 1),
    "reciprocal": lambda x: 1 / (x + 3),
    "power": lambda x: (x * x + 1) ** 1.5,
    "cube": lambda x: x**3,
    "erf": lax.erf,
    "lgamma": lambda x: lax.lgamma(x * x + 1),
    "clip": lambda x: jnp.clip(x, -1, 1),
    "where": lambda x: jnp.where(x > 0, x, 0.1 * x),
    "maximum with a number": lambda x: jnp.maximum(x, 0.5),
    "maximum with itself turned": lambda x: jnp.maximum(x, x**2),
    "half precision": lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
    "complex": lambda x: jnp.real(lax.complex(x, x) * 1j),
    "rounded": lambda x: lax.reduce_precision(x, 5, 10),
    "stopped": lambda x: x * lax.stop_gradient(x),
    "rounded straight through": lambda x: x + lax.stop_gradient(jnp.round(x) - x),
    "barrier": lambda x: lax.optimization_barrier(x) * 2,
    "named": lambda x: jax.ad_checkpoint.checkpoint_name(jnp.sin(x), "x") * x,
    # reductions
    "sum of rows": lambda x: x.sum(0),
    "sum of columns": lambda x: x.sum(1),
    "mean": lambda x: x.mean(),
    "mean of columns": lambda x: x - x.mean(-1, keepdims=True),
    "variance": lambda x: x.var(0),
    "norm": lambda x: x / jnp.linalg.norm(x),
    "maximum": lambda x: x.max(),
    "maximum of rows": lambda x: x.max(0),
    "maximum of columns": lambda x: x.max(1),
    "minimum of columns": lambda x: x.min(1),
    "product of columns": lambda x: x.prod(1),
    "product of rows": lambda x: x.prod(0),
    "running sum": lambda x: jnp.cumsum(x, 1),
    "running sum of rows": lambda x: jnp.cumsum(x, 0),
    "running product": lambda x: jnp.cumprod(x, 1),
    "running maximum": lambda x: lax.cummax(x, 1),
    "running logarithm of sums": lambda x: lax.cumlogsumexp(x, 1),
    "where the maximum is": lambda x: jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1),
    "sorted": lambda x: jnp.sort(x, 1),
    "sorted rows": lambda x: jnp.sort(x, 0),
    "best": lambda x: lax.top_k(x, 2)[0],
    # shapes
    "transpose": lambda x: jnp.sin(x.T) * 2,
    "flat": lambda x: jnp.sin(x.reshape(-1)),
    "split dims": lambda x: jnp.sin(x.reshape(8, 2, 2)),
    "split first dim": lambda x: jnp.sin(x.reshape(2, 4, 4)),
    "new dim": lambda x: x[None] * jnp.ones((2, 1, 1)),
    "broadcast": lambda x: jnp.sin(jnp.broadcast_to(x[:, None], (8, 3, 4))),
    "squeezed": lambda x: x[:, :1].squeeze(1),
    "turned": lambda x: x[:, ::-1] * x,
    "turned rows": lambda x: x[::-1] * 2,
    "rolled": lambda x: jnp.roll(x, 1, 1),
    "padded": lambda x: jnp.pad(x, ((0, 0), (1, 2))),
    "padded rows": lambda x: jnp.pad(x, ((1, 1), (0, 0))),
    "sliced": lambda x: x[:, 1:3],
    "sliced rows": lambda x: x[2:6],
    "strided": lambda x: x[:, ::2],
    "one row": lambda x: x[3],
    "one column": lambda x: x[:, 1],
    "joined": lambda x: jnp.concatenate([x, x * x], 1),
    "joined rows": lambda x: jnp.concatenate([x, x * x], 0),
    "stacked": lambda x: jnp.stack([x, jnp.sin(x)]),
    "split": lambda x: functools.reduce(lambda a, b: a * b, jnp.split(x, 2, 1)),
    "tiled": lambda x: jnp.tile(x, (1, 2)),
    "repeated": lambda x: jnp.repeat(x, 2, 1),
    "lower triangle": jnp.tril,
    "diagonal": lambda x: jnp.diagonal(x[:4]),
    "outer": lambda x: x[:, :, None] * x[:, None, :],
    # places in the data
    "dynamic slice": lambda x: lax.dynamic_slice(x, (0, 1), (8, 2)),
    "dynamic slice at a place": lambda x: lax.dynamic_slice_in_dim(x, jnp.argmax(lax.iota("int32", 3)), 2, 1),
    "dynamic update": lambda x: lax.dynamic_update_slice(x, jnp.ones((8, 1)), (0, 1)) * x,
    "looked up rows": lambda x: x[jnp.array([0, 2, 2])],
    "looked up columns": lambda x: x[:, jnp.array([0, 2, 2])],
    "set row": lambda x: x.at[0].set(1.0) * x,
    "set column": lambda x: x.at[:, 1].set(0.0) * x,
    "added to column": lambda x: x.at[:, 1].add(x[:, 0]),
    "multiplied column": lambda x: x.at[:, 1].multiply(3.0),
    # contractions
    "with itself": lambda x: x @ x.T,
    "with itself, other way": lambda x: x.T @ x,
    "trace": lambda x: jnp.einsum("ij,ij->", x, x),
    "batched": lambda x: jnp.einsum("bi,bj->bij", x, x),
    "three": lambda x: jnp.einsum("bi,bj,bk->ijk", x, x, x),
    "matrix of ones": lambda x: x @ jnp.ones((4, 3)),
    # loops, calls, mapped
    "mapped": jax.vmap(lambda row: jnp.outer(row, row)),
    "mapped over columns": jax.vmap(lambda column: column / (1 + jnp.sum(column**2)), 1, 1),
    "mapped in a loop": lambda x: lax.map(lambda row: jnp.tanh(row) * row, x),
    "loop over rows": lambda x: lax.scan(lambda c, row: (c * 0.5 + row, c), jnp.zeros(4), x)[1],
    "counted loop": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x),
    "counted loop with its number": lambda x: lax.fori_loop(0, 3, lambda i, c: c * i + x, x),
    "loop with an integer": lambda x: lax.scan(lambda c, _: ((c[0] * x, c[1] + 1), None), (x, 0), None, length=3)[0][0],
    "nested loops": lambda x: lax.fori_loop(0, 2, lambda _, c: lax.fori_loop(0, 3, lambda _, d: jnp.tanh(d + c), c), x),
    "choice": lambda x: lax.cond(jnp.sum(lax.stop_gradient(x)) > 0, jnp.sin, lambda x: x * x, x),
    "call": jax.jit(lambda x: jnp.sin(x) * x),
    "call with constants": jax.jit(lambda x: jnp.sin(x * np.arange(4.0, dtype=np.float32))),
    "call with constants in a loop": lambda x: lax.fori_loop(
        0, 3, lambda _, c: jax.jit(lambda c: jnp.sin(c * np.arange(4.0, dtype=np.float32)))(c), x
    ),
    "call in a call": jax.jit(lambda x: jax.jit(jnp.tanh)(x) * jax.jit(jnp.tanh)(x * x)),
    "computed again": jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))),
    "computed again twice": jax.checkpoint(lambda x: jax.checkpoint(jnp.sin)(jnp.sin(x)) * x),
    "computed again but for products": jax.checkpoint(
        lambda x: jnp.sin(jnp.sin(x) @ jnp.ones((4, 4))), policy=jax.checkpoint_policies.dots_saveable
    ),
    "gradient of a gradient": jax.grad(lambda x: jnp.sum(jnp.sin(x) * x**2)),
    "product of a Jacobian": lambda x: jax.jvp(lambda x: jnp.sin(x) * x, (x,), (jnp.cos(x),))[1],
    "product of a transposed Jacobian": lambda x: jax.vjp(lambda x: jnp.sin(x) * x, x)[1](x)[0],
    "linearized": lambda x: jax.linearize(lambda x: jnp.sin(x) * x, x)[1](x),
    "matrix-free solution": lambda x: lax.custom_linear_solve(
        lambda v: 2.0 * v, x, lambda _, b: b / 2.0, symmetric=True
    ),
    # placements
    "gathered": lambda x: jnp.sin(jax.reshard(x, P())),
    "gathered to reduced": lambda x: jnp.sin(jax.reshard(x, P(None, None, reduced={"X"}))),
    "placed otherwise": lambda x: jnp.sin(jax.reshard(x, P(None, "X"))),
    "placed on the other axis": lambda x: jnp.sin(jax.reshard(x, P("Y"))),
    "gathered in a loop": lambda x: lax.fori_loop(
        0, 3, lambda _, c: jnp.sin(c * jax.reshard(x, P())), jnp.ones((8, 4))
    ),
    "gathered in a call in a loop": lambda x: lax.fori_loop(
        0, 3, lambda _, c: jax.jit(lambda c: jnp.sin(c * jax.reshard(x, P())))(c), jnp.ones((8, 4))
    ),
    "gathered in a choice in a loop": lambda x: lax.fori_loop(
        0, 3, lambda i, c: lax.cond(i > 1, lambda c: jnp.sin(c * jax.reshard(x, P())), lambda c: c, c), jnp.ones((8, 4))
    ),
    "gathered in a loop in a loop": lambda x: lax.fori_loop(
        0, 3, lambda _, c: lax.fori_loop(0, 2, lambda _, d: jnp.sin(d * jax.reshard(x, P()) * c), c), jnp.ones((8, 4))
    ),
    "gathered in two calls in a loop": lambda x: lax.fori_loop(
        0,
        3,
        lambda _, c: jax.jit(lambda c, y: (jax.jit(lambda d, z: d * jax.reshard(z, P()))(c, y) + jnp.sin(c), y))(c, x)[
            0
        ],
        jnp.ones((8, 4)),
    ),
    "gathered and computed again in a loop": lambda x: lax.fori_loop(
        0, 3, lambda _, c: jax.checkpoint(lambda c, x: jnp.sin(c * jax.reshard(x, P())))(c, x), jnp.ones((8, 4))
    ),
    "gathered and mapped in a loop": lambda x: lax.fori_loop(
        0,
        3,
        lambda _, c: jax.shard_map(
            lambda c, x: jnp.sin(c * lax.all_gather(x, "X", tiled=True)[: c.shape[0]]),
            in_specs=(P("X"), P("X")),
            out_specs=P("X"),
        )(c, jax.reshard(x, P("X"))),
        jax.reshard(jnp.ones((8, 4)), P("X")),
    ),
    "gathered, computed again": jax.checkpoint(lambda x: jnp.sin(jax.reshard(x, P())) ** 2),
    "gathered in a choice": lambda x: lax.cond(
        lax.iota("int32", 3)[1] > 0, lambda x: jnp.sin(jax.reshard(x, P())), lambda x: jax.reshard(x, P()) * 2, x
    ),
    # linear algebra and the rest
    "triangular solution": lambda x: jax.scipy.linalg.solve_triangular(jnp.eye(8) * 2, x, lower=True),
    "Cholesky": lambda x: jnp.linalg.cholesky(x.T @ x + jnp.eye(4)),
    "inverse": lambda x: jnp.linalg.inv(x[:4] + 5 * jnp.eye(4)),
    "solution": lambda x: jnp.linalg.solve(x[:4] + 5 * jnp.eye(4), x[:4]),
    "determinant": lambda x: jnp.linalg.slogdet(x[:4] + 5 * jnp.eye(4))[1],
    "QR": lambda x: jnp.linalg.qr(x)[1],
    "singular values": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "eigenvalues": lambda x: jnp.linalg.eigvalsh(x.T @ x),
    "matrix exponential": lambda x: jax.scipy.linalg.expm(x[:4]),
    "Fourier": lambda x: jnp.real(jnp.fft.fft(x, axis=1)) + jnp.imag(jnp.fft.fft(x, axis=1)),
    "real Fourier": lambda x: jnp.abs(jnp.fft.rfft(x, axis=1)),
    "convolution": lambda x: lax.conv_general_dilated(x[:, None], jnp.ones((2, 1, 3)), (1,), "SAME"),
    "sums of windows": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 1), "VALID"),
    "maxima of windows": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID"),
    "segment sums": lambda x: jax.ops.segment_sum(x, jnp.array([0, 0, 1, 1, 2, 2, 2, 2]), 3),
    "interpolated": lambda x: jax.image.resize(x, (8, 8), "linear"),
    "einsum of a path": lambda x: jnp.einsum("bi,ij,jk->bk", x, jnp.ones((4, 3)), jnp.ones((3, 2))),
}

TWO: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": lambda x, y: x + y,
    "difference": lambda x, y: x - y,
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / (y + 3),
    "maximum of two": jnp.maximum,
    "power of two": lambda x, y: (x * x + 1) ** y,
    "angle": lambda x, y: jnp.arctan2(x, y + 3),
    "remainder": lambda x, y: jnp.mod(x, y + 3),
    "logaddexp": jnp.logaddexp,
    "hypotenuse": lambda x, y: jnp.hypot(x, y + 3),
    "chosen": lambda x, y: jnp.where(lax.stop_gradient(x) > 0, x, y),
    "joined two": lambda x, y: jnp.concatenate([x, y], 1),
    "product of matrices": lambda x, y: x @ y.T,
    "product of matrices, other way": lambda x, y: jnp.einsum("bi,bj->ij", x, y),
    "batched product": lambda x, y: jnp.einsum("bi,bi->b", x, y),
    "outer product": lambda x, y: jnp.einsum("bi,bj->bij", x, y),
    "solved": lambda x, y: jax.scipy.linalg.solve_triangular(y[:4] + 5 * jnp.eye(4), x[:4], lower=True),
    "written in": lambda x, y: lax.dynamic_update_slice(x, y[:, :2], (0, 1)),
    "scattered": lambda x, y: x.at[:, jnp.array([0, 2])].add(y[:, :2]),
    "loop with two": lambda x, y: lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c * y), x),
    "carried pair": lambda x, y: lax.fori_loop(0, 3, lambda _, c: (c[1], jnp.sin(c[0]) + c[1]), (x, y))[0],
    "choice between two": lambda x, y: lax.cond(
        lax.iota("int32", 3)[1] > 0, lambda x, y: x * y, lambda x, y: x + y, x, y
    ),
}

PAIRS: Final = {
    "alike": (P("X"), P("X")),
    "both whole": (P(), P()),
    "cut and whole": (P("X"), P()),
    "whole and cut": (P(), P("X")),
    "second dims": (P(None, "X"), P(None, "X")),
    "both reduced": (P(None, None, reduced={"X"}), P(None, None, reduced={"X"})),
    "cut and reduced": (P("X"), P(None, None, reduced={"X"})),
    "apart": (P("X"), P(None, "Y")),
    "reduced beside": (P("Y", None, reduced={"X"}), P("Y")),
}


def _summed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of the result's squares: as a product, for which a reduced value has a rule."""

    def loss(*arrays: Any) -> Any:
        found = function(*arrays)
        return jnp.sum(found * found)

    return loss


def operations() -> Iterator[tuple[str, Callable[[], Sample]]]:
    """Every operation at every placement, by name."""
    for name, function in ONE.items():
        for placement, spec in PLACEMENTS.items():
            arrays = (Array((8, 4), spec),)
            yield f"{name} ({placement})", functools.partial(Sample, _summed(function), arrays)
    for name, two in TWO.items():
        for placement, (one, other) in PAIRS.items():
            pair = Array((8, 4), one), Array((8, 4), other)
            yield f"{name} ({placement})", functools.partial(Sample, _summed(two), pair)
