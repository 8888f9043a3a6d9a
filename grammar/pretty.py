"""Pretty printing: where the lines break. An algebra in the tradition of Wadler and Lindig.

    "abc"              these characters
    (part, part)       parts in sequence
    Break(" ")         a line break, or this text where its group stays on one line
    Group(part)        on one line if the whole of it fits what is left of the line, else its breaks are real
    Nest(part)         inside, lines start two columns further to the right
    Comment("f.py:3")  a comment for the line that it falls on
    Deferred(build)    the part that `build` makes, when it is reached

Only the group itself has to fit, not what follows it on the line. Text is never cut: it runs past the margin.

Nothing here recurses: depth costs memory, not stack. Each part is visited once when it is set, and once more for each
group around it that might still fit, which the width bounds. So the time is linear in the text that comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from calculus.refusals import refuse

WIDTH: Final = 80
"""The margin, in columns: a group that would end beyond it is broken."""

DEEPEST: Final = 6_000
"""The deepest indentation, in columns: a thousand programs, one inside the other. Beyond it a text is mostly blanks,
and its size grows with the square of the depth."""

_STEP: Final = 2


@dataclass(frozen=True, slots=True)
class Break:
    """A place where the line may break; `text` stands there where it does not."""

    text: str = " "


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment for the line it falls on: printed at its end, after ` # `, all comments in one column."""

    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """A part that stays on one line if it fits."""

    part: Part


@dataclass(frozen=True, slots=True)
class Nest:
    """A part whose lines, the first one aside, start two columns further to the right."""

    part: Part


@dataclass(frozen=True, slots=True)
class Deferred:
    """A part that is made when it is reached, so that a deep term never exists as parts all at once."""

    build: Callable[[], Part]


Part: TypeAlias = "str | tuple[Part, ...] | list[Part] | Break | Comment | Group | Nest | Deferred"

GAP: Final = Group(Break())
"""A blank, or a line break if the line has already reached the margin: how a list fills its lines."""


def separated(parts: Iterable[Part], *separator: Part) -> list[Part]:
    """The parts in sequence, with the separator between each two."""
    found: list[Part] = []
    for part in parts:
        if found:
            found += separator
        found.append(part)
    return found


def columns(text: str) -> int:
    """The columns that a text takes: its bytes in UTF-8, as JAX counts them."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def lay_out(part: Part) -> str:
    """The text of a part, its lines separated by newlines.

    Raises `Refused` (`too-deep`) if it is indented by more than `DEEPEST` columns.
    """
    lines: list[_Line] = []
    line = _Line(0)
    agenda: list[tuple[int, bool, Part]] = [(0, False, part)]
    while agenda:
        indent, flat, part = agenda.pop()
        if isinstance(part, str):
            line.add(part)
        elif isinstance(part, tuple | list):
            agenda += [(indent, flat, inner) for inner in reversed(part)]
        elif isinstance(part, Break):
            if flat:
                line.add(part.text)
            else:
                lines.append(line)
                line = _Line(indent)
        elif isinstance(part, Group):
            agenda.append((indent, flat or _fits(part.part, WIDTH - line.width), part.part))
        elif isinstance(part, Nest):
            if indent >= DEEPEST:
                raise refuse("too-deep", f"the program is indented by more than {DEEPEST} columns")
            agenda.append((indent + _STEP, flat, part.part))
        elif isinstance(part, Comment):
            line.comments.append(part.text)
        else:
            agenda.append((indent, flat, part.build()))
    return "\n".join(_with_comments([*lines, line]))


class _Line:
    """A line under construction. `width` is in columns."""

    __slots__ = ("comments", "pieces", "width")

    def __init__(self, indent: int) -> None:
        self.pieces = [" " * indent]
        self.width = indent
        self.comments: list[str] = []

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.width += columns(text)


def _fits(part: Part, room: int) -> bool:
    """Whether the part takes at most `room` columns when none of its lines breaks. Looks no further than that."""
    agenda = [part]
    while agenda and room >= 0:
        part = agenda.pop()
        if isinstance(part, str):
            room -= columns(part)
        elif isinstance(part, tuple | list):
            agenda += reversed(part)
        elif isinstance(part, Break):
            room -= columns(part.text)
        elif isinstance(part, Group | Nest):
            agenda.append(part.part)
        elif isinstance(part, Deferred):
            agenda.append(part.build())
    return room >= 0


def _with_comments(lines: Sequence[_Line]) -> Iterator[str]:
    """The lines, comments after the widest line of all; a line's second and later comments have their own lines."""
    widest = max(line.width for line in lines)
    for line in lines:
        text = "".join(line.pieces)
        if line.comments:
            text += " " * (widest - line.width)
            for comment in line.comments:
                yield f"{text} # {comment}"
                text = " " * widest
        else:
            yield text
