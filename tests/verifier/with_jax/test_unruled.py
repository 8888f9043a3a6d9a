"""What JAX has no rule for, where a value is cast inside: a refusal at the author's line, with a repair."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from verifier.with_jax.unruled import unruled

MESH = AbstractMesh((4,), ("X",), axis_types=(AxisType.Explicit,))


def array(shape: tuple[int, ...], *spec: str | None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, P(*spec)))


def mapped(w: Any, x: Any) -> Any:
    reduced = jax.reshard(w, P(None, None, reduced={"X"}))
    return jnp.sum(jax.vmap(lambda row: x @ row)(reduced))


def test_a_function_of_a_value_that_is_cast_inside() -> None:
    report = verifier.check(mapped, array((4, 4)), array((8, 4), "X", None))
    (refusal,) = report.refusals
    assert (report.verdict, refusal.code, "jax.reshard(value, P(...))" in refusal.help) == (
        "refused", "unmodelled-construct", True,
    )  # fmt: skip
    assert refusal.line == mapped.__code__.co_firstlineno + 2
    assert "JAX has no rule" in refusal.message
    assert "test_unruled.py" in str(report)


def test_other_errors_are_their_authors() -> None:
    assert unruled(ValueError("the spec of a value")) is None
    with pytest.raises(ValueError, match="mine"):
        verifier.check(wrong, array((4, 4)))


def wrong(x: Any) -> Any:
    raise ValueError("mine")
