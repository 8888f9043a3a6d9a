"""Markdown documents that are tests: sections, their blocks, and what a block says that it expects.

A section is a heading `## A20 · title` (or `## title`) with all that follows it. A block is fenced; its info string is
a language and options, `jaxpr mesh="X=2"`. An expectation is what follows `#:` on a line of a block. The format is
described in README.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_HEADING = re.compile(r"(#{1,6}) +(.+?) *")
_TITLE = re.compile(r"(?:([A-Z]\d+) · )?(.+)")
_OPTION = re.compile(r' +(\w+)="([^"]*)"')
_MARK = re.compile(r" *#:(?: |$)")


class NotADocument(Exception):
    """The markdown is not a document of tests: says the file and the line."""


class Said(NamedTuple):
    """An expectation: its text, the line of the block's program that it is about (from 1; 0 for the whole block), and
    the document's line."""

    text: str
    line: int
    written: int


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `text` has no expectations in it: those are `said`. `line` is where the fence opens."""

    language: str
    options: dict[str, str]
    text: str
    said: tuple[Said, ...]
    line: int


@dataclass(slots=True)
class Section:
    """A heading of the second level, its prose and its blocks. `number` is empty where the heading has none."""

    document: str
    number: str
    title: str
    line: int
    prose: str = ""
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        """How a test report names this section."""
        return f"{self.document}:{self.number or self.title}"


def read_document(path: Path) -> list[Section]:
    """The sections of a document, in order. Raises `NotADocument`."""
    return sections(path.read_text(encoding="utf-8"), path.name)


def sections(text: str, document: str) -> list[Section]:
    """The sections of a document's text. Raises `NotADocument` for a block that is not closed or stands before the
    first section, an info string that does not read, and a number or title used twice."""
    found: list[Section] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if line.startswith("```"):
            block = _block(line, number, lines, document)
            if not found:
                raise NotADocument(f"{document}:{number}: a block before the first section")
            found[-1].blocks.append(block)
            continue
        heading = _HEADING.fullmatch(line)
        if heading is None or heading[1] != "##":
            if found:
                found[-1].prose += f"{line}\n"
            continue
        title = _TITLE.fullmatch(heading[2])
        assert title is not None
        section = Section(document, title[1] or "", title[2], number)
        if section.name in {other.name for other in found}:
            raise NotADocument(f"{document}:{number}: there are two sections {section.number or section.title}")
        found.append(section)
    return found


def _block(fence: str, opened: int, lines: Iterator[tuple[int, str]], document: str) -> Block:
    info = re.fullmatch(r"```(\w+)((?: +\w+=\"[^\"]*\")*) *", fence)
    if info is None:
        raise NotADocument(f'{document}:{opened}: a fence reads ```language option="value", not {fence}')
    kept: list[str] = []
    said: list[Said] = []
    for number, line in lines:
        if line.startswith("```"):
            if line.strip() != "```":
                raise NotADocument(f"{document}:{number}: the block opened on line {opened} is still open")
            text = "".join(f"{line}\n" for line in kept)
            return Block(info[1], dict(_OPTION.findall(info[2])), text, tuple(said), opened)
        mark = _MARK.search(line)
        if mark is None:
            kept.append(line)
            continue
        before = line[: mark.start()]
        if before:
            kept.append(before)
        parts = line[mark.end() :].split(";")
        said += (Said(part.strip(), len(kept) if before else 0, number) for part in parts)
    raise NotADocument(f"{document}:{opened}: the block is not closed")
