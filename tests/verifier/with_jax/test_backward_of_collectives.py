"""Derivatives of collectives, casts and boundaries, beside JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.verifier.with_jax.compared import (
    TYPED,
    N,
    P,
    Traced,
    W,
    X,
    communication,
    needs_types,
    refused,
    same_gradient,
)  # fmt: skip
from verifier.texts import check_text


def inside(function: Callable[..., Any], ins: Any, outs: Any, **more: Any) -> Callable[..., Any]:
    return lambda *args: jnp.sum(jnp.sin(jax.shard_map(function, in_specs=ins, out_specs=outs, **more)(*args)))


def collectives() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    cut = P("X")
    both = ((8, 4), P("X", "Y")), ((4, 4), P("X"))
    return {
        "all_gather_reduced": (inside(
            lambda x: lax.all_gather(jnp.sin(x), "X", tiled=True, to="reduced"), cut, P(None, None, reduced={"X"})),
            (X,)),
        "all_gather, untiled": (inside(lambda x: lax.all_gather(jnp.sin(x), "X"), cut, P(None, "X")), (X,)),
        "pvary": (inside(lambda x: varying(jnp.sin(x)) * lax.axis_index("X"), P(), cut), (N,)),
        "psum over two": (inside(lambda x: lax.psum(jnp.sin(x), ("X", "Y")), P("X", "Y"), P()),
                          (((8, 4), P("X", "Y")),)),
        "psum of what is everywhere the same": (inside(lambda x: lax.psum(jnp.sin(x), "X"), P(), P()), (N,)),
        "pmean": (inside(lambda x: lax.pmean(jnp.sin(x), "X"), cut, P()), (X,)),
        "pshuffle": (inside(lambda x: lax.pshuffle(jnp.sin(x), "X", [1, 0]), cut, cut), (X,)),
        "psum_scatter, untiled": (inside(
            lambda x: lax.psum_scatter(jnp.sin(x).reshape(2, 2, 4), "X"), cut, cut), (X,)),
        "unreduced psum": (inside(
            lambda x: lax.psum(lax.pcast(jnp.sin(x), "X", to="unreduced"), "X"), cut, P()), (X,)),
        "unreduced psum_scatter": (inside(
            lambda x: lax.psum_scatter(lax.pcast(jnp.sin(x), "X", to="unreduced"), "X", tiled=True), cut, cut), (X,)),
        "to reduced": (inside(
            lambda x: lax.pcast(lax.pcast(jnp.sin(x), "X", to="reduced"), "X", to="varying"), P(), cut), (N,)),
        "a choice that varies": (inside(
            lambda x: lax.cond(x[0, 0] > 0, jnp.sin, lambda x: x * x, x), cut, cut), (X,)),
        "partly manual": (inside(
            lambda x, w: lax.psum(jnp.tanh(x @ w), "X"), (P(None, "X"), cut), P(), axis_names={"X"}), (
            ((8, 4), P("Y", "X")), ((4, 4), P("X")))),
        "untracked": (inside(lambda x, w: jnp.tanh(x @ w), (cut, P()), cut, check_vma=False), (X, W)),
        "untracked psum": (inside(lambda x: lax.psum(jnp.sin(x), "X"), cut, P(), check_vma=False), (X,)),
        "untracked all_gather": (inside(
            lambda x, w: jnp.tanh(x @ lax.all_gather(w, "X", tiled=True)), (cut, cut), cut, check_vma=False),
            (X, ((4, 4), P("X")))),
        "untracked psum_scatter": (inside(
            lambda x, w: lax.psum_scatter(jnp.tanh(x @ w), "X", tiled=True), (P(None, "X"), cut), cut,
            check_vma=False), (((8, 4), P(None, "X")), ((4, 4), P("X")))),
        "untracked all_to_all": (inside(
            lambda x: lax.all_to_all(jnp.sin(x), "X", 1, 0, tiled=True), cut, cut, check_vma=False), (X,)),
        "untracked ppermute": (inside(
            lambda x: lax.ppermute(jnp.sin(x), "X", [(0, 1)]), cut, cut, check_vma=False), (X,)),
        "untracked lone number": (inside(lambda x: jnp.sin(jnp.sum(x))[None], cut, cut, check_vma=False), (X,)),
        "untracked, one axis of two": (inside(
            lambda x, w: lax.psum(jnp.tanh(x @ w), "Y"), (P("X", "Y"), P("Y")), cut, check_vma=False),
            (both[0], ((4, 4), P("Y")))),
    }  # fmt: skip


def varying(value: Any) -> Any:
    return lax.pcast(value, "X", to="varying")


@needs_types
@pytest.mark.parametrize("name", collectives() if TYPED else ())
def test_collectives_go_back(name: str) -> None:
    function, arguments = collectives()[name]
    same_gradient(function, *arguments)


@needs_types
def test_what_is_gathered_to_all_alike_is_sliced() -> None:
    """JAX writes the place of the slice in more equations; the communication and the types are the same."""
    for tiled in (True, False):

        def gather(x: Any, tiled: bool = tiled) -> Any:
            return lax.all_gather(jnp.sin(x), "X", tiled=tiled, to="invarying")

        traced = Traced(inside(gather, P("X"), P()), (X,))
        traced.alike(traced.gradient()[0], traced.text(jax.grad(traced.function)))


@needs_types
def test_what_one_device_gave_goes_back_to_it() -> None:
    """JAX differentiates pbroadcast of lone numbers only: its rule fails on all else."""
    one = Traced(inside(lambda x: lax.pbroadcast(jnp.sum(jnp.sin(x)), "X", 1)[None], P("X"), P("X")), (X,))
    one.alike(one.gradient()[0], one.text(jax.grad(one.function)))
    many = Traced(inside(lambda x: lax.pbroadcast(jnp.sin(x), "X", 1), P("X"), P("X")), (X,))
    found = communication(check_text(many.gradient()[0], many.meshes, "ours"))
    assert found == [("all-reduce", ("X",), 64, 1), ("collective-broadcast", ("X",), 64, 1)]
    with pytest.raises(TypeError, match="full must be called with scalar fill_value"):
        many.text(jax.grad(many.function))


@needs_types
def test_an_untiled_exchange_goes_back() -> None:
    """JAX fails: its rule asks for dims that the primitive does not take."""
    function = inside(lambda x: lax.all_to_all(jnp.sin(x).reshape(4, 2, 2), "X", 1, 0), P("X"), P(None, "X"))
    traced = Traced(function, (X,))
    found = communication(check_text(traced.gradient()[0], traced.meshes, "ours"))
    assert found == [("all-to-all", ("X",), 64, 1)] * 2
    with pytest.raises(ValueError, match="Expected cotangent type"):
        traced.text(jax.grad(function))


@needs_types
@pytest.mark.parametrize("reduction", ["pmax", "pmin"])
def test_extreme_values_over_devices_have_no_derivative(reduction: str) -> None:
    function = inside(lambda x: getattr(lax, reduction)(jnp.sin(x), "X"), P("X"), P())
    assert refused(function, X) == f"the derivative of {reduction}"
    with pytest.raises(NotImplementedError, match="not implemented"):
        Traced(function, (X,)).text(jax.grad(function))


@needs_types
def test_boundaries_within_boundaries() -> None:
    """JAX prints a gradient that names the outer axis once more at the inner boundary, and cannot compile it."""

    def within(x: Any, w: Any) -> Any:
        inner: Any = jax.shard_map(
            lambda x, w: jnp.tanh(x @ lax.pcast(w, "Y", to="varying")), in_specs=(P("Y"), P()), out_specs=P("Y"),
            axis_names={"Y"},
        )  # fmt: skip
        return inner(x, varying(w))

    function = inside(within, (P("X"), P()), P("X"), axis_names={"X"})
    traced = Traced(function, (((8, 4), P(("X", "Y"))), W))
    found = communication(check_text(traced.gradient()[0], traced.meshes, "ours"))
    assert found == [("all-reduce", ("X",), 64, 1), ("all-reduce", ("Y",), 64, 1)]


@needs_types
@pytest.mark.parametrize("outside", [True, False])
def test_boundaries_that_are_read_in_two_ways_are_refused(outside: bool) -> None:
    """Of what is the same everywhere the cotangent is whole in the one, and in parts in the other."""

    def within(x: Any) -> Any:
        inner: Any = jax.shard_map(jnp.sin, in_specs=P("Y"), out_specs=P("Y"), axis_names={"Y"}, check_vma=not outside)
        return inner(x)

    function = inside(within, P("X"), P("X"), axis_names={"X"}, check_vma=outside)
    assert "where one has check_vma=False and the other has not" in refused(function, ((8, 4), P(("X", "Y"))))
