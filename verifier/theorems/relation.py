"""Theorem 2, the relation Q of reduced and unreduced: there is a greatest, it is one, it leaves sharded and replicated
as they were, and neither of the two closures that come to mind instead would do. Seeds A22, A25, A38."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final

from calculus.cotangents import State, cotangent_state
from calculus.linearity import Relation, axis_scheme, relation
from calculus.signatures import Signature
from verifier.proving.obligations import BOUNDED, Obligation
from verifier.solver import (
    TRUTHS,
    And,
    Constant,
    Exists,
    ForAll,
    Formula,
    Function,
    Implies,
    Not,
    Numbers,
    Query,
    Sort,
    Term,
    Truth,
)
from verifier.theorems import one_way
from verifier.theorems.iteration import Einsum, greatest, judgments, states_of
from verifier.theorems.prices import STATES, price, steps
from verifier.theorems.reshards import sizes
from verifier.theorems.sums import Named
from verifier.theorems.table import judgments as judgments_of
from verifier.theorems.table import rows
from verifier.theorems.theorem import Theorem

NAME: Final = "relation"
CLOSED: Final = "each of the sets is closed"
CONTAINS: Final = "the first contains what is closed"
CONTAINS_TOO: Final = "the second contains what is closed"
UNMARKED: Final = "unmarked judgments are asked nothing"
MARKED: Final = "marked judgments are asked about replicated operands too"

FAMILY: Final = "einsums of seven forms and their transposes; two devices, one entry of a factor on each"
TABLE: Final = "the table's sample calls, of up to four operands"

PROGRAM: Final[Einsum] = (("bk", "kj"), "bj")
"""x @ w, the first program of the page: x is cut on its rows, w is replicated."""
FIRST: Final = (("Sb", "N"), "Sb")
PRODUCT: Final[Einsum] = (("i", "i"), "i")
ONE_WAY: Final = (("U", "N"), "U")


class _Judgments:
    """Judgments as the solver sees them: any set, what is Local, and what each one leads to."""

    def __init__(self) -> None:
        self.sort = Sort("Judgment")
        self.one, self.other = Constant("j", self.sort), Constant("k", self.sort)
        self.local = Function("Local", self.sort, TRUTHS)
        self.leads = Function("leads to", self.sort, self.sort, TRUTHS)

    def set(self, name: str) -> Formula:
        """A set of judgments."""
        return Function(name, self.sort, TRUTHS)

    def closed(self, members: Formula) -> Formula:
        """Whether all members are Local, and what they lead to are members."""
        one, other = self.one, self.other
        inside = ForAll([one], Implies(members(one), self.local(one)))
        return And(inside, ForAll([one, other], Implies(And(members(one), self.leads(one, other)), members(other))))


def _exists() -> Sequence[Query]:
    """The union of closed sets, however many, is closed: so the union of all is the greatest."""
    of = _Judgments()
    sets = Sort("Family")
    number = Constant("i", sets)
    member = Function("is in set", sets, of.sort, TRUTHS)
    one, other = of.one, of.other
    each: Named = (
        CLOSED,
        And(
            ForAll([number, one], Implies(member(number, one), of.local(one))),
            ForAll(
                [number, one, other], Implies(And(member(number, one), of.leads(one, other)), member(number, other))
            ),
        ),
    )

    def union(judgment: Term) -> Formula:
        return Exists([number], member(number, judgment))

    return (
        Query("the union is inside Local", (each,), ForAll([one], Implies(union(one), of.local(one)))),
        Query(
            "the union is closed",
            (each,),
            ForAll([one, other], Implies(And(union(one), of.leads(one, other)), union(other))),
        ),
    )


def _unique() -> Sequence[Query]:
    """Two that are closed and contain whatever is closed are one."""
    of = _Judgments()
    first, second = of.set("Q"), of.set("Q′")
    contains = ForAll([of.one], Implies(second(of.one), first(of.one)))
    contains_too = ForAll([of.one], Implies(first(of.one), second(of.one)))
    given = (
        (CONTAINS, Implies(of.closed(second), contains)),
        (CONTAINS_TOO, Implies(of.closed(first), contains_too)),
        (CLOSED, And(of.closed(first), of.closed(second))),
    )
    return (Query("Q = Q′", given, ForAll([of.one], first(of.one) == second(of.one))),)


def _reached() -> Sequence[Query]:
    """What is Local together with all that it leads to, in any number of steps, is closed, and contains whatever is."""
    of = _Judgments()
    one, other, far = of.one, of.other, Constant("l", of.sort)
    reaches, members = Function("reaches", of.sort, of.sort, TRUTHS), of.set("closed set")

    def safe(judgment: Term) -> Formula:
        return ForAll([far], Implies(reaches(judgment, far), of.local(far)))

    given = (
        ("it reaches itself", ForAll([one], reaches(one, one))),
        (
            "a step and then others",
            ForAll([one, other, far], Implies(And(of.leads(one, other), reaches(other, far)), reaches(one, far))),
        ),
    )
    return (
        Query("it is inside Local", given, Implies(safe(one), of.local(one))),
        Query("it is closed", given, Implies(And(safe(one), of.leads(one, other)), safe(other))),
        Query(
            "a closed set with a judgment has what it leads to, step by step, and all that is Local",
            ((CLOSED, of.closed(members)), ("up to here", members(one)), ("one step more", of.leads(one, other))),
            And(members(other), of.local(other)),
        ),
    )


def _of(einsum: Einsum) -> Relation:
    operands, result = einsum
    roles = dict.fromkeys(set("".join(operands)) - set(result), "sum")
    return relation(axis_scheme(operands, result, roles), Signature.parse(" | ".join("xyz"[: len(operands)])))


def _state(text: str) -> State:
    return ("S", text[1]) if text[0] == "S" else text


def _iterated() -> str:
    """The calculus' Local and its Q, against those computed from what the states mean."""
    locally, q = judgments(), greatest()
    for einsum, members in q.items():
        mine = _of(einsum)
        for states in product(*map(states_of, einsum[0])):
            given = tuple(map(_state, states))
            for after in states_of(einsum[1]):
                judgment = states, after
                if (_state(after) in mine.local_results(given)) != (judgment in locally[einsum]):
                    return f"whether {judgment} of {einsum} is Local"
                if mine.contains(given, _state(after)) != (judgment in members):
                    return f"whether {judgment} of {einsum} is in Q"
    return ""


def _asked(unmarked: bool, marked: bool) -> tuple[Named, ...]:
    """Membership of the two judgments in question, by what is asked of them: all that they lead to is Local."""
    first, second = Truth("x @ w with x cut, w replicated"), Truth("U · N → U")
    asks_first, asks_second = Truth("the first is asked"), Truth("the second is asked about N")
    found = []
    for einsum, judgment, member, asks, replicated in (
        (PROGRAM, FIRST, first, asks_first, 1),
        (PRODUCT, ONE_WAY, second, asks_second, 1),
    ):
        mine, (states, after) = _of(einsum), judgment
        given, result = tuple(map(_state, states)), _state(after)
        back, kept = mine.transposed(replicated)
        inputs = tuple(cotangent_state(result) if place == replicated else given[place] for place in kept)
        answers = cotangent_state(given[replicated]) in back.local_results(inputs)
        holds = result in mine.local_results(given)
        found.append((str(member), member == And(holds, Implies(asks, answers))))
    given_rules = []
    if unmarked:
        given_rules.append((UNMARKED, Not(asks_first)))
    if marked:
        given_rules.append((MARKED, asks_second))
    return (*found, *given_rules)


def _on_two() -> Sequence[Query]:
    """The two judgments on two devices, with one entry of each factor on each. x is what is not replicated, c the
    result's cotangent; of the replicated operand's cotangent each device computes x[d]·c[d], and holds it if their sum
    is that. A member that is asked about that operand has it on every device."""
    x, c = Numbers("x[0] x[1]"), Numbers("c[0] c[1]")
    member, asked = Truth("it is a member"), Truth("it is asked about what is replicated")
    whole = x[0] * c[0] + x[1] * c[1]
    on_each = And(x[0] * c[0] == whole, x[1] * c[1] == whole)
    meaning: Named = ("a member is Local, and what it is asked for holds", member == Implies(asked, on_each))
    differs: Named = ("the devices compute different numbers", x[0] * c[0] != x[1] * c[1])
    return (
        Query("x @ w is a member, on two devices", (meaning, (UNMARKED, Not(asked))), member),
        Query("U · N → U is none, on two devices", (meaning, differs, (MARKED, asked)), Not(member)),
    )


def _two_closures() -> Sequence[Query]:
    """As it is, the first program is accepted and U · N → U is not. Asking unmarked judgments too refuses the first;
    not asking about replicated operands accepts the second."""
    first, second = Truth("x @ w with x cut, w replicated"), Truth("U · N → U")
    strict, lax = Truth("the first is asked"), Not(Truth("the second is asked about N"))
    return (
        Query("as it is", _asked(True, True), And(first, Not(second))),
        *_on_two(),
        Query("strictly closed, the first program is refused", (*_asked(False, True), ("strict", strict)), Not(first)),
        Query("with N exempt, U · N → U is admitted", (*_asked(True, False), ("exempt", lax)), second),
    )


def _closures_iterated() -> str:
    """The same, by the iteration."""
    found = {
        "as it is": (greatest(), True, False),
        "strict": (greatest(strict=True), False, False),
        "exempt": (greatest(exempt="N"), True, True),
    }
    for name, (q, first, second) in found.items():
        if (FIRST in q[PROGRAM], ONE_WAY in q[PRODUCT]) != (first, second):
            return f"{name}: x @ w is {'' if FIRST in q[PROGRAM] else 'not '}in Q, U · N → U is {ONE_WAY in q[PRODUCT]}"
    return ""


def _conservative() -> str:
    """Of the whole table: an unmarked judgment is in Q exactly if it is Local; a marked one only if it is; and with
    reduced replaced by replicated it is Local still."""
    for row in rows():
        for states, result in judgments_of(row.relation):
            aligned = row.relation.scheme.aligned(states)
            marks = not {"R", "U"}.isdisjoint((*aligned, result))
            if not marks and not row.relation.contains(aligned, result):
                return f"{row.name} of {states} → {result} mentions neither R nor U, is Local, and is not in Q"
            erased = tuple("N" if state == "R" else state for state in aligned)
            plain = "N" if result == "R" else result
            if plain not in row.relation.local_results(erased):
                return f"{row.name} of {states} → {result} is Local, and with R erased it is not"
    return ""


def _erased() -> Sequence[Query]:
    """The price of a move, with reduced replaced by replicated on both sides."""
    plain: dict[State, State] = {state: "N" if state == "R" else state for state in STATES}
    return [
        Query(
            f"{source} → {target}",
            sizes(),
            price(steps(source, target)) == price(steps(plain[source], plain[target])),
        )
        for source, target in product(STATES, repeat=2)
        if "R" in (source, target)
    ]


def obligations() -> tuple[Obligation, ...]:
    """What is checked."""
    return (
        Obligation(
            "relation.exists", NAME, "the union of closed sets is closed: there is a greatest", _exists,
            domain="any arithmetic",
        ),
        Obligation("relation.unique", NAME, "there is one greatest closed set", _unique, domain="any arithmetic"),
        Obligation(
            "relation.reached", NAME, "it is what is Local together with all that it leads to", _reached,
            domain="any arithmetic",
        ),
        Obligation(
            "relation.iterated", NAME, "iterated from executions on polynomials, Local and Q are those of the calculus",
            check=_iterated, basis=BOUNDED, bound=FAMILY, domain="any commutative ring",
        ),
        Obligation(
            "relation.two_closures", NAME, "strict closure refuses x @ w, (S_b, N) → S_b; exempting N admits U·N → U",
            _two_closures, _closures_iterated,
        ),
        Obligation(
            "relation.conservative", NAME, "unmarked: j ∈ Q iff j is Local; and j with R erased is Local",
            check=_conservative, basis=BOUNDED, bound=TABLE,
        ),
        Obligation(
            "relation.one_way", NAME, "j ∈ Local ∖ Q: some transpose of it is an all-reduce, or counts once per device",
            one_way.queries, one_way.objection, BOUNDED, bound=TABLE, shows=one_way.shown,
        ),
        Obligation("relation.erasure", NAME, "w(s → t) = w(s → t with N for R), for every n and payload", _erased),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "The reduced/unreduced relation, the greatest subset of Local whose marked members have free transposes, exists, "
    "is unique, and is a conservative extension of sharded and replicated. Asking unmarked judgments too refuses the "
    "page's first program; exempting replicated operands of marked ones admits U·N → U. Erasing reduced changes no "
    "forward value and no forward price.",
    "Q = ⋃ {P ⊆ Local | ∀j ∈ P marked. D(j) ⊆ P};  j unmarked ⟹ (j ∈ Q ⟺ j ∈ Local)",
    (
        (CLOSED, "what a marked judgment leads to is a member, and members are Local"),
        (CONTAINS, "it is the greatest: every closed set is inside it"),
        (CONTAINS_TOO, "so is the other"),
        (UNMARKED, "a judgment that mentions neither R nor U has no demands"),
        (MARKED, "one that does has them with respect to all its linear operands"),
    ),
    "proofs/linearity.md",
    obligations,
)
