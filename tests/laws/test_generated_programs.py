"""The programs that are drawn are what laws about all programs need: well typed, of every kind, and cheap to draw."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings

from calculus.equivalence import difference
from calculus.naming import tidy
from calculus.primitives import TABLE
from calculus.types import ArrayType
from grammar.print import print_document
from grammar.read import read
from tests.laws.programs import COUNT, bodies, cases, inside, types_of
from tests.laws.strategies import programs
from verifier.generated import drawn
from verifier.generated.growing import Grown
from verifier.generated.shrinking import shrunk
from verifier.texts import check_text


def test_each_is_well_typed_as_a_text() -> None:
    """By the way that a text takes: printed, read, and checked as a whole."""
    for one in cases()[::2]:
        document = tidy(one.program)
        text = print_document(document)
        report = check_text(text, [one.grown.mesh], "it")
        assert report.verdict == "ok", (one.seed, [refusal.message for refusal in report.refusals])
        assert read(text) == document, one.seed


def test_the_same_seed_draws_the_same_program() -> None:
    for one in cases()[:20]:
        again = drawn(one.seed)
        assert (again.mesh, tidy(again.program)) == (one.grown.mesh, tidy(one.program))
    assert len({print_document(tidy(one.program)) for one in cases()}) > COUNT * 0.95


def test_most_of_what_is_proposed_is_taken() -> None:
    """So that drawing is cheap, and no primitive is there in name only."""
    proposed, taken = Counter[str](), Counter[str]()
    for one in cases():
        proposed += one.grown.tally.proposed
        taken += one.grown.tally.taken
    assert sum(taken.values()) > 0.75 * sum(proposed.values())
    assert [name for name in proposed if 2 * taken[name] < proposed[name] and name != "dot_general"] == []


def test_every_state_is_drawn_along_every_axis() -> None:
    states = Counter(
        (axis.name, type.state(axis.name))
        for one in cases()
        for inner, _ in bodies(one.program)
        for type in types_of(inner).values()
        if isinstance(type, ArrayType)
        for axis in one.grown.mesh.axes
    )
    assert {(axis, state) for axis in "XY" for state in "NRUSV"} <= set(states)
    assert min(states.values()) > 50, states
    assert Counter(len(one.grown.mesh.axes) for one in cases())[2] > COUNT / 3


def test_most_primitives_with_a_transpose_and_every_form_are_drawn() -> None:
    used = Counter(
        equation.primitive
        for one in cases()
        for inner, _ in bodies(one.program)
        for equation in inner.equations
    )  # fmt: skip
    assert sum(name in TABLE for name in used) >= 45
    forms = {"jit", "checkpoint", "scan", "cond", "shard_map", "reshard"}
    casts = {"pvary", "preduced", "reduced_vary_cast", "vary_unreduced_cast", "psum_invariant", "unreduced_psum"}
    moves = {"all_gather", "all_gather_reduced", "reduce_scatter", "unreduced_reduce_scatter", "all_to_all", "ppermute"}
    assert forms | casts | moves <= set(used)
    pairs = {
        (equation.primitive, deeper.primitive)
        for one in cases()
        for inner, _ in bodies(one.program)
        for equation in inner.equations
        for within in inside(equation)
        for deeper in within.equations
    }
    calls = {"jit", "checkpoint", "custom_jvp_call"}
    pairs |= {(one, "call") for one, other in pairs if other in calls}
    assert {(one, other) for one in ("scan", "shard_map", "cond") for other in ("scan", "cond", "call")} <= pairs


def test_a_program_is_made_smaller_while_it_shows_something() -> None:
    one = next(case for case in cases() if any(equation.primitive == "sin" for equation in case.program.equations))

    def has_a_sine(program: object) -> bool:
        return any(equation.primitive == "sin" for equation in program.equations)  # type: ignore[attr-defined]

    small = shrunk(one.program, has_a_sine)
    assert [equation.primitive for equation in small.equations] == ["sin"]
    assert len(small.inputs) == len(small.outputs) == 1
    assert difference(small, small) == ""


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(one=programs())
def test_what_hypothesis_draws_is_well_typed(one: Grown) -> None:
    text = print_document(tidy(one.program))
    report = check_text(text, [one.mesh], "it")
    assert report.verdict == "ok", [refusal.message for refusal in report.refusals]
