"""Theorem 3, the cotangent map: an involution that reverses the free casts; and why it is this one.

Nothing here assumes the map. The order of the free casts is derived from what the states mean, for every number of
devices: a cast is free where each device can compute its own block of the result from its own block alone. Which states
can be each other's cotangents is derived from which have a *pairing* that devices can compute apart: a sum over devices
of something that depends on each device's own two blocks, and that is ⟨x, y⟩ for the values x and y, however they are
held. A map that no pairing supports is not coherent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from typing import Final

from calculus.cotangents import State, cotangent, cotangent_state
from calculus.types import ArrayType, array_type
from verifier.proving.obligations import Obligation
from verifier.solver import (
    INTEGERS,
    NUMBERS,
    And,
    ForAll,
    Formula,
    Function,
    If,
    Integer,
    Integers,
    Not,
    Number,
    Numbers,
    Or,
    Query,
    Term,
    Truth,
    conjunction,
    enumeration,
)
from verifier.theorems.prices import in_state, steps
from verifier.theorems.sums import Named, induction, total
from verifier.theorems.theorem import Theorem

NAME: Final = "cotangents"
COHERENT: Final = "coherent"
LETTERS: Final = ("N", "R", "S", "U")
_NAMES: Final = {"N": "replicated", "R": "reduced", "S": "sharded", "U": "unreduced"}

CASTS: Final = {
    ("N", "R"): "keep",
    ("R", "N"): "keep",
    ("N", "S"): "slice",
    ("R", "S"): "slice",
    ("S", "U"): "pad",
    ("N", "U"): "mask",
    ("R", "U"): "mask",
}
"""The pairs of states with a free cast, and what each device does: `cotangents.chain` shows it."""

NO_CASTS: Final = {
    ("S", "N"): "from sharded to a copy",
    ("S", "R"): "from sharded to a copy",
    ("U", "N"): "from unreduced to a copy",
    ("U", "R"): "from unreduced to a copy",
    ("U", "S"): "from unreduced to sharded",
}
"""All others: `cotangents.chain_ends` shows that there is none."""

FREE: Final = frozenset({*CASTS, *((letter, letter) for letter in LETTERS)})
"""The order of the free casts."""

PAIRED: Final = frozenset(
    (one, other) for one, other in product(LETTERS, repeat=2) if one in "NR" or other in "NR" or one == other == "S"
)
"""The pairs of states with a pairing that devices can compute apart, which `cotangents.pairing` derives."""


@cache
def sort() -> tuple[Term, dict[str, Term]]:
    """The sort of states along one axis, and its elements by letter."""
    made, elements = enumeration("StateAlongAxis", list(_NAMES.values()))
    return made, dict(zip(LETTERS, elements, strict=True))


def table(function: Term, values: dict[str, str]) -> Formula:
    """That a map of states is this one."""
    _, states = sort()
    return conjunction([function(states[one]) == states[other] for one, other in values.items()])


def calculus_map() -> dict[str, str]:
    """The calculus' own map."""
    found = {letter: cotangent_state(("S", "f") if letter == "S" else letter) for letter in LETTERS}
    return {letter: "S" if isinstance(state, tuple) else str(state) for letter, state in found.items()}


def _map(name: str = "CT") -> Term:
    made, _ = sort()
    return Function(name, made, made)


def below(one: Term, other: Term) -> Formula:
    """Whether one state is cast to another for free."""
    _, states = sort()
    return Or(*(And(one == states[a], other == states[b]) for a, b in sorted(FREE)))


def _paired(one: Term, other: Term) -> Formula:
    _, states = sort()
    return Or(*(And(one == states[a], other == states[b]) for a, b in sorted(PAIRED)))


def _involution() -> Sequence[Query]:
    ct = _map()
    _, states = sort()
    goal = conjunction([ct(ct(state)) == state for state in states.values()])
    return (Query("involution", (("the map", table(ct, calculus_map())),), goal),)


def _of_types() -> str:
    """CT CT τ = τ, of the calculus' types, in every state, of every dtype that has derivatives."""
    states: tuple[State, ...] = ("N", "R", "V", "U", ("S", 0), ("S", 1))
    for state, dtype in product(states, ("f32", "c64", "bf16")):
        plain = in_state(state)
        type = array_type(dtype, plain.shape, plain.axes, plain.varying, plain.unreduced, plain.reduced)
        once = cotangent(type)
        if cotangent(once) != type:
            return f"the cotangent of {once}, which is that of {type}, is {cotangent(once)}"
        if isinstance(once, ArrayType) and (once.shape, once.axes, once.varying) != (
            type.shape,
            type.axes,
            type.varying,
        ):
            return f"the cotangent of {type} is {once}, placed otherwise"
    return ""


def _casts() -> Sequence[Query]:
    """The casts that are free, each with the map that every device applies to its own block; for every n, every block
    size m, and at every index p of the array."""
    d, m, owner, j, p = Integers("d m owner j p")
    array, value = Function("x", INTEGERS, NUMBERS), Number("v")
    copy, index = Function("held", INTEGERS, INTEGERS, NUMBERS), Integer("i")
    at_owner: Named = ("the owner's block has the index", And(m > 0, j >= 0, j < m, p == owner * m + j))
    padded = total("padded", lambda device: If(device == owner, array(owner * m + j), 0))
    first = total("first", lambda device: If(device == 0, value, 0))
    holds = And(m > 0, d * m <= p, p < (d + 1) * m)
    return (
        Query(
            "slice: a device keeps its block of the copy",
            (("every device holds the array", ForAll([d, index], copy(d, index) == array(index))),),
            copy(d, d * m + j) == array(d * m + j),
        ),
        Query("pad: one device's block has the index", (at_owner, ("this device's has", holds)), d == owner),
        *induction(
            "pad: the padded blocks add up to the array",
            (padded,),
            lambda n: padded(n) == If(And(owner >= 0, owner < n), array(owner * m + j), 0),
        ),
        *induction("mask: one copy and zeros add up", (first,), lambda n: first(n) == If(n > 0, value, 0)),
    )


def _no_casts() -> Sequence[Query]:
    """The casts that are not free: two arrays that device 0 holds alike, and of which it would have to hold something
    else. The other devices, whose blocks are the same for both, may be as many as they like."""
    local = Function("what device 0 makes of its block", NUMBERS, NUMBERS)
    mine, theirs, other = Numbers("x[0] x[1] y[1]")
    differ: Named = ("device 1 holds something else", theirs != other)
    return (
        Query(  # the second entry of the copy is device 1's block
            "from sharded to a copy: none", (differ,), Not(And(local(mine) == theirs, local(mine) == other))
        ),
        Query(
            "from unreduced to a copy: none",
            (differ,),
            Not(And(local(mine) == mine + theirs, local(mine) == mine + other)),
        ),
        Query(  # device 0's block of the sum: pieces of it are on device 1
            "from unreduced to sharded: none",
            (differ,),
            Not(And(local(mine) == mine + theirs, local(mine) == mine + other)),
        ),
    )


def _as_the_calculus_says() -> str:
    """The calculus moves nothing exactly where a cast is free, whatever the number of devices; and of every pair of
    states a query says whether one is."""
    shown = {query.name.partition(":")[0] for query in (*_casts(), *_no_casts())}
    if missing := {*CASTS.values(), *NO_CASTS.values()} - shown - {"keep"}:
        return f"nothing is shown of {missing}"
    if {*FREE, *NO_CASTS} != {*product(LETTERS, repeat=2)}:
        return "a pair of states is left out"
    for one, other in product(LETTERS, repeat=2):
        found = steps(*(("S", 0) if letter == "S" else letter for letter in (one, other)))
        if (not found) != ((one, other) in FREE):
            return f"from {_NAMES[one]} to {_NAMES[other]} the calculus moves {found}"
    return ""


def _reversing() -> Sequence[Query]:
    ct = _map()
    _, states = sort()
    given = (("the map", table(ct, calculus_map())),)
    chain = [states[letter] for letter in "RSU"]
    down = [(one, other) for at, one in enumerate(chain) for other in chain[at:]]
    reverses = conjunction([below(ct(other), ct(one)) for one, other in down])
    strictly = conjunction([Not(below(ct(one), ct(other))) for one, other in pairwise(chain)])
    pays = And(below(states["N"], states["S"]), Not(below(ct(states["S"]), ct(states["N"]))))
    return (
        Query("it reverses the chain", given, And(reverses, strictly)),
        Query("replicated is at reduced's place, and is not reversed", given, pays),
    )


def _on_two() -> Query:
    """x, a copy or pieces, beside pieces y, on two devices that each multiply their own."""
    x, y, value, paired = Numbers("x[0] x[1]"), Numbers("y[0] y[1]"), Number("value⸳x"), Number("paired")
    pending = Truth("x is unreduced")
    given = (
        (COHERENT, Not(pending)),
        ("x reads back", If(pending, x[0] + x[1] == value, And(x[0] == value, x[1] == value))),
        ("each device pairs its own", paired == x[0] * y[0] + x[1] * y[1]),
    )
    return Query("x beside pieces y, on two devices", given, paired == value * (y[0] + y[1]))


def _pairings() -> Sequence[Query]:
    """Which states have a pairing that devices compute apart. Where there is one it is shown for every n; where there
    is none, two devices and the values 0 and 1 are enough to see it."""
    copy, value = Numbers("x v")
    pieces = Function("y", INTEGERS, NUMBERS)
    added, weighed = total("Y", pieces), total("XY", lambda d: copy * pieces(d))
    first = total("first", lambda d: If(d == 0, copy * value, 0))
    mine, yours = (Function(f"what device {d} adds", NUMBERS, NUMBERS, NUMBERS) for d in (0, 1))

    def both(x0: int, y0: int, x1: int, y1: int) -> Term:
        return mine(x0, y0) + yours(x1, y1)

    one_owner = [(1, 0), (0, 1)]  # of a sum: where the 1 is held
    unreduced = [both(x0, y0, x1, y1) == 1 for (x0, x1), (y0, y1) in product(one_owner, repeat=2)]
    nothing = [both(0, y0, 0, y1) == 0 for y0, y1 in (*one_owner, (0, 0))]
    nothing += [both(x0, 0, x1, 0) == 0 for x0, x1 in one_owner]
    # x is sharded, its first entry is 1 and on device 0; of y's first entry, the pieces.
    sharded = [both(1, y0, 0, y1) == 1 for y0, y1 in one_owner]
    sharded += [both(0, y0, 0, y1) == 0 for y0, y1 in (*one_owner, (0, 0))]
    sharded.append(both(1, 0, 0, 0) == 0)
    return (
        *induction("a copy and pieces: Σ_d x·y_d", (added, weighed), lambda n: weighed(n) == copy * added(n)),
        *induction("two copies: device 0 counts", (first,), lambda n: first(n) == If(n > 0, copy * value, 0)),
        _on_two(),
        Query("two sums have none", (), Not(And(*unreduced, *nothing))),
        Query("blocks and a sum have none", (), Not(And(*sharded))),
    )


def _choices(premises: Sequence[str]) -> tuple[Term, tuple[Named, ...]]:
    """A map of states, and what is asked of it."""
    _, states = sort()
    ct = _map("c")
    said: dict[str, Formula] = {
        "involution": conjunction([ct(ct(state)) == state for state in states.values()]),
        "sharded is fixed": ct(states["S"]) == states["S"],
        COHERENT: conjunction([_paired(state, ct(state)) for state in states.values()]),
        "conservative": Or(ct(states["N"]) == states["N"], ct(states["N"]) == states["S"]),
    }
    return ct, tuple((name, said[name]) for name in premises)


_OTHER: Final = {"N": "U", "U": "N", "S": "S", "R": "R"}


def _two() -> Sequence[Query]:
    ct, given = _choices(("involution", "sharded is fixed", COHERENT))
    ours, other = table(ct, calculus_map()), table(ct, _OTHER)
    return (
        Query("there are no others", given, Or(ours, other)),
        Query("reduced ↔ unreduced is one", given, ours, possible=True),
        Query("replicated ↔ unreduced is one", given, other, possible=True),
    )


def _swapped() -> Sequence[Query]:
    _, states = sort()
    ours, other, names = _map("ours"), _map("other"), _map("rename")
    given = (
        ("reduced ↔ unreduced", table(ours, calculus_map())),
        ("replicated ↔ unreduced", table(other, _OTHER)),
        ("the names are exchanged", table(names, {"N": "R", "R": "N", "S": "S", "U": "U"})),
    )
    same = conjunction([names(ours(names(state))) == other(state) for state in states.values()])
    return (Query("the same up to names", given, same),)


def _selected() -> Sequence[Query]:
    ct, given = _choices(("involution", "sharded is fixed", COHERENT, "conservative"))
    return (Query("conservativity selects", given, table(ct, calculus_map())),)


def _would_communicate() -> Sequence[Query]:
    """A function returns a replicated number, a loss: its last operation sums a cut dim, S → N. Under the calculus' map
    the transpose takes N to S, which is free; under the other it takes U to S, which is not."""
    ours, other = _map("ours"), _map("other")
    _, states = sort()
    given = (("reduced ↔ unreduced", table(ours, calculus_map())), ("replicated ↔ unreduced", table(other, _OTHER)))
    free = below(ours(states["N"]), ours(states["S"]))
    return (Query("the transpose of S → N", given, And(free, Not(below(other(states["N"]), other(states["S"]))))),)


def _what_it_sends() -> str:
    if [step.kind for step in steps("U", ("S", 0))] != ["reduce-scatter"] or steps("N", ("S", 0)):
        return "the calculus prices U → S or N → S otherwise"
    return ""


def obligations() -> tuple[Obligation, ...]:
    """What is checked."""
    return (
        Obligation(
            "cotangents.involution", NAME, "CT(CT(s)) = s for every state, and CT(CT(τ)) = τ for every type",
            _involution, _of_types,
        ),
        Obligation(
            "cotangents.chain", NAME, "N, R ≼ S ≼ U: each of these casts is a map of a device's own block, for every n",
            _casts, uses=("sums.owner", "sums.owned"),
        ),
        Obligation(
            "cotangents.chain_ends", NAME, "no other cast is: S ⋠ R, U ⋠ R, U ⋠ S", _no_casts, _as_the_calculus_says,
        ),
        Obligation(
            "cotangents.reverses", NAME, "s ≼ t ⟹ CT t ≼ CT s on R ≼ S ≼ U; not so for N ≼ S", _reversing,
            uses=("cotangents.chain", "cotangents.chain_ends"),
        ),
        Obligation(
            "cotangents.pairing", NAME, "⟨x, y⟩ is a sum over devices of their own blocks' share exactly if one of the "
            "two is a copy, or both are blocks", _pairings, uses=("sums.scaled", "sums.split"),
        ),
        Obligation(
            "cotangents.two_choices", NAME, "an involution that fixes S and pairs every state is R ↔ U or N ↔ U", _two,
            uses=("cotangents.pairing",),
        ),
        Obligation("cotangents.same_up_to_names", NAME, "exchanging N and R takes the one to the other", _swapped),
        Obligation(
            "cotangents.conservative", NAME, "with CT N among the old states N and S, it is R ↔ U", _selected,
            uses=("cotangents.two_choices",),
        ),
        Obligation(
            "cotangents.other_choice", NAME, "under N ↔ U the transpose of S → N, a loss's last sum, is U → S: a "
            "reduce-scatter; under R ↔ U it is N → S: free", _would_communicate, _what_it_sends,
            uses=("cotangents.chain", "cotangents.chain_ends"),
        ),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "The type of a cotangent is a function of the primal's. It is an involution and reverses the free casts. Of "
    "the involutions on the states that fix sharded exactly two are coherent, the same up to names, and the one that "
    "leaves programs without reduced and unreduced as they are is reduced ↔ unreduced.",
    "CT ∘ CT = id;  s ≼ t ⟹ CT t ≼ CT s for R ≼ S ≼ U;  c ∘ c = id, c S = S, ⟨s, c s⟩ local ⟹ c ∈ {R ↔ U, N ↔ U}",
    (
        ("involution", "the cotangent of a cotangent is in the primal's state"),
        ("sharded is fixed", "the cotangent of what is cut is cut as it is"),
        (COHERENT, "a state and its image have a pairing that devices compute apart"),
        ("conservative", "the cotangent of replicated is in a state that there was before: replicated or sharded"),
    ),
    "proofs/cotangents.md",
    obligations,
)
