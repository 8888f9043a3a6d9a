"""Soundness, read from declarations: one obligation for each judgment that Local allows (theorem `soundness`).

What a device computes of its own blocks, read back, is what the whole computes of what the operands read back as. On
the left the definition runs on blocks, at the size of a block; on the right on the whole. The sizes of the mesh axis,
of blocks and of all dims are unknown; a factor that is only passed along is of an uninterpreted sort, which stands for
any number of dims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from calculus.elements import Call, Fold, NotDefined
from calculus.linearity import KIND, PENDING
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.schemes import Indices
from calculus.types import dtype_class
from verifier.proving import extended
from verifier.proving.judgments import Judgment, accepted, of_declaration
from verifier.proving.obligations import DEFINITION, PROPERTIES, Obligation
from verifier.proving.terms import NeedsExtended, Pair, Terms, Value
from verifier.proving.tracing import traced
from verifier.proving.tried import objection
from verifier.samples import Sample
from verifier.solver import (
    FALSE,
    INTEGERS,
    And,
    Formula,
    Function,
    IllSorted,
    Implies,
    Integer,
    Not,
    Query,
    Sort,
    Term,
    decide,
    integer,
    is_term,
    simplified,
)
from verifier.trials.cases import runs

_COUNT, _BLOCK, _DEVICE, _OWN = (Integer(name) for name in ("n", "m", "d", "j"))
_DEVICES: Final = (
    ("there are devices, and blocks have elements", And(_COUNT >= 1, _BLOCK >= 1)),
    ("d is a device", And(_DEVICE >= 0, _DEVICE < _COUNT)),
    ("j is an element of its block", And(_OWN >= 0, _OWN < _BLOCK)),
)
_PIECES: Final = {"U": "sum", **KIND}


class _Array:
    """An operand as a function of digits. view: the whole, or what one device holds of it."""

    def __init__(self, read: Callable[..., Value], factors: Sequence[int], indices: Indices, size: Any) -> None:
        self.read, self.factors, self.indices, self._size = read, factors, indices, size

    def __call__(self, digits: Mapping[int, Any]) -> Value:
        return self.read(*(_term(digits[factor]) for factor in self.factors))

    def size(self, dim: int) -> Any:
        found: Any = 1
        for factor in self.indices[dim]:
            found = self._size(factor) if isinstance(found, int) and found == 1 else found * self._size(factor)
        return found


def _term(digit: Any) -> Term:
    return digit if is_term(digit) else integer(int(digit))


class Setting:
    """One judgment of one call, in terms. Raises `NeedsExtended` where a number is no real number. blind: the kernel
    is not looked into, as it is made of functions of which nothing is known."""

    def __init__(
        self,
        primitive: Primitive,
        sample: Sample,
        number: int,
        judgment: Judgment,
        extended: bool,
        finite: bool,
        blind: bool = False,
    ) -> None:
        self.primitive, self.sample, self.number, self.judgment = primitive, sample, number, judgment
        self.scheme, self.q = of_declaration(primitive, sample, number)
        self.dtype = primitive.dtypes(sample.site)[number]
        self.terms = Terms(extended)
        self.finite = finite
        self.cut = judgment.cut
        self.opaque: list[str] = []
        self.blind, self.seen = blind, True
        self.sorts = [self._sort(factor) for factor in range(len(self.scheme.sizes))]
        self.results = [factor for dim in self.scheme.results[number] for factor in dim]

    def _sort(self, factor: int) -> Any:
        """A factor that is only passed along may stand for any number of dims."""
        counted = factor == self.cut or factor in self.scheme.roles or self.scheme.sizes[factor] == 1
        return INTEGERS if counted else Sort(f"place{factor}")

    def size(self, factor: int, local: bool) -> Any:
        """The size of a factor, of a block or of the whole."""
        if factor == self.cut:
            return _BLOCK if local else _COUNT * _BLOCK
        if self.scheme.sizes[factor] == 1:
            return 1
        name = f"size{factor}"

        def make() -> Term:
            self.terms.facts.append((f"{name} is a size", Integer(name) >= 1))
            return Integer(name)

        return self.terms.known(("size", factor), make)

    def digit(self, factor: int, local: bool, over: bool = False, size: Any = None) -> Term:
        """The index of the element that is asked for, or of one that is folded. size: of what is no factor."""
        if factor == self.cut:
            return _OWN if local else _DEVICE * _BLOCK + _OWN
        name = f"{'k' if over else 'i'}{factor}"

        def make() -> Term:
            sort = INTEGERS if size is not None else self.sorts[factor]
            found = Function(name, sort)()
            if sort == INTEGERS:
                within = And(found >= 0, found < (self.size(factor, local) if size is None else size))
                self.terms.facts.append((f"{name} is an index", within))
            return found

        return self.terms.known(("digit", factor, over), make)

    def array(self, position: int, name: str, local: bool) -> _Array:
        """An operand whose elements nobody knows. A device with a block of it reads its own, and anything outside."""
        indices = self.scheme.operands[position]
        factors = [factor for dim in indices for factor in dim]
        dtype = self.sample.operands[position].dtype
        sorts = [self.sorts[factor] for factor in factors]
        whole = self.terms.function(name, sorts, dtype)
        if not local or self.cut not in factors:
            read = whole
        else:
            outside = self.terms.function(f"{name} outside", sorts, dtype)
            at = factors.index(self.cut)

            def read(*digits: Term) -> Value:
                own = digits[at]
                moved = (*digits[:at], _DEVICE * _BLOCK + own, *digits[at + 1 :])
                if own.eq(_OWN):
                    return whole(*moved)
                return self.terms.where(And(own >= 0, own < _BLOCK), whole(*moved), outside(*digits))

        if self.finite and self.terms.extended and dtype_class(dtype) == "f":
            read = partial(self._finite, read)
        return _Array(read, factors, indices, partial(self.size, local=local))

    def _finite(self, read: Callable[..., Value], *digits: Term) -> Value:
        found = read(*digits)
        self.terms.facts.append((f"{found} is finite", extended.is_finite(found)))
        return found

    def computed(self, arrays: Sequence[Any], local: bool) -> Value | Fold:
        """The element of the result, as the definition says."""
        digits = {factor: self.digit(factor, local) for factor in self.results}
        sizes = {factor: self.size(factor, local) for factor in range(len(self.scheme.sizes))}
        call = Call(self.sample.site, self.scheme, tuple(arrays), digits, sizes, self.dtype, self.number)
        primitive = self.primitive
        if primitive.element is not None:
            try:
                return primitive.element(self.terms, call)
            except NotDefined:
                return self._opaque(arrays, digits, local)
        has = {factor for array in arrays for factor in array.factors}
        if not self.scheme.roles and has <= set(self.results) and len(set(self.scheme.results)) == 1:
            seen = replace(primitive, kernel=None) if self.blind else primitive
            found = traced(self.terms, seen, self.sample.site, [array(digits) for array in arrays], self.dtype,
                           self.number)  # fmt: skip
            self.opaque += found.looked
            self.seen = self.seen and found.seen
            return found.value
        return self._opaque(arrays, digits, local)

    def _opaque(self, arrays: Sequence[Any], digits: Mapping[int, Any], local: bool) -> Value:
        """Some function of what lies along the dims that it looks along, for each index along the others."""
        self.opaque.append(self.primitive.name)
        self.seen = False
        looked = {factor: Integer(f"along{factor}") for factor in self.scheme.roles}
        own = [digits[factor] for factor in self.results if self.scheme.roles.get(factor)]
        arguments = []
        for position, array in enumerate(arrays):
            if position not in self.q.signature.unseen:
                at = {factor: looked.get(factor, digits.get(factor)) for factor in array.factors}
                missing = [factor for factor, digit in at.items() if digit is None]
                at |= {factor: Integer(f"along{factor}") for factor in missing}
                arguments.append(array(at))
        keep = [_simple(part) for one in arguments for part in (one if isinstance(one, Pair) else (one,))]
        sizes = tuple(str(simplified(_term(self.size(factor, local)))) for factor in sorted(self.scheme.roles))
        self.terms.known(("kept", len(self.opaque), local), lambda: keep)
        name = self.terms.known(
            ("opaque", tuple(part.get_id() for part in keep), sizes),
            lambda: f"{self.primitive.name} of these {len(self.opaque)}",
        )
        return self.terms.opaque(name, own, self.dtype) if own else self.terms.function(name, [], self.dtype)()


def _simple(term: Term) -> Term:
    return simplified(term, som=True)


class Shown(NamedTuple):
    """What is to be proved of one judgment, and on what it rests."""

    queries: tuple[Query, ...]
    basis: str
    domain: str
    uses: tuple[str, ...]


def shown(primitive: Primitive, sample: Sample, number: int, judgment: Judgment) -> Shown:
    """The queries of one judgment. Floats are real numbers, unless a maximum is pending or a number is none. Where a
    kernel is made of functions of which nothing is known, and no proof is found by looking into it, its declared
    properties are assumed."""
    ordered = any(state in KIND for state in (*judgment.given, judgment.result))

    def made(extended: bool, finite: bool, blind: bool = False) -> tuple[Setting, Shown]:
        here = Setting(primitive, sample, number, judgment, extended, finite, blind)
        return here, _shown(here)

    try:
        here, found = made(ordered, ordered and not _choice(primitive))
        unclear = here.opaque and here.seen and any(state in _PIECES for state in judgment.given)
        if unclear and not all(decide(query).proved for query in found.queries):
            return made(ordered, ordered and not _choice(primitive), True)[1]
        return found
    except NeedsExtended:
        return made(True, True)[1]


def _choice(primitive: Primitive) -> bool:
    """Whether elements are moved or chosen: beside sums, other operands are finite (proofs/signatures.md)."""
    return primitive.name not in ("add", "add_any", "sub", "scatter-add", "scatter-sub")


def _shown(here: Setting) -> Shown:
    if here.cut is not None:
        queries, uses = _of_cut(here)
    elif any(state in _PIECES for state in here.judgment.given):
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
    if here.cut is None and any(state in _PIECES for state in here.judgment.given):
        kind = dtype_class(here.dtype)
        domain = {"f": "reals", "c": "complex numbers", "b": "truth values"}.get(kind, "integers modulo 2^k")
        if here.terms.extended:
            domain = {"f": "extended reals with NaN", "b": "truth values"}.get(kind, "integers")
    basis = DEFINITION if here.seen else PROPERTIES
    return Shown(
        tuple(query._replace(hypotheses=(*given, *query.hypotheses)) for query in queries), basis, domain, uses
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
        return _compared(here, local, whole, "an element of a block"), ("lemma.in-range", "lemma.alike")
    if not (isinstance(local, Fold) and isinstance(whole, Fold) and here.cut in local.over):
        return [Query("what is cut is folded", (), FALSE)], ()
    if PENDING.get(local.monoid) != result or local.monoid != whole.monoid:
        return [Query("it is folded by what is pending", (), FALSE)], ()
    queries = [
        Query("each element that is folded", (), here.terms.same(_each(here, local, True), _each(here, whole, False)))
    ]
    if local.start is None:
        return queries, ("lemma.blocks", "lemma.in-range")
    start = here.scheme.accumulator
    pending = start is not None and given[start] == result
    copies = start is not None and given[start] == "C" and result in KIND
    if not (pending or copies):
        return [Query("what it starts from counts once", (), FALSE)], ()
    return queries, ("lemma.blocks", "lemma.pieces", "lemma.in-range")


def _named(here: Setting, position: int) -> str:
    """Copies are the whole; a piece is another array."""
    return f"x{position}" if here.judgment.given[position] not in _PIECES else f"piece{position}"


def _of_pieces(here: Setting) -> tuple[list[Query], tuple[str, ...]]:
    """Pieces of two families: what the whole makes of both together is what comes of the one and of the other, which
    by induction holds for n."""
    given, result = here.judgment.given, here.judgment.result
    kind = _PIECES[next(state for state in given if isinstance(state, str) and state in _PIECES)]
    after = _PIECES.get(result) if isinstance(result, str) else None
    if after is None:
        return [Query("pieces stay pending", (), FALSE)], ()
    both, one, other = (
        here.computed([_piece(here, position, which, kind) for position in range(len(given))], False)
        for which in ("both", "one", "other")
    )
    terms = here.terms
    properties = _declared(here, kind, both, one, other)
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
    return bool(_simple(one).eq(_simple(other)))


def _piece(here: Setting, position: int, which: str, kind: str) -> _Array:
    if here.judgment.given[position] not in _PIECES:
        return here.array(position, f"x{position}", False)
    here_finite, here.finite = here.finite, False
    one, other = (here.array(position, f"{name}{position}", False) for name in ("one", "other"))
    here.finite = here_finite
    if which != "both":
        return one if which == "one" else other

    def read(*digits: Term) -> Value:
        return here.terms.combine(kind, one.read(*digits), other.read(*digits))

    return _Array(read, one.factors, one.indices, one._size)


def _declared(here: Setting, kind: str, both: Any, one: Any, other: Any) -> tuple[tuple[str, Formula], ...]:
    """Of a kernel that is opaque, what its declaration says of it: that it is additive, or that it is monotone."""
    name = here.primitive.name
    if here.seen or isinstance(both, Fold):
        return ()
    terms = here.terms
    if kind == "sum":
        return ((f"{name} is additive in its linear operands", terms.same(both, terms.combine("sum", one, other))),)
    pending = [position for position, state in enumerate(here.judgment.given) if state in _PIECES]
    joins = [join for join in here.q.signature.joins if set(pending) <= set(join.operands) and kind in join.kinds]
    if not here.scheme.elementwise or len(pending) != 1 or not joins:
        return ((f"{name} commutes with {kind}", terms.same(both, terms.combine(_other(here), one, other))),)
    digits = {factor: here.digit(factor, False) for factor in here.results}
    x, y = (here.array(pending[0], f"{which}{pending[0]}", False)(digits) for which in ("one", "other"))
    total = any(len(join.kinds) == 2 for join in joins)
    antitone = any(join.antitone for join in joins)
    return tuple(_monotone(here, kind, x, y, one, other, total, antitone, name))


def _other(here: Setting) -> str:
    return _PIECES[str(here.judgment.result)]


def _monotone(
    here: Setting, kind: str, x: Term, y: Term, one: Term, other: Term, total: bool, antitone: bool, name: str
) -> Any:
    """f of x and of y keep the order of x and y, or turn it; NaN is kept. Where it is not total, f is NaN on the side
    of a point that the extreme is on."""
    low, high = (other, one) if antitone else (one, other)
    yield (
        f"{name} {'turns' if antitone else 'keeps'} the order",
        And(
            Implies(And(_below(x, y), *_numbers(one, other)), _below(low, high)),
            Implies(And(_below(y, x), *_numbers(one, other)), _below(high, low)),
            Implies(x == y, one == other),
        ),
    )
    if x.sort() != extended.sort() or one.sort() != extended.sort():
        return
    nan = extended.is_nan
    yield f"{name} of NaN is NaN", And(Implies(nan(x), nan(one)), Implies(nan(y), nan(other)))
    if total:
        yield f"{name} of a number is one", And(Implies(nan(one), nan(x)), Implies(nan(other), nan(y)))
    else:
        # what is NaN at one place is NaN everywhere on that side of it
        first, second = (x, y) if kind == "min" else (y, x)
        f, g = (one, other) if kind == "min" else (other, one)
        yield (
            f"{name} is NaN on one side of a point",
            And(
                Implies(And(_below(first, second), nan(g)), nan(f)), Implies(And(_below(second, first), nan(f)), nan(g))
            ),
        )


def _numbers(*terms: Term) -> list[Formula]:
    return [Not(extended.is_nan(one)) for one in terms if one.sort() == extended.sort()]


def _below(x: Term, y: Term) -> Formula:
    if x.sort() == extended.sort():
        return extended.below(x, y)
    return Implies(x, y) if str(x.sort()) == "Bool" else x <= y


def obligations(sample: Sample, primitive: Primitive | None = None) -> list[Obligation]:
    """Every judgment of a sample call that Local allows. What rests on declared properties is run as well."""
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
            try:
                made = shown(primitive, sample, number, judgment)
            except (IllSorted, TypeError) as error:
                found.append(replace(one, check=partial(_ill_sorted, str(error))))
                continue
            check = None
            if made.basis == PROPERTIES and runs(sample):
                check = partial(objection, primitive, sample, number, judgment)
            found.append(
                replace(
                    one,
                    queries=partial(_queries, made),
                    basis=made.basis,
                    domain=made.domain,
                    uses=made.uses,
                    check=check,
                )
            )
    return found


def _ill_sorted(error: str) -> str:
    return f"its definition counts along a dim that its scheme only passes along ({error})"


def _queries(made: Shown) -> Sequence[Query]:
    return made.queries
