"""Judgments that are right forward only, and what their transposes pay."""

from __future__ import annotations

import pytest

from verifier.theorems import one_way
from verifier.theorems.one_way import COUNTED


def _of_mul() -> dict[tuple[object, object], str]:
    return {(one.states, one.result): one.pays for one in one_way.one_way() if "mul" in one.primitives}


def test_what_products_pay() -> None:
    """By hand: U·N → U has R·U → N with respect to the second operand, a sum that is to be finished; a cast to
    reduced has U → N; and R·R → N has N·R, copies, where pieces are wanted."""
    found = _of_mul()
    assert found[("U", "N"), "U"] == "all-reduce"
    assert found[("N", "N"), "R"] == "all-reduce"
    assert found[("R", "R"), "N"] == ""
    assert not {(("U", "R"), "U"), (("R", "U"), "U"), (("R", "R"), "R"), (("N", "N"), "N")} & set(found)


def test_each_line_says_what_is_paid() -> None:
    assert not one_way.objection()
    assert all(line.endswith(("all-reduce", COUNTED)) for line in one_way.shown())


@pytest.mark.parametrize("said", ["", "all-gather"])
def test_another_price_is_refuted(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one_way.one_way.cache_clear()
    monkeypatch.setattr(one_way, "collective_between", lambda source, target: said)
    try:
        assert one_way.objection()
    finally:
        one_way.one_way.cache_clear()
