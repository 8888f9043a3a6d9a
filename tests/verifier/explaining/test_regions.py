"""Regions in which an axis is auto, within explicit programs: where the compiler has nothing to choose, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from verifier.testing import Communicates, assert_communication, nothing

MESH = AbstractMesh((4, 2), ("X", "Y"), axis_types=(AxisType.Explicit,) * 2)
CUT = P("X", None)


def array(*shape: int, spec: P = CUT) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))


KEY = jax.eval_shape(lambda: jax.random.key(0))
X, WHOLE = array(8, 8), array(8, 8, spec=P())


def region(f: Callable[..., Any], out: Any = CUT) -> Callable[..., Any]:
    return jax.sharding.auto_axes(f, out_sharding=out)  # type: ignore[no-any-return]


def dropout(key: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.where(jax.random.bernoulli(key, 0.5, x.shape, out_sharding=CUT), x, 0.0)


def both(w: jax.Array) -> Any:
    """One value, cut in two ways: the compiler takes one of them, and moves blocks to the other."""
    return region(lambda w: (v := jnp.sin(w), v + 1), (CUT, P(None, "X")))(w)


@pytest.mark.parametrize(
    ("f", "arguments"),
    [
        (dropout, (KEY, X)),
        (region(jnp.sin), (WHOLE,)),
        (lambda w, x: region(lambda w: jnp.tanh(w) * w)(w) * x, (WHOLE, X)),
    ],
)
def test_copies_that_are_computed_in_place_move_nothing(f: Callable[..., Any], arguments: Any) -> None:
    assert_communication(f, arguments, forward=nothing, mesh=MESH)


@pytest.mark.parametrize(
    ("f", "arguments"),
    [
        (region(jnp.sin), (X,)),  # what is cut goes in
        (region(lambda w: jnp.flip(w @ w, 0)), (WHOLE,)),
        (region(lambda w: jax.lax.scan(lambda c, _: (c * 2, None), w, length=3)[0]), (WHOLE,)),
        (both, (WHOLE,)),
    ],
)
def test_what_the_compiler_may_choose_is_not_guaranteed(f: Callable[..., Any], arguments: Any) -> None:
    with pytest.raises(Communicates):
        assert_communication(f, arguments, forward=nothing, mesh=MESH)
