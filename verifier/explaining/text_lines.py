"""The lines of a text, where what is told stands under lines of somebody's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from verifier.wording import Frame


class TextFrame(NamedTuple):
    """A line of a text."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class TextSite(NamedTuple):
    """An equation of a text: nothing else calls it."""

    user: TextFrame
    library: None = None


class TextLines:
    """The lines of a text, as `verifier.wording.Lines`."""

    def __init__(self, file: str, text: str) -> None:
        self.file = "<stdin>" if file == "-" else file
        self.text = text.splitlines()

    def at(self, place: int) -> Sequence[TextSite]:
        """The line of an equation."""
        return (TextSite(TextFrame(self.file, int(place))),)

    def loop(self, place: int) -> str:
        """A text does not say what a loop was written as."""
        return ""

    def source(self, frame: Frame) -> str:
        """What stands on a line."""
        return self.text[frame.line - 1].strip() if 0 < frame.line <= len(self.text) else ""
