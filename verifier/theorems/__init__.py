"""The theorems that are about the calculus as a whole, one module each: what it says of states, cotangents, prices and
programs, whatever the primitive. Each has a statement, a page with the proof by hand, and obligations that check it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from verifier.proving.obligations import Obligation
from verifier.theorems import (
    adjointness,
    backward,
    communication,
    cotangents,
    fan_out,
    forced,
    hoisting,
    modes,
    relation,
    reshards,
    sums,
)
from verifier.theorems.theorem import Theorem as Theorem

THEOREMS: Final[tuple[Theorem, ...]] = (
    relation.THEOREM,
    cotangents.THEOREM,
    adjointness.THEOREM,
    backward.THEOREM,
    communication.THEOREM,
    forced.THEOREM,
    hoisting.THEOREM,
    modes.THEOREM,
    reshards.THEOREM,
    fan_out.THEOREM,
)
"""What is typed, what that means for derivatives, what it costs, why it is so, and how the two modes agree."""

OF_DECLARATIONS: Final[tuple[Theorem, ...]] = (
    Theorem(
        "soundness",
        "Every typing that the table allows reads back right: for every number of devices, every rank and every size.",
        "xᵢ ∈ ⟦sᵢ⟧(vᵢ) for all i ⟹ (d ↦ f(x₁d … xₙd)) ∈ ⟦s′⟧(f(v₁ … vₙ)),  where (s₁ … sₙ) → s′ is Local",
        (),
        "proofs/soundness.md#soundness",
        tuple,
    ),
    Theorem(
        "maximality",
        "Every typing that the table refuses as unsound reads back wrong in some run.",
        "(s₁ … sₙ) → s′ not Local ⟹ ∃ xᵢ ∈ ⟦sᵢ⟧(vᵢ). (d ↦ f(x₁d … xₙd)) ∉ ⟦s′⟧(f(v₁ … vₙ))",
        (),
        "proofs/soundness.md#maximality",
        tuple,
    ),
)
"""Those whose obligations are read from the declarations: `verifier.proving.soundness`, `verifier.proving.tried`."""


def obligations() -> Iterator[Obligation]:
    """All of them: the lemmas about sums, then each theorem's."""
    yield from sums.obligations()
    for theorem in THEOREMS:
        yield from theorem.obligations()
