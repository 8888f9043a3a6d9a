"""Sample calls: for each primitive, small JAX functions that trace to it. Every dim has size 8 (so it divides by every
mesh that the matrix takes), except where a dim must have another size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import primitives

Operand: TypeAlias = "tuple[str, tuple[int, ...]]"
"""A dtype's long name, and a shape."""


class Sample(NamedTuple):
    """One call. primitive: the name of the primitive that `function`, traced at the operands, comes to. note: what
    tells it from other samples of the primitive. axes: the manual axes that the call names; then `state` is the state
    along them in which it takes its operand. asked: whether it is always told a sharding, and traced on a mesh. handed:
    the parameter that says how an operand or a result is handed over; `function` takes it as its last argument."""

    primitive: str
    function: Callable[..., Any]
    operands: tuple[Operand, ...]
    note: str = ""
    axes: tuple[str, ...] = ()
    state: str = ""
    asked: bool = False
    handed: str = ""


SQUARE: Final = (8, 8)
FLOAT: Final = ("float32", SQUARE)
WHOLE: Final = ("int32", SQUARE)
TRUTH: Final = ("bool", SQUARE)
NUMBER: Final = ("float32", ())
PLACE: Final = ("int32", ())

_UNARY: Final = """
    neg square sqrt rsqrt cbrt exp exp2 expm1 log log1p logistic sin cos tan asin acos atan sinh cosh tanh asinh acosh
    atanh erf erfc erf_inv abs sign floor ceil is_finite lgamma digamma bessel_i0e bessel_i1e
"""
_BINARY: Final = "add sub mul div rem pow max min atan2 eq ne ge gt le lt nextafter"
_BITWISE: Final = {
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    **{f"shift_{way}": getattr(lax, f"shift_{way}") for way in ("left", "right_logical", "right_arithmetic")},
}
_ACCUMULATED: Final = "cumsum cumprod cummax cummin cumlogsumexp"


def _elementwise() -> Iterator[Sample]:
    for name in _UNARY.split():
        yield Sample(name, getattr(lax, name), (FLOAT,))
    for name in _BINARY.split():
        yield Sample(name, getattr(lax, name), (FLOAT, FLOAT))
    for name in ("eq_to", "le_to", "lt_to"):
        yield Sample(name, _bound(name), (FLOAT, FLOAT))
    yield Sample("mulhi", lax.mulhi, (WHOLE, WHOLE))
    if hasattr(lax, "polynomial"):
        yield Sample("log2", lax.log2, (FLOAT,))
        yield Sample("polynomial", lambda x, a, b: lax.polynomial(x, [a, b]), (FLOAT, FLOAT, FLOAT))
    for name in ("mul", "add"):
        yield Sample(name, _bound(name), (FLOAT, NUMBER), "by a scalar")
        yield Sample(name, _bound(name), (FLOAT, ("float32", (8, 1))), "by a column")
    yield Sample("mul", lambda x: x * 2.0, (FLOAT,), "by 2")
    yield Sample("add", lambda x: x + 1.0, (FLOAT,), "1")
    yield Sample("add", lambda x: x + 0.0, (FLOAT,), "0")
    yield Sample("add", lax.add, (WHOLE, WHOLE), "of integers")
    yield Sample("div", lax.div, (WHOLE, WHOLE), "of integers")
    yield Sample("neg", lax.neg, (NUMBER,), "of a scalar")
    for name, function in _BITWISE.items():
        yield Sample(name, function, (WHOLE, WHOLE))
    yield Sample("and", lax.bitwise_and, (TRUTH, TRUTH), "of truth values")
    yield Sample("not", lax.bitwise_not, (WHOLE,))
    yield Sample("population_count", lax.population_count, (WHOLE,))
    yield Sample("clz", lax.clz, (WHOLE,))
    yield Sample("add_any", primitives.add_jaxvals_p.bind, (FLOAT, FLOAT))
    yield Sample("copy", primitives.copy_p.bind, (FLOAT,))
    yield Sample("stop_gradient", primitives.stop_gradient_p.bind, (FLOAT,))
    if hasattr(primitives, "one_minus_square_p"):
        yield Sample("one_minus_square", primitives.one_minus_square_p.bind, (FLOAT,))
    yield Sample("integer_pow", lambda x: lax.integer_pow(x, 3), (FLOAT,))
    yield Sample("round", lax.round, (FLOAT,))
    yield Sample("complex", lax.complex, (FLOAT, FLOAT))
    yield Sample("real", lax.real, (("complex64", SQUARE),))
    yield Sample("imag", lax.imag, (("complex64", SQUARE),))
    yield Sample("conj", lax.conj, (("complex64", SQUARE),))
    yield Sample("reduce_precision", lambda x: lax.reduce_precision(x, 8, 3), (FLOAT,))
    yield Sample("clamp", lax.clamp, (FLOAT, FLOAT, FLOAT))
    yield Sample("clamp", lax.clamp, (NUMBER, FLOAT, NUMBER), "between scalars")
    yield Sample("select_n", lax.select_n, (TRUTH, FLOAT, FLOAT))
    yield Sample("select_n", lax.select_n, (("bool", ()), FLOAT, FLOAT), "by a scalar")
    for source, target in (("float32", "bfloat16"), ("float32", "int32"), ("int32", "float32"), ("int32", "int8")):
        convert = _converting(target)
        yield Sample("convert_element_type", convert, ((source, SQUARE),), f"{source} to {target}")
    yield Sample("bitcast_convert_type", lambda x: lax.bitcast_convert_type(x, jnp.int32), (FLOAT,))
    for name in ("igamma", "igammac", "igamma_grad_a", "polygamma", "zeta"):
        yield Sample(name, getattr(lax, name), (FLOAT, FLOAT))
    yield Sample("regularized_incomplete_beta", lax.betainc, (FLOAT, FLOAT, FLOAT))


def _bound(name: str) -> Callable[..., Any]:
    """A primitive itself: the function around it broadcasts its operands first."""
    bind: Callable[..., Any] = getattr(primitives, f"{name}_p").bind
    return bind


def _converting(target: str) -> Callable[[Any], Any]:
    return lambda x: lax.convert_element_type(x, target)


def _shaping() -> Iterator[Sample]:
    yield Sample("transpose", lambda x: lax.transpose(x, (1, 0)), (FLOAT,))
    yield Sample("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (8, 8, 8), (1, 2)), (FLOAT,))
    yield Sample("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, SQUARE, ()), (NUMBER,), "of a scalar")
    yield Sample("reshape", lambda x: lax.reshape(x, (64,)), (FLOAT,), "that joins")
    yield Sample("reshape", lambda x: lax.reshape(x, (8, 2, 4)), (FLOAT,), "that splits")
    yield Sample("squeeze", lambda x: lax.squeeze(x, (1,)), (("float32", (8, 1, 8)),))
    yield Sample("slice", lambda x: lax.slice(x, (0, 0), (4, 8)), (FLOAT,))
    yield Sample("pad", lambda x, p: lax.pad(x, p, ((0, 8, 0), (0, 0, 0))), (FLOAT, NUMBER))
    yield Sample("pad", lambda x: lax.pad(x, 0.0, ((0, 8, 0), (0, 0, 0))), (FLOAT,), "with 0")
    yield Sample("pad", lambda x: lax.pad(x, 1.0, ((0, 8, 0), (0, 0, 0))), (FLOAT,), "with 1")
    yield Sample("concatenate", lambda x, y: lax.concatenate([x, y], 0), (FLOAT, FLOAT))
    yield Sample("split", lambda x: lax.split(x, (4, 4), 0), (FLOAT,))
    yield Sample("rev", lambda x: lax.rev(x, (0,)), (FLOAT,))
    if hasattr(primitives, "tile_p"):
        yield Sample("tile", lambda x: lax.tile(x, (2, 1)), (FLOAT,))
    yield Sample("stack", lambda x, y: jnp.stack([x, y]), (FLOAT, FLOAT))
    yield Sample("unstack", jnp.unstack, (FLOAT,))
    yield Sample("iota", lambda: lax.broadcasted_iota("int32", SQUARE, 0), ())
    yield Sample("empty", lambda: lax.empty(SQUARE, "float32"), ())


def _reducing() -> Iterator[Sample]:
    for name in ("sum", "max", "min", "prod"):
        yield Sample(f"reduce_{name}", _along(f"reduce_{name}", (0,)), (FLOAT,))
    for name in ("and", "or", "xor"):
        yield Sample(f"reduce_{name}", _along(f"reduce_{name}", (0,)), (WHOLE,))
    yield Sample("reduce_or", _along("reduce_or", (0,)), (TRUTH,), "of truth values")
    yield Sample("reduce_sum", _along("reduce_sum", (0, 1)), (FLOAT,), "of everything")
    for name in ("argmax", "argmin"):
        yield Sample(name, _along(name, 0, jnp.int32), (FLOAT,))
    for name in _ACCUMULATED.split():
        yield Sample(name, _along(name, 0), (FLOAT,))
    yield Sample("sort", lambda x: lax.sort(x, dimension=0), (FLOAT,))
    yield Sample("sort", lambda x, y: lax.sort((x, y), dimension=0), (FLOAT, FLOAT), "of two")
    yield Sample("reduce", lambda x: [lax.reduce(x, np.float32(5), lambda a, b: a + b + 0.0, (0,))], (FLOAT,))
    yield Sample("approx_top_k", lambda x: lax.approx_max_k(x, 2), (FLOAT,))
    yield Sample("top_k", lambda x: lax.top_k(x, 2), (FLOAT,))


def _along(name: str, *arguments: Any) -> Callable[[Any], Any]:
    return lambda x: getattr(lax, name)(x, *arguments)


def _contracting() -> Iterator[Sample]:
    yield Sample("dot_general", lax.dot, (FLOAT, FLOAT))
    batched = ("float32", (8, 8, 8))
    yield Sample("dot_general", lax.batch_matmul, (batched, batched), "batched")
    image, window = ("float32", (8, 8, 8)), ("float32", (8, 8, 3))
    yield Sample("conv_general_dilated", lambda x, w: lax.conv(x, w, (1,), "SAME"), (image, window))


def _indexing() -> Iterator[Sample]:
    yield Sample("dynamic_slice", lambda x, i, j: lax.dynamic_slice(x, (i, j), (4, 8)), (FLOAT, PLACE, PLACE))
    yield Sample(
        "dynamic_update_slice",
        lambda x, u, i, j: lax.dynamic_update_slice(x, u, (i, j)),
        (FLOAT, ("float32", (4, 8)), PLACE, PLACE),
    )
    places = ("int32", (8, 1))
    yield Sample("gather", _rows, (FLOAT, places))
    for name in ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"):
        yield Sample(name.replace("_", "-"), _scattered(name), (FLOAT, places, FLOAT))


def _rows(x: Any, places: Any) -> Any:
    numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    return lax.gather(x, places, numbers, (1, 8), mode="clip")


def _scattered(name: str) -> Callable[..., Any]:
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return lambda x, places, updates: getattr(lax, name)(x, places, updates, numbers, mode="clip")


def _random() -> Iterator[Sample]:
    key = ("key<fry>", ())
    yield Sample("random_bits", lambda k: jax.random.bits(k, SQUARE), (key,))
    yield Sample("random_split", jax.random.split, (key,))
    yield Sample("random_fold_in", jax.random.fold_in, (key, ("uint32", ())))
    yield Sample("random_unwrap", jax.random.key_data, (key,))
    yield Sample("random_wrap", jax.random.wrap_key_data, (("uint32", (2,)),))
    yield Sample("random_clone", jax.random.clone, (key,))
    yield Sample("random_seed", jax.random.key, (("uint32", ()),))
    yield Sample("random_gamma", jax.random.loggamma, (key, FLOAT))
    word = ("uint32", SQUARE)
    yield Sample("threefry2x32", primitives.threefry2x32_p.bind, (word,) * 4)
    yield Sample("rng_bit_generator", lambda k: lax.rng_bit_generator(k, SQUARE), (("uint32", (4,)),))


def _grouped() -> Iterator[Sample]:
    """Products with groups that sizes say, and copies side by side."""
    counts = ("int32", (8,))
    yield Sample("ragged_dot_general", lax.ragged_dot, (FLOAT, ("float32", (8, 8, 8)), counts))
    yield Sample("tile", lambda x: lax.tile(x, (2, 1)), (FLOAT,))


def _moving() -> Iterator[Sample]:
    yield Sample("name", lambda x: checkpoint_name(x, "kept"), (FLOAT,))
    yield Sample("optimization_barrier", lax.optimization_barrier, (FLOAT,))
    for name in ("in_shardings", "out_shardings"):
        yield Sample("jit", _handing(name), (FLOAT,), f"with {name}", asked=True, handed=name)
    yield Sample("sharding_constraint", lax.with_sharding_constraint, (FLOAT,), asked=True, handed="sharding")
    yield Sample("reshard", lambda x: jax.sharding.reshard(x, jax.P("X")), (FLOAT,), asked=True)


def _handing(name: str) -> Callable[..., Any]:
    return lambda x, sharding: jax.jit(primitives.copy_p.bind, **{name: sharding})(x)


def _collective() -> Iterator[Sample]:
    """Casts and collectives, over one axis and over two; where both releases have them under one name, under that."""
    for axes in (("X",), ("X", "Y")):
        over = f"over {' and '.join(axes)}"
        for name, state, function in _over(axes):
            yield Sample(name, function, (FLOAT,) if state else (), over, axes, state)
    yield Sample("all_to_all", lambda x: lax.all_to_all(x, "X", 0, 1, tiled=True), (FLOAT,), "", ("X",), "V")
    yield Sample("pbroadcast", lambda x: lax.pbroadcast(x, "X", 0), (FLOAT,), "", ("X",), "V")
    yield Sample("ppermute", lambda x: lax.ppermute(x, "X", [(0, 1), (1, 0)]), (FLOAT,), "", ("X",), "V")


def _over(axes: tuple[str, ...]) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """The name of each, the state it takes, and the function, bound to these axes."""
    yield "pvary", "N", lambda x: lax.pcast(x, axes, to="varying")
    yield "preduced", "N", lambda x: lax.pcast(x, axes, to="reduced")
    yield "reduced_vary_cast", "R", lambda x: lax.pcast(x, axes, to="varying")
    yield "vary_unreduced_cast", "V", lambda x: lax.pcast(x, axes, to="unreduced")
    yield "psum_invariant", "V", lambda x: lax.psum(x, axes)
    yield "pmax", "V", lambda x: lax.pmax(x, axes)
    yield "pmin", "V", lambda x: lax.pmin(x, axes)
    yield "unreduced_psum", "U", lambda x: lax.psum(x, axes)
    if hasattr(jax.sharding, "UnreducedKind"):
        yield "unreduced_pmax", "U_max", lambda x: lax.pmax(x, axes)
        yield "unreduced_pmin", "U_min", lambda x: lax.pmin(x, axes)
    yield "all_gather", "V", lambda x: lax.all_gather(x, axes, tiled=True)
    yield "all_gather_reduced", "V", lambda x: lax.all_gather(x, axes, tiled=True, to="reduced")
    yield "all_gather_invariant", "V", lambda x: lax.all_gather(x, axes, tiled=True, to="invarying")
    yield "reduce_scatter", "V", lambda x: lax.psum_scatter(x, axes, tiled=True)
    yield "unreduced_reduce_scatter", "U", lambda x: lax.psum_scatter(x, axes, tiled=True)
    yield "axis_index", "", lambda: lax.axis_index(axes)


def _windowed() -> Iterator[Sample]:
    pooled = {"sum": (lax.add, 0.0), "max": (lax.max, -jnp.inf), "min": (lax.min, jnp.inf)}
    for name, (monoid, start) in pooled.items():
        yield Sample(f"reduce_window_{name}", _pool(monoid, start), (FLOAT,))
    yield Sample(
        "reduce_window",
        lambda x, start: lax.reduce_window(x, start, lambda a, b: a * b + 1, (2, 1), (2, 1), "VALID"),
        (FLOAT, NUMBER),
    )
    pool = _pool(*pooled["max"])
    yield Sample("select_and_scatter_add", lambda x, t: jax.vjp(pool, x)[1](t), (FLOAT, ("float32", (4, 8))))
    yield Sample("select_and_gather_add", lambda x, t: jax.jvp(pool, (x,), (t,)), (FLOAT, FLOAT))


def _pool(monoid: Any, start: float) -> Callable[[Any], Any]:
    return lambda x: lax.reduce_window(x, start, monoid, (2, 1), (2, 1), "VALID")


def _decomposing() -> Iterator[Sample]:
    """Linear algebra, of a batch of matrices; and transforms."""
    matrices, vectors = ("float32", (8, 8, 8)), ("float32", SQUARE)
    for name in ("cholesky", "eigh", "hessenberg", "lu", "qr", "svd", "schur", "tridiagonal", "eig"):
        yield Sample(name, getattr(lax.linalg, name), (matrices,))
    yield Sample("householder_product", lax.linalg.householder_product, (matrices, vectors))
    yield Sample("cholesky_update", lax.linalg.cholesky_update, (FLOAT, ("float32", (8,))))
    yield Sample("lu_pivots_to_permutation", lambda x: lax.linalg.lu_pivots_to_permutation(x, 8), (WHOLE,))
    yield Sample("ormqr", lax.linalg.ormqr, (matrices, vectors, matrices))
    yield Sample(
        "symmetric_product", lambda x, c: lax.linalg.symmetric_product(x, c, alpha=2.0, beta=3.0), (matrices, matrices)
    )
    yield Sample(
        "triangular_solve", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), (matrices, matrices)
    )
    yield Sample("tridiagonal_solve", lax.linalg.tridiagonal_solve, (vectors, vectors, vectors, matrices))
    yield Sample("fft", lambda x: lax.fft(x, "fft", (8,)), (("complex64", SQUARE),))


FAMILIES: Final = (
    _elementwise,
    _shaping,
    _reducing,
    _contracting,
    _indexing,
    _windowed,
    _decomposing,
    _random,
    _grouped,
    _moving,
    _collective,
)


def samples() -> Iterator[Sample]:
    """All sample calls."""
    for family in FAMILIES:
        yield from family()
