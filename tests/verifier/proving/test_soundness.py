"""Soundness is proved of what is declared, and refuted of what is declared wrongly."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from calculus.primitives import TABLE
from calculus.programs import Parameters
from calculus.schemes import Scheme
from calculus.types import array_type
from verifier.proving.judgments import combinations
from verifier.proving.lemmas import LEMMAS
from verifier.proving.obligations import DEFINITION, PROPERTIES, REFUTED, Obligation, Outcome, discharge
from verifier.proving.soundness import obligations
from verifier.samples import samples
from verifier.solver import Integer, Query, decide


def outcomes(name: str, **changed: Any) -> list[Outcome]:
    """Of the first sample call on each class of dtypes."""
    primitive = replace(TABLE[name], **changed)
    found = []
    for sample in samples(name):
        if sample.number == 0:
            found += [discharge(one) for one in obligations(sample, primitive)]
    return found


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "mul",
        "select_n",
        "clamp",
        "convert_element_type",
        "dot_general",
        "reduce_sum",
        "reduce_max",
        "cumsum",
        "pad",
        "concatenate",
        "gather",
        "scatter-add",
        "dynamic_update_slice",
        "conv_general_dilated",
        "reduce_window_sum",
        "select_and_scatter_add",
        "reshape",
        "sort",
        "argmax",
    ],
)
def test_what_is_declared_is_proved_from_definition(name: str) -> None:
    found = outcomes(name)
    assert len(found) > 3
    assert {one.status for one in found} == {DEFINITION}, [one.objection for one in found if one.status != DEFINITION]


@pytest.mark.parametrize("name", ["exp", "log", "fft", "lu"])
def test_what_cannot_be_looked_into_rests_on_properties(name: str) -> None:
    found = outcomes(name)
    assert {one.status for one in found} <= {DEFINITION, PROPERTIES}
    assert PROPERTIES in {one.status for one in found}


@pytest.mark.parametrize(
    ("name", "changed", "at_fault"),
    [
        ("mul", {"linearity": "x y"}, "unreduced_unreduced.unreduced"),
        ("add", {"linearity": "x | y"}, "unreduced_copy.unreduced"),
        ("max", {"linearity": "x y"}, "unreduced_unreduced.unreduced"),
        ("div", {"linearity": "x | y"}, "copy_unreduced.unreduced"),
        ("floor", {"linearity": "x"}, "unreduced.unreduced"),
        ("exp", {"linearity": "x"}, "unreduced.unreduced"),
        ("cos", {"joins": "x"}, "max.max"),
        ("neg", {"joins": "x"}, "max.max"),
        ("pad", {"linearity": "x ; p"}, "unreduced_copy.unreduced"),
        ("scatter-add", {"linearity": "x | u ; indices"}, "unreduced_copy_copy.unreduced"),
        ("cumsum", {"joins": "x"}, "max.max"),
        ("rev", {"scheme": TABLE["neg"].scheme}, "cut1.cut1"),
        ("cumsum", {"scheme": TABLE["neg"].scheme}, "cut1.cut1"),
        ("reduce_prod", {"scheme": TABLE["reduce_sum"].scheme}, "cut0.unreduced"),
        ("reduce_max", {"scheme": TABLE["reduce_min"].scheme}, "cut0.min"),
    ],
)  # fmt: skip
def test_what_is_declared_wrongly_is_refuted(name: str, changed: dict[str, Any], at_fault: str) -> None:
    wrong = [one for one in outcomes(name, **changed) if one.status == REFUTED]
    assert [one for one in wrong if one.obligation.name.endswith(at_fault)], [one.obligation.name for one in wrong]
    assert all(one.objection for one in wrong)


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda one: one.name)
def test_lemmas_hold_and_need_what_they_suppose(lemma: Obligation) -> None:
    assert discharge(lemma).status == DEFINITION
    for query in lemma.queries():
        for name, _ in query.hypotheses:
            said = decide(query.without(name)).verdict
            assert said == "refuted" or name in ("a device", "nothing"), f"{query.name} needs no {name}"


def test_a_contradiction_proves_nothing() -> None:
    x = Integer("x")
    query = Query("vacuous", (("less", x < 0), ("more", x > 0)), x == x + 1)
    assert discharge(Obligation("vacuous", "none", "", lambda: [query])).status == REFUTED


def test_nothing_asked_is_open() -> None:
    assert discharge(Obligation("nothing", "none", "")).status == "open"


def test_an_answer_is_kept_for_the_very_same_question() -> None:
    """By the terms, not by what they are called, and terms that are gone do not answer for those that come after."""
    for number in range(50):
        x = Integer(f"x{number}")
        for greater, expected in ((x > number, "proved"), (x < number, "refuted")):
            query = Query("once", (("above", x >= number + 1),), greater)
            assert [decide(query).verdict, decide(query._replace(name="again")).verdict] == [expected] * 2
        assert decide(Query("possible", (), x < x, possible=True)).verdict == "refuted"
        assert decide(Query("without", (), x > number)).verdict == "refuted"


def test_combinations_of_states_are_all_there_are() -> None:
    """Against the product, of a call that has few."""
    (sample,) = [one for one in samples("select_n") if (one.number, one.kind) == (0, "f")]
    found = list(combinations(sample, TABLE["select_n"], 0))
    each = ["C", "U", "Umax", "Umin", ("S", 0), ("S", 1)]
    which = ["C", "Umax", "Umin", ("S", 0), ("S", 1)]
    expected = {
        given
        for given in itertools.product(which, each, each)
        if len({state for state in given if isinstance(state, tuple)}) <= 1
    }
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_what_a_definition_moves_the_scheme_is_not_asked() -> None:
    """A pad by one in front and minus one behind moves every element, and leaves the shape: a scheme that says that the
    dim passes through is wrong."""
    sample = samples("pad")[0]._replace(
        operands=(array_type("f32", (8,)), array_type("f32", ())),
        parameters=Parameters((("padding_config", ((1, -1, 0),)),)),
    )
    passing = Scheme((((0,),), ()), (((0,),),), (8,), {})
    wrong = replace(TABLE["pad"], scheme=lambda site: passing)
    statuses = {one.name.rpartition(".pad-")[2]: discharge(one).status for one in obligations(sample, wrong)}
    assert {status for name, status in statuses.items() if "cut0" in name} == {REFUTED}, statuses
    assert any("cut0" in name for name in statuses)
