"""The relation Q: the judgments that the design and the seeds name, its riders, and its defining properties on
signatures nobody chose. Executions and JAX are asked in tests/laws."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calculus.blame import way_out
from calculus.cotangents import State
from calculus.linearity import AxisScheme, Relation, axis_scheme, literal_states, relation
from calculus.signatures import Signature

B: State = ("S", "b")
I: State = ("S", "i")  # noqa: E741
J: State = ("S", "j")
K: State = ("S", "k")


def q(
    text: str, signature: str, roles: Mapping[str, str] | None = None, operands: str | None = None, join: str = ""
) -> Relation:
    """`bk,kj->bj`; factors that the result lacks are summed over unless `roles` says otherwise."""
    left, _, result = text.partition("->")
    sets = left.split(",") if left else []
    gone = set("".join(sets)) - set(result)
    return relation(
        axis_scheme(sets, result, dict.fromkeys(gone, "sum") | dict(roles or {})),
        Signature.parse(signature, operands, join).of(len(sets)),
    )


ADD = q("i,i->i", "x y")
MUL = q("i,i->i", "x | y")
DOT = q("bk,kj->bj", "x | y")
SCALE = q(",i->i", "x | y")
NEG = q("i->i", "x")
COS = q("i->i", "/ x")
DIV = q("i,i->i", "x / y")
SUM = q("ij->j", "x")
MAX = q("i,i->i", "/ x y", join="max(x y) | x | y")
REDUCE_MAX = q("ij->j", "/ x", {"i": "max"}, join="x")
BROADCAST = q("j->ij", "x")
SELECT = q("i,i,i->i", "x y ; which", operands="which x y", join="x y")
SOLVE = q("b,bj->bj", "b / a", operands="a b")
QUOTIENTS = q("k,k->", "x / y")
GT = q("i,i->i", "; x y", join="x | -y")

UNSOUND, ONE_WAY = "unsound", "one-way"

#: each by hand, from the meaning of the states; A.. are numbered statements of the seeds
JUDGMENTS: list[tuple[str, Relation, tuple[State, ...], State | str]] = [
    ("data-parallel dot, replicated weights (A7)", DOT, (B, "N"), B),
    ("data-parallel dot, reduced weights (A29)", DOT, (B, "R"), B),
    ("contraction over a sharded dim (A18)", DOT, (K, K), "U"),
    ("a block against the whole (A15)", DOT, (K, "N"), UNSOUND),
    ("two free dims on one axis", DOT, (B, J), UNSOUND),
    ("dot of unreduced and reduced (A21)", DOT, ("U", "R"), "U"),
    ("dot of reduced and unreduced", DOT, ("R", "U"), "U"),
    ("unreduced times replicated: the first reason for reduced", DOT, ("U", "N"), ONE_WAY),
    ("a product of two pending sums", DOT, ("U", "U"), UNSOUND),
    ("reduced times reduced", DOT, ("R", "R"), "R"),
    ("reduced times replicated", DOT, ("R", "N"), ONE_WAY),
    ("replicated times reduced", MUL, ("N", "R"), ONE_WAY),
    ("a block of one operand, a pending sum in the other", DOT, (B, "U"), UNSOUND),
    ("adding two pending sums (A20)", ADD, ("U", "U"), "U"),
    ("adding a bias to a pending sum", ADD, ("U", "N"), UNSOUND),
    ("adding a reduced bias to a pending sum", ADD, ("U", "R"), UNSOUND),
    ("adding reduced and replicated", ADD, ("R", "N"), ONE_WAY),
    ("adding blocks", ADD, (I, I), I),
    ("reduced scalar times sharded vector (A40)", SCALE, ("R", I), I),
    ("replicated scalar times sharded vector", SCALE, ("N", I), I),
    ("unreduced scalar times sharded vector", SCALE, ("U", I), UNSOUND),
    ("neg of reduced", NEG, ("R",), "R"),
    ("neg of unreduced", NEG, ("U",), "U"),
    ("cos of unreduced (A22)", COS, ("U",), UNSOUND),
    ("cos of reduced", COS, ("R",), "R"),
    ("cos of blocks", COS, (I,), I),
    ("dividing a pending sum by a reduced value", DIV, ("U", "R"), "U"),
    ("dividing a pending sum by a replicated value", DIV, ("U", "N"), ONE_WAY),
    ("dividing by a pending sum", DIV, ("R", "U"), UNSOUND),
    ("summing a sharded dim away", SUM, (I,), "U"),
    ("summing another dim away", SUM, (J,), J),
    ("summing a pending sum", SUM, ("U",), "U"),
    ("solving for columns on different devices, reduced matrix", SOLVE, ("R", J), J),
    ("solving for pending sums", SOLVE, ("R", "U"), "U"),
    ("solving for pending sums, replicated matrix", SOLVE, ("N", "U"), ONE_WAY),
    ("a sum of quotients, cut before it is summed", QUOTIENTS, (K, K), "U"),
    ("a sum of quotients by a replicated vector", QUOTIENTS, ("R", "N"), ONE_WAY),
    ("max of reduced and replicated", MAX, ("R", "N"), ONE_WAY),
    ("max of pending sums", MAX, ("U", "U"), UNSOUND),
    ("max of pending maxima", MAX, ("Umax", "Umax"), "Umax"),
    ("max of a pending maximum and a copy", MAX, ("Umax", "R"), "Umax"),
    ("max of pending minima: kinds are not laundered", MAX, ("Umin", "Umin"), UNSOUND),
    ("max of a pending minimum and a copy: monotone in each", MAX, ("Umin", "N"), "Umin"),
    ("max of a pending maximum and a pending minimum", MAX, ("Umax", "Umin"), UNSOUND),
    ("max of a pending maximum and a pending sum", MAX, ("Umax", "U"), UNSOUND),
    ("maximum over a sharded dim", REDUCE_MAX, (I,), "Umax"),
    ("maximum over a dim of a pending maximum", REDUCE_MAX, ("Umax",), "Umax"),
    ("maximum over a dim of a pending minimum", REDUCE_MAX, ("Umin",), UNSOUND),
    ("maximum over a dim of a pending sum", REDUCE_MAX, ("U",), UNSOUND),
    ("select by a replicated predicate", SELECT, ("N", "R", "R"), "R"),
    ("select by a reduced predicate", SELECT, ("R", "N", "N"), "N"),
    ("select among pending sums", SELECT, ("N", "U", "U"), "U"),
    ("select by a predicate in pieces", SELECT, ("U", "N", "N"), UNSOUND),
    ("select among pending maxima", SELECT, ("N", "Umax", "N"), "Umax"),
    ("comparing reduced values: no cotangent, so reduced it stays", GT, ("R", "N"), "R"),
    ("comparing replicated values", GT, ("N", "N"), "N"),
    ("comparing pending sums", GT, ("U", "U"), UNSOUND),
    ("the larger side in pieces of a minimum", GT, ("N", "Umax"), "Umin"),
]


@pytest.mark.parametrize(("found", "states", "expected"), [row[1:] for row in JUDGMENTS], ids=[r[0] for r in JUDGMENTS])
def test_judgments(found: Relation, states: tuple[State, ...], expected: State | str) -> None:
    if expected in (UNSOUND, ONE_WAY):
        assert found.results(states) == frozenset()
        assert bool(found.local_results(states)) is (expected == ONE_WAY)
    else:
        assert found.results(states) == {expected}


@pytest.mark.parametrize(
    ("states", "results"),
    [(("R",), {"R", I}), (("N",), {"N", I}), (("U",), {"U"}), ((J,), {J})],
)
def test_a_broadcast_dim_may_come_out_cut(states: tuple[State, ...], results: set[State]) -> None:
    """The transpose of R -> S is the sum of a sharded dim, which is why that one is free."""
    assert BROADCAST.results(states) == results


def test_no_operands() -> None:
    full = q("->ij", "", {"i": "whole"})
    assert full.local_results(()) == {"N", "R", J}
    assert full.results(()) == {"N", J}


def test_whole_factors_are_never_cut() -> None:
    cumsum = q("ij->ij", "x", {"i": "whole"})
    assert cumsum.results((J,)) == {J}
    assert cumsum.local_results((I,)) == frozenset()
    assert cumsum.results(("U",)) == {"U"}
    assert axis_scheme(["ij"], "j").role("i") == "whole"


@pytest.mark.parametrize("monoid", ["prod", "or", "and"])
def test_other_monoids_have_no_pending_kind(monoid: str) -> None:
    assert q("ij->j", "/ x", {"i": monoid}).local_results((I,)) == frozenset()


def test_literals() -> None:
    """A literal is in every state, U for zero only."""
    one, zero = literal_states(False), literal_states(True)
    add, mul, pad = q("i,->i", "x y"), q("i,->i", "x | y"), q("i,->i", "x p")
    assert mul.results(("U", one)) == {"U"}
    assert mul.results(("R", one)) == {"R"}
    assert mul.results(("N", one)) == {"N"}
    assert mul.results((I, one)) == {I}
    assert add.results(("U", one)) == frozenset()
    assert pad.results(("U", zero)) == {"U"}
    assert add.results(("R", one)) == {"R"}
    assert q(",->", "x y").results((one, one)) == {"N", "R"}
    assert q(",->", "; x y").results((one, one)) == {"N"}
    assert q("i,->i", "; x y").results(("R", one)) == {"R"}
    assert q("i,->i", "; x y").results(("N", one)) == {"N"}
    assert q("i->ij", "x").results((literal_states(True, ["i"]),)) == {"N", "R", "U", I, J}


def test_slicing_is_the_one_implicit_coercion() -> None:
    """An N or R operand that meets a cut dim is sliced; a pending sum never is (A25)."""
    scheme = axis_scheme(["i", "i", ""], "i")
    assert scheme.aligned((I, "R", "N")) == (I, I, "N")
    assert scheme.aligned((I, "U", "N")) == (I, "U", "N")
    assert scheme.aligned(("R", "N", "N")) == ("R", "N", "N")
    assert axis_scheme(["ij", "ij"], "ij").aligned((I, J)) == (I, J)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_any_number_of_operands(count: int) -> None:
    found = relation(axis_scheme(["i"] * count, "i"), Signature.parse("xs...").of(count))
    for state in ("N", "R", "U", I):
        assert found.results([state] * count) == {state}
    if count > 1:
        assert found.results(["R"] * (count - 1) + ["N"]) == frozenset()
        assert found.local_results(["U"] * (count - 1) + ["R"]) == frozenset()


def test_many_operands_are_answered_in_linear_time() -> None:
    count = 20_000
    started = time.process_time()
    found = relation(axis_scheme(["i"] * count, "i"), Signature.parse("xs...").of(count))
    assert found.results(["R"] * (count - 1) + [literal_states(False)]) == {"R"}
    found = relation(axis_scheme(["i"] * count, "i"), Signature.parse("; xs...").of(count))
    assert found.results([literal_states(True)] * count) == {"N"}
    assert time.process_time() - started < 5


def test_declarations_that_cannot_be_true() -> None:
    with pytest.raises(ValueError, match="linear in no operand"):
        q("ij->j", "x", {"i": "max"})
    with pytest.raises(ValueError, match="operands"):
        relation(axis_scheme(["i"], "i"), Signature.parse("x y"))
    with pytest.raises(ValueError, match="reduced"):
        axis_scheme(["i"], "i", {"i": "sum"})
    with pytest.raises(ValueError, match="states"):
        ADD.results(("N",))


def test_relations_are_shared() -> None:
    assert q("i,i->i", "x | y") is MUL
    assert MUL.transposed(0)[0].scheme == MUL.scheme


# The definition itself, on schemes and signatures nobody chose.

FACTORS = "abc"


@st.composite
def relations(draw: st.DrawFn) -> Relation:
    count = draw(st.integers(1, 3))
    sets = [draw(st.sets(st.sampled_from(FACTORS), max_size=2)) for _ in range(count)]
    result = draw(st.sets(st.sampled_from(FACTORS), max_size=2))
    sections = [draw(st.integers(-2, 1)) for _ in range(count)]
    names = [f"x{at}" for at in range(count)]
    groups = [" ".join(n for n, s in zip(names, sections, strict=True) if s == g) for g in (0, 1)]
    nonlinear, index = (" ".join(n for n, s in zip(names, sections, strict=True) if s == g) for g in (-1, -2))
    linear = any(groups)
    monoids = st.sampled_from(["sum", "whole"] if linear else ["sum", "max", "min", "or", "whole"])
    roles = {factor: draw(monoids) for factor in FACTORS if factor not in result}
    text = f"{' | '.join(filter(None, groups))} / {nonlinear} ; {index}"
    join = draw(st.sampled_from(["", "x0", "-x0"]))
    return relation(axis_scheme(sets, result, roles), Signature.parse(text, names, join))


def members(found: Relation) -> list[tuple[tuple[State, ...], State]]:
    plain: list[State] = ["N", "R", "U", "Umax", "Umin"]
    cut: list[list[State]] = [[("S", factor) for factor in sorted(factors)] for factors in found.scheme.operands]
    return [
        (states, result)
        for states in itertools.product(*([*plain, *blocks] for blocks in cut))
        for result in found.local_results(states)
    ]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(relations())
def test_closed_and_greatest(found: Relation) -> None:
    """Closed: what a member leads to is in Q. Greatest: what is Local and not in Q leads to something outside Q other
    than itself, so it cannot be added; and a chain from it leaves Local, so that no closed set at all has it."""
    for states, result in members(found):
        demands = list(found.demands(states, result))
        if found.contains(states, result):
            assert all(demand.relation.contains(demand.states, demand.result) for demand in demands)
        else:
            assert any(
                demand[2:] != (found, states, result) and not demand.relation.contains(demand.states, demand.result)
                for demand in demands
            )
            last = way_out(found, states, result)[-1]
            assert last.result not in last.relation.local_results(last.states)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(relations())
def test_one_result_unless_a_dim_is_broadcast(found: Relation) -> None:
    """Theorem `unique`."""
    broadcast = {("S", factor) for factor in found.scheme.broadcast}
    for states, _ in members(found):
        if "Umax" in states or "Umin" in states:
            continue  # two contradictory joins may be declared: see `joins`
        assert len(found.results(states) - broadcast) <= 1


@settings(derandomize=True, max_examples=60, deadline=None)
@given(relations())
def test_a_conservative_extension(found: Relation) -> None:
    """Theorem `conservative`: without R and U nothing is asked beyond Local; with R erased to N, Local is the same."""
    for states, result in members(found):
        if not {"R", "U"} & {*states, result}:
            assert found.contains(states, result)
        erased = tuple("N" if state == "R" else state for state in states)
        assert found.local_results(erased) == found.local_results(states)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(relations())
def test_transposing_twice_comes_back(found: Relation) -> None:
    """An operand alone in its group: index lists swapped twice are as they were."""
    for group in found.signature.groups:
        if len(group) == 1:
            there, kept = found.transposed(group[0])
            assert there.transposed(kept.index(group[0]))[0].scheme == found.scheme


def test_equal_schemes_are_one() -> None:
    assert (
        axis_scheme([{"i"}, "i"], ["i"])
        == axis_scheme(["i", "i"], "i")
        == AxisScheme((frozenset("i"), frozenset("i")), frozenset("i"), frozenset())
    )
