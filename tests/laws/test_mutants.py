"""Some of what `make mutate` and `make mutate-prover` make wrong in the whole table: a law sees it, or the prover."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tests import mutate
from tests.mutate_prover import declarations, rows, score, transposes
from tests.mutate_prover.seen import LATE, LAW, NOBODY, WAYS, Seen, seen

README = Path(__file__).parents[2] / "proofs" / "README.md"


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
    found = declarations.declarations(name)
    assert len(found) > 5
    assert {one.by for one in found} == by
    assert all(one.says for one in found if one.by != "law")
    assert sum(one.by == "law" for one in found) < len(found) / 3


@pytest.mark.parametrize("name", ["rev", "pad", "scatter-add", "fft"])
def test_a_wrong_sign_in_a_transpose_is_seen(name: str) -> None:
    found = transposes.signs(name)
    assert found
    assert {one.by for one in found} == {"run"}


def test_wrong_rows_and_maps_are_refuted_by_the_prover() -> None:
    """Each in a process of its own."""
    some = ["preduced: free -> all-reduce", "pvary: before N -> R", "all_gather: transpose reduce_scatter -> pvary"]
    maps = [one for one in rows.rules() if one.startswith("cotangents: N -> U, U -> N")]
    tasks = [score.Task(score.ROWS, what) for what in (*some, *maps)]
    assert set(some) < set(rows.rules())
    found = [one for _, several in score.everything(tasks, 2) for one in several]
    assert [one.what for one in found] == [task.name for task in tasks]
    assert {one.by for one in found} <= {"solver", "run"}


def test_a_prover_that_sees_nothing_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "_refuted", lambda *_: [])
    monkeypatch.setattr(mutate, "differences", lambda *_: [])
    assert sum(one.by == "nobody" for one in declarations.declarations("add")) > 5


def test_a_mutant_that_takes_too_long_is_seen_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where what looks at it catches every exception."""

    def look() -> Seen:
        for count in itertools.count():
            try:
                str(count)
            except Exception:  # noqa: BLE001
                return Seen("", LAW)
        raise AssertionError

    late = seen("a loop", look, bound=0.05)
    assert (late.what, late.by) == ("a loop", LATE)
    assert seen("another", lambda: Seen("another", LAW), bound=60.0).by == LAW


def test_the_page_keeps_the_score() -> None:
    """Of as many wrong ones as there are: what the command prints for these counts. None is seen by nothing."""
    text = README.read_text(encoding="utf-8")
    kept = score.read(text)
    assert {group: sum(of.values()) for group, of in kept.items()} == score.totals(score.tasks())
    assert "\n".join(score.page(kept)) in text
    assert all(of[NOBODY] == of[LATE] == 0 for of in kept.values())
    reasons = text.partition("\nWhat a law alone sees")[2]
    assert sum(int(count) for count in re.findall(r"\((\d+)\)", reasons)) == sum(of[LAW] for of in kept.values())


def test_the_score_that_is_printed_is_read_again() -> None:
    counts = {group: {way: 7 * at + each for each, way in enumerate(WAYS)} for at, group in enumerate(score.GROUPS)}
    assert score.read("\n".join(score.page(counts))) == counts
