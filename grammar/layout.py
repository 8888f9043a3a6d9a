"""Layout: where an equation ends and how far a parameter's value reaches.

These two are decided by indentation and by brackets, not by rules (see the head of programs.lark). The lexer of the
grammar and `source.locate` share this module; nothing here knows lark.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from pathlib import Path

from calculus.refusals import Place, Refused, refuse

_BLANK = 1 << 60  # the indentation of a blank line
_NOT_BLANK = re.compile(r"[ \t\r]*")

NESTING = 64
"""How deep programs, brackets and cells may nest. Deeper text is refused (`too-deep`), so that no reader of terms
needs to fear its own recursion. Programs that JAX prints nest about ten deep."""

TEXT_PARAMETERS = frozenset({"fmt", "msg", "message"})
"""Parameters that hold text for people. It is printed as it is: quotes, brackets and line breaks in it mean nothing."""


def syntax(message: str, line: int = 0, column: int = 0, help: str = "") -> Refused:
    """The refusal `syntax`, at a line and column that count from 1."""
    return _at(refuse("syntax", message, help=help, place=Place("type") if not line else None), line, column)


def too_deep(what: str, line: int = 0, column: int = 0) -> Refused:
    """The refusal `too-deep`, at a line and column that count from 1."""
    return _at(refuse("too-deep", f"{what} nest more than {NESTING} deep"), line, column)


def _at(refused: Refused, line: int, column: int) -> Refused:
    refused.refusal.line, refused.refusal.column = line, column
    return refused


@functools.cache
def terminals() -> dict[str, str]:
    """The regular expressions of programs.lark by terminal, so that they are written down once."""
    text = Path(__file__).with_name("programs.lark").read_text(encoding="utf-8")
    return dict(re.findall(r"^(\w+)(?:\.\d+)? *: /(.+)/(?: +//.*)?$", text, re.MULTILINE))


_OPENING = {"(": ")", "[": "]", "{": "}"}
# Quotes open a string only where a word cannot contain them (`don't`); one that is not closed ends with its line.
_GAP = r"(?<!\s)\s++(?=[^\W\d]\w*+=(?!=))"
_BRACKET = re.compile(rf"""[()\[\]{{}}]|(?<!\w)b?(?:'(?:[^'\\\n]|\\.)*+'?|"(?:[^"\\\n]|\\.)*+"?)|{_GAP}""")
BESIDE = re.compile(_GAP)
"""A blank between two parameters: the name of the second, and `=`, follow."""
_BARE_BRACKET = re.compile(rf"[()\[\]{{}}]|{_GAP}")
_KEY = re.compile(r"[^\W\d]\w*+=")


class Layout:
    """The lines of one text: where they start, how deep they are indented, and what follows them.

    Building it is linear in the text, and so are all questions together that a reader of the whole text asks.
    """

    __slots__ = ("_indents", "_next_out", "_next_solid", "_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._indents: list[int] = []
        for start in self._starts:
            end = _NOT_BLANK.match(text, start).end()  # type: ignore[union-attr]  # it matches everywhere
            blank = end == len(text) or text[end] == "\n"
            self._indents.append(_BLANK if blank else end - start)
        self._next_out = self._following()
        self._next_solid = self._solid()

    def _following(self) -> list[int]:
        """For each line, the next one that is not indented deeper; the number of lines where there is none."""
        following = [len(self._starts)] * len(self._starts)
        waiting: list[int] = []
        for line, indent in enumerate(self._indents):
            while waiting and self._indents[waiting[-1]] >= indent:
                following[waiting.pop()] = line
            waiting.append(line)
        return following

    def _solid(self) -> list[int]:
        """For each line, itself or the next one that is neither blank nor a comment."""
        solid = [len(self._starts)] * (len(self._starts) + 1)
        for line in range(len(self._starts) - 1, -1, -1):
            indent = self._indents[line]
            blank = indent == _BLANK or self.text[self._starts[line] + indent] == "#"
            solid[line] = solid[line + 1] if blank else line
        return solid

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of an offset into the text."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int) -> int:
        """Where a line, counted from 1, starts; the end of the text if it has no such line."""
        return self._starts[line - 1] if line <= len(self._starts) else len(self.text)

    def ends_equation(self, newline: int, column: int) -> bool:
        """Whether a line break ends the equation that begins at a column (from 0): the next line that is neither
        blank nor a comment is not indented deeper."""
        line = self._next_solid[bisect_right(self._starts, newline)]
        return line == len(self._starts) or self._indents[line] <= column

    def value_end(self, key: int, start: int) -> int:
        """Where the value ends that begins at `start`, of the parameter whose name begins at `key`.

        Raises `Refused` (`syntax`) if nothing ends it and (`too-deep`) if its brackets nest too deep.
        """
        text = self.text
        name = text[key : start - 1]
        line, column = self.position(key)
        line, column = line - 1, column - 1
        own_line = self._indents[line] == column
        if own_line:
            sibling = self._next_out[line]
            if self._is_sibling(sibling, column):
                return self._beside(name, start, self._starts[sibling] - 1)
        if name not in TEXT_PARAMETERS:
            return self._balanced_end(start, _BRACKET)
        end_of_line = text.find("\n", start)
        end_of_line = len(text) if end_of_line < 0 else end_of_line
        end = self._balanced_end(start, _BARE_BRACKET, end_of_line)
        if end < end_of_line or not own_line:
            return end
        # Text with line breaks of its own: the next line that looks like a sibling ends it.
        for other in range(line + 1, len(self._starts)):
            if self._is_sibling(other, column):
                return self._starts[other] - 1
        help = "begin the next parameter, or the closing `]`, on a line of its own"
        raise syntax(f"the text of `{name}` does not end", line + 1, column + 1, help)

    def _beside(self, name: str, start: int, end: int) -> int:
        """Where a value ends that has the lines up to `end`: there, unless another parameter stands beside it on its
        first line. Text for people, and what `<...>` holds, is kept as it is."""
        line_end = self.text.find("\n", start, end)
        stop = end if line_end < 0 else line_end
        if name in TEXT_PARAMETERS or not BESIDE.search(self.text, start, stop):
            return end
        angles = re.compile(terminals()["ANGLES"]).match(self.text, start, stop)
        level = 0
        for found in _BRACKET.finditer(self.text, angles.end() if angles else start, stop):
            what = found.group()
            if what in _OPENING:
                level += 1
            elif what in ")]}":
                level -= 1
            elif what.isspace() and not level:
                return found.start()
        return end

    def _is_sibling(self, line: int, column: int) -> bool:
        """Whether a line (from 0) begins the next parameter of a block whose parameters begin at a column, or ends
        the block; JAX indents parameters by two."""
        if line >= len(self._starts):
            return False
        indent = self._indents[line]
        first = self._starts[line] + indent
        if indent == column and _KEY.match(self.text, first):
            return True
        return indent == column - 2 and self.text.startswith("]", first)

    def _balanced_end(self, start: int, pattern: re.Pattern[str], stop: int | None = None) -> int:
        open_brackets: list[str] = []
        end = len(self.text) if stop is None else stop
        for found in pattern.finditer(self.text, start, end):
            what = found.group()
            if what in _OPENING:
                open_brackets.append(_OPENING[what])
                if len(open_brackets) > NESTING:
                    raise too_deep("brackets", *self.position(found.start()))
            elif what in ")]}":
                if not open_brackets:
                    return _rstrip(self.text, start, found.start())
                if open_brackets.pop() != what:
                    if stop is not None:
                        return end
                    raise syntax(
                        f"`{what}` does not close the bracket that is open here",
                        *self.position(found.start()),
                        help="close every `(`, `[` and `{` by its own kind, the last one first",
                    )
            elif what.isspace() and not open_brackets:
                return found.start()
        if stop is not None:
            return end
        raise syntax("a parameter block is not closed: `]` is missing", *self.position(start), help="close it with `]`")


def _rstrip(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1].isspace():
        end -= 1
    return end


def depth(text: str) -> int:
    """How deep the brackets of a text nest, quoted strings aside."""
    deepest = level = 0
    for found in _BRACKET.finditer(text):
        what = found.group()
        if what in _OPENING:
            level += 1
            deepest = max(deepest, level)
        elif what in ")]}":
            level -= 1
    return deepest
