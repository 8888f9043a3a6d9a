"""Parameters of equations, by hand and by text: each block, and each head `dot_general[...]`, is decoded once.

Blocks that print the same are one `Parameters` object. A block that names a definition means something only in its
own document, and is shared only there; all others are shared by every document that is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from calculus.programs import NO_PARAMETERS, Parameters, Reference, Value, Word
from grammar.layout import BESIDE, TEXT_PARAMETERS
from grammar.leaves import Odd, value_at, value_of
from grammar.references import holds_programs

Head: TypeAlias = "tuple[str, Parameters, int]"
"""Primitive, parameters, and the number of lines they take."""

PARAMETER: Final = re.compile(r"([A-Za-z_]\w*+)=", re.ASCII)
_PROGRAM: Final = re.compile(r"\{\s*lambda\b")

_HEADS: Final[dict[str, Head]] = {}
_BLOCKS: Final[dict[str, Parameters]] = {}


def clear() -> None:
    """Forget every head and every block of parameters read so far. For measurements only."""
    _HEADS.clear()
    _BLOCKS.clear()


class Heads(dict[str, Head]):
    """What stands between `=` and the operands of an equation, by its text. One for each document.

    `references` are the document's definitions. Looking up a text raises `Odd` if it is not one decoded by hand.
    """

    def __init__(self, definitions: Iterable[str]) -> None:
        super().__init__()
        self.references = {name: Reference(name) for name in definitions}
        self.depth = 1  # of the program being read
        self.uses: dict[str, int] = {}  # of definitions in it, each with its greatest depth
        self._blocks: dict[str, Parameters] = {}
        self._calls: dict[str, tuple[Head, list[str]]] = {}  # heads that use definitions, and which

    def __missing__(self, text: str) -> Head:
        found = _HEADS.get(text)
        if text in self._calls:
            found, names = self._calls[text]
            for name in names:
                self.refer(name)
            return found  # not kept: each use counts
        if found is None:
            primitive, bracket, block = text.partition("[")
            if not bracket:
                found = _HEADS[text] = (primitive, NO_PARAMETERS, 1)
            else:
                items, texts = self._broken(block[:-1]) if block[0] == "\n" else self._flat(block[:-1])
                found = (primitive, self.shared(items, texts), text.count("\n") + 1)
                names = [value.name for _, value in items if isinstance(value, Reference)]
                if names:
                    self._calls[text] = found, names
                    return found
                if self._everywhere(items):
                    _HEADS[text] = found
        self[text] = found
        return found

    def _broken(self, block: str) -> tuple[list[tuple[str, Value]], list[str]]:
        """The parameters of a block that has a line for each, and their texts."""
        items: list[tuple[str, Value]] = []
        texts: list[str] = []
        for row in block.split("\n")[1:-1]:
            matched = PARAMETER.match(row, len(row) - len(row.lstrip(" ")))
            if matched is None:
                raise Odd
            name, printed = matched[1], row[matched.end() :]
            items.append((name, self.value(name, printed)))
            texts.append(f"{name}={printed}")
        return items, texts

    def _flat(self, block: str) -> tuple[list[tuple[str, Value]], list[str]]:
        """The parameters of a block on one line, and their texts."""
        items: list[tuple[str, Value]] = []
        texts: list[str] = []
        position = 0
        while True:
            matched = PARAMETER.match(block, position)
            if matched is None or matched[1] in TEXT_PARAMETERS:
                raise Odd
            value, end = value_at(block, matched.end())
            if isinstance(value, tuple) and holds_programs(matched[1]):
                raise Odd
            items.append((matched[1], self.resolved(matched[1], value)))
            texts.append(block[position:end])
            if end == len(block):
                return items, texts
            if block[end] != " ":
                raise Odd
            position = end + 1

    def value(self, name: str, printed: str) -> Value:
        """The value of a parameter that has a line of its own and holds no program."""
        if name in TEXT_PARAMETERS:
            return Word(printed)
        if "#" in printed or _PROGRAM.search(printed) or (printed[:1] == "(" and holds_programs(name)):
            raise Odd
        value = value_of(printed)
        if isinstance(value, Word) and BESIDE.search(printed):  # another parameter may stand on the same line
            raise Odd
        return self.resolved(name, value)

    def resolved(self, name: str, value: Value) -> Value:
        """A parameter's value, a word that names a definition being a reference to it."""
        if isinstance(value, Word) and value in self.references and holds_programs(name):
            return self.refer(value)
        return value

    def refer(self, name: str) -> Reference:
        """A use, here, of a definition. Raises `Odd` if there is none of this name."""
        found = self.references.get(name)
        if found is None:
            raise Odd
        self.uses[name] = max(self.uses.get(name, 0), self.depth)
        return found

    def shared(self, items: list[tuple[str, Value]], texts: list[str]) -> Parameters:
        """The one block with these parameters, none of which holds a program."""
        blocks = _BLOCKS if self._everywhere(items) else self._blocks
        text = "\n".join(texts)
        found = blocks.get(text)
        if found is None:
            found = blocks[text] = Parameters(distinct(items))
        return found

    def _everywhere(self, items: list[tuple[str, Value]]) -> bool:
        """Whether these parameters mean the same in every document."""
        return not any(isinstance(value, Word | Reference) and holds_programs(name) for name, value in items)


def distinct(items: list[tuple[str, Value]]) -> tuple[tuple[str, Value], ...]:
    """These parameters. Raises `Odd` if one is given twice."""
    if len({name for name, _ in items}) != len(items):
        raise Odd
    return tuple(items)
