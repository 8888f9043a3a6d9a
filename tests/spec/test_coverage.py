"""Nothing in the calculus is dead: each refusal is provoked, each rule fires, each declaration and row is used.

A refusal counts when a document expects it, since every expectation is checked. A rule, a declaration or a row counts
when it types an equation that is not refused, in a program of a document or of the corpus.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import pytest

from calculus.checking import Checked, Checker
from calculus.collectives import COLLECTIVES
from calculus.forms import FORMS
from calculus.judgments import RULES
from calculus.primitives import TABLE
from calculus.programs import Program
from calculus.refusals import CATALOGUE
from grammar.meshes import parse_meshes
from tests.spec.document import Section, read_document
from tests.spec.engines import GOLDEN
from verifier.texts import check_text

HERE = Path(__file__).parent
SECTIONS: list[Section] = [
    section for path in sorted(HERE.glob("*.md")) if path.name != "README.md" for section in read_document(path)
]
_SAID = re.compile(r"[\w-]+: ([\w-]+)(?:, .*)?")
_SHOWN = re.compile(r"^ *rule: .* \[([\w-]+)\]$", re.MULTILINE)


def provoked(sections: list[Section]) -> Iterator[str]:
    """The codes that the blocks of these sections expect."""
    for section in sections:
        for block in section.blocks:
            if block.language in ("jaxpr", "type"):
                codes = [match[1] for said in block.said if (match := _SAID.fullmatch(said.text))]
                yield from (code for code in codes if code in CATALOGUE)
            elif block.language == "console":
                yield from _SHOWN.findall(block.text)


def test_every_code_of_the_catalogue_is_provoked_and_no_other() -> None:
    assert set(provoked(SECTIONS)) == set(CATALOGUE)


def test_refusals_md_has_a_section_for_each_code_that_provokes_it() -> None:
    sections = [section for section in SECTIONS if section.document == "refusals.md"]
    assert [section.title for section in sections] == list(CATALOGUE)
    for section in sections:
        assert section.title in provoked([section]), section.title


@cache
def programs() -> tuple[tuple[str, str, str], ...]:
    """Name, text and mesh of every program of the documents and of the corpus."""
    shown = [
        (f"{section.name}:{block.line}", block.text, block.options.get("mesh", ""))
        for section in SECTIONS
        for block in section.blocks
        if block.language == "jaxpr"
    ]
    files = sorted(GOLDEN.rglob("*.jaxpr"))
    return (*shown, *((path.name, path.read_text(encoding="utf-8"), "") for path in files))


def _checked(text: str, mesh: str) -> list[Checked]:
    """The program of a text, checked by the usual door; none where it is not read or anything in it is refused."""
    found: list[Checked] = []

    class Recording(Checker):
        def check(self, program: Program) -> Checked:
            found.append(super().check(program))
            return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("verifier.texts.Checker", Recording)
        report = check_text(text, parse_meshes(mesh) if mesh else [], "the program")
    return [] if report.refusals else found


def _used(text: str, mesh: str) -> set[str]:
    """The primitives of the equations that are typed, bodies included; none where anything is refused."""
    names: set[str] = set()
    waiting = _checked(text, mesh)
    while waiting:
        checked = waiting.pop()
        names.update(equation.primitive for equation in checked.program.equations)
        waiting += (inner.body for effect in checked.effects for inner in effect.inner)
    return names


@cache
def used() -> frozenset[str]:
    """The primitives that some well-typed program uses."""
    return frozenset().union(*(_used(text, mesh) for _, text, mesh in programs()))


@pytest.mark.parametrize("names", [TABLE, COLLECTIVES, FORMS], ids=["declarations", "collectives", "forms"])
def test_each_is_used(names: dict[str, object]) -> None:
    assert [name for name in names if name not in used()] == []


def test_each_rule_fires() -> None:
    """A rule has fired when its function has returned a typing; a refusal leaves by an exception."""
    codes: dict[CodeType, str] = {function.__code__: name for name, function in RULES.items()}
    fired: set[str] = set()

    def watch(frame: FrameType, event: str, value: object) -> None:
        if event == "return" and value is not None and frame.f_code in codes:
            fired.add(codes[frame.f_code])

    before = sys.getprofile()
    try:
        for _, text, mesh in programs():
            if fired == set(RULES):
                break
            sys.setprofile(watch)
            _checked(text, mesh)
            sys.setprofile(before)
    finally:
        sys.setprofile(before)
    assert sorted(set(RULES) - fired) == []
