"""Text to terms, by the quick way where there is one: the one entry point for what people and programs hand in.

`grammar.fast` reads what JAX prints; whatever it does not take is read, or refused, by the grammar. Both give the same
terms. The grammar is loaded only when it is needed: building it takes longer than reading most programs.
"""

from __future__ import annotations

import sys

from calculus.programs import Document, clear_literals
from calculus.refusals import Refused
from calculus.types import Type, clear_interned
from grammar import blocks, leaves
from grammar.fast import read_fast


def read(text: str) -> Document:
    """The document with this text. Raises `Refused` (malformed) with the line and column where it goes wrong."""
    try:
        return read_fast(text)
    except leaves.Odd:
        pass
    except Refused as refused:  # where a text goes wrong, the grammar says
        if refused.refusal.code != "syntax":
            raise
    from grammar.parse import parse_document

    return parse_document(text)


def read_type(text: str) -> Type:
    """The type with this text. Raises `Refused` (malformed) with the column where it goes wrong."""
    return leaves.type_of(text)


def clear_leaf_caches() -> None:
    """Forget every type, literal and block of parameters read so far. For measurements only: types made before and
    after do not compare equal."""
    blocks.clear()
    leaves.clear()
    if "grammar.parse" in sys.modules:  # else there is nothing to forget, and no reason to load it
        from grammar import parse

        parse.clear()
    clear_interned()
    clear_literals()
