"""Theorem 6, communication: which transposes are free, what the others cost, and where the payment is made. Seeds A3,
A4, A5, A24, A27, A47.

Operations are the judgments of the table along one axis, of which there are finitely many, and which hold for every
size of the axis; casts and collectives are the rows of the calculus. Prices are terms in the number of devices and of
bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Final, NamedTuple

from calculus.collectives import COLLECTIVES
from calculus.communication import ALL_GATHER, ALL_REDUCE
from calculus.cotangents import State, cotangent_state
from verifier.proving.obligations import BOUNDED, Obligation
from verifier.solver import (
    And,
    Constant,
    Formula,
    Function,
    If,
    Integer,
    Not,
    Number,
    Numbers,
    Or,
    Query,
    Term,
    Truth,
    as_number,
    number,
)
from verifier.theorems.cotangents import FREE, LETTERS, calculus_map, sort, table
from verifier.theorems.prices import array_bytes, devices, price, steps, wire
from verifier.theorems.reshards import SIZED, sizes
from verifier.theorems.sums import Named, induction, total
from verifier.theorems.table import Row, every, free, judgments, rows
from verifier.theorems.theorem import Theorem

NAME: Final = "communication"
NOT_REPLICATED: Final = "the operand is not replicated"
REPLICATED: Final = "the operand is replicated"
ALL_COPIES: Final = "the operands that stay are replicated or reduced"
WHOLE_RESULT: Final = "the result is replicated or unreduced"
NEITHER: Final = "neither state is replicated"
SEVERAL: Final = "there are several devices"
SOMETHING: Final = "there is something to send"


OPERATIONS: Final = "all relations of up to two operands, and the table's sample calls, of up to four"


class Transpose(NamedTuple):
    """The transpose of a judgment with respect to a linear operand, as it is computed: device by device, with free
    casts, and then a collective, if one is needed.

    primitive: one that makes it. states, result: of the judgment. operand: its place. collective: what takes the
    cotangent to the state that it has, nothing where that is free. own: whether the operand has the factor that is cut.
    others: the states of the operands that the transpose keeps: what is jointly linear with this one is gone.
    """

    primitive: str
    states: tuple[State, ...]
    result: State
    operand: int
    collective: str
    own: bool
    others: tuple[State, ...]

    @property
    def state(self) -> State:
        """The operand's."""
        return self.states[self.operand]


@cache
def transposes() -> tuple[Transpose, ...]:
    """Every transpose of every judgment of the table, and of all relations of one factor and up to two operands. Raises
    `ValueError` where one can not be computed at all."""
    return tuple(_transposes())


def _transposes() -> Iterator[Transpose]:
    small = [Row(one, (f"a relation of {arity} operands",)) for arity in (1, 2) for one in dict.fromkeys(every(arity))]
    for row in (*rows(), *small):
        for states, result in judgments(row.relation):
            for operand, _ in row.relation.signature.linear_operands():
                transposed, kept = row.relation.transposed(operand)
                given = [cotangent_state(result) if place == operand else states[place] for place in kept]
                found = transposed.local_results(transposed.scheme.aligned(tuple(given)))
                wanted = cotangent_state(states[operand])
                ways = {collective_between(one, wanted) for one in found}
                if not ways:
                    raise ValueError(f"{row.name} of {states} → {result} has no transpose in operand {operand}")
                cut = {state[1] for state in (*states, result) if isinstance(state, tuple)}
                own = not cut.isdisjoint(row.relation.scheme.operands[operand])
                kind = "" if "" in ways else min(ways)
                others = tuple(states[place] for place in kept if place != operand)
                yield Transpose(row.name, states, result, operand, kind, own, others)


def collective_between(source: State, wanted: State) -> str:
    """The collective that takes one state to another, nothing where a cast does."""
    if free(source, wanted):
        return ""
    moved = source != wanted and isinstance(wanted, tuple)
    (step,) = steps(
        ("S", 0) if isinstance(source, tuple) else source, ("S", int(moved)) if isinstance(wanted, tuple) else wanted
    )
    return step.kind


def _shown(one: Transpose) -> str:
    names = ", ".join("S" if isinstance(state, tuple) else str(state) for state in one.states)
    result = "S" if isinstance(one.result, tuple) else one.result
    return f"{one.primitive} ({names}) → {result} in operand {one.operand}"


def _found() -> str:
    """Whether each judgment has its transposes, and (b): which collective where it is not free. It is an all-gather
    where what is cut is a dim of the operand, an all-reduce where the cotangent is pending."""
    try:
        found = transposes()
    except ValueError as error:
        return str(error)
    for one in found:
        if one.collective and one.collective != (ALL_GATHER if one.own else ALL_REDUCE):
            return f"the transpose of {_shown(one)} takes {one.collective}"
    return ""


def _letter(state: State) -> str:
    return "S" if isinstance(state, tuple) else str(state)


class _Case:
    """A transpose of the table, for the solver: state: the operand's. copies: whether what stays is N or R.
    result: the result's state. pays: whether it takes a collective."""

    def __init__(self) -> None:
        made, self.states = sort()
        self.state, self.result = Constant("the operand's state", made), Constant("the result's state", made)
        self.copies, self.pays = Truth("all others are copies"), Truth("the transpose communicates")

    def of_the_table(self) -> Named:
        """That there is such a judgment."""
        seen = {
            (_letter(one.state), {*one.others} <= {"N", "R"}, _letter(one.result), bool(one.collective))
            for one in transposes()
        }
        cases = [
            And(
                self.state == self.states[state],
                self.result == self.states[result],
                self.copies == copies,
                self.pays == pays,
            )
            for state, copies, result, pays in sorted(seen)
        ]
        return "it is a judgment of the table", Or(*cases)

    def whole(self) -> Formula:
        """Whether the result is N or U."""
        return Or(self.result == self.states["N"], self.result == self.states["U"])


def _kept_free() -> Sequence[Query]:
    """(a)"""
    case = _Case()
    given = (case.of_the_table(), (NOT_REPLICATED, case.state != case.states["N"]))
    return (Query("a free operation has a free transpose", given, Not(case.pays)), _on_two())


def _on_two() -> Query:
    """A scalar w, held in full on two devices, times x, which is cut; c is the product's cotangent. Each device
    computes its share of w's. They are pieces of it, and copies only if nothing else is on the other device."""
    x, c, shares, value = Numbers("x[0] x[1]"), Numbers("c[0] c[1]"), Numbers("share[0] share[1]"), Number("CT⸳w")
    replicated = Truth("w is replicated")
    copies, pieces = And(shares[0] == value, shares[1] == value), shares[0] + shares[1] == value
    given = (
        ("each device computes its share", And(shares[0] == x[0] * c[0], shares[1] == x[1] * c[1])),
        ("the cotangent", value == x[0] * c[0] + x[1] * c[1]),
        (NOT_REPLICATED, Not(replicated)),
    )
    return Query("a scalar times a cut vector, on two devices", given, If(replicated, copies, pieces))


def _replicated() -> Sequence[Query]:
    """(b): when, and how much, L being the bytes of the operand on one device."""
    case = _Case()
    replicated: Named = (REPLICATED, case.state == case.states["N"])
    n, size = devices(), array_bytes()
    share = (as_number(n) - 1) * size / as_number(n)
    return (
        Query(
            "it is free",
            (case.of_the_table(), (ALL_COPIES, case.copies), (WHOLE_RESULT, case.whole())),
            Not(case.pays),
        ),
        Query(
            "it is not",
            (case.of_the_table(), replicated, ("not both", Not(And(case.copies, case.whole())))),
            case.pays,
        ),
        Query("an all-reduce: 2(n-1)/n L", sizes(), price(steps("U", "N")) == 2 * share),
        Query("an all-gather: (n-1)/n L", sizes(), price(steps(("S", 0), "N")) == share),
    )


def _wire(source: Term, target: Term) -> Term:
    """The wire price of a move, as a function of the two states. Sharded is sharded on one dim."""
    _, states = sort()
    found: Term = number(0)
    for one, other in product(LETTERS, repeat=2):
        if (one, other) not in FREE:
            paid = price(steps(*(("S", 0) if letter == "S" else letter for letter in (one, other))))
            found = If(And(source == states[one], target == states[other]), paid, found)
    return found


def _both_ways() -> Sequence[Query]:
    """(c), of explicit moves, all at once and between two dims."""
    made, states = sort()
    source, target = Constant("s", made), Constant("t", made)
    ct = Function("CT", made, made)
    neither: Named = (NEITHER, And(source != states["N"], target != states["N"]))
    given = (*sizes(), ("the cotangent map", table(ct, calculus_map())), neither)
    return (
        Query("s → t costs what CT t → CT s does", given, _wire(source, target) == _wire(ct(target), ct(source))),
        Query("between dims", sizes(), price(steps(("S", 0), ("S", 1))) == price(steps(("S", 1), ("S", 0)))),
    )


def _rows_both_ways() -> Sequence[Query]:
    """(c), of the collectives of manual mode: every row among V, R and U that communicates, with its transpose's row. A
    gather is priced at its result, everything else at its operand."""
    n, small = devices(), Number("b")
    large = small * as_number(n)
    before = {"gather": small, "scatter": large}
    after = {"gather": large, "scatter": small}
    queries = []
    for name, row in COLLECTIVES.items():
        if not (row.kind and row.transpose) or "N" in (row.before, row.after):
            continue
        back = COLLECTIVES[row.transpose]
        operand, result = before.get(row.move, large), after.get(row.move, large)
        forth_price = wire(row.kind, result if row.kind == ALL_GATHER else operand, n)
        back_price = wire(back.kind, operand if back.kind == ALL_GATHER else result, n)
        queries.append(Query(f"{name} ↔ {row.transpose}", ((SIZED, n >= 1),), forth_price == back_price))
    return queries


def _rows_turn() -> str:
    """Every row's transpose goes back between the cotangents' states, undoes what it does to dims, and has a transpose
    if that communicates. Rows that join by a maximum or minimum have none."""
    undone = {"gather": "scatter", "scatter": "gather"}
    for name, row in COLLECTIVES.items():
        back = COLLECTIVES.get(row.transpose)
        if row.joined != "sum" and back is not None:
            return f"{name}, a {row.joined}, has a transpose"
        if back is None:
            continue
        states = cotangent_state(row.after), cotangent_state(row.before)
        again = COLLECTIVES.get(back.transpose)
        if again is None or (again.before, again.after, again.kind, again.move) != row[:4]:
            return f"the transpose of {row.transpose} is not {name} again"
        if (back.before, back.after) != states or back.move != undone.get(row.move, row.move):
            return f"{name} goes from {row.before} to {row.after}, and {row.transpose} does not go back"
    return ""


def _the_other_way() -> Sequence[Query]:
    """(d)"""
    several: Named = (SEVERAL, devices() >= 2)
    something: Named = (SOMETHING, array_bytes() > 0)
    pays, frees = price(steps(("S", 0), "N")), price(steps(cotangent_state("N"), ("S", 0)))
    return (
        Query("S → N gathers", (several, something), pays > 0),
        Query("its transpose, N → S, is free", sizes(), frees == 0),
    )


def _one_place() -> Sequence[Query]:
    """(e). A replicated value is used k times where a dim is cut. Without the cast each use reduces its contribution;
    with it, contributions are unreduced and free, by (a), and the cast's transpose reduces their sum."""
    paid, eager, cast = Numbers("reduction eager cast")
    uses = Integer("k")
    each = total("uses", lambda use: paid)
    given: tuple[Named, ...] = (
        ("each use reduces", eager == as_number(uses) * paid),
        ("the cast's transpose reduces", cast == price(steps("U", "N"))),
        ("so does a use", paid == price(steps("U", "N"))),
    )
    return (
        Query("the cast is free", (), price(steps("N", "R")) == 0),
        *induction("k uses", (each,), lambda k: each(k) == k * paid),
        Query("once for k times", given, eager == as_number(uses) * cast),
        Query("of one use, the same", (*given, ("one use", uses == 1)), eager == cast),
    )


def _loops() -> Sequence[Query]:
    """What a body communicates counts once for each iteration, in both directions."""
    forth, back = Numbers("forward backward")
    forth_in_all, back_in_all = total("forward in all", lambda k: forth), total("backward in all", lambda k: back)
    return induction(
        "loops multiply both alike",
        (forth_in_all, back_in_all),
        lambda n: forth_in_all(n) == back_in_all(n),
        (("of one iteration", forth == back),),
    )


def obligations() -> tuple[Obligation, ...]:
    """What is checked."""
    return (
        Obligation(
            "communication.kept_free", NAME, "(a) xᵢ in R, S, U, and κ(f) = 0: κ(fᵀ in i) = 0", _kept_free, _found,
            domain="any arithmetic", basis=BOUNDED, bound=OPERATIONS,
        ),
        Obligation(
            "communication.replicated", NAME, "(b) xᵢ in N: κ(fᵀ in i) = 0 iff what stays is N, R and the result N, U; "
            "else an all-gather of L, where a dim of xᵢ is cut, or an all-reduce of L", _replicated,
            basis=BOUNDED, bound=OPERATIONS,
        ),
        Obligation(
            "communication.both_ways", NAME, "(c) w(s → t) = w(CT t → CT s) among S, R, U, for every n and payload",
            _both_ways,
        ),
        Obligation(
            "communication.collectives", NAME, "(c) all-gather ↔ reduce-scatter, all-to-all and permute ↔ their like",
            _rows_both_ways, _rows_turn,
        ),
        Obligation("communication.to_replicated", NAME, "(d) S → N gathers; N → S is free", _the_other_way),
        Obligation(
            "communication.one_place", NAME, "(e) N → R is free; its transpose pays for k uses once", _one_place,
            uses=("communication.kept_free", "fan_out.free"),
        ),
        Obligation("communication.loops", NAME, "loops multiply both directions alike", _loops),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "A free operation has a free transpose with respect to every linear operand that is not replicated. With respect "
    "to one that is, exactly if what stays beside it are copies and the result is replicated or unreduced; "
    "otherwise it takes an all-reduce or an all-gather of that operand. Among sharded, varying, "
    "reduced and unreduced, collectives and their transposes have one wire price. Into replicated it "
    "fails the other way. The free cast to reduced moves the payment to one place.",
    "xᵢ ∉ N ⟹ (κ(f) = 0 ⟹ κ(fᵀᵢ) = 0);  w(s → t) = w(CT t → CT s) on {S, V, R, U};  "
    "w(N → R) = 0, w(U → N) = 2(n-1)/n·L",
    (
        (NOT_REPLICATED, "(a) the operand is sharded, reduced or unreduced"),
        (REPLICATED, "(b) the operand is replicated"),
        (ALL_COPIES, "(b) no operand that the transpose keeps beside it is cut or pending"),
        (WHOLE_RESULT, "(b) the result is replicated, or masked"),
        (NEITHER, "(c) neither the source nor the target is replicated"),
        (SEVERAL, "(d) the axis has more than one device"),
        (SOMETHING, "(d) the array has bytes"),
    ),
    "proofs/communication.md",
    obligations,
)
