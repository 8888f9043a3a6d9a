"""Gradients that JAX makes inside a shard_map with check_vma=False, beside those with check_vma=True. The values are
those of the cases 01, 03, 31, 53 and 57, which JAX's devices hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from verifier.execution.run import Outcome
from verifier.execution.texts import Ran, run_function, told

MESH = AbstractMesh((4,), ("X",), axis_types=(AxisType.Explicit,))


def struct(*shape: int, spec: P | None = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec or P()))


def ran(body: Callable[..., Any], types: Any, specs: Any, leaving: Any, given: Any, check: bool = False) -> Ran:
    with jax.sharding.use_abstract_mesh(MESH):
        mapped = jax.shard_map(body, in_specs=specs, out_specs=leaving, check_vma=check)
        report = verifier.check(mapped, *types, mesh=MESH)
    assert report.verdict == "ok", str(report)
    values = dict(zip(report.types, given, strict=False))
    return run_function(report, 0, values)


def noted(body: Callable[..., Any], types: Any, specs: Any, leaving: Any, check: bool = False) -> list[str]:
    with jax.sharding.use_abstract_mesh(MESH):
        mapped = jax.shard_map(body, in_specs=specs, out_specs=leaving, check_vma=check)
        return [note for note in verifier.check(mapped, *types, mesh=MESH).notes if "JAX differentiates" in note]


def through_a_sum(w: Any, x: Any) -> Any:
    return jax.grad(lambda w: jax.lax.psum((w * x).sum(), "X"))(w)[None]


def summed_by_hand(w: Any, x: Any) -> Any:
    return jax.lax.psum(jax.grad(lambda w: (w * x).sum())(w), "X")


def of_a_layer(x: Any, w: Any) -> Any:
    return jax.grad(lambda x: ((x @ w) ** 2).sum())(x)


WEIGHT = ((struct(), struct(4, spec=P("X"))), (P(), P("X")))
LAYER = ((struct(2, 3), struct(3, 8, spec=P(None, "X"))), (P(), P(None, "X")))
BY_FOUR = (3.0, [0, 1, 2, 3])


def outcome(found: Ran) -> Outcome:
    assert found.outcome is not None
    return found.outcome


def lines(found: Ran) -> list[str]:
    return list(told(found, "", 0))


def test_case_01_a_sum_is_transposed_to_a_sum() -> None:
    """Device i holds four times its own part, where the gradient is 6. The forward sum is in both."""
    found = ran(through_a_sum, *WEIGHT, P("X"), BY_FOUR)
    assert found.verdict == "different"
    (problem,) = outcome(found).problems
    (_, mine), (_, right) = problem.held
    assert (mine.tolist(), right.tolist()) == ([0, 4, 8, 12], [6, 6, 6, 6])
    assert "first, psum over X at " in problem.message
    assert problem.message.endswith("is there with check_vma=False alone")
    assert ran(through_a_sum, *WEIGHT, P("X"), BY_FOUR, check=True).verdict == "equal"


def test_a_check_alone_says_where_the_two_readings_part() -> None:
    """Cases 01, 31 and 03; in a loop as well, where a carry that starts as a constant leaves no other reading."""
    (note,) = noted(through_a_sum, *WEIGHT, P("X"))
    assert re.search(r"not as with check_vma=True; first, psum over X at \S+ is there with check_vma=False alone", note)
    (note,) = noted(of_a_layer, *LAYER, P())
    assert re.search(r"not as with check_vma=True; first, psum over X at \S+ is missing with check_vma=False", note)
    (note,) = noted(summed_by_hand, *WEIGHT, P())
    assert "where equal copies are summed, so that this may be right" in note

    def looped(w: Any, x: Any) -> Any:
        return jax.lax.scan(lambda sum, _: (sum + through_a_sum(w, x), None), jnp.zeros(1), None, length=2)[0]

    (note,) = noted(looped, *WEIGHT, P("X"))
    assert "psum over X" in note
    assert noted(through_a_sum, *WEIGHT, P("X"), check=True) == []


def test_case_03_where_the_other_reading_sums_copies_it_may_be_the_wrong_one() -> None:
    found = ran(summed_by_hand, *WEIGHT, P(), BY_FOUR)
    assert found.verdict == "equal"
    (note,) = outcome(found).notes
    assert "24.0 with check_vma=True, 6.0 here; there equal copies are summed" in note


def test_case_31_the_parts_that_out_specs_hide_are_shown() -> None:
    """The first rows are those that JAX prints of its devices' parts, and of the gradient."""
    found = ran(of_a_layer, *LAYER, P(), ([[0, 1, 2], [3, 4, 5]], [list(range(8 * i, 8 * i + 8)) for i in range(3)]))
    assert found.verdict == "different"
    parts, whole = outcome(found).problems
    assert [name for name, _ in parts.held] == ["X=0", "X=1", "X=2", "X=3"]
    assert parts.held[0][1].tolist() == [[86, 1414, 2742], [248, 4024, 7800]]
    assert whole.held[0][1].tolist() == [[3080, 9544, 16008], [9632, 29344, 49056]]
    assert np.sum([part for _, part in parts.held], 0).tolist() == whole.held[0][1].tolist()
    assert "psum over X" in whole.message
    assert whole.message.endswith("is missing with check_vma=False")
    assert "    X=0: [[  86. 1414. 2742.]" in lines(found)


def test_case_57_the_values_that_a_spec_claims_to_be_equal_are_shown() -> None:
    """Nothing is differentiated, and there is no other reading: with check_vma=True it is refused."""
    found = ran(lambda x: x * 2, (struct(4, spec=P("X")),), (P("X"),), P(), ([0, 1, 2, 3],))
    (problem,) = outcome(found).problems
    assert [part.tolist() for _, part in problem.held] == [[0], [2], [4], [6]]
    assert "    X=3: [6.]" in lines(found)


@pytest.mark.parametrize("check", [True, False])
def test_a_gradient_that_is_summed_rightly_is_the_same_in_both(check: bool) -> None:
    """Case 53: each device differentiates in its own copy, and one sum is made by hand."""

    def of_a_scale(g: Any, x: Any) -> Any:
        copy = jax.lax.pcast(g, "X", to="varying")
        return jax.lax.psum(jax.grad(lambda g: ((x * g) ** 2).sum())(copy), "X")

    found = ran(of_a_scale, (struct(2), struct(8, 2, spec=P("X"))), (P(), P("X")), P(), (), check)
    assert (found.verdict, outcome(found).notes) == ("equal", [])


@pytest.mark.parametrize(("body", "depends"), [(jnp.sin, True), (lambda u: u * 2.0, False)])
def test_what_depends_on_the_pieces_of_a_pending_sum(body: Callable[..., Any], depends: bool) -> None:
    """sin(1.5) + sin(-0.125) is not sin(1) + sin(0.375); twice the pieces are twice the sum."""
    types = (struct(4, spec=P(None, unreduced={"X"})),)
    found = ran(lambda u: jax.lax.psum(body(u), "X"), types, P(unreduced={"X"}), P(), ())
    notes = [note for note in outcome(found).notes if "depends on how what is pending is split" in note]
    assert outcome(found).equal
    assert len(notes) == depends
    assert all(note.startswith("check_vma=False: result depends") for note in notes)
