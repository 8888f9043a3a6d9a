"""Programs for `printed/` that lay out in different ways: heads, margins, nesting, hoisting. See `make_printed`."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.golden.printing import S, Texts, X, named, printed, text

# Heads, outputs, arguments


@text
def head() -> Texts:
    """Inputs and outputs fill several lines, or just fit, or are none."""
    many = [jnp.ones((k % 7 + 1, k % 3 + 2)) for k in range(60)]
    return {
        "many_inputs": printed(lambda *xs: sum(x.sum() for x in xs), *many),
        "many_outputs": printed(lambda *xs: [jnp.sin(x) for x in xs] + [2.5, True, 3], *many),
        "pass_through": printed(lambda *xs: xs, *many[:30]),
        "empty_body": printed(lambda x: x, X),
        "empty_body_wide": printed(lambda *xs: xs[:2], *many[:9]),
        "nothing": printed(lambda: ()),
        "no_outputs": printed(lambda x: (), X),
        "no_inputs": printed(lambda: jnp.zeros((2, 3)) + 1),
        "literal_outputs": printed(lambda x: (1.0, 2, True, 1j), X),
    }


@text
def margin() -> Texts:
    """Every width around the margin: of a block of parameters, of a head, of outputs, of a short body."""

    def blocks(x: Any) -> Any:
        return [named("f" * size, jnp.sin)(x) for size in range(1, 70)]

    def bodies(x: Any) -> Any:
        return [named(f"body{size}", lambda *xs: xs[:1] + xs)(*[x] * size) for size in range(1, 30)]

    def heads(x: Any) -> Any:
        wide = [jnp.ones((10,) * rank) for rank in range(6)]
        return [
            named(f"head{size}{rank}", lambda *xs: jnp.sin(xs[0]) * 2)(*[x] * size, wide[rank])
            for size in range(1, 10)
            for rank in range(6)
        ]

    return {"margin_block": printed(blocks, S), "margin_body": printed(bodies, S), "margin_head": printed(heads, S)}


@text
def arguments() -> Texts:
    """Operands and binders that wrap, before and after blocks of parameters."""
    xs = [jnp.full((2, k + 1), 1.0) for k in range(40)]

    def wide(*xs: Any) -> Any:
        joined = lax.concatenate(xs, 1)
        a_name = named("several", lambda *ys: [jnp.cos(y) for y in ys])
        return joined, lax.optimization_barrier(xs[:25]), a_name(*xs[3:33])

    def carried(*xs: Any) -> Any:
        return lax.scan(lambda carry, y: (tuple(jnp.sin(c) + y for c in carry), carry[0]), xs, jnp.arange(5.0))

    return {"arguments": printed(wide, *xs), "wide_scan": printed(carried, *[S] * 35)}


@text
def long_names() -> Texts:
    """Names longer than a line."""
    long = named("a_function_with_a_name_so_long_that_no_line_could_ever_hold_it_" * 2, lambda x: jnp.sin(x) * 2)
    unnamed = jax.jit(lambda x: x + 1)
    return printed(lambda x: (long(long(x)), unnamed(x), jax.jit(unnamed)(x)), X)


@text
def many_variables() -> Texts:
    """Variables called `in`, `is`, `if`, `or`, `do`, `as`: there are 700."""

    def chain(x: Any) -> Any:
        for _ in range(350):
            x = jnp.sin(x) * 2
        return x

    return printed(chain, X)


# Nested programs


@text
def control() -> Texts:
    """Branches, loops and the bodies inside them."""

    def inner(c: Any, x: Any) -> Any:
        def body(state: Any) -> Any:
            i, c = state
            return i + 1, lax.cond(i % 2 == 0, lambda c: jnp.sin(c) * x, lambda c: c, c)

        _, c = lax.while_loop(lambda state: state[0] < 3, body, (0, c))
        return c, lax.switch(jnp.int32(c), [jnp.sin, lambda c: c * 2 + x, lambda c: -c, lambda c: 3.0], c)

    def control(x: Any) -> Any:
        c, ys = lax.scan(inner, x, jnp.arange(4.0))
        return lax.fori_loop(0, 5, lambda i, c: c + i * ys.sum(), c)

    def same(x: Any) -> Any:
        return lax.cond(x > 0, jnp.sin, jnp.cos, x)

    return {
        "control": printed(control, S),
        "control_grad": printed(jax.grad(lambda x: lax.scan(lambda c, y: (same(c) * y, c), x, X)[0]), S),
        "small_branches": printed(same, S),
        "vmap_cond": printed(jax.vmap(same), X),
        "associative": printed(lambda x: lax.associative_scan(jnp.multiply, x), jnp.ones(16)),
        "map": printed(lambda x: lax.map(lambda y: jnp.sort(y)[0], x), jnp.ones((3, 4))),
        "reduce": printed(lambda x: lax.reduce(x, 1.0, lambda a, b: a * b + 1, (0,)), X),
    }


@text
def deep() -> Texts:
    """Programs nested until the indentation passes the margin, where everything that can break breaks."""

    def nest(depth: int) -> Callable[..., Any]:
        def level(x: Any, y: Any) -> Any:
            z = jnp.sin(x) * y
            if depth == 0:
                return lax.reduce_window(z, 0.0, lax.add, (2,), (1,), "SAME") + lax.concatenate([x, y], 0)[:4]
            return named(f"level{depth}", nest(depth - 1))(z, x) + lax.rev(z, ())

        return level

    def conditional(depth: int, x: Any) -> Any:
        if depth == 0:
            return jnp.cos(x)
        return lax.cond(x.sum() > depth, lambda x: conditional(depth - 1, x), lambda x: x, x)

    def shared(x: Any) -> Any:
        f = named("twice", jnp.sin)
        return nest(3)(f(x), f(x))

    return {
        "deep_jit": printed(nest(20), X, X),
        "deep_cond": printed(lambda x: conditional(8, x), X),
        "deep_no_equations": printed(named("a", named("b", lambda x: (x, x))), X),
        "deep_shared": printed(shared, X),
    }


@text
def hoisted() -> Texts:
    """Definitions: used twice, longer than ten equations, sharing a name, using one another."""

    def long(x: Any) -> Any:
        for _ in range(6):
            x = jnp.sin(x) * 2
        return x

    small = named("small", lambda x: jnp.sin(x) + 1)
    other = named("small", lambda x: small(x) * small(x))
    third = named("<lambda>", lambda x: other(x) - small(x))

    def all_of_them(x: Any) -> Any:
        y = jax.jit(long)(x) + small(x) + other(x)
        return lax.cond(y.sum() > 0, third, third, y), third(x), lax.scan(lambda c, _: (long(c), c), x, None, 3)

    def keys(key: Any) -> Any:
        return jax.random.normal(key, (3,)), jax.random.truncated_normal(key, -1, 1, (2,))

    return {"hoisted": printed(all_of_them, X), "hoisted_random": printed(keys, jax.random.key(0))}


@text
def derivatives() -> Texts:
    """Custom derivatives, remat with and without a policy, linear solves and roots."""

    @jax.custom_jvp
    def scaled(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    @scaled.defjvp
    def scaled_jvp(primals: Any, tangents: Any) -> Any:
        return scaled(*primals), tangents[0] * primals[1]

    @jax.custom_vjp
    def clipped(x: Any) -> Any:
        return jnp.clip(x, 0, 1)

    clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (g * (x > 0),))

    policy = jax.checkpoint_policies.dots_saveable

    @jax.checkpoint
    def plain(x: Any) -> Any:
        return jnp.sin(jnp.sin(x))

    def all_of_them(x: Any) -> Any:
        dots = jax.checkpoint(lambda x: jnp.dot(x, x) * jnp.sin(x), policy=policy)
        return scaled(x, 2 * x).sum() + clipped(x).sum() + plain(x).sum() + dots(x).sum()

    def solved(b: Any) -> Any:
        def solve(_: Any, b: Any) -> Any:
            return b / 2

        return lax.custom_linear_solve(lambda x: 2 * x + jnp.roll(x, 1), b, solve, transpose_solve=solve)

    def root(a: Any) -> Any:
        return lax.custom_root(lambda x: x * x - a, a, lambda f, x: x - f(x), lambda g, y: y / g(1.0))

    return {
        "derivatives": printed(all_of_them, X),
        "derivatives_grad": printed(jax.grad(all_of_them), X),
        "derivatives_jvp": printed(lambda x: jax.jvp(all_of_them, (x,), (x,)), X),
        "linear_solve": printed(solved, X),
        "linear_solve_grad": printed(jax.grad(lambda b: solved(b).sum()), X),
        "root": printed(root, S),
        "vmap_jacobian": printed(jax.jacrev(lambda x: clipped(x) * plain(x)), X),
    }


# Anything


@text
def anything() -> Texts:
    """Random programs: nested programs of random sizes with operands, names and parameters of random lengths."""
    made = {}
    for seed in range(6):
        dice = random.Random(seed)
        made[f"anything{seed}"] = printed(_random_function(dice, 4), *[jnp.ones(4)] * dice.randint(1, 12))
    return made


def _step(inner: Callable[..., Any], carry: Any, _: Any) -> Any:
    return tuple(inner(*carry)), carry[0]


def _random_function(dice: random.Random, depth: int) -> Callable[..., Any]:
    """A function of a fixed number of vectors that gives as many; the same each time it is traced."""
    steps = [(dice.randrange(9), dice.random(), dice.randrange(99)) for _ in range(dice.randint(0, 7))]
    functions = [_random_function(dice, depth - 1) if depth else lambda *xs: xs for _ in steps]

    def function(*xs: Any) -> Any:
        for (kind, share, size), inner in zip(steps, functions, strict=True):
            several = xs[: 1 + int(share * (len(xs) - 1))]
            rest = xs[len(several) :]
            if kind == 0:
                xs = (*named("f" * size, lambda *ys, inner=inner: inner(*ys))(*several), *rest)
            elif kind == 1:
                branches = lambda *ys, inner=inner: tuple(inner(*ys)), lambda *ys: ys
                xs = (*lax.cond(xs[0][0] > size, *branches, *several), *rest)
            elif kind == 2:
                step = partial(_step, inner)
                xs = (*lax.scan(step, several, None, length=size)[0], *rest)
            elif kind == 3:
                xs = (*lax.optimization_barrier(several), *rest)
            elif kind == 4:
                xs = (lax.concatenate(several * size, 0)[:4] if size else xs[0], *xs[1:])
            elif kind == 5:
                xs = (*jax.checkpoint(lambda *ys, inner=inner: inner(*ys))(*several), *rest)
            elif kind == 6:
                xs = (jnp.sin(xs[-1]) * xs[0], *xs[1:])
            elif kind == 7:
                jax.debug.print("d" * size, ordered=False)
            else:
                xs = (*xs[:-1], lax.reduce_precision(xs[-1], 5, 3 + size % 5) * float(f"1e{size % 30}"))
        return xs

    return function
