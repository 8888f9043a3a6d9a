"""Theorem 10, the laws of reshards: they keep the value, compose, cost no more than detours, and transpose to reshards
between the cotangents' types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations, product
from typing import Final

from calculus.communication import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, move
from calculus.cotangents import cotangent
from calculus.meshes import Axis, Mesh
from calculus.types import ArrayType, array_type
from verifier.proving.obligations import TESTED, Obligation
from verifier.solver import (
    INTEGERS,
    NUMBERS,
    And,
    Function,
    Implies,
    Integers,
    Number,
    Numbers,
    Query,
)
from verifier.theorems.prices import STATES, Step, array_bytes, devices, in_state, price, steps, wire
from verifier.theorems.sums import Named, induction, total
from verifier.theorems.theorem import Theorem

NAME: Final = "reshards"
KEPT: Final = "the first keeps the value"
KEPT_AGAIN: Final = "the second keeps the value"
BY_VALUES: Final = "the pairing is that of the values"
SIZED: Final = "there are devices"
COUNTED: Final = "there are no fewer than no bytes"


def _values() -> Sequence[Query]:
    """Each step of a plan, as what devices compute of each other's blocks, and what the result reads back as: at every
    index, for every number n of devices and every block size m. The casts are `cotangents.chain`."""
    m, k, d, e, j, p, to = Integers("m k d e j p b")
    array, pieces = Function("v", INTEGERS, NUMBERS), Function("Σ_d x_d", INTEGERS, NUMBERS)
    block, moved = (Function(name, INTEGERS, INTEGERS, NUMBERS) for name in "xy")
    table = Function("v of two dims", INTEGERS, INTEGERS, NUMBERS)
    rows = Function("x of two dims", INTEGERS, INTEGERS, INTEGERS, NUMBERS)
    place = Function("place", INTEGERS, INTEGERS)
    return (
        Query(
            "all-reduce: every device holds the sum",
            (
                ("the pieces add up to the array", pieces(p) == array(p)),
                ("each gets the sum", moved(d, p) == pieces(p)),
            ),
            moved(d, p) == array(p),
        ),
        Query(
            "reduce-scatter: device d holds the sum's block",
            (
                ("the pieces add up to the array", pieces(p) == array(p)),
                ("each gets its block of the sum", Implies(p == d * m + j, moved(d, j) == pieces(p))),
                ("the index is in the block", p == d * m + j),
            ),
            moved(d, j) == array(d * m + j),
        ),
        Query(
            "all-gather: every device holds the array",
            (
                ("device e holds block e", block(e, j) == array(e * m + j)),
                ("each gets block e at its place", moved(d, e * m + j) == block(e, j)),
                ("the index is in the block", p == e * m + j),
            ),
            moved(d, p) == array(p),
        ),
        Query(
            "all-to-all: cut on the rows, then on the columns",
            (
                ("device e holds its rows", rows(e, j, d * k + to) == table(e * m + j, d * k + to)),
                ("device d gets its columns of them", moved(e * m + j, to) == rows(e, j, d * k + to)),
            ),
            moved(e * m + j, to) == table(e * m + j, d * k + to),
        ),
        Query(
            "permute: a device gets the block of its place in the new order",
            (
                ("block p is on device p", Implies(p == place(e), block(p, j) == array(p * m + j))),
                ("device e gets that of its place", moved(e, j) == block(place(e), j)),
                ("its place", p == place(e)),
            ),
            moved(e, j) == array(place(e) * m + j),
        ),
    )


def _composed() -> Sequence[Query]:
    first, second, third = Numbers("value value′ value″")
    given = ((KEPT, first == second), (KEPT_AGAIN, second == third))
    x, y, z = Numbers("x[0] x[1]"), Numbers("y[0] y[1]"), Numbers("z[0] z[1]")
    on_two = (
        (KEPT, And(y[0] == x[0] + x[1], y[1] == x[0] + x[1])),
        (KEPT_AGAIN, z[0] + z[1] == y[0]),
    )
    return (
        Query("two reshards keep the value", given, first == third),
        Query("on two devices: pieces x, copies y, pieces z", on_two, z[0] + z[1] == x[0] + x[1]),
    )


def _prices() -> Iterator[tuple[tuple[Step, ...], tuple[Step, ...], tuple[Step, ...]]]:
    """What is moved from A to C, from A to B and from B to C, for all states of the three, each case once."""
    seen = set()
    for source, between, target in product(STATES, repeat=3):
        found = steps(source, target), steps(source, between), steps(between, target)
        if found not in seen and found[0]:
            seen.add(found)
            yield found


def _shown(found: tuple[Step, ...]) -> str:
    return " and ".join(step.kind for step in found) or "nothing"


def sizes() -> tuple[Named, ...]:
    """What is known of n and of the bytes."""
    return (SIZED, devices() >= 1), (COUNTED, array_bytes() >= 0)


def _triangle() -> Sequence[Query]:
    return [
        Query(
            f"{_shown(direct)} ≤ {_shown(first)}, then {_shown(second)}",
            sizes(),
            price(direct) <= price(first) + price(second),
        )
        for direct, first, second in _prices()
    ]


def _cheapest() -> Sequence[Query]:
    """A plan of k steps from A costs no less than the move from A to where it leads: by induction on k, with the
    triangle inequality for its last step."""
    direct, last = (Function(name, INTEGERS, NUMBERS) for name in ("direct", "step"))
    whole = total("plan", last)
    steps_in_all = induction(
        "the direct move is the cheapest plan",
        (whole,),
        lambda k: direct(k) <= whole(k),
        (("no step leads nowhere", direct(0) == 0),),
        lambda k: (("the triangle inequality", direct(k + 1) <= direct(k) + last(k)),),
    )
    return (*steps_in_all, _concatenated())


def _concatenated() -> Query:
    """On any number of axes: the cheapest plan is the least price of all plans, and plans can be put one after the
    other."""
    direct, first, second, plan = Numbers("cheapest⸳A→C plan⸳A→B plan⸳B→C both")
    given = (
        ("the plans, one after the other", plan == first + second),
        ("no plan from A to C is cheaper than the cheapest", direct <= plan),
    )
    return Query("on any number of axes", given, direct <= first + second)


def _scattered_and_gathered() -> Sequence[Query]:
    """As values, at the index j of block d, and as prices, by the calculus' own formula."""
    m, d, j, e = Integers("m d j e")
    pieces, after = Function("Σ_d x_d", INTEGERS, NUMBERS), Function("y", INTEGERS, INTEGERS, NUMBERS)
    gathered = Function("z", INTEGERS, INTEGERS, NUMBERS)
    n, size = devices(), array_bytes()
    both = wire(REDUCE_SCATTER, size, n) + wire(ALL_GATHER, size, n)
    return (
        Query(
            "all-gather after reduce-scatter is an all-reduce",
            (
                ("each gets its block of the sum", after(d, j) == pieces(d * m + j)),
                ("each gets all blocks", gathered(e, d * m + j) == after(d, j)),
            ),
            gathered(e, d * m + j) == pieces(d * m + j),
        ),
        Query("at the same wire price", sizes(), both == wire(ALL_REDUCE, size, n)),
    )


def _adjoint() -> Sequence[Query]:
    """⟨reshard x, y⟩ in the target's pairing is ⟨x, reshard y⟩ in the source's: both are ⟨v, w⟩. `cotangents.pairing`
    says that a pairing is that of the values."""
    v, w, moved, back, there, here = Numbers("v w v′ w′ ⟨reshard⸳x,y⟩ ⟨x,reshard⸳y⟩")
    given = ((KEPT, moved == v), (KEPT_AGAIN, back == w), (BY_VALUES, And(there == moved * w, here == v * back)))
    x, y, copies, cts = Numbers("x[0] x[1]"), Number("y"), Numbers("z[0] z[1]"), Numbers("c[0] c[1]")
    on_two = (
        (KEPT, And(copies[0] == x[0] + x[1], copies[1] == x[0] + x[1])),
        (KEPT_AGAIN, And(cts[0] == y, cts[1] == y)),
        (BY_VALUES, And(there == copies[0] * y, here == x[0] * cts[0] + x[1] * cts[1])),
    )
    return (
        Query("a reshard's transpose is a reshard", given, there == here),
        Query("on two devices: pieces x, copies z of their sum, y taken back to copies c", on_two, there == here),
    )


def _written_back() -> str:
    """The calculus' transpose of a reshard A → B is one equation, the reshard CT B → CT A, at that move's price."""
    from calculus.building import Workbench
    from calculus.checking import Checker
    from calculus.linearization import linearize
    from calculus.programs import Equation, Parameters, Program
    from calculus.transposition import transpose

    mesh = Mesh((Axis("X", 2),))
    for one, other in product(STATES, repeat=2):
        source, target = (in_state(state, (4, 4, 4), dtype="f32") for state in (one, other))
        equation = Equation("reshard", Parameters(()), ("x",), ("y",), (target,))
        program = Program((), (), ("x",), (source,), (equation,), ("y",))
        checker = Checker([mesh])
        checker.check(program)
        bench = Workbench(checker)
        linear = linearize(bench, checker.scope, program, [True])
        found = transpose(bench, checker.scope, linear.linear, [True], [True]).program
        back, forth = cotangent(target), cotangent(source)
        assert isinstance(back, ArrayType)
        assert isinstance(forth, ArrayType)
        checked = Checker([mesh]).check(found)
        effects = [one.kind for effect in checked.effects for one in effect.collectives]
        written = [(step.primitive, step.types) for step in found.equations]
        if found.input_types != (back,) or written != [("reshard", (forth,))]:
            return f"the transpose of {source} → {target} takes {found.input_types} by {found.equations}"
        if effects != [step.kind for step in move(back, forth, mesh)]:
            return f"the transpose of {source} → {target} communicates {effects}"
    return ""


_STRIDE: Final = 101
"""Of all triples of types one in so many is executed."""


def _executed() -> str:
    """Two reshards, one after the other, on four devices along two axes, between types of all kinds: what devices hold
    in the end reads back as the value, and what was sent is what the calculus derived."""
    from calculus.programs import Equation, Parameters, Program
    from verifier.execution.run import run

    mesh = Mesh((Axis("X", 2), Axis("Y", 2)))
    for source, between, target in islice(product(_on_two_axes(), repeat=3), 0, None, _STRIDE):
        first = Equation("reshard", Parameters(()), ("x",), ("y",), (between,))
        second = Equation("reshard", Parameters(()), ("y",), ("z",), (target,))
        outcome = run(Program((), (), ("x",), (source,), (first, second), ("z",)), [mesh])
        if not outcome.equal:
            return f"{source} → {between} → {target}: {outcome.problems[0].message}"
    return ""


def _on_two_axes() -> list[ArrayType]:
    """The types of an array of two dims along two axes; an axis that it is not cut on may be N or U."""
    found = {
        array_type(
            "f32", (4, 4), tuple(tuple(axis for axis, dim in places if dim == at) for at in (0, 1)),
            (), tuple(sorted(axis for axis, dim in places if dim == "U")),
        )
        for pair in product(("N", "U", 0, 1), repeat=2)
        for places in permutations(zip("XY", pair, strict=True))
    }  # fmt: skip
    return sorted(found, key=str)


def obligations() -> tuple[Obligation, ...]:
    """What is checked."""
    return (
        Obligation(
            "reshards.value", NAME, "each step of a plan keeps the value, at every index, for every n", _values,
            uses=("cotangents.chain", "sums.owner"), domain="any arithmetic",
        ),
        Obligation("reshards.compose", NAME, "A → B → C reads back as A → C", _composed, domain="any arithmetic"),
        Obligation(
            "reshards.executed", NAME, "A → B → C on two axes keeps the value, and sends what is said", check=_executed,
            basis=TESTED,
        ),
        Obligation(
            "reshards.triangle", NAME, "wire(A → C) ≤ wire(A → B) + wire(B → C) along an axis, for every n and payload",
            _triangle,
        ),
        Obligation(
            "reshards.cheapest", NAME, "no plan along an axis is cheaper than the direct move; plans concatenate",
            _cheapest,
            uses=("reshards.triangle",),
        ),
        Obligation(
            "reshards.gather_after_scatter", NAME, "AG ∘ RS = AR, at the same wire price", _scattered_and_gathered,
        ),
        Obligation(
            "reshards.transpose", NAME, "(A → B)ᵀ is CT B → CT A", _adjoint, _written_back,
            uses=("cotangents.pairing",),
        ),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "Reshards keep the value and compose. The wire price of the cheapest plan obeys the triangle inequality. An "
    "all-gather after a reduce-scatter is an all-reduce, at its wire price. The transpose of a reshard is the reshard "
    "back, between the cotangents' types.",
    "⟦A→B→C⟧ = ⟦A→C⟧;  w(A→C) ≤ w(A→B) + w(B→C);  AG ∘ RS = AR, w(AG) + w(RS) = w(AR);  (A→B)ᵀ = CT B → CT A",
    (
        (KEPT, "a reshard changes where an array lies, and nothing else"),
        (KEPT_AGAIN, "so does the second"),
        (BY_VALUES, "what the pairing of two families is depends on the values alone"),
        (SIZED, "an axis has at least one device"),
        (COUNTED, "bytes are not negative"),
    ),
    "proofs/reshards.md",
    obligations,
)
