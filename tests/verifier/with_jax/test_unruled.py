"""What JAX has no rule for, where a value is cast inside: a refusal at the author's line, with a repair."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from verifier.ledger import ledger
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


TWO = AbstractMesh((4, 2), ("X", "Y"), axis_types=(AxisType.Explicit,) * 2)
REDUCED = P(reduced={"X"})


def at(shape: tuple[int, ...], spec: Any, mesh: Any = MESH, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


def chosen(p: Any, x: Any) -> Any:
    def body(p: Any, x: Any) -> Any:
        return jax.lax.select(p, x, x + x)

    y = jax.shard_map(body, in_specs=(P(), REDUCED), out_specs=REDUCED)(p, x)
    return jax.reshard(y, P()).sum()


def multiplied(p: Any, x: Any) -> Any:
    def body(p: Any, x: Any) -> Any:
        one, other = (jax.lax.pcast(m, "X", to="reduced") for m in (p.astype(x.dtype), 1 - p.astype(x.dtype)))
        return other * x + one * (x + x)

    y = jax.shard_map(body, in_specs=(P(), REDUCED), out_specs=REDUCED)(p, x)
    return jax.reshard(y, P()).sum()


def test_a_gradient_inside_that_jax_does_not_make_is_told_by_its_difference() -> None:
    """At the line that is differentiated, which stands in no frame of the user's when JAX raises."""
    types = at((2,), P(), dtype=jnp.bool_), at((2,), P(None, reduced={"X"}))
    report = verifier.check(jax.grad(chosen, argnums=1), *types)
    (refusal,) = report.refusals
    assert (report.verdict, refusal.line) == ("refused", chosen.__code__.co_firstlineno + 2)
    assert "JAX has no gradient of select_n here" in refusal.message
    assert "difference 143 in proofs/differences.md" in refusal.message
    assert "multiply each case by 1.0 or 0.0" in refusal.help
    followed = verifier.check(jax.grad(multiplied, argnums=1), *types)
    assert (followed.verdict, [note for note in followed.notes if "JAX" in note]) == ("ok", [])


@pytest.mark.parametrize(
    ("function", "shape", "number"),
    [(jax.vmap(jnp.sum), (4, 4), 145), (lambda w: jnp.roll(w, 1), (4,), 146)],
)
def test_what_is_traced_at_copies_names_the_difference(function: Any, shape: tuple[int, ...], number: int) -> None:
    report = verifier.check(function, at(shape, P(*[None] * len(shape), reduced={"X"})))
    assert report.verdict == "ok"
    told = f"(difference {number} in proofs/differences.md)" in "".join(report.notes)
    assert told == (jax.__version__ in ledger()[number - 1].versions)


def spread(w: Any, x: Any) -> Any:
    return jnp.sum(jax.reshard(w, P(("X", "Y"))) * x)


def test_a_gradient_that_is_there_is_looked_at_itself() -> None:
    """Not the forward equation once more, for what its derivative would be."""
    arguments = at((8,), P(None, reduced={"X", "Y"}), TWO), at((8,), P(("X", "Y")), TWO)
    forward = verifier.check(spread, *arguments)
    assert [(one["entry"], one["in_derivative"]) for one in forward.known] == [(147, True)]
    assert [(one["entry"], one["in_derivative"]) for one in verifier.check(jax.grad(spread), *arguments).known] == [
        (147, False)
    ]


def test_other_errors_are_their_authors() -> None:
    assert unruled(ValueError("the spec of a value")) is None
    with pytest.raises(ValueError, match="mine"):
        verifier.check(wrong, array((4, 4)))


def wrong(x: Any) -> Any:
    raise ValueError("mine")
