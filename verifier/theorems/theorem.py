"""What a theorem is: a statement in words and in symbols, and the hypotheses that it rests on, each of which may be
left out to see why it is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from verifier.proving.obligations import Obligation


class Theorem(NamedTuple):
    """One theorem.

    name: stable. words: the statement in words. symbols: the same in symbols. hypotheses: by the name that queries give
    them, with what each says; the theorem fails without any one of them. page: where it is proved by hand.
    obligations: what is checked of it.
    """

    name: str
    words: str
    symbols: str
    hypotheses: tuple[tuple[str, str], ...]
    page: str
    obligations: Callable[[], Sequence[Obligation]]
