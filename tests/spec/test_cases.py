"""Every case is a section of cases.md; what it asks beyond types is listed, by the engine that shows it, or will."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.spec.document import read_document
from tests.spec.engines import COLLECTIVE, REFUSAL, run_section
from tests.spec.statements import read_statements

HERE = Path(__file__).parent
ASKED: dict[str, dict[str, Any]] = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
SHOWN, LATER, VERDICT = ASKED["shown"], ASKED["later"], ASKED["verdict"]
SECTIONS = {section.title.split()[0]: section for section in read_document(HERE / "cases.md")}
NUMBERS = list(SECTIONS)


def test_there_are_thirty_two_cases_in_order() -> None:
    assert len(NUMBERS) == 32
    assert sorted(NUMBERS) == NUMBERS


@functools.cache
def ran(number: str) -> frozenset[str]:
    """The engines that run in the section of a case, all as it expects."""
    found = run_section(SECTIONS[number])
    assert found.problems == []
    return frozenset(found.ran)


def shown(number: str) -> set[str]:
    """What the programs of a section show: that some are `refused`, some `accepted`, and some communicate."""
    found = set()
    for block in SECTIONS[number].blocks:
        if block.language == "jaxpr":
            said = [one.text for one in block.said]
            refused = any(REFUSAL.fullmatch(text) for text in said)
            found |= {"refused" if refused else "accepted"}
            found |= {"communicates"} if any(COLLECTIVE.fullmatch(text) for text in said) else set()
    return found


#: what the section of a case with this verdict has: kinds of programs, and engines that must have run
NEEDED = {
    "wrong-gradient-or-value-must-be-found": {"X"},  # by a run that gives the wrong value, or finds unlike copies
    "accept-with-warning": {"accepted", "C", "X"},
    "accept-and-agree": {"accepted", "C"},
    "accept-sound": {"accepted", "G"},
    "mixed": {"accepted", "G"},
    "predict-communication": {"accepted", "communicates"},
    "refuse-with-repair": {"refused", "accepted"},
    "refuse-ill-typed": {"refused", "accepted"},  # and the control
    "parse-and-print-exactly": {"P"},
}
#: whose sums or writes are all there is to see: there is no gradient that anybody asks for
NO_GRADIENT = {"15", "19"}


def test_each_case_has_its_verdict() -> None:
    assert set(VERDICT) == set(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_case_gets_the_verdict_that_is_expected(number: str) -> None:
    needed = NEEDED[re.split(r"[ :]", VERDICT[number])[0]]
    if number in NO_GRADIENT:
        needed = needed - {"G"} | {"X"}
    assert needed <= shown(number) | ran(number)


@pytest.mark.parametrize("number", SHOWN)
def test_a_case_shows_what_it_asks(number: str) -> None:
    assert SHOWN[number]
    assert set(SHOWN[number]) - {"J"} <= ran(number)
    assert all(reason for reason in SHOWN[number].values())


#: where JAX says something else than a section, and no entry of the ledger has its cell
OTHERWISE = {
    "29": "accepted, where unsound: boundary-spec is expected",  # a shard_map over no axis that is not manual already
    "43": "f32[8,8]",  # JAX prints no target of a conversion, so none is asked for
    "62": "accepted, where unsound: branch-types is expected",  # entry 68, about a form
}
#: likewise in JAX 0.10.2, of what is well typed
OLDER = {"11": "slicing on sharded dims where out dim", "43": "f32[8,8]"}


@pytest.mark.parametrize("number", NUMBERS)
def test_jax_says_of_a_case_what_its_section_says(number: str) -> None:
    """Typed alike, refused alike, run to the same blocks, differentiated and compiled alike, or by an entry."""
    from tests.spec import jax_engine

    asked = jax_engine.ask(SECTIONS[number])
    otherwise = OTHERWISE if jax_engine.NEWEST else OLDER
    assert "J" in asked.ran or not jax_engine.NEWEST
    assert all(otherwise.get(number, "no difference") in sentence for _, sentence in asked.problems)
    assert bool(asked.problems) is (number in otherwise)


def test_what_is_for_later_is_about_cases_and_waits_for_an_engine_that_is_not_built() -> None:
    assert set(LATER) <= set(NUMBERS)
    not_built = read_statements().not_built
    for number, waiting in LATER.items():
        assert waiting, number
        assert set(waiting) <= not_built, f"case {number}: built, and still listed"
        assert all(reason for reason in waiting.values())
