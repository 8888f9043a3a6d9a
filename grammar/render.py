"""Refusals as people read them: the line, a caret under the place, the rule, because and help.

program.jaxpr:2:23: unsound: cos of f32[2,2]{U:X}
  2 |     b:f32[2,2]{U:X} = cos a
    |                       ^^^
  rule: the operation does not commute with what is still pending [state]
  because: cos(x + y) is not cos(x) + cos(y)
  help: reshard a first
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable
from typing import Final

from calculus.refusals import Refusal

WIDTH: Final = 110
"""Where sentences are wrapped. The first line of a refusal never is: other programs read it."""

WINDOW: Final = 160
"""The longest part of a line that is shown; the rest is an ellipsis."""

_WORD: Final = re.compile(r"[^\s\[\](){};,=:]+")
_DOTS: Final = "…"


def render(refusals: Iterable[Refusal], text: str, file: str) -> str:
    """One paragraph for each refusal, in the order given. `text` is what their lines and columns point into."""
    lines = text.split("\n")
    return "\n\n".join("\n".join(_paragraph(refusal, lines, file)) for refusal in refusals)


def _paragraph(refusal: Refusal, lines: list[str], file: str) -> Iterable[str]:
    place = [file, *(str(number) for number in (refusal.line, refusal.column) if number > 0)]
    yield f"{':'.join(place)}: {refusal.family.value}: {_indented(refusal.message)}"
    if 0 < refusal.line <= len(lines):
        yield from excerpt(lines[refusal.line - 1], refusal.column, str(refusal.line))
    yield f"  rule: {refusal.rule} [{refusal.code}]"
    for label, words in (("because", refusal.because), ("help", refusal.help)):
        if words:
            yield _wrapped(f"{label}: {_indented(words)}")
    if refusal.trail:
        yield f"  inside: {', '.join(reversed(refusal.trail))}"


def excerpt(line: str, column: int, label: str = "") -> Iterable[str]:
    """A line of text and, where the column is known (from 1), a line of carets under the word that stands there."""
    line = line.rstrip("\r\n")
    at = min(max(column - 1, 0), len(line))
    first = 0 if at < WINDOW * 3 // 4 else at - WINDOW // 2
    shown = line[first : first + WINDOW]
    word = _WORD.match(shown, at - first)
    marked = shown[at - first : word.end() if word else at - first + 1]
    before = (_DOTS if first else "") + _printable(shown[: at - first])
    gutter = " " * len(label)
    yield f"  {label} | {before}{_printable(shown[at - first :])}{_DOTS if first + WINDOW < len(line) else ''}"
    if column > 0:
        yield f"  {gutter} | {' ' * _width(before)}{'^' * max(_width(_printable(marked)), 1)}"


def _printable(text: str) -> str:
    """Every character that moves the cursor or hides becomes a blank or a question mark, one for one."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def _width(text: str) -> int:
    """The number of columns that a terminal gives to a printable text."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _indented(text: str) -> str:
    lines = ("".join(c if c.isprintable() else "�" for c in line) for line in text.split("\n"))
    return "\n    ".join(lines)


def _wrapped(text: str) -> str:
    return "\n".join(
        textwrap.fill(
            line, WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
        for line in text.split("\n    ")
    )
