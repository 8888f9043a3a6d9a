"""Derivatives of linear systems that somebody else solves, and of functions that somebody else transposes, beside
JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.custom_derivatives import linear_call

from tests.verifier.with_jax.compared import N, Traced, V, W, refused, same_gradient, same_tangents


def applied(a: Any) -> Callable[[Any], Any]:
    return lambda x: a @ x


def system(a: Any, b: Any, **more: Any) -> Any:
    """x with a x = b, as far as its solver says."""
    return lax.custom_linear_solve(applied(a), b, solve=lambda apply, b: apply(b) / 2, **more)


SYSTEMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a system and its side": (
        lambda a, b: jnp.sum(system(a, b, transpose_solve=lambda apply, b: apply(b) / 3) ** 2), (W, V)),
    "a symmetric system": (lambda a, b: jnp.sum(system(a, b, symmetric=True) ** 2), (W, V)),
    "a side alone": (
        lambda b: jnp.sum(lax.custom_linear_solve(lambda x: 2 * x, b, lambda _, b: b / 2, symmetric=True) ** 2), (V,)),
    "what else a solver finds": (
        lambda a, b: jnp.sum(lax.custom_linear_solve(
            applied(a), b, lambda _, b: (b / 2, jnp.sum(b)), symmetric=True, has_aux=True)[0] ** 2), (W, V)),
    "two sides": (
        lambda a, b: jnp.sum(jnp.multiply(*lax.custom_linear_solve(
            lambda x: (a @ x[0], x[1] * 2), (b, b), lambda _, b: b, symmetric=True))), (W, V)),
    "a factorized system": (lambda a, b: jnp.sum(jnp.linalg.solve(a, b) ** 2), (W, V)),
    "an inverse": (lambda a: jnp.sum(jnp.linalg.inv(a) ** 2), (W,)),
}  # fmt: skip


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_derivative_of_a_solution_solves_the_system_again(name: str) -> None:
    function, arguments = SYSTEMS[name]
    same_gradient(function, *arguments)


def test_tangents_need_no_transposed_solver() -> None:
    same_tangents(system, W, V)
    said = refused(lambda a, b: jnp.sum(system(a, b)), W, V)
    assert said == "the derivative of custom_linear_solve whose transpose_solve is not there"
    with pytest.raises(TypeError, match="transpose_solve required"):
        jax.grad(lambda a, b: jnp.sum(system(a, b)))(jnp.ones((4, 4)), jnp.ones(4))


def test_the_transpose_of_a_linear_call_is_its_callees() -> None:
    """JAX calls the one that is brought along, which no text shows. What is computed is the same."""

    def function(a: Any, b: Any) -> Any:
        return jnp.sum(linear_call(lambda r, x: r * x, lambda r, ct: r * ct, a, b) ** 2)

    traced = Traced(lambda b: function(jnp.full((8, 4), 3.0), b), (N,))
    _, bench = traced.gradient()
    assert bench.assumed == {"the transpose of a linear_call is not printed, and taken to be that of its callee"}
    plain = Traced(lambda b: jnp.sum((jnp.full((8, 4), 3.0) * b) ** 2), (N,))
    assert plain.alike(traced.gradient()[0], plain.gradient()[0]) == ""


def test_a_decorated_function_is_its_body() -> None:
    @jax.custom_batching.custom_vmap
    def doubled(x: Any) -> Any:
        return jnp.sin(x) * 2

    doubled.def_vmap(lambda size, batched, x: (doubled(x), batched[0]))
    decorated, plain = Traced(lambda x: jnp.sum(doubled(x)), (N,)), Traced(lambda x: jnp.sum(jnp.sin(x) * 2), (N,))
    assert plain.alike(decorated.gradient()[0], plain.gradient()[0]) == ""
