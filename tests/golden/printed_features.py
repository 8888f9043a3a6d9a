"""Programs for `printed/` with different things in them: cells, notes, effects, values, types. See `make_printed`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import checkify, io_callback
from jax.experimental import pallas as pl
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.golden.printing import S, Texts, X, printed, text, text_on

# Mutable cells


def _cells(x: Any) -> Any:
    cell = jax.new_ref(x)
    cell[...] = jnp.sin(cell[...])
    cell[0, 1:3, :] = jnp.ones_like(x[0, 1:3, :])
    cell[x.shape[0] - 1].sum()
    first = cell[0]
    jax.ref.addupdate(cell, (0,), first)
    jax.ref.addupdate(cell, ..., x)
    old = jax.ref.swap(cell, (1,), first * 2)

    def step(i: Any, _: Any) -> None:
        cell[i] = cell[i] * 2
        cell[i, lax.iota(jnp.int32, 2)] += 1.0
        cell[0, jax.ds(i, 2), ::2] = cell[1, jax.ds(i, 2), ::2]

    lax.fori_loop(0, 2, step, None)
    return old, jax.freeze(cell) if hasattr(jax, "freeze") else cell[...]


@text
def cells() -> Texts:
    """Mutable cells: reads, writes, exchanges, sums; slices, moving indices, cells among the inputs."""
    x = jnp.ones((2, 4, 4))

    def inputs(cell: Any, other: Any, x: Any) -> Any:
        cell[...] += x
        other[0] = cell[1]
        return jax.jit(lambda: cell[...] * 2)()

    def loop(cell: Any, xs: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            cell[...] = x + cell[...]
            return (), cell[1]

        return lax.scan(step, (), xs)

    made = {"cells": printed(_cells, x), "cells_effects": printed(_cells, x, print_effects=True)}
    made["cells_inputs"] = printed(inputs, jax.new_ref(X), jax.new_ref(X), X)
    made["cells_inputs_effects"] = printed(inputs, jax.new_ref(X), jax.new_ref(X), X, print_effects=True)
    made["cells_scan"] = printed(loop, jax.new_ref(X), jnp.ones((3, 4)))
    return made


@text
def kernels() -> Texts:
    """Pallas kernels: a grid, blocks, scratch, a masked load."""

    def kernel(a: Any, b: Any, out: Any) -> None:
        i = pl.program_id(0)

        @pl.when(i > 0)
        def _() -> None:
            out[...] = a[...] + b[...]

        out[0, :] += a[1, pl.ds(0, 128)]

    def add(a: Any, b: Any) -> Any:
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct(a.shape, a.dtype)
        return pl.pallas_call(kernel, shape, grid=(4,), in_specs=[block, block], out_specs=block)(a, b)

    a = jnp.ones((32, 128))
    return {"kernels": printed(add, a, a), "kernels_effects": printed(add, a, a, print_effects=True)}


# Notes and effects


def compiled(source: str) -> dict[str, Any]:
    """The names that this source defines, as if it stood in a file `model.py`."""
    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax, "debug_print": jax.debug.print}
    exec(compile(source, "model.py", "exec"), names)
    return names


_SOURCE = """
def scaled(x, y):
    return jnp.sin(x) * y

@jax.jit
def layer(x, w):
    y = scaled(x @ w, 2.0)
    return jnp.where(y > 0, y, 0)

def loss(x, ws):
    for w in ws:
        with jax.named_scope("layer"):
            x = layer(x, w)
    debug_print("x={x}", x=x[0, 0])
    return lax.cond(x.sum() > 0, lambda x: jnp.sin(x), lambda x: x, x).sum()

def cells(x):
    cell = jax.new_ref(x)
    cell[...] = jnp.sin(x)
    cell[0] = cell[1] * 2
    jax.ref.addupdate(cell, (1,), 1.0)
    old = jax.ref.swap(cell, (0,), 3.0)
    return cell[...], old

def wide(*xs):
    ys = lax.optimization_barrier(xs)
    return lax.concatenate(ys, 0), jax.jit(lambda x: x)(xs[0])
"""


@text
def source() -> Texts:
    """Source comments, in one column; several on one line; on lines that wrap; with scopes instead."""
    model = compiled(_SOURCE)
    a, ws = jnp.ones((4, 4)), [jnp.ones((4, 4))] * 3
    return {
        "source": printed(model["loss"], a, ws, source_info=True),
        "source_grad": printed(jax.grad(model["loss"]), a, ws, source_info=True),
        "source_cells": printed(model["cells"], X, source_info=True),
        "source_wide": printed(model["wide"], *[X] * 30, source_info=True),
        "source_short": printed(jax.jit(model["scaled"]), S, S, source_info=True),
        "source_and_effects": printed(model["loss"], a, ws, source_info=True, print_effects=True),
        "scopes": printed(model["loss"], a, ws, name_stack=True),
    }


@text
def effects() -> Texts:
    """Effects after every program's outputs."""

    def calls(x: Any) -> Any:
        jax.debug.print("{x}", x=x)
        jax.debug.print("a={x} [b={y}] {{c}} é=2.0:f32[]", x=x, y=x * 2, ordered=True)
        jax.debug.callback(lambda x: None, x)
        y = io_callback(lambda x: x, jax.ShapeDtypeStruct((), jnp.float32), x, ordered=True)
        return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct((), jnp.float32), y, vmap_method="sequential")

    def looped(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, x: calls(x), x)

    def check(x: Any) -> Any:
        checkify.check(x > 0, "x must be positive, [not {x}] = bad", x=x)
        return jnp.log(x)

    checked = checkify.checkify(check, errors=checkify.float_checks)
    return {
        "effects": printed(looped, S, print_effects=True),
        "effects_unprinted": printed(looped, S),
        "effects_none": printed(jax.jit(jnp.sin), X, print_effects=True),
        "checks": printed(check, S, print_effects=True),
        "checks_done": printed(checked, S, print_effects=True),
    }


# Values and types


@text
def values() -> Texts:
    """Parameters of every sort."""
    image, filters = jnp.ones((2, 8, 8, 3)), jnp.ones((3, 3, 3, 5))

    def arrays(x: Any, image: Any, filters: Any, i: Any) -> Any:
        dims = ("NHWC", "HWIO", "NHWC")
        convolved = lax.conv_general_dilated(image, filters, (2, 1), "SAME", dimension_numbers=dims)
        padded = lax.pad(x, 0.0, [(1, 2, 0), (0, -1, 3)])
        taken = x[jnp.array([0, 1]), i], jnp.take_along_axis(x, jnp.zeros((1, 5), int), 0), x.at[i].add(2.0)
        sliced = lax.dynamic_slice(x, (i, 0), (1, 2)), lax.slice(x, (0, 1), (3, 4), (2, 1)), x[::-1, None, 1:3]
        sorted_ = lax.sort((x, -x), num_keys=2), lax.top_k(x, 2), jnp.argsort(x), jnp.argmax(x, 1)
        pooled = lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"), lax.cumsum(x, 1, reverse=True)
        cast = x.astype(jnp.bfloat16), x.astype(jnp.float8_e4m3fn), lax.bitcast_convert_type(x, jnp.int32)
        return convolved, padded, taken, sliced, sorted_, pooled, cast

    def linear(x: Any, w: Any) -> Any:
        high = lax.Precision.HIGHEST
        mixed = jnp.einsum("bij,bjk->ikb", jnp.ones((2, 5, 4)), jnp.ones((2, 4, 3)), precision=high)
        dot = lax.dot(x, w, preferred_element_type=jnp.float32)
        return mixed, dot, jnp.linalg.cholesky(w @ w.T), jnp.fft.rfft(x), jnp.linalg.svd(w), jnp.linalg.qr(w)

    def numbers(x: Any) -> Any:
        small = x * 1e-38 + 1.0000000150474662e30 - jnp.inf
        other = jnp.where(x > jnp.nan, jnp.int8(-128), jnp.int8(3)), lax.select(True, x, x), x * (1 + 2j) - 1j
        wide = jnp.uint32(4294967295) + x.astype(jnp.uint32), jnp.int32(-2147483648), x.astype(bool) & True
        return small, other, wide, jnp.float16(0.1) * x.astype(jnp.float16), -0.0 * x, x**3, x**2.5

    def constants(x: Any) -> Any:
        return x + np.arange(4.0), jnp.array([1, 2, 3]), np.float32(2) * x, x[np.array([3, 1])]

    key = jax.random.key(0)
    rbg = jax.random.key(0, impl="rbg")
    return {
        "values_arrays": printed(arrays, jnp.ones((4, 5)), image, filters, 1),
        "values_linear": printed(linear, jnp.ones((4, 4)), jnp.ones((4, 4))),
        "values_numbers": printed(numbers, S),
        "values_constants": printed(constants, X),
        "values_random": printed(lambda k: jax.random.choice(k, 10, (3,), replace=False), key),
        "values_rbg": printed(lambda k: (jax.random.split(k, 3), jax.random.bits(k), jax.random.fold_in(k, 3)), rbg),
    }


@text
def dims() -> Texts:
    """Symbolic dims."""
    from jax import export

    b, s = export.symbolic_shape("b, s", constraints=["b >= 2"])
    x = jax.ShapeDtypeStruct((b + 1, 2 * s), jnp.float32)
    return printed(lambda x: (jnp.concatenate([x, x], 1).T, x.reshape(-1), jax.nn.softmax(x[: b - 1])), x)


@text
def foreign() -> Texts:
    """Calls of foreign functions, pure, with side effects, aliasing."""

    def call(x: Any, y: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        one = jax.ffi.ffi_call("my.op", shape)(x, y, scale=np.float32(1.5), name="text", count=np.int64(4))
        two = jax.ffi.ffi_call("my.other", (shape, shape), has_side_effect=True, input_output_aliases={0: 1})(x, y)
        return one, two

    return printed(call, X, X)


# Meshes


def spread(shape: tuple[int, ...], *spec: Any) -> Any:
    """Ones, sharded on the mesh that is set."""
    return jax.reshard(jnp.ones(shape), P(*spec))


@text_on(data=4, model=2)
def sharded() -> Texts:
    """Explicit types: long binders, specs in parameters, long jit parameters."""

    x = spread((16, 8, 32), "data", None, "model")
    w = spread((32, 64), "model", None)
    v = spread((64, 16), ("data", "model"))

    def partial(x: Any, w: Any) -> Any:
        y = jnp.einsum("bsd,df->bsf", x, w, out_sharding=P("data", unreduced={"model"}))
        return jax.reshard(y, P("data", None, None)), jax.reshard(y, P(None, None, "model"))

    def moved(x: Any, v: Any) -> Any:
        y = jax.jit(lambda x: x * 2, out_shardings=NamedSharding(jax.sharding.get_abstract_mesh(), P("data")))(x)
        return y, jnp.sin(v), lax.broadcast(v, (2,)), y.reshape(4, 4, 8, 32, out_sharding=P("data"))

    def auto(x: Any) -> Any:
        return jax.sharding.auto_axes(lambda x: x @ x.mT, axes="model", out_sharding=P("data"))(x)

    def many(*xs: Any) -> Any:
        return lax.scan(lambda c, _: (tuple(a * 2 for a in c), c[0]), xs, None, length=3)

    return {
        "sharded_partial": printed(partial, x, w),
        "sharded_moved": printed(moved, x, v),
        "sharded_auto": printed(auto, x),
        "sharded_many": printed(many, *[x] * 9, *[v] * 5),
        "sharded_grad": printed(jax.grad(lambda w: partial(x, w)[0].sum()), w),
    }


@text_on(data=4, model=2)
def manual() -> Texts:
    """Manual types: collectives, loops inside, part of the mesh, no tracking."""
    x, everywhere = spread((16, 8), "data", "model"), P(("data", "model"))

    def body(x: Any) -> Any:
        y = lax.psum(x, ("data", "model")), lax.all_gather(x, "model", axis=1, tiled=True)
        z = lax.psum_scatter(x, "data", tiled=True), lax.ppermute(x, "data", [(0, 1), (1, 0)])
        w = lax.all_to_all(x, "data", 0, 0, tiled=True), lax.axis_index("data") + lax.axis_index(("data", "model"))
        c, _ = lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=3)
        return (sum(part.sum() for part in (*y, *z, w[0], c)) * w[1])[None]

    def summed(x: Any) -> Any:
        return lax.psum(jnp.sin(x).sum(), ("data", "model"))

    part = jax.shard_map(lambda x: jnp.sin(x) * 2, axis_names={"data"}, in_specs=P("data"), out_specs=P("data"))
    return {
        "manual": printed(jax.shard_map(body, out_specs=everywhere), x),
        "manual_grad": printed(jax.grad(jax.shard_map(summed, out_specs=P())), x),
        "manual_untracked": printed(jax.shard_map(body, out_specs=everywhere, check_vma=False), x),
        "manual_part": printed(part, x),
    }
