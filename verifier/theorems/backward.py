"""Theorem 5, the typing of the backward: if a typing is accepted so is its transpose's, for judgments of one axis, and
by induction for programs; and what a composition communicates backward is what its parts do. Seeds A3, A8, A13."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.cotangents import cotangent_state
from calculus.linearity import Relation
from verifier.proving.obligations import BOUNDED, TESTED, Obligation
from verifier.solver import INTEGERS, TRUTHS, And, Function, Implies, Integer, Query
from verifier.theorems.communication import OPERATIONS, transposes
from verifier.theorems.sums import Named, induction, total
from verifier.theorems.table import every, judgments, rows
from verifier.theorems.theorem import Theorem

NAME: Final = "backward"
ACCEPTED: Final = "if an equation is accepted, so is its transpose"
DETERMINED: Final = "cotangents have the types that the primals determine"
ALONE: Final = "what an equation contributes depends on it alone"


def _marked() -> str:
    """Of a judgment in Q that mentions R or U: its transposes are in Q of the transposed relations."""
    small = [one for arity in (1, 2) for one in dict.fromkeys(every(arity))]
    for given in (*(row.relation for row in rows()), *small):
        for states, result in judgments(given):
            aligned = given.scheme.aligned(states)
            if {"R", "U"}.isdisjoint((*aligned, result)) or not given.contains(aligned, result):
                continue
            for operand, _ in given.signature.linear_operands():
                back, kept = given.transposed(operand)
                inputs = tuple(cotangent_state(result) if place == operand else aligned[place] for place in kept)
                if not back.contains(inputs, cotangent_state(aligned[operand])):
                    return f"{_shown(given)} of {aligned} → {result} is in Q, and its transpose in {operand} is not"
    return ""


def _shown(given: Relation) -> str:
    return f"a relation of {len(given.scheme.operands)} operands, {given.scheme}"


def _unmarked() -> str:
    """Of one that mentions neither: each transpose can be computed, and brought to the type that CT says."""
    try:
        transposes()
    except ValueError as error:
        return str(error)
    return ""


def _programs() -> Sequence[Query]:
    """By induction on equations, from the last: all that is written so far is accepted. An equation's transpose is
    written at cotangents of its results, which have the types that its primals determine."""
    k = Integer("k")
    accepted, back = Function("accepted", INTEGERS, TRUTHS), Function("transpose accepted", INTEGERS, TRUTHS)
    typed, so_far = Function("cotangents typed", INTEGERS, TRUTHS), Function("all so far", INTEGERS, TRUTHS)
    forward: Named = ("the program is accepted", accepted(k))
    return (
        Query(
            "one equation more",
            (
                forward,
                (DETERMINED, Implies(so_far(k), typed(k))),
                (ACCEPTED, Implies(And(accepted(k), typed(k)), back(k))),
                ("all so far", so_far(k)),
                ("and one more", so_far(k + 1) == And(so_far(k), back(k))),
            ),
            so_far(k + 1),
        ),
    )


def _composed() -> Sequence[Query]:
    """The first a equations and the b that follow. What the transposes of the two parts send adds up to what that of
    the whole does."""
    a = Integer("a")
    whole_effect, part_effect = (Function(name, INTEGERS, INTEGERS) for name in ("e", "e of the second part"))
    part, whole = total("second", part_effect), total("whole", whole_effect)
    return induction(
        "effects add up",
        (part,),
        lambda n: whole(a + n) == whole(a) + part(n),
        beside=lambda n: (
            ("whole adds an effect", whole(a + n + 1) == whole(a + n) + whole_effect(a + n)),
            (ALONE, part_effect(n) == whole_effect(a + n)),
        ),
    )


def _drawn() -> str:
    """Programs that are drawn, with loops, branches and boundaries: the transposes of their linear programs are well
    typed, unless something on the way has no cotangent or is not written."""
    from verifier.theorems.programs import SEEDS, backward, ill_typed

    written = 0
    for seed in SEEDS:
        one = backward(seed)
        if one.refused:
            if one.code not in ("no-cotangent", "unmodelled-construct"):
                return f"the backward program of seed {seed} is refused: {one.refused}"
            continue
        wrong = ill_typed(one)
        if wrong:
            return f"the backward program of seed {seed} is ill typed: {wrong}"
        written += 1
    return "" if written > len(SEEDS) // 2 else f"only {written} of {len(SEEDS)} drawn programs have a backward program"


def obligations() -> tuple[Obligation, ...]:
    """What is checked."""
    return (
        Obligation(
            "backward.marked", NAME, "j ∈ Q marked ⟹ its transposes are in Q", check=_marked, basis=BOUNDED,
            bound=OPERATIONS,
        ),
        Obligation(
            "backward.unmarked", NAME, "j ∈ Local unmarked ⟹ its transposes have a typing, with the target CT sᵢ",
            check=_unmarked, basis=BOUNDED, bound=OPERATIONS,
        ),
        Obligation(
            "backward.programs", NAME, "a well-typed program has a well-typed backward program", _programs,
            uses=("backward.marked", "backward.unmarked", "fan_out.agree", "reshards.transpose"),
        ),
        Obligation(
            "backward.drawn", NAME, "the same of programs that are drawn, with loops, branches and boundaries",
            check=_drawn, basis=TESTED,
        ),
        Obligation("backward.composition", NAME, "κ((g ∘ f)ᵀ) = κ(fᵀ) + κ(gᵀ)", _composed, uses=("fan_out.free",)),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "If a typing is accepted, so is its transpose's; so a well-typed program has a well-typed backward program, unless "
    "a path passes what has no cotangent or no written transpose. What the backward program of a composition "
    "communicates is the sum of what those of its parts do.",
    "Γ ⊢ e : τ ⟹ CT τ ⊢ eᵀ : CT Γ;  κ((g ∘ f)ᵀ) = κ(fᵀ) + κ(gᵀ)",
    (
        (ACCEPTED, "of each equation of the table, and each form"),
        (DETERMINED, "whatever uses a value, its cotangent has the type CT τ"),
        (ALONE, "the transpose of an equation is a function of the equation and its operands' types"),
    ),
    "proofs/transposition.md",
    obligations,
)
