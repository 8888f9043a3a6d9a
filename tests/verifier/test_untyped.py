"""Functions that JAX does not trace at the types of their arguments: traced at copies, and their types inferred."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import verifier
from tests.verifier.test_functions import MESH, struct


def test_types_are_inferred_through_bodies() -> None:
    """JAX has no rule for a product of an unreduced array and a number, and maps over none. Three times as large."""

    def tripled(v: Any) -> Any:
        once = jax.jit(jax.vmap(lambda v: v * 3.0))(v)
        looped = jax.lax.fori_loop(0, 2, lambda _, carry: carry * 0.5 + v, once)
        return jax.lax.cond(True, lambda v: v / 2.0, lambda v: -v, looped)

    report = verifier.check(tripled, struct(8, spec=P(None, unreduced={"data"})))
    assert report.refusals == []
    assert str(report.types["result"]) == "f32[8]{U:data}"
    assert report.notes[0].startswith("JAX does not trace this at these types (")


def test_that_a_function_does_the_same_at_copies_is_an_assumption() -> None:
    """This one looks at the type: what JAX refuses, a map over pieces, is not in what is traced at copies. What the
    rules here refuse as well, the cosine of pieces, is refused, whatever is done at copies."""

    def branching(otherwise: Any) -> Any:
        return lambda v: otherwise(v) if jax.typeof(v).sharding.spec.unreduced else v * 2.0

    (refusal,) = verifier.check(branching(jnp.cos), struct(8, spec=P(None, unreduced={"data"}))).refusals
    assert (refusal.code, refusal.line) == ("state", branching.__code__.co_firstlineno + 1)
    report = verifier.check(branching(jax.vmap(jnp.negative)), struct(8, spec=P(None, unreduced={"data"})))
    assert (report.verdict, report.assumed) == ("ok", 1)
    assert "it is assumed to do the same at both" in report.notes[0]
    assert "well typed on 1 assumption" in str(report)


def test_no_opaque_kernel_is_assumed_where_types_are_inferred() -> None:
    """Traced at copies, it would be given pieces all the same: what it makes of them nobody says."""

    def called(v: Any) -> Any:
        return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((8,), jnp.float32), jax.vmap(jnp.negative)(v))

    report = verifier.check(called, struct(8, spec=P(None, unreduced={"data"})))
    assert (report.verdict, report.assumed) == ("refused", 0)
    assert [refusal.code for refusal in report.refusals] == ["choose-type"]


def test_what_the_function_raises_itself_is_its_own() -> None:
    """An assertion about a type fails at these types; at others it would not, and that is nobody's question."""

    def careful(v: Any) -> Any:
        assert not jax.typeof(v).sharding.spec.unreduced, "v is pending"
        return -v

    with pytest.raises(AssertionError, match="v is pending") as raised:
        verifier.check(careful, struct(8, spec=P(None, unreduced={"data"})))
    assert "before anything was checked" in raised.value.__notes__[-1]


def test_an_assertion_that_jax_would_leave_out_is_not_lost() -> None:
    """On explicit axes a constraint is checked while JAX traces, and is in no program: at copies it would hold."""

    def constrained(v: Any, w: Any) -> Any:
        return v * 2.0, jax.lax.with_sharding_constraint(w, P(None))

    arguments = struct(8, spec=P(None, unreduced={"data"})), struct(8, spec=P("data"))
    with jax.sharding.use_abstract_mesh(MESH):
        report = verifier.check(constrained, *arguments)
    (refusal,) = report.refusals
    assert (report.verdict, refusal.code) == ("refused", "unmodelled-construct")
    assert "JAX does not trace this" in refusal.message
    assert "reduced" in refusal.message


def test_a_carry_that_becomes_pending_shows_both_types_and_the_ways_between_them() -> None:
    """Casting one number to pieces is free both ways; finishing a sum is an all-reduce of 4 bytes, each time."""

    def last(v: Any) -> Any:
        return jax.lax.scan(lambda _, row: (row * 2.0, None), jnp.zeros(()), v)[0]

    (refusal,) = verifier.check(last, struct(8, spec=P(None, unreduced={"data"}))).refusals
    assert refusal.code == "carry-type"
    assert "is f32[] before an iteration and f32[]{U:data} after it" in refusal.message
    assert refusal.help == (
        "reshard the initial value to f32[]{U:data} (free forward, free backward); or reshard the body's result to "
        "f32[] (all-reduce over data of 4 bytes forward, free backward)"
    )


def test_branches_of_two_types_show_both_and_the_ways_between_them() -> None:
    """To scatter a sum is paid twice, since the cotangent of pieces is a copy; to cast blocks to pieces is free."""

    def either(v: Any, w: Any) -> Any:
        return jax.lax.cond(True, lambda v, w: v * 2.0, lambda v, w: w, v, w)

    pending, cut = struct(8, spec=P(None, unreduced={"data"})), struct(8, spec=P("data"))
    (refusal,) = verifier.check(either, pending, cut).refusals
    assert refusal.code == "branch-types"
    assert "is f32[8@data] in branch 0 and f32[8]{U:data} in branch 1" in refusal.message
    assert refusal.help == (
        "reshard it in branch 1 to f32[8@data] (reduce-scatter over data of 32 bytes forward, all-gather over data of "
        "32 bytes backward); or reshard it in branch 0 to f32[8]{U:data} (free forward, free backward)"
    )


def test_specs_on_their_own_are_put_on_the_mesh() -> None:
    """As the command gives them: a map over pieces is traced at copies."""
    pending = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=P(None, unreduced={"data"}))
    report = verifier.check(jax.vmap(jnp.negative), pending, mesh=MESH)
    assert (report.verdict, str(report.types["result"])) == ("ok", "f32[8]{U:data}")
