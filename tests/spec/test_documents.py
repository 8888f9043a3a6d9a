"""Every section of every document here runs, in every engine that its statement names and that is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.document import Section, read_document
from tests.spec.engines import BUILT, run_section
from tests.spec.statements import read_statements

HERE = Path(__file__).parent
STATEMENTS = read_statements()
DOCUMENTS = [path for path in sorted(HERE.glob("*.md")) if path.name != "README.md"]
SECTIONS = [section for path in DOCUMENTS for section in read_document(path)]


@pytest.mark.parametrize("section", SECTIONS, ids=[section.name for section in SECTIONS])
def test_section(section: Section) -> None:
    outcome = run_section(section)
    if "J" in STATEMENTS.named.get(section.number, ()):
        from tests.spec import jax_engine

        asked = jax_engine.ask(section)
        outcome.ran |= asked.ran
        outcome.problems += asked.problems
    wrong = [f"{section.document}:{line}: {sentence}" for line, sentence in outcome.problems]
    if not section.prose.strip():
        wrong.append(f"{section.document}:{section.line}: the section states nothing")
    not_run = STATEMENTS.not_run(section.number, outcome.ran)
    for engine in not_run:
        if engine in outcome.lacking or (engine == "J" and not jax_engine.NEWEST):
            continue
        names = f"{section.number} names {engine} ({STATEMENTS.engines[engine]})"
        wrong.append(f"{section.document}:{section.line}: {names}, and nothing ran it")
    assert not wrong, "\n" + "\n".join(wrong)
    if not_run:
        pytest.skip(f"not installed: {', '.join(outcome.lacking.values()) or 'the newest JAX'}")


@pytest.mark.parametrize("chapter", STATEMENTS.documents)
def test_every_statement_has_a_section(chapter: str) -> None:
    document = STATEMENTS.documents[chapter]
    have = [section.number for section in SECTIONS if section.document == document]
    assert STATEMENTS.missing(chapter, have) == []
    assert [number for number in have if number and number not in STATEMENTS.named] == []


def test_what_is_not_built_is_listed_and_nothing_else() -> None:
    assert BUILT | STATEMENTS.not_built == set(STATEMENTS.engines)
    assert BUILT & STATEMENTS.not_built == set(), "built, and still listed in statements.toml"
