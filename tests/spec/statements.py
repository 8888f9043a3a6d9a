"""The numbered statements that the documents must show, and the engines that each names: statements.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Statements:
    """engines: letter to what it does. not_built: the letters of those that nothing can run yet. documents: a chapter's
    letter to the file that holds it. named: a statement's number to the engines that must run in its section."""

    engines: dict[str, str]
    not_built: frozenset[str]
    documents: dict[str, str]
    named: dict[str, frozenset[str]]

    def missing(self, chapter: str, numbers: Iterable[str]) -> list[str]:
        """The numbers of a chapter that have no section."""
        have = set(numbers)
        return [number for number in self.named if number[0] == chapter and number not in have]

    def not_run(self, number: str, ran: Iterable[str]) -> list[str]:
        """The engines that the statement names, that are built, and that did not run."""
        return sorted(self.named.get(number, frozenset()) - set(ran) - self.not_built)


def read_statements(path: Path = HERE / "statements.toml") -> Statements:
    """The statements as the file lists them."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    named = {number: frozenset(engines) for chapter in data["documents"] for number, engines in data[chapter].items()}
    return Statements(data["engines"], frozenset(data["not_built_yet"]), data["documents"], named)
