"""Every case is a section of cases.md; what a case asks beyond types is listed, by the engine that is not built yet."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.spec.document import read_document
from tests.spec.statements import read_statements

HERE = Path(__file__).parent
LATER: dict[str, dict[str, str]] = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))["later"]
NUMBERS = [section.title.split()[0] for section in read_document(HERE / "cases.md")]


def test_there_are_thirty_two_cases_in_order() -> None:
    assert len(NUMBERS) == 32
    assert sorted(NUMBERS) == NUMBERS


def test_what_is_for_later_is_about_cases_and_waits_for_an_engine_that_is_not_built() -> None:
    assert set(LATER) <= set(NUMBERS)
    not_built = read_statements().not_built
    for number, waiting in LATER.items():
        assert waiting, number
        assert set(waiting) <= not_built, f"case {number}: built, and still listed"
        assert all(reason for reason in waiting.values())
