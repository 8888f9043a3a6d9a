"""The theorems that are about the calculus as a whole, one module each: what it says of states, cotangents, prices and
programs, whatever the primitive. Each has a statement, a page with the proof by hand, and obligations that check it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from verifier.proving.obligations import Obligation
from verifier.theorems import (
    adjointness,
    communication,
    cotangents,
    fan_out,
    forced,
    hoisting,
    reshards,
    sums,
)
from verifier.theorems.theorem import Theorem as Theorem

THEOREMS: Final[tuple[Theorem, ...]] = (
    cotangents.THEOREM,
    adjointness.THEOREM,
    communication.THEOREM,
    forced.THEOREM,
    hoisting.THEOREM,
    reshards.THEOREM,
    fan_out.THEOREM,
)
"""In the order in which they rest on each other."""


def obligations() -> Iterator[Obligation]:
    """All of them: the lemmas about sums, then each theorem's."""
    yield from sums.obligations()
    for theorem in THEOREMS:
        yield from theorem.obligations()
