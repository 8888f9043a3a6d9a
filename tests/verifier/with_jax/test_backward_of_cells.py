"""Derivatives through cells: the gradient that we derive has none, and has the values, the types and the communication
of JAX's, which has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from grammar.read import read
from tests.laws.evaluation import evaluate
from tests.verifier.with_jax.compared import N, Traced, X, needs_types, refused


def rewritten(x: Any) -> Any:
    cell = jax.new_ref(jnp.sin(x))
    cell[...] = cell[...] * 2
    cell[...] += x
    return jnp.sum(jax.freeze(cell) ** 2)


def exchanged(x: Any) -> Any:
    cell = jax.new_ref(jnp.zeros_like(x))
    jax.ref.addupdate(cell, ..., jnp.sin(x))
    before = jax.ref.swap(cell, ..., x)
    return jnp.sum(before * cell[...])


def counting(x: Any) -> Any:
    cell = jax.new_ref(jnp.zeros((), jnp.int32))
    cell[...] = cell[...] + 1
    return jnp.sum(jnp.sin(x)) * cell[...]


def two(x: Any) -> Any:
    one, other = jax.new_ref(x * 3), jax.new_ref(jnp.cos(x))
    one[...] = one[...] * other[...]
    other[...] = one[...] - other[...]
    return jnp.sum(one[...] * other[...])


FUNCTIONS = {"rewritten": rewritten, "exchanged": exchanged, "counting": counting, "two": two}


@needs_types
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_gradient_has_jaxs_values_types_and_communication(name: str) -> None:
    function = FUNCTIONS[name]
    traced = Traced(function, (X,))
    ours, _ = traced.gradient()
    assert "Ref{" not in ours
    traced.alike(ours, traced.text(jax.grad(function)))
    value = np.linspace(-1, 2, 32, dtype=np.float32).reshape(8, 4)
    (found,) = evaluate(read(ours).program, [value])
    np.testing.assert_allclose(found, jax.grad(function)(jnp.asarray(value)), rtol=1e-5)


@needs_types
def test_a_cell_that_each_iteration_makes() -> None:
    def step(carry: Any, _: Any) -> Any:
        cell = jax.new_ref(carry)
        cell[...] = jnp.sin(cell[...])
        return jax.freeze(cell), None

    def plain(carry: Any, _: Any) -> Any:
        return jnp.sin(carry), None

    one, other = (Traced(lambda x, f=f: jnp.sum(lax.scan(f, x, None, length=3)[0]), (X,)) for f in (step, plain))
    assert one.alike(one.gradient()[0], other.gradient()[0]) == ""


def in_a_loop(x: Any) -> Any:
    cell = jax.new_ref(jnp.zeros(3))

    def step(index: Any, carry: Any) -> Any:
        cell[index] = jnp.sum(carry)
        return jnp.sin(carry)

    return jnp.sum(lax.fori_loop(0, 3, step, x)) + jnp.sum(cell[...])


def in_part(x: Any) -> Any:
    cell = jax.new_ref(x)
    cell[0] = cell[1] * 2.0
    return jnp.sum(cell[...])


@needs_types
@pytest.mark.parametrize(
    ("function", "what"),
    [
        (in_a_loop, "the derivative of scan: a cell that scan is given is not followed"),
        (in_part, "the derivative of get: a part of a cell is not followed"),
    ],
)
def test_what_is_not_followed_is_refused(function: Callable[..., Any], what: str) -> None:
    assert refused(function, N) == what
