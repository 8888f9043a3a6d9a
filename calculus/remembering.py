"""What is remembered of a scope from one check to the next, where a door keeps it.

The judgment of an equation of a declared primitive depends on nothing but the primitive, its parameters, the types and
the meshes in scope; what is derived of it depends on nothing else either (theorem `local`). So both outlast the program
that they were first asked for. What holds a body does not: bodies belong to their programs.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from calculus.effects import Inner
    from calculus.pieces import Piece
    from calculus.rules import Typing

#: how many judgments are remembered, before all is forgotten
MOST_REMEMBERED: Final = 4096


class Memory:
    """judged: judgments, by primitive, parameters, printed types and operands. pieces: what was derived of equations,
    by what that is a function of, this memory included. lasts: whether a door keeps it; else nothing is put in."""

    __slots__ = ("judged", "lasts", "pieces")

    def __init__(self, lasts: bool = False) -> None:
        self.lasts = lasts
        self.judged: dict[tuple[object, ...], tuple[Typing, tuple[Inner, ...]]] = {}
        self.pieces: dict[Hashable, Piece] = {}

    def bounded(self) -> Memory:
        """Itself, emptied where it holds too much."""
        if len(self.judged) + len(self.pieces) > MOST_REMEMBERED:
            self.judged.clear()
            self.pieces.clear()
        return self
