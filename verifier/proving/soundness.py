"""Soundness, read from declarations: one obligation for each judgment that Local allows (theorem `soundness`).

What a device computes of its own blocks, read back, is what the whole computes of what the operands read back as. On
the left the definition runs on blocks, at the size of a block; on the right on the whole. The sizes of the mesh axis,
of blocks and of all dims are unknown; a factor that is only passed along is of an uninterpreted sort, which stands for
any number of dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from calculus.elements import Fold
from calculus.linearity import KIND, PENDING
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.types import dtype_class
from verifier.proving import extended, magnitudes
from verifier.proving.blocks import of_judgment
from verifier.proving.declared import declared
from verifier.proving.judgments import Judgment, accepted
from verifier.proving.obligations import DEFINITION, PROPERTIES, Obligation
from verifier.proving.setting import BLOCK, COUNT, DEVICE, OWN, PIECES, Array, Setting, simple
from verifier.proving.terms import NeedsExtended, Pair, Value
from verifier.proving.tried import objection
from verifier.samples import Sample
from verifier.solver import (
    FALSE,
    And,
    Formula,
    IllSorted,
    Query,
    Term,
    decide,
)
from verifier.trials.cases import runs

_DEVICES: Final = (
    ("there are devices, and blocks have elements", And(COUNT >= 1, BLOCK >= 1)),
    ("d is a device", And(DEVICE >= 0, DEVICE < COUNT)),
    ("j is an element of its block", And(OWN >= 0, OWN < BLOCK)),
)


class Shown(NamedTuple):
    """What is to be proved of one judgment, and on what it rests. rounded: the dtypes that the kernel rounds to on its
    way, which counts as the identity."""

    queries: tuple[Query, ...]
    basis: str
    domain: str
    uses: tuple[str, ...]
    rounded: tuple[str, ...] = ()


def shown(primitive: Primitive, sample: Sample, number: int, judgment: Judgment) -> Shown:
    """The queries of one judgment. Floats are real numbers, unless a maximum is pending or a number is none. Where a
    kernel is made of functions of which nothing is known, and no proof is found by looking into it, its declared
    properties are assumed."""
    ordered = any(state in KIND for state in (*judgment.given, judgment.result))

    def made(extended: bool, finite: bool, blind: bool = False) -> tuple[Setting, Shown]:
        here = Setting(primitive, sample, number, judgment, extended, finite, blind)
        return here, _shown(here)

    def proved(found: Shown) -> bool:
        return all(decide(query).proved for query in found.queries)

    try:
        here, found = made(ordered, finite=False)
        if not any(state in PIECES for state in judgment.given):
            return found
        finite = False
        if here.terms.extended and here.seen and not proved(found):  # joins are claimed beside finite numbers
            finite = True
            here, found = made(ordered, finite)
        if here.opaque and here.seen and not proved(found):
            return made(ordered, finite, True)[1]
        return found
    except NeedsExtended:
        return made(True, True)[1]


def _shown(here: Setting) -> Shown:
    if here.cut is not None:
        queries, uses = _of_cut(here)
    elif any(state in PIECES for state in here.judgment.given):
        queries, uses = _of_pieces(here)
    else:
        arrays = [here.array(position, f"x{position}", False) for position in range(len(here.scheme.operands))]
        queries, uses = (
            _compared(here, here.computed(arrays, False), here.computed(arrays, False), "copies"),
            ("lemma.alike",),
        )
    named: dict[str, Formula] = {}
    for name, fact in here.terms.facts:
        named[name] = And(named[name], fact) if name in named else fact
    given = (*(_DEVICES if here.cut is not None else ()), *named.items())
    domain = "any arithmetic"
    if here.cut is None and any(state in PIECES for state in here.judgment.given):
        kind = dtype_class(here.dtype)
        domain = {"f": "reals", "c": "complex numbers", "b": "truth values"}.get(kind, "integers modulo 2^k")
        if here.terms.extended:
            domain = {"f": "extended reals with NaN", "b": "truth values"}.get(kind, "integers")
            domain += ", beside finite numbers" if here.finite else ""
    basis = DEFINITION if here.seen else PROPERTIES
    return Shown(
        tuple(query._replace(hypotheses=(*given, *query.hypotheses)) for query in queries),
        basis,
        domain,
        uses,
        tuple(dict.fromkeys(here.rounded)),
    )


def _compared(here: Setting, left: Value | Fold, right: Value | Fold, name: str) -> list[Query]:
    """Two elements are one; of folds, what is folded and what they start from."""
    if isinstance(left, Fold) != isinstance(right, Fold):
        return [Query(name, (), FALSE)]
    if not (isinstance(left, Fold) and isinstance(right, Fold)):
        return [Query(name, (), here.terms.same(left, right))]
    if (left.monoid, left.over) != (right.monoid, right.over) or here.cut in left.over:
        return [Query(f"{name}: all that is folded is on each device", (), FALSE)]
    found = [
        Query(
            f"{name}: each element that is folded",
            (),
            here.terms.same(_each(here, left, True), _each(here, right, False)),
        )
    ]
    if left.start is not None and right.start is not None:
        found.append(Query(f"{name}: what it starts from", (), here.terms.same(left.start, right.start)))
    return found


def _each(here: Setting, fold: Fold, local: bool) -> Value:
    """What is folded, at any index."""
    return fold.term(*(here.digit(factor, local, True, fold.sizes.get(factor)) for factor in fold.over))


def _of_cut(here: Setting) -> tuple[list[Query], tuple[str, ...]]:
    """Blocks: what a device computes at j is what the whole computes at d·m + j, or folds there."""
    count = range(len(here.scheme.operands))
    given, result = here.judgment.given, here.judgment.result
    whole = here.computed([here.array(position, f"x{position}", False) for position in count], False)
    local = here.computed([here.array(position, _named(here, position), True) for position in count], True)
    if isinstance(result, tuple):
        return _compared(here, local, whole, "an element of a block"), ("lemma.in-range", "sums.owner", "lemma.alike")
    if not (isinstance(local, Fold) and isinstance(whole, Fold) and here.cut in local.over):
        return [Query("what is cut is folded", (), FALSE)], ()
    if PENDING.get(local.monoid) != result or local.monoid != whole.monoid:
        return [Query("it is folded by what is pending", (), FALSE)], ()
    queries = [
        Query("each element that is folded", (), here.terms.same(_each(here, local, True), _each(here, whole, False)))
    ]
    if local.start is None:
        return queries, ("lemma.blocks", "lemma.in-range", "sums.owner")
    start = here.scheme.accumulator
    pending = start is not None and given[start] == result
    copies = start is not None and given[start] == "C" and result in KIND
    if not (pending or copies):
        return [Query("what it starts from counts once", (), FALSE)], ()
    return queries, ("lemma.blocks", "lemma.pieces", "lemma.in-range", "sums.owner")


def _named(here: Setting, position: int) -> str:
    """Copies are the whole; a piece is another array."""
    return f"x{position}" if here.judgment.given[position] not in PIECES else f"piece{position}"


def _of_pieces(here: Setting) -> tuple[list[Query], tuple[str, ...]]:
    """Pieces of two families: what the whole makes of both together is what comes of the one and of the other, which
    by induction holds for n."""
    given, result = here.judgment.given, here.judgment.result
    kind = PIECES[next(state for state in given if isinstance(state, str) and state in PIECES)]
    after = PIECES.get(result) if isinstance(result, str) else None
    if after is None:
        return [Query("pieces stay pending", (), FALSE)], ()
    both, one, other = (
        here.computed([_piece(here, position, which, kind) for position in range(len(given))], False)
        for which in ("both", "one", "other")
    )
    terms = here.terms
    properties = declared(here, kind, both, one, other)
    if not isinstance(both, Fold):
        goal = terms.same(both, terms.combine(after, one, other))
        return [Query("both together", properties, goal)], ("lemma.devices",)
    assert isinstance(one, Fold)
    assert isinstance(other, Fold)
    left, a, b = _each(here, both, False), _each(here, one, False), _each(here, other, False)
    if _alike(left, a) and _alike(a, b) and both.start is not None:
        rest = terms.function("what is folded", [], here.dtype)()
        facts: tuple[tuple[str, Formula], ...] = ()
        if terms.extended and dtype_class(here.dtype) == "f":
            facts = (("what is folded is finite", extended.is_finite(rest)),)
        made = [terms.combine(fold.monoid, fold.start, rest) for fold in (both, one, other)]
        return [Query("what it starts from", facts, terms.same(made[0], terms.combine(after, *made[1:])))], (
            "lemma.devices",
        )
    if both.monoid != after:
        return [Query("it is folded by what is pending", (), FALSE)], ()
    queries = [Query("each element that is folded", properties, terms.same(left, terms.combine(after, a, b)))]
    if both.start is not None:
        goal = terms.same(both.start, terms.combine(after, one.start, other.start))
        queries.append(Query("what it starts from", (), goal))
    return queries, ("lemma.folds", "lemma.devices")


def _alike(one: Value, other: Value) -> bool:
    if isinstance(one, Pair) or isinstance(other, Pair):
        return (
            isinstance(one, Pair) and isinstance(other, Pair) and all(a.eq(b) for a, b in zip(one, other, strict=True))
        )
    return bool(simple(one).eq(simple(other)))


def _piece(here: Setting, position: int, which: str, kind: str) -> Array:
    if here.judgment.given[position] not in PIECES:
        return here.array(position, f"x{position}", False)
    one, other = (here.array(position, f"{name}{position}", False, pending=True) for name in ("one", "other"))
    if which != "both":
        return one if which == "one" else other

    def read(*digits: Term) -> Value:
        return here.terms.combine(kind, one.read(*digits), other.read(*digits))

    return Array(read, one.factors, one.indices, one.of_factor)


def obligations(sample: Sample, primitive: Primitive | None = None, run: bool = False) -> list[Obligation]:
    """Every judgment of a sample call that Local allows. What rests on declared properties is run as well; with `run`,
    all, and at every magnitude: where nobody has held the definition against the kernel."""
    primitive = primitive or TABLE[sample.primitive]
    found = []
    results = len(primitive.scheme(sample.site).results)
    for number in range(results):
        for judgment in accepted(sample, number, primitive):
            part = f".{number}" if results > 1 else ""
            one = Obligation(
                f"soundness.{sample}{part}.{judgment}",
                "soundness",
                f"{sample.primitive} takes {judgment}, and reads back right",
                cells=judgment.cells,
            )
            found.append(judged(one, primitive, sample, number, judgment, run))
    return found


def judged(
    one: Obligation, primitive: Primitive, sample: Sample, number: int, judgment: Judgment, run: bool = False
) -> Obligation:
    """An obligation that is to show that a judgment is Local: with its queries, and on what they rest."""
    one = replace(one, blocks=partial(of_judgment, primitive, sample, number, judgment))
    try:
        made = shown(primitive, sample, number, judgment)
    except (IllSorted, TypeError, KeyError) as error:
        return replace(one, check=partial(_ill_sorted, str(error)))
    check, domain = None, made.domain
    if run and runs(sample):
        call = (primitive, sample, number, judgment, made.rounded)
        check = partial(magnitudes.refuted, *call)
        one = replace(one, blocks=partial(magnitudes.blocks, *call))
        if made.rounded:
            domain += f", rounding to {' and '.join(made.rounded)} taken as the identity"
    elif made.basis == PROPERTIES and runs(sample):
        check = partial(objection, primitive, sample, number, judgment)
    return replace(one, queries=partial(_queries, made), basis=made.basis, domain=domain, uses=made.uses, check=check)


def _ill_sorted(error: str) -> str:
    return f"its definition counts along a dim that its scheme only passes along, or has not ({error})"


def _queries(made: Shown) -> Sequence[Query]:
    return made.queries
