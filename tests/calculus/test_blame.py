"""Why not: the sentence, the operand, and whether it is right forward."""

from __future__ import annotations

import pytest

from calculus.blame import blame, way_out
from calculus.cotangents import State
from calculus.linearity import Relation, axis_scheme, relation
from calculus.signatures import Signature


def named(operands: list[str], result: str, signature: str, **roles: str) -> Relation:
    return relation(axis_scheme(operands, result, roles), Signature.parse(signature))


ADD = named(["i", "i"], "i", "x y")
DOT = named(["bk", "kj"], "bj", "lhs | rhs", k="sum")
COS = named(["i"], "i", "/ x")
MAX = named(["i", "i"], "i", "/ x y")
CUMSUM = named(["i"], "i", "x", i="whole")
B: State = ("S", "b")
J: State = ("S", "j")
K: State = ("S", "k")

CASES: list[tuple[Relation, tuple[State, ...], State | None, bool, int | None, str]] = [
    (DOT, ("U", "N"), None, True, 1, "rhs takes a cotangent that is reduced to one that is replicated: a sum across X"),
    (DOT, ("R", "N"), None, True, 1, "rhs takes a cotangent that is unreduced to one that is replicated: a sum"),
    (DOT, ("R", "N"), "N", True, 0, "every device along X would hold all of it, and the sum would count it once per"),
    (
        MAX,
        ("R", "N"),
        None,
        True,
        1,
        "the tangent with respect to y multiplies a coefficient that is reduced by a tangent",
    ),
    (COS, ("N",), "R", True, 0, "of that, the transpose with respect to the tangent"),
    (DOT, ("U", "U"), None, False, 1, "pair pieces of lhs and rhs from different devices"),
    (DOT, (B, J), None, False, 1, "cut along different dims"),
    (DOT, (K, "N"), None, False, 1, "a block of lhs would meet the whole of rhs"),
    (DOT, (B, "U"), None, False, 1, "only its own device's piece of rhs"),
    (DOT, (K, K), "N", False, None, "the devices along X compute a result that is unreduced, not replicated"),
    (ADD, ("U", "N"), None, False, 1, "y is replicated: added on every device, it would count once per device"),
    (ADD, ("R", "U"), None, False, 0, "x is reduced: added on every device"),
    (COS, ("U",), None, False, 0, "not additive in x"),
    (MAX, ("Umax", "Umin"), None, False, 0, "pieces of another kind"),
    (MAX, ("Umax", "Umax"), None, False, 0, "does not commute jointly with the maximum that is pending in x, y"),
    (CUMSUM, (("S", "i"),), None, False, 0, "a block of x: the dim is needed whole"),
    (ADD, ("V", "V"), None, False, 0, "no common value"),
]


@pytest.mark.parametrize(("found", "states", "result", "local", "operand", "because"), CASES)
def test_sentences(
    found: Relation, states: tuple[State, ...], result: State | None, local: bool, operand: int | None, because: str
) -> None:
    said = blame(found, states, result, "X")
    assert said is not None
    assert (said.local, said.operand) == (local, operand)
    assert because in said.because
    assert "\n" not in said.because


@pytest.mark.parametrize(
    ("found", "states", "result"), [(DOT, ("U", "R"), None), (ADD, ("R", "R"), "R"), (DOT, (B, "N"), B)]
)
def test_nothing_to_blame(found: Relation, states: tuple[State, ...], result: State | None) -> None:
    assert blame(found, states, result) is None


def test_the_way_out_is_a_shortest_one() -> None:
    assert [step.condition for step in way_out(DOT, ("U", "N"), "U")] == ["transpose"]
    assert [step.condition for step in way_out(COS, ("N",), "R")] == ["tangent", "transpose"]
    assert way_out(DOT, ("U", "R"), "U") == ()
