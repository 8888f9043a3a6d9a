"""Theorem 9, explicit and manual agree: the four states outside a shard_map are the four inside, through in_specs and
out_specs, with the same cotangents, the same moves, and the same prices. Seeds A42, A43, A47."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Final

from calculus.collectives import COLLECTIVES
from calculus.communication import ALL_GATHER
from calculus.cotangents import State, cotangent_state
from calculus.meshes import Axis, Mesh
from verifier.proving.obligations import BOUNDED, Obligation
from verifier.solver import (
    Constant,
    Distinct,
    Formula,
    Function,
    Query,
    Term,
    as_number,
    conjunction,
    enumeration,
    number,
)
from verifier.theorems.cotangents import LETTERS, calculus_map, sort, table
from verifier.theorems.prices import array_bytes, devices, price, steps, wire
from verifier.theorems.reshards import sizes
from verifier.theorems.sums import Named
from verifier.theorems.theorem import Theorem

NAME: Final = "modes"
CROSSES: Final = "specs take each state to its own"
SAME_MAP: Final = "the manual map is that of the calculus"

INSIDE: Final = {"N": "N", "R": "R", "S": "V", "U": "U"}
"""The state inside of a state outside."""

MOVES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("N", "R"): ("preduced",),
    ("N", "S"): ("pvary",),
    ("N", "U"): ("pvary", "vary_unreduced_cast"),
    ("R", "S"): ("reduced_vary_cast",),
    ("R", "U"): ("reduced_vary_cast", "vary_unreduced_cast"),
    ("S", "U"): ("vary_unreduced_cast",),
    ("S", "N"): ("all_gather_invariant",),
    ("S", "R"): ("all_gather_reduced",),
    ("U", "N"): ("unreduced_psum",),
    ("U", "R"): ("unreduced_psum", "preduced"),
    ("U", "S"): ("unreduced_reduce_scatter",),
}
"""How per-device code does what a reshard does between two states: rows of the calculus, between which a device cuts
its own block out, pads it with zeros, or keeps it on one device. R → N has no row: per-device code has no cast that
forgets the promise, and a reduced value becomes replicated outside only."""
EXCHANGE: Final = "all_to_all"


def _text(state: str, inside: str) -> str:
    """A shard_map that hands an array through, in a state; inside it is printed in another."""
    outer = {"N": "f32[4]", "R": "f32[4]{R:X}", "S": "f32[4@X]", "U": "f32[4]{U:X}"}[state]
    spec = {"N": "P()", "R": "P(reduced={'X'})", "S": "P('X',)", "U": "P(unreduced={'X'})"}[state]
    size = 2 if state == "S" else 4
    held = f"f32[{size}]" + {"N": "", "R": "{R:X}", "V": "{V:X}", "U": "{U:X}"}[inside]
    return f"""{{ lambda ; a:{outer}. let
    b:{outer} = shard_map[
      check_vma=True
      in_specs=({spec},)
      jaxpr={{ lambda ; c:{held}. let  in (c,) }}
      mesh=AbstractMesh('X': 2, axis_types=(Explicit,))
      newly_manual_axes=frozenset({{'X'}})
      out_specs=({spec},)
    ] a
  in (b,) }}"""


def _crossing() -> str:
    """The calculus accepts of each state the one inside that is its own, and no other; and it takes it out again."""
    from verifier.texts import check_text

    mesh = Mesh((Axis("X", 2),))
    for state, inside in product(LETTERS, INSIDE.values()):
        report = check_text(_text(state, inside), [mesh], "crossing")
        if (not report.refusals) != (inside == INSIDE[state]):
            return f"a shard_map takes {state} to {inside}: {[one.message for one in report.refusals] or 'accepted'}"
        if report.communication:
            return f"a shard_map takes {state} to {inside} and communicates"
    return ""


@cache
def _inside() -> tuple[Term, dict[str, Term]]:
    """The sort of states in per-device code, and its elements by letter."""
    names = ["invarying", "reduced in code", "varying", "unreduced in code"]
    made, elements = enumeration("StateInCode", names)
    return made, dict(zip(("N", "R", "V", "U"), elements, strict=True))


def _commutes() -> Sequence[Query]:
    """CT inside of the image is the image of CT outside."""
    outside, states = sort()
    inside, there = _inside()
    enter = Function("enter", outside, inside)
    ct, ct_inside = Function("CT", outside, outside), Function("CT inside", inside, inside)
    manual = {letter: str(cotangent_state(letter)) for letter in there}
    state = Constant("s", outside)
    crosses: Formula = conjunction([enter(states[one]) == there[other] for one, other in INSIDE.items()])
    map_inside: Formula = conjunction([ct_inside(there[one]) == there[other] for one, other in manual.items()])
    given: tuple[Named, ...] = (
        (CROSSES, crosses),
        ("the cotangent map", table(ct, calculus_map())),
        (SAME_MAP, map_inside),
    )
    return (
        Query("CT commutes with entering", given, ct_inside(enter(state)) == enter(ct(state))),
        Query("no two states enter alike", given, Distinct(*(enter(one) for one in states.values()))),
    )


def _sent(names: Sequence[str]) -> Term:
    """The wire price of rows of the calculus, one after the other: of an array of `array_bytes` that is whole, or cut
    into as many blocks as there are devices. A gather is priced at its result, all else at its operand; an exchange is
    of one block."""
    n, whole = devices(), array_bytes()
    found: Term = number(0)
    for name in names:
        row = COLLECTIVES[name]
        if row.kind:
            block = row.before == "V" and row.kind != ALL_GATHER
            found = found + wire(row.kind, whole / as_number(n) if block else whole, n)
    return found


def _prices() -> Sequence[Query]:
    asked = []
    for (one, other), names in MOVES.items():
        outside = steps(*(("S", 0) if letter == "S" else letter for letter in (one, other)))
        asked.append(Query(f"{one} → {other} is {' and '.join(names)}", sizes(), price(outside) == _sent(names)))
    exchange = price(steps(("S", 0), ("S", 1))) == _sent((EXCHANGE,))
    return (*asked, Query(f"between dims it is {EXCHANGE}", sizes(), exchange))


def _chains() -> str:
    """The rows lead from the one state to the other; and the transposes of their rows, backward, from the cotangent of
    the other to that of the one, as the reshard's transpose does. Every pair of states has its rows, but R → N."""
    pairs = {(one, other) for one, other in product(LETTERS, repeat=2) if one != other}
    if pairs - set(MOVES) != {("R", "N")}:
        return f"{sorted(pairs - set(MOVES))} have no rows"
    for (one, other), names in MOVES.items():
        at = INSIDE[one]
        for name in names:
            if COLLECTIVES[name].before != at:
                return f"{name} does not begin at {at}"
            at = COLLECTIVES[name].after
        if at != INSIDE[other]:
            return f"from {one} to {other}, {names} lead to {at}"
        back: list[State] = [INSIDE[other]]
        for name in reversed(names):
            turned = COLLECTIVES.get(COLLECTIVES[name].transpose)
            if turned is None:
                break  # all_gather_invariant: its transpose is a cast and a cut, in two rows
            if turned.before != cotangent_state(back[-1]):
                return f"the transpose of {name} does not begin at {cotangent_state(back[-1])}"
            back.append(cotangent_state(turned.after))
        else:
            if back[-1] != INSIDE[one]:
                return f"the transposes of {names} lead to the cotangent of {back[-1]}"
    return ""


def _rows() -> str:
    from verifier.theorems.rows import unsound

    return unsound()


def obligations() -> tuple[Obligation, ...]:
    """What is checked."""
    return (
        Obligation(
            "modes.crossing", NAME, "in_specs and out_specs take S to V, N, R and U to themselves, and move nothing",
            check=_crossing, basis=BOUNDED, bound="an array of one dim, an axis of two devices",
        ),
        Obligation(
            "modes.cotangents", NAME, "CT ∘ enter = enter ∘ CT, and enter is one to one", _commutes,
            uses=("modes.crossing",),
        ),
        Obligation(
            "modes.rows", NAME, "each row takes legal families of its first state to legal ones of its second, "
            "whose value depends on the value alone", check=_rows, basis=BOUNDED, bound="two and three devices",
        ),
        Obligation(
            "modes.prices", NAME, "a reshard and the rows that do it in per-device code have one wire price, for all n",
            _prices, _chains,
        ),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "The four states of explicit mode are the four of manual mode, through in_specs and out_specs, with the same "
    "cotangents; and what a reshard does between two of them, casts and collectives do, at the same wire price.",
    "enter: N, R, S, U ↦ N, R, V, U;  CT ∘ enter = enter ∘ CT;  w(s → t) = w(enter s → enter t)",
    (
        (CROSSES, "a cut dim enters as varying, everything else as itself"),
        (SAME_MAP, "inside, reduced and unreduced are each other's cotangents, varying and invarying their own"),
    ),
    "proofs/modes.md",
    obligations,
)
