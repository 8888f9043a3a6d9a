"""Parameters of equations, by hand and by text: each block, and each head `dot_general[...]`, is decoded once.

Blocks that print the same are one `Parameters` object. A block that names a definition means something only in its
own document, and is shared only there; all others are shared by every document that is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from calculus.programs import NO_PARAMETERS, Parameters, Reference, Value, Word
from grammar.leaves import Odd, value_at, value_of

Head: TypeAlias = "tuple[str, Parameters, int]"
"""Primitive, parameters, and the number of lines they take."""

PARAMETER: Final = re.compile(r"(\w++)=", re.ASCII)

_HEADS: Final[dict[str, Head]] = {}
_BLOCKS: Final[dict[str, Parameters]] = {}


def clear() -> None:
    """Forget every head and every block of parameters read so far. For measurements only."""
    _HEADS.clear()
    _BLOCKS.clear()


def names_programs(parameter: str) -> bool:
    """Whether a bare word under a parameter of this name may be the name of a definition."""
    return parameter == "branches" or "jaxpr" in parameter


class Heads(dict[str, Head]):
    """What stands between `=` and the operands of an equation, by its text. One for each document.

    `references` are the document's definitions. Looking up a text raises `Odd` if it is not one decoded by hand.
    """

    def __init__(self, definitions: Iterable[str]) -> None:
        super().__init__()
        self.references = {name: Reference(name) for name in definitions}
        self.blocks: dict[str, Parameters] = {}

    def __missing__(self, text: str) -> Head:
        found = _HEADS.get(text)
        if found is None:
            primitive, bracket, block = text.partition("[")
            if not bracket:
                found = _HEADS[text] = (primitive, NO_PARAMETERS, 1)
            else:
                items, texts = self._broken(block[:-1]) if block[0] == "\n" else self._flat(block[:-1])
                found = (primitive, self.shared(items, texts), text.count("\n") + 1)
                if self._everywhere(items):
                    _HEADS[text] = found
        self[text] = found
        return found

    def _broken(self, block: str) -> tuple[list[tuple[str, Value]], list[str]]:
        """The parameters of a block that has a line for each, and their texts."""
        items: list[tuple[str, Value]] = []
        texts: list[str] = []
        for row in block.split("\n")[1:-1]:
            name, _, printed = row.lstrip(" ").partition("=")
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
            if matched is None:
                raise Odd
            value, end = value_at(block, matched.end())
            items.append((matched[1], self.resolved(matched[1], value)))
            texts.append(block[position:end])
            if end == len(block):
                return items, texts
            if block[end] != " ":
                raise Odd
            position = end + 1

    def value(self, name: str, printed: str) -> Value:
        """The value of a parameter that has a line of its own and holds no program."""
        if "{ lambda " in printed or " # " in printed or (name == "branches" and printed[:1] == "("):
            raise Odd
        return self.resolved(name, value_of(printed))

    def resolved(self, name: str, value: Value) -> Value:
        """A parameter's value, a word that names a definition being a reference to it."""
        if isinstance(value, Word) and names_programs(name):
            return self.references.get(value, value)
        return value

    def shared(self, items: list[tuple[str, Value]], texts: list[str]) -> Parameters:
        """The one block with these parameters, none of which holds a program."""
        blocks = _BLOCKS if self._everywhere(items) else self.blocks
        text = "\n".join(texts)
        found = blocks.get(text)
        if found is None:
            found = blocks[text] = Parameters(tuple(items))
        return found

    def _everywhere(self, items: list[tuple[str, Value]]) -> bool:
        """Whether these parameters mean the same in every document."""
        return not any(isinstance(value, Word | Reference) and names_programs(name) for name, value in items)
