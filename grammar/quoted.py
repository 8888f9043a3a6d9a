"""Programs that JAX prints as text inside of a value: those of `custom_linear_solve`, each under its name.

    _LinearSolveTuple(matvec={ lambda ; ... }, vecmat=None, solve={ lambda ; ... }, transpose_solve=None)

They are read when somebody asks for them. Each is printed by itself, so that no name in one means what it does outside.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from calculus.programs import Program, Quoted, Word
from calculus.refusals import Refused

_OUTER: Final = re.compile(r"_LinearSolveTuple\((.*)\)", re.DOTALL)
_NAME: Final = re.compile(r"(?:, |)(\w+)=")


def quoted(text: str) -> Word:
    """A value that the grammar does not derive, with the programs in it, where it is one of those that hold some."""
    found = _OUTER.fullmatch(text)
    parts = None if found is None else _parts(found[1])
    if parts is None:
        return Word(text)
    return Quoted("_LinearSolveTuple", tuple(parts.items()), _program)


def _parts(text: str) -> dict[str, str] | None:
    """The text under each name; `None` where brackets do not match."""
    parts: dict[str, str] = {}
    place = 0
    while place < len(text):
        name = _NAME.match(text, place)
        if name is None:
            return None
        end = _end(text, name.end())
        parts[name[1]] = text[name.end() : end]
        place = end
    return parts


def _end(text: str, start: int) -> int:
    """Where a value ends that begins here: at a comma outside of its brackets."""
    level = 0
    for found in re.finditer(r"[][{}(),]", text[start:]):
        if found.group() in "[{(":
            level += 1
        elif found.group() in ")}]":
            level -= 1
        elif not level:
            return start + found.start()
    return len(text)


@functools.lru_cache(maxsize=256)
def _program(text: str) -> Program | None:
    """The program with this text, its definitions with it; `None` where it is none."""
    from grammar.read import read

    try:
        return read(text).program
    except Refused:
        return None
