"""Every obligation of every theorem holds, each hypothesis is needed, and a theorem of something wrong is refuted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calculus.collectives import COLLECTIVES
from calculus.communication import ALL_GATHER, ALL_REDUCE, Collective, move
from calculus.linearity import Relation
from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.types import ArrayType, Type, array_type
from verifier.devices import Array
from verifier.execution.machine import Machine
from verifier.proving.obligations import BOUNDED, DEFINITION, PROPERTIES, TESTED, Obligation, Outcome, discharge
from verifier.solver import Query, decide
from verifier.theorems import (
    THEOREMS,
    Theorem,
    communication,
    cotangents,
    modes,
    obligations,
    prices,
    programs,
    transposes,
)
from verifier.theorems.iteration import greatest

ROOT = Path(__file__).resolve().parents[3]
ALL = {one.name: one for one in obligations()}
PAGES = {"sums": "proofs/sums.md", **{theorem.name: theorem.page for theorem in THEOREMS}}


@pytest.mark.parametrize("name", ALL)
def test_an_obligation_holds(name: str) -> None:
    outcome = discharge(ALL[name])
    assert outcome.holds, outcome.objection
    assert outcome.status in (DEFINITION, PROPERTIES, BOUNDED, TESTED)
    assert (outcome.status == BOUNDED) == bool(ALL[name].bound)


def test_names_are_those_of_their_theorems() -> None:
    assert len(ALL) == len(list(obligations()))
    for name, one in ALL.items():
        assert name.partition(".")[0] == one.theorem
        assert set(one.uses) <= set(ALL), name


def test_pages_name_what_checks_them() -> None:
    for name, one in ALL.items():
        page = ROOT / PAGES[one.theorem]
        known = "adjointness.of.NAME" if name.startswith("adjointness.of.") else name
        assert f"`{known}`" in page.read_text(encoding="utf-8"), f"{page} does not name {name}"


def test_the_page_lists_what_is_excluded() -> None:
    page = (ROOT / "proofs" / "communication.md").read_text(encoding="utf-8").partition("## excluded")[2]
    assert {name for name, one in TABLE.items() if one.window} == {*re.findall("`([^`]*)`", page)}


def queries(theorem: Theorem) -> Iterator[Query]:
    for one in theorem.obligations():
        yield from one.queries()


@pytest.mark.parametrize(
    ("theorem", "hypothesis"),
    [(theorem, name) for theorem in THEOREMS for name, _ in theorem.hypotheses],
    ids=lambda one: getattr(one, "name", one),
)
def test_without_a_hypothesis_there_is_a_counterexample(theorem: Theorem, hypothesis: str) -> None:
    asked = [one for one in queries(theorem) if hypothesis in dict(one.hypotheses)]
    answers = [decide(one.without(hypothesis)) for one in asked if not one.possible]
    assert any(answer.verdict == "refuted" and answer.model for answer in answers), asked


def refuted(name: str) -> Outcome:
    outcome = discharge(ALL[name])
    assert outcome.status == "refuted", f"{name} is {outcome.status}"
    return outcome


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What was read off the calculus is read again, before and after."""
    prices.steps.cache_clear()
    yield
    prices.steps.cache_clear()


@pytest.mark.parametrize("swapped", [{}, {"N": "U", "U": "N"}, {"N": "R", "R": "N"}], ids=str)
def test_another_cotangent_map_is_refuted(swapped: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cotangents, "cotangent_state", lambda state: swapped.get(state, state))
    refuted("cotangents.conservative")
    refuted("cotangents.two_choices")
    refuted("cotangents.reverses")


def test_a_map_that_is_no_involution_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    turned = {"N": "R", "R": "U", "U": "N"}
    monkeypatch.setattr(cotangents, "cotangent_state", lambda state: turned.get(state, state))
    refuted("cotangents.involution")


@pytest.mark.usefixtures("forgetful")
def test_another_price_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An all-reduce that costs what a gather does."""

    right = vars(Collective)["wire"].fget

    def cheaper(one: Collective) -> object:
        return right(one._replace(kind=ALL_GATHER) if one.kind == ALL_REDUCE else one)

    monkeypatch.setattr(Collective, "wire", property(cheaper))
    refuted("reshards.gather_after_scatter")


@pytest.mark.usefixtures("forgetful")
def test_a_collective_where_a_cast_is_free_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:

    def gathers(source: ArrayType, target: ArrayType, mesh: Mesh) -> tuple[Collective, ...]:
        found = move(source, target, mesh)
        return found or (Collective(ALL_REDUCE, ("X",), 210**3, mesh.size(("X",))),)

    monkeypatch.setattr("verifier.theorems.prices.move", gathers)
    refuted("cotangents.chain_ends")


@pytest.mark.parametrize("name", ["slice", "dynamic_slice"])
def test_a_wrong_adjoint_is_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice put back with the wrong sign."""
    honest = TABLE[name].adjoint
    if callable(honest):
        wrong = replace(TABLE[name], adjoint=lambda site, position: f"neg({honest(site, position)})")
    else:
        operand, _, row = honest.partition(":")
        wrong = replace(TABLE[name], adjoint=f"{operand}: neg({row})")
    monkeypatch.setitem(TABLE, name, wrong)
    transposes._derived.cache_clear()
    refuted(f"adjointness.of.{name}")
    transposes._derived.cache_clear()


def test_a_wrong_row_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gather whose transpose is a sum of everything."""
    monkeypatch.setitem(COLLECTIVES, "all_gather", COLLECTIVES["all_gather"]._replace(transpose="psum"))
    refuted("communication.collectives")


@pytest.mark.parametrize("name", ["pvary", "preduced"])
def test_a_transpose_that_does_not_add_is_refuted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy on every device has its cotangent summed; a cast does not."""
    monkeypatch.setitem(COLLECTIVES, name, COLLECTIVES[name]._replace(transpose="reduced_vary_cast"))
    refuted(f"adjointness.{name}")


def test_a_transpose_that_communicates_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (*communication.transposes(), communication.Transpose("mul", ("R", "U"), "U", 0, ALL_REDUCE, False, ("U",)))
    monkeypatch.setattr(communication, "transposes", lambda: found)
    refuted("communication.kept_free")


def test_a_relation_that_forgets_demands_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local for Q: U · N → U, which is right forward, would be a member."""
    monkeypatch.setattr(Relation, "contains", lambda self, states, result: result in self.local_results(states))
    refuted("relation.iterated")
    refuted("backward.marked")


def test_a_relation_that_asks_too_much_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relation, "contains", lambda self, states, result: False)
    refuted("relation.conservative")
    refuted("relation.iterated")


def test_an_iteration_without_marks_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strict closure is not the design's."""
    strict = greatest(strict=True)
    monkeypatch.setattr("verifier.theorems.relation.greatest", lambda **given: strict)
    refuted("relation.iterated")
    refuted("relation.two_closures")


def test_another_boundary_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "INSIDE", {"N": "R", "R": "N", "S": "V", "U": "U"})
    refuted("modes.crossing")
    refuted("modes.cotangents")


def test_a_dearer_way_in_per_device_code_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum everywhere where a reduce-scatter would do."""
    monkeypatch.setitem(modes.MOVES, ("U", "S"), ("unreduced_psum", "pvary"))
    refuted("modes.prices")


def test_a_pairing_that_counts_every_copy_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is replicated is on n devices, and is one value."""
    right = programs.pairing

    def everywhere(family: Sequence[Array], other: Sequence[Array], type: Type, mesh: Mesh) -> tuple[float, float]:
        assert isinstance(type, ArrayType)
        axes = tuple(mesh.by_name)
        return right(family, other, array_type(type.dtype, type.shape, varying=axes), mesh)

    monkeypatch.setattr(programs, "pairing", everywhere)
    refuted("adjointness.programs")


ROWS = [
    ("psum", {"kind": "all-gather"}), ("psum", {"after": "U"}), ("pvary", {"after": "U"}), ("pvary", {"after": "N"}),
    ("preduced", {"kind": "all-reduce"}), ("vary_unreduced_cast", {"after": "N"}),
    ("unreduced_psum", {"kind": ""}), ("unreduced_reduce_scatter", {"kind": "all-to-all"}),
    ("all_to_all", {"kind": ""}),
    ("all_gather_reduced", {"after": "U"}), ("all_gather", {"move": ""}), ("reduce_scatter", {"transpose": ""}),
    ("all_to_all", {"kind": "collective-permute"}), ("psum", {"before": "R"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change"), ROWS, ids=str)
def test_another_row_is_refuted(name: str, change: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A collective lost, gained or taken for another, or a state: some theorem objects. A
    collective that is taken for another which is its own transpose as well is left to what XLA compiles."""
    monkeypatch.setitem(COLLECTIVES, name, COLLECTIVES[name]._replace(**change))  # type: ignore[arg-type]
    about = ["modes.rows", "adjointness.rows", "communication.collectives", "modes.prices"]
    assert any(discharge(ALL[one]).status == "refuted" for one in about)


def test_blocks_in_another_order_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that hold each other's blocks in the end."""
    right = Machine.run

    def turned(self: Machine, *given: Any, **named: Any) -> Any:
        found = right(self, *given, **named)
        return found if self.whole else [one[::-1] if isinstance(one, list) else one for one in found]

    monkeypatch.setattr(Machine, "run", turned)
    refuted("reshards.executed")


def test_an_obligation_of_nothing_is_open() -> None:
    assert not discharge(Obligation("nothing", "nothing", "nothing")).holds
