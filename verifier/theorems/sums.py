"""Finite sums over as many devices as there are: what the theorems need of them, each by induction.

A sum is a function of the number of its terms, defined step by step: S(0) = 0, S(n+1) = S(n) + t(n). The solver is
given these two equations where it needs them, and never more of S. That what holds for 0, and for n+1 where it holds
for n, holds for every n, is assumed, as is all of induction: proofs/sums.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from verifier.proving.obligations import Obligation
from verifier.solver import INTEGERS, NUMBERS, And, Formula, Function, If, Integer, Integers, Query, Term
from verifier.solver import Number as number_named

Named: TypeAlias = "tuple[str, Formula]"
"""A hypothesis with its name."""

THEOREM: Final = "sums"


class Sum(NamedTuple):
    """The sum of the terms with the numbers 0 to n-1, as a function of n. Call it with n."""

    name: str
    of: Term
    term: Callable[[Term], Term]

    def __call__(self, count: Term) -> Term:
        """The sum of so many terms."""
        return self.of(count)

    @property
    def start(self) -> Named:
        """Of no terms it is 0."""
        return f"{self.name} of none is 0", self.of(0) == 0

    def step(self, count: Term) -> Named:
        """Of one term more it is as much more."""
        return f"{self.name} adds a term", self.of(count + 1) == self.of(count) + self.term(count)


def total(name: str, term: Callable[[Term], Term]) -> Sum:
    """The sum of these terms."""
    return Sum(name, Function(name, INTEGERS, NUMBERS), term)


def induction(
    name: str,
    sums: Sequence[Sum],
    claim: Callable[[Term], Formula],
    always: Sequence[Named] = (),
    beside: Callable[[Term], Sequence[Named]] = lambda count: (),
) -> tuple[Query, Query]:
    """That a claim holds for every n: the base and the step. always: hypotheses of both. beside: lemmas at n that the
    step may use."""
    count = Integer("n")
    base = Query(f"{name}.base", (*always, *(one.start for one in sums)), claim(0))
    known = (("n counts", count >= 0), *(one.step(count) for one in sums), *beside(count))
    return base, Query(f"{name}.step", (*always, *known, ("it holds for n", claim(count))), claim(count + 1))


def _scaled() -> Sequence[Query]:
    factor = number_named("c")
    terms = Function("a", INTEGERS, NUMBERS)
    plain, scaled = total("A", terms), total("CA", lambda d: factor * terms(d))
    return induction("scaled", (plain, scaled), lambda n: scaled(n) == factor * plain(n))


def _added() -> Sequence[Query]:
    first, second = Function("a", INTEGERS, NUMBERS), Function("b", INTEGERS, NUMBERS)
    sums = total("A", first), total("B", second), total("AB", lambda d: first(d) + second(d))
    return induction("added", sums, lambda n: sums[2](n) == sums[0](n) + sums[1](n))


def _same() -> Sequence[Query]:
    copy = number_named("x")
    copies = total("X", lambda d: copy)
    return induction("copies", (copies,), lambda n: copies(n) == n * copy)


def _exchanged() -> Sequence[Query]:
    """Σ_{i<n} Σ_{k<K} a(i,k) = Σ_{k<K} Σ_{i<n} a(i,k), by induction on n; the row that comes along is added on the
    right by `sums.added`, column by column, and of no rows all columns are 0."""
    width = Integer("K")
    row = Function("row", INTEGERS, NUMBERS)  # row(i) = Σ_k a(i, k)
    rows = total("rows first", row)
    columns = Function("columns first", INTEGERS, INTEGERS, NUMBERS)  # (n, K) -> Σ_{k<K} Σ_{i<n} a(i, k)
    entry = Function("a", INTEGERS, INTEGERS, NUMBERS)
    column = Function("column", INTEGERS, INTEGERS, NUMBERS)  # (n, k) -> Σ_{i<n} a(i, k)
    row_to = Function("row up to", INTEGERS, INTEGERS, NUMBERS)  # (n, K) -> Σ_{k<K} a(n, k)
    n = Integer("n")

    def defined(k: Term) -> tuple[Named, ...]:
        return (
            ("columns first adds a column", columns(n + 1, k + 1) == columns(n + 1, k) + column(n + 1, k)),
            ("columns first adds a shorter column", columns(n, k + 1) == columns(n, k) + column(n, k)),
            ("column adds an entry", column(n + 1, k) == column(n, k) + entry(n, k)),
            ("row adds an entry", row_to(n, k + 1) == row_to(n, k) + entry(n, k)),
        )

    def grows(k: Term) -> Formula:
        return columns(n + 1, k) == columns(n, k) + row_to(n, k)

    nothing = (columns(n, 0) == 0, columns(n + 1, 0) == 0, row_to(n, 0) == 0)
    return (
        Query("a row more, of no columns", (("sums of no columns are 0", And(*nothing)),), grows(0)),
        Query("a row more, of one column more", (*defined(width), ("it holds for K", grows(width))), grows(width + 1)),
        Query(
            "no rows, of one column more",
            (
                ("columns first adds a column", columns(0, width + 1) == columns(0, width) + column(0, width)),
                ("a column of no rows is 0", column(0, width) == 0),
                ("it holds for K", columns(0, width) == 0),
            ),
            columns(0, width + 1) == 0,
        ),
        Query("exchanged.base", (rows.start, ("no rows", columns(0, width) == 0)), rows(0) == columns(0, width)),
        Query(
            "exchanged.step",
            (
                rows.step(n),
                ("what a row is", row(n) == row_to(n, width)),
                ("a row more", grows(width)),
                ("it holds for n", rows(n) == columns(n, width)),
            ),
            rows(n + 1) == columns(n + 1, width),
        ),
    )


def _owned() -> Sequence[Query]:
    """Of terms that are 0 but for the owner's, the sum is the owner's."""
    owner, value = Integer("owner"), number_named("v")
    masked = total("masked", lambda d: If(d == owner, value, 0))
    return induction(
        "owned",
        (masked,),
        lambda n: masked(n) == If(And(owner >= 0, owner < n), value, 0),
    )


def _owner() -> Sequence[Query]:
    """The device in whose block an index is, is one: d·m + j = e·m + k with j, k < m makes d = e and j = k."""
    d, e, j, k, m = Integers("d e j k m")
    within = And(m > 0, j >= 0, j < m, k >= 0, k < m)
    return (
        Query(
            "owner",
            (("both are offsets in a block", within), ("both are the index", d * m + j == e * m + k)),
            And(d == e, j == k),
        ),
    )


def _split() -> Sequence[Query]:
    """Σ_{p<n·m} t(p) = Σ_{d<n} Σ_{j<m} t(d·m+j)."""
    m, d, j = Integers("m d j")
    term = Function("t", INTEGERS, NUMBERS)
    whole = Function("whole", INTEGERS, NUMBERS)
    block = Function("block", INTEGERS, INTEGERS, NUMBERS)
    blocks = total("blocks", lambda device: block(device, m))
    n = Integer("n")

    def inside(at: Term) -> Formula:
        return whole(d * m + at) == whole(d * m) + block(d, at)

    return (
        Query("block.base", (("a block of none is 0", block(d, 0) == 0),), whole(d * m + 0) == whole(d * m) + 0),
        Query(
            "block.step",
            (
                ("whole adds a term", whole(d * m + j + 1) == whole(d * m + j) + term(d * m + j)),
                ("block adds a term", block(d, j + 1) == block(d, j) + term(d * m + j)),
                ("it holds for j", inside(j)),
            ),
            whole(d * m + j + 1) == whole(d * m) + block(d, j + 1),
        ),
        Query("split.base", (blocks.start, ("whole of none is 0", whole(0) == 0)), blocks(0) == whole(0)),
        Query(
            "split.step",
            (
                blocks.step(n),
                ("a block more", whole(n * m + m) == whole(n * m) + block(n, m)),
                ("it holds for n", blocks(n) == whole(n * m)),
            ),
            blocks(n + 1) == whole((n + 1) * m),
        ),
    )


def obligations() -> tuple[Obligation, ...]:
    """The lemmas."""
    said = {
        "scaled": ("Σ_d c·a_d = c·Σ_d a_d", _scaled),
        "added": ("Σ_d (a_d + b_d) = Σ_d a_d + Σ_d b_d", _added),
        "copies": ("Σ_{d<n} x = n·x", _same),
        "exchanged": ("Σ_i Σ_k a(i,k) = Σ_k Σ_i a(i,k)", _exchanged),
        "owned": ("Σ_d [d = owner]·v = v", _owned),
        "owner": ("d·m + j = e·m + k, j and k below m: d = e and j = k", _owner),
        "split": ("Σ_{p < n·m} t(p) = Σ_{d < n} Σ_{j < m} t(d·m + j)", _split),
    }
    return tuple(Obligation(f"sums.{name}", THEOREM, text, queries) for name, (text, queries) in said.items())
