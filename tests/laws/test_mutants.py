"""Some of the wrong declarations that `make mutate` makes of the whole table: each is seen by a law."""

from __future__ import annotations

import pytest

from tests import mutate


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
