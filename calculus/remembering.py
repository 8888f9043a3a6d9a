"""What is remembered of a scope from one check to the next, where a door keeps it.

The judgment of an equation of a declared primitive depends on nothing but the primitive, its parameters, the types and
the meshes in scope; what is derived of it depends on nothing else either (theorem `local`). So both outlast the program
that they were first asked for. What holds a body does not: bodies belong to their programs. Both are functions of the
table too: what is remembered was judged by the declarations that are in it, and where another has joined, left or taken
the place of one, a memory of its own is kept.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from calculus.primitives import TABLE

if TYPE_CHECKING:
    from calculus.effects import Inner
    from calculus.pieces import Piece
    from calculus.rules import Typing

#: how many judgments are remembered, before all is forgotten
MOST_REMEMBERED: Final = 4096
#: how many of those that are known before they are terms
MOST_OBJECTS: Final = 50_000


def declarations() -> Hashable:
    """Tells the declarations that are in the table from all others, as long as somebody keeps them."""
    return *TABLE, *map(id, TABLE.values())


class Memory:
    """judged: judgments, by primitive, parameters, printed types and operands. pieces: what was derived of equations,
    by what that is a function of, this memory included. objects: judgments by what a door knows equations by, before
    they are terms. table: the declarations by which all of that was judged (`declarations`), where a door keeps it;
    `None` where none does: then nothing is put in."""

    __slots__ = ("_kept", "judged", "objects", "pieces", "table")

    def __init__(self, table: Hashable = None) -> None:
        self.table = table
        self._kept = () if table is None else (*TABLE.values(),)  # so that their identities stay their own
        self.judged: dict[tuple[object, ...], tuple[Typing, tuple[Inner, ...]]] = {}
        self.pieces: dict[Hashable, Piece] = {}
        self.objects: dict[tuple[object, ...], Any] = {}

    @property
    def lasts(self) -> bool:
        """Whether what is judged and derived now may be put in: a door keeps it, and the table is as it was."""
        return self.table is not None and self.table == declarations()

    def bounded(self) -> Memory:
        """Itself, emptied where it holds too much."""
        if len(self.judged) + len(self.pieces) > MOST_REMEMBERED:
            self.judged.clear()
            self.pieces.clear()
        if len(self.objects) > MOST_OBJECTS:
            self.objects.clear()
        return self
