"""Some of what `make mutate` and `make mutate-prover` make wrong in the whole table: a law sees it, or the prover."""

from __future__ import annotations

import pytest

from tests import mutate, mutate_prover


@pytest.mark.parametrize(
    "name",
    ["add", "neg", "max", "gt", "shift_left", "reduce_max", "argmax", "cumsum", "dot_general", "gather", "reshape"],
)
def test_wrong_declarations_are_seen(name: str) -> None:
    count, alive = mutate.score(name)
    assert count > 5
    assert not alive


def test_what_says_the_same_is_no_mutant() -> None:
    """Multiplication has two operands, each in a group of its own: no mutant puts one where it is."""
    changes = [mutant.what for mutant in mutate.mutants("mul")]
    assert "operand 0 -> group 1" in changes
    assert not {"operand 0 -> alone", "operand 0 -> group 0"} & set(changes)


def test_a_law_that_sees_nothing_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutate, "differences", lambda *_: [])
    _, alive = mutate.score("add")
    assert len(alive) > 5


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("cumsum", {"solver", "reading"}),
        ("pad", {"solver", "reading"}),
        ("sub", {"solver", "law"}),
        ("exp", {"solver", "run", "law"}),
        ("dot_general", {"solver", "law", "reading"}),
    ],
)
def test_wrong_declarations_are_refuted_by_the_prover(name: str, by: set[str]) -> None:
    found = mutate_prover.declarations(name)
    assert len(found) > 5
    assert {one.by for one in found} == by
    assert all(one.says for one in found if one.by != "law")
    assert sum(one.by == "law" for one in found) < len(found) / 3


@pytest.mark.parametrize("name", ["rev", "pad", "scatter-add", "fft"])
def test_a_wrong_sign_in_a_transpose_is_seen(name: str) -> None:
    found = mutate_prover.signs(name)
    assert found
    assert {one.by for one in found} == {"run"}


def test_wrong_rows_and_maps_are_refuted_by_the_prover() -> None:
    """Each in a process of its own."""
    some = ["preduced: free -> all-reduce", "pvary: before N -> R", "all_gather: transpose reduce_scatter -> pvary"]
    maps = [one for one in mutate_prover.rules() if one.startswith("cotangents: N -> U, U -> N")]
    tasks = [("rules", what) for what in (*some, *maps)]
    assert set(some) < set(mutate_prover.rules())
    seen = [one for _, found in mutate_prover.everything(tasks) for one in found]
    assert [one.what for one in seen] == [what for _, what in tasks]
    assert {one.by for one in seen} <= {"solver", "run"}


def test_a_prover_that_sees_nothing_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutate_prover, "_refuted", lambda *_: [])
    monkeypatch.setattr(mutate, "differences", lambda *_: [])
    assert sum(one.by == "nobody" for one in mutate_prover.declarations("add")) > 5
