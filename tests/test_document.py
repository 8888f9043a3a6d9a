"""The one document: everything is in it, it is spliced from the sources, and it leads nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calculus.collectives import COLLECTIVES
from calculus.judgments import RULES
from calculus.primitives import TABLE
from calculus.refusals import CATALOGUE
from tests.document import ELSEWHERE, PAGES, ROOT, document, main
from verifier.theorems import THEOREMS


@pytest.fixture(scope="module")
def text() -> str:
    return document()


def test_every_page_is_in_it_or_no_proof() -> None:
    assert {path.stem for path in (ROOT / "proofs").glob("*.md")} == {*PAGES, *ELSEWHERE}


def test_every_rule_theorem_and_row_is_in_it(text: str) -> None:
    assert [*re.findall(r"^### Rule \d+: ([\w-]+)$", text, re.MULTILINE)] == [*RULES]
    assert len(RULES) > 30
    titles = [f"### Theorem {number}: {one.name}" for number, one in enumerate(THEOREMS, 1)]
    rows = [f"| `{name}` |" for name, row in COLLECTIVES.items() if not row.future] + [
        f"| `{name}` |" for name in TABLE
    ]
    missing = [one for one in (*titles, *rows, *(f"| `{code}` |" for code in CATALOGUE)) if one not in text]
    assert not missing


def test_a_rule_is_drawn_as_its_function_draws_it(text: str) -> None:
    for function in RULES.values():
        bar = next(line for line in (function.__doc__ or "").splitlines() if "───" in line)
        assert bar.strip() in text


def test_propositions_are_numbered_once_and_in_order(text: str) -> None:
    found = [tuple(map(int, one)) for one in re.findall(r"^#### Proposition (\d+)\.(\d+):", text, re.MULTILINE)]
    assert found == sorted(set(found))
    assert {page for page, _ in found} <= set(range(1, len(PAGES) + 1))
    stated = sum(len(re.findall(r"^## ", (ROOT / "proofs" / f"{page}.md").read_text(), re.MULTILINE)) for page in PAGES)
    assert len(found) == stated


def test_it_leads_nowhere_else(text: str) -> None:
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    places = set(re.findall(r"\]\(([^)\s]*)\)", prose))
    assert places
    assert {place for place in places if not place.startswith("#")} == set()
    assert {place[1:] for place in places} <= set(re.findall(r'<a id="([^"]*)">', text))


def test_the_command_writes_it(tmp_path: Path, text: str) -> None:
    assert main([str(tmp_path / "sub" / "calculus.md")]) == 0
    assert (tmp_path / "sub" / "calculus.md").read_text(encoding="utf-8") == text
