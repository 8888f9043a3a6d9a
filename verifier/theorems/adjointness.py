"""Theorem 4, adjointness: ⟨f x, y⟩ = ⟨x, fᵀ y⟩ for every linear primitive and form.

The pairing of two families is what the states say: a copy that is replicated counts once, everything else is a sum over
devices of each one's own. Casts and collectives are proved for every number of devices; contractions and elementwise
functions from their scheme. Transposes that somebody wrote into a declaration are run, on whole numbers, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from calculus.collectives import COLLECTIVES
from calculus.cotangents import cotangent_state
from verifier.proving.obligations import BOUNDED, PROPERTIES, TESTED, Obligation
from verifier.solver import (
    INTEGERS,
    NUMBERS,
    TRUTHS,
    And,
    Formula,
    Function,
    If,
    Implies,
    Integers,
    Numbers,
    Query,
    Term,
)
from verifier.theorems.sums import Named, Sum, induction, total
from verifier.theorems.theorem import Theorem

NAME: Final = "adjointness"
SUMMED: Final = "a reduction adds up what devices hold"
COPIED: Final = "a cast gives each device the copy"
TURNED: Final = "the transpose exchanges the two ends of each arrow"


def casts() -> list[str]:
    """The casts and reductions: rows that move no dim and have a transpose."""
    moving = {name for name, row in COLLECTIVES.items() if row.move or row.axes == "axis_name"}
    return [name for name, row in COLLECTIVES.items() if row.transpose and name not in moving]


def _is_copy(state: str) -> bool:
    return state in ("N", "R")


def _cast(name: str) -> Sequence[Query]:
    """One entry of an array, at an index that is arbitrary. x is in the row's first state, y in the cotangent's state
    of its second. Of a copy there is one number, of everything else one on each device."""
    row = COLLECTIVES[name]
    back = COLLECTIVES[row.transpose]
    after = str(cotangent_state(row.after))
    x, y = (Function(letter, INTEGERS, NUMBERS) for letter in "xy")
    copy_x, copy_y = Numbers("x y")

    def at(function: Term, copy: Term, state: str) -> Sum:
        """A family, and the sum of it."""
        return total(f"Σ{copy}", lambda d: copy if _is_copy(state) else function(d))

    held_x, held_y = at(x, copy_x, row.before), at(y, copy_y, after)
    paired = total("Σ⟨x, y⟩", lambda d: held_x.term(d) * held_y.term(d))

    def side(state: str, reduced: bool, one: Sum, copy: Term, other: Term) -> Term:
        """The pairing in a state, of a value that has been moved there and one that was there. Replicated, it is the
        product of two copies, of which the one that was moved there is a sum where it was reduced."""
        if state != "N":
            return paired
        return lambda n: (one(n) if reduced else copy) * other

    left = side(row.after, bool(row.kind), held_x, copy_x, copy_y)
    right = side(row.before, bool(back.kind), held_y, copy_y, copy_x)
    return induction(f"⟨{name} x, y⟩ = ⟨x, {row.transpose} y⟩", (held_x, held_y, paired), lambda n: left(n) == right(n))


def _turned(left: Term, right: Term) -> Query:
    """Both sides are one sum over pairs of entries, added up by rows and by columns."""
    by_rows, by_columns = Numbers("by_rows by_columns")
    given = (
        ("y comes in, in each row", left == by_rows),
        (TURNED, by_rows == by_columns),
        ("x comes out, in each column", right == by_columns),
    )
    return Query("⟨f x, y⟩ = ⟨x, fᵀ y⟩", given, left == right)


def _contraction() -> Sequence[Query]:
    """(f x)[b, o] = Σ_c x[b, c]·w[b, o, c], w being the product of all other operands, summed over what neither x nor
    the result has. The scheme with the index lists of x and the result exchanged computes Σ_o y[b, o]·w[b, o, c].
    Here b is fixed, and so are o in a row and c in a column."""
    one_x, one_y, left, right = Numbers("x[c] y[o] ⟨fx,y⟩ ⟨x,fᵀy⟩")
    weights, x, y = (Function(name, INTEGERS, NUMBERS) for name in ("w", "x", "y"))
    forward, row = total("Σ_c x·w", lambda c: x(c) * weights(c)), total("row", lambda c: one_y * x(c) * weights(c))
    back, column = total("Σ_o y·w", lambda o: y(o) * weights(o)), total("column", lambda o: y(o) * one_x * weights(o))
    return (
        *induction("y comes in", (forward, row), lambda n: row(n) == one_y * forward(n)),
        *induction("x comes out", (back, column), lambda n: column(n) == one_x * back(n)),
        _turned(left, right),
    )


def _on_two() -> Query:
    """A dot product of two entries, cut over two devices: each computes its product, pending. Its transpose in x gives
    each device its entry of y·w, y being a copy on both."""
    x, w, back = Numbers("x[0] x[1]"), Numbers("w[0] w[1]"), Numbers("fᵀy[0] fᵀy[1]")
    y, left, right = Numbers("y ⟨fx,y⟩ ⟨x,fᵀy⟩")
    given = (
        (SUMMED, left == (x[0] * w[0] + x[1] * w[1]) * y),
        (COPIED, And(back[0] == y * w[0], back[1] == y * w[1])),
        ("blocks are paired one by one", right == x[0] * back[0] + x[1] * back[1]),
    )
    return Query("a dot product over two devices", given, left == right)


def _elementwise() -> Sequence[Query]:
    """An elementwise function that is linear multiplies each entry by a number: a matrix that is its own transpose."""
    x, y, factor = (Function(name, INTEGERS, NUMBERS) for name in ("x", "y", "a"))
    left = total("⟨a·x, y⟩", lambda p: factor(p) * x(p) * y(p))
    right = total("⟨x, a·y⟩", lambda p: x(p) * (factor(p) * y(p)))
    return induction("⟨a·x, y⟩ = ⟨x, a·y⟩", (left, right), lambda n: left(n) == right(n))


def _moves() -> Sequence[Query]:
    """A collective that moves dims adds entries of its operand to entries of its result. An *arrow* goes from an entry
    on device e to one on device d. The transpose's arrows are the same ones, turned."""
    d, e, i, j, k, m, q, r, row, column = Integers("d e i j k m q r row column")
    to, source = Function("to", INTEGERS, INTEGERS), Function("from", INTEGERS, INTEGERS)
    other_q, other_r = Integers("q′ r′")
    rows: Named = ("the row is a block and an offset", And(m > 0, r >= 0, r < m, row == q * m + r))
    columns: Named = (
        "the column is a block and an offset",
        And(k > 0, other_r >= 0, other_r < k, column == other_q * k + other_r),
    )
    inside: Named = ("i and j are offsets", And(i >= 0, i < m, j >= 0, j < k))
    within: Named = ("i is an offset", And(i >= 0, i < m))
    owner = ("sums.owner", Implies(q * m + r == d * m + i, And(q == d, r == i)))
    of_row = ("sums.owner", Implies(q * m + r == e * m + i, And(q == e, r == i)))
    of_column = ("sums.owner, of columns", Implies(other_q * k + other_r == d * k + j, And(other_q == d, other_r == j)))
    there = ("where a block goes", Implies(to(e) == d, source(d) == e))
    again = ("where it comes from", Implies(source(d) == e, to(e) == d))
    return (
        Query("all-gather ↔ reduce-scatter", (rows, within, owner), And(q == d, r == i) == (row == d * m + i)),
        Query(
            "all-to-all ↔ all-to-all",
            (rows, columns, inside, of_row, of_column),
            And(q == e, r == i, column == d * k + j) == And(other_q == d, other_r == j, row == e * m + i),
        ),
        Query("permute ↔ its inverse", (there, again), (to(e) == d) == (source(d) == e)),
    )


def _matrix() -> Sequence[Query]:
    """(M x)_p = Σ_q M(p, q)·x_q, entries of all devices counted through, M(p, q) arrows going from q to p."""
    matrix = Function("M", INTEGERS, INTEGERS, NUMBERS)
    x, y = (Function(name, INTEGERS, NUMBERS) for name in "xy")
    p, q = Integers("p q")
    left, right = Numbers("⟨Mx,y⟩ ⟨x,Mᵀy⟩")
    image, back = total("(M x)_p", lambda k: matrix(p, k) * x(k)), total("(Mᵀ y)_q", lambda k: matrix(k, q) * y(k))
    row = total("row", lambda k: matrix(p, k) * x(k) * y(p))
    column = total("column", lambda k: matrix(k, q) * x(q) * y(k))
    return (
        *induction("a row", (image, row), lambda n: row(n) == image(n) * y(p)),
        *induction("a column", (back, column), lambda n: column(n) == x(q) * back(n)),
        _turned(left, right),
    )


def _same_terms() -> Sequence[Query]:
    """Sums of terms that are equal one by one are equal: what takes a lemma about a row to all rows."""
    first, second = (Function(name, INTEGERS, NUMBERS) for name in "ab")
    sums = total("A", first), total("B", second)
    return induction(
        "equal terms",
        sums,
        lambda n: sums[0](n) == sums[1](n),
        beside=lambda n: (("the terms are equal", first(n) == second(n)),),
    )


def _places() -> Sequence[Query]:
    """Each entry p of the result is the operand's at h(p), if p reads at all; the adjoint adds y_p at h(p). That is a
    matrix with one 1 in each row, and the turned one."""
    reads, place = Function("reads", INTEGERS, TRUTHS), Function("h", INTEGERS, INTEGERS)
    x, y = (Function(name, INTEGERS, NUMBERS) for name in "xy")
    p, q = Integers("p q")
    row = total("Σ_q M(p,q)·x_q", lambda k: If(And(reads(p), place(p) == k), 1, 0) * x(k))
    column = total("Σ_p M(p,q)·y_p", lambda k: If(And(reads(k), place(k) == q), 1, 0) * y(k))
    added = total("what is added at q", lambda k: If(And(reads(k), place(k) == q), y(k), 0))

    def below(count: Term) -> Formula:
        return And(reads(p), place(p) >= 0, place(p) < count)

    return (
        *induction("what is read", (row,), lambda n: row(n) == If(below(n), x(place(p)), 0)),
        *induction("what is added", (column, added), lambda n: column(n) == added(n)),
    )


def _solved() -> Sequence[Query]:
    """A x = b and Aᵀ z = y: ⟨x, y⟩ = ⟨x, Aᵀ z⟩ = ⟨A x, z⟩ = ⟨b, z⟩."""
    xy, bz, xaz, axz = Numbers("⟨x,y⟩ ⟨b,z⟩ ⟨x,Aᵀz⟩ ⟨Ax,z⟩")
    given = (
        ("x solves A x = b", axz == bz),
        ("z solves Aᵀ z = y", xaz == xy),
        ("adjointness.matrix", axz == xaz),
    )
    return (Query("⟨A⁻¹ b, y⟩ = ⟨b, A⁻ᵀ y⟩", given, xy == bz),)


_SOLVES: Final = "it solves a linear system, and its adjoint the turned one"
_READS: Final = "entries are read, or added, at places that indices say, and the adjoint adds, or reads, there"
_SUMS: Final = "it sums products of an entry of one operand and an entry of the other, and the adjoint the same ones"
_KNOWN: Final[dict[str, tuple[str, str, Callable[[], Sequence[Query]]]]] = {
    "conv_general_dilated": (_SUMS, "adjointness.contraction", _contraction),
    "dynamic_slice": (_READS, "adjointness.matrix", _places),
    "dynamic_update_slice": (_READS, "adjointness.matrix", _places),
    "fft": (
        "its matrix is that of a Fourier transform, and its adjoint's the turned one",
        "adjointness.matrix",
        _matrix,
    ),
    "gather": (_READS, "adjointness.matrix", _places),
    "ormqr": (
        "it multiplies by a product of reflections, and its adjoint by the turned one",
        "adjointness.matrix",
        _matrix,
    ),
    "ragged_dot_general": (_SUMS, "adjointness.contraction", _contraction),
    "scatter": (_READS, "adjointness.matrix", _places),
    "scatter-add": (_READS, "adjointness.matrix", _places),
    "scatter-mul": (
        "it multiplies each entry by a number that does not depend on it",
        "adjointness.elementwise",
        _elementwise,
    ),
    "scatter-sub": (_READS, "adjointness.matrix", _places),
    "select_and_gather_add": (_READS, "adjointness.matrix", _places),
    "select_and_scatter_add": (_READS, "adjointness.matrix", _places),
    "triangular_solve": (_SOLVES, "adjointness.matrix", _solved),
    "tridiagonal_solve": (_SOLVES, "adjointness.matrix", _solved),
}
"""What is known of primitives whose written transposes read more than what they are linear in: a property, which runs
on whole numbers test, and the lemma that makes the transpose of it."""


def _runs(name: str) -> str:
    """The transposes of a primitive's sample calls."""
    from verifier.theorems.transposes import disagreement, linear_samples

    return next(filter(None, map(disagreement, linear_samples()[name])), "")


def _entries(name: str) -> str:
    """The matrices of a primitive's sample calls, and of their transposes."""
    from verifier.theorems.transposes import entries_disagree, linear_samples

    return next(filter(None, map(entries_disagree, linear_samples()[name])), "")


def _turned_rows() -> str:
    from verifier.theorems.rows import not_adjoint

    return not_adjoint()


def _programs() -> str:
    """Programs that are drawn, with calls, loops, branches, boundaries, reshards and collectives: their linear programs
    and the transposes of these, on devices that hold blocks, copies and pieces."""
    from verifier.theorems.programs import SEEDS, backward, disagreement

    compared = 0
    for seed in SEEDS:
        one = backward(seed)
        if one.refused:
            continue
        wrong, finite = disagreement(one, seed)
        if wrong:
            return wrong
        compared += finite
    return "" if compared > len(SEEDS) // 2 else f"only {compared} of {len(SEEDS)} drawn programs could be compared"


_DERIVED: Final[dict[str, tuple[str, str, Callable[[], Sequence[Query]]]]] = {
    "contraction": ("adjointness.contraction", "its index lists are exchanged", _contraction),
    "elementwise": ("adjointness.elementwise", "it is its own transpose, entry by entry", _elementwise),
    "reshape": ("adjointness.matrix", "its entries keep their order, back and forth", _matrix),
}


def _of(name: str) -> Obligation:
    from verifier.theorems.transposes import ALONE, linear_samples, structural

    how = sorted({structural(sample) for sample in linear_samples()[name]})
    if "" not in how:
        lemmas, says, asked = zip(*(_DERIVED[one] for one in how), strict=True)
        return Obligation(
            f"adjointness.of.{name}", NAME, f"{name}: {', or '.join(says)}",
            lambda: [query for one in asked for query in one()], partial(_runs, name), uses=lemmas,
        )  # fmt: skip
    if name in ALONE:
        return Obligation(
            f"adjointness.of.{name}", NAME, f"{name}: the transpose that is written has the matrix, turned",
            check=partial(_entries, name), basis=BOUNDED, bound="every entry, at the shapes of its sample calls",
            uses=("adjointness.matrix",),
        )  # fmt: skip
    if name in _KNOWN:
        property_, lemma, known = _KNOWN[name]
        return Obligation(
            f"adjointness.of.{name}", NAME, f"{name}: {property_}", known, partial(_runs, name), PROPERTIES,
            uses=(lemma,),
        )  # fmt: skip
    return Obligation(
        f"adjointness.of.{name}", NAME, f"{name}: the transpose that is written, on whole numbers",
        check=partial(_runs, name), basis=TESTED,
    )  # fmt: skip


def obligations() -> tuple[Obligation, ...]:
    """What is checked: casts and collectives, the schemes, and each linear primitive of the table."""
    from verifier.theorems.transposes import linear_samples

    rows = [
        Obligation(
            f"adjointness.{name}", NAME, f"⟨{name} x, y⟩ = ⟨x, {COLLECTIVES[name].transpose} y⟩, for every n",
            partial(_cast, name),
        )
        for name in casts()
    ]  # fmt: skip
    return (
        *rows,
        Obligation("adjointness.same_terms", NAME, "t = t' in every term ⟹ Σ t = Σ t'", _same_terms),
        Obligation(
            "adjointness.matrix", NAME, "⟨M x, y⟩ = ⟨x, Mᵀ y⟩, M from and to the entries of all devices",
            _matrix, uses=("sums.scaled", "sums.exchanged", "adjointness.same_terms"),
        ),
        Obligation(
            "adjointness.moves", NAME, "arrows of gathers, exchanges, permutes are their transposes', turned", _moves,
            uses=("adjointness.matrix", "sums.owner", "sums.split"),
        ),
        Obligation(
            "adjointness.contraction", NAME, "⟨Σ_c x·w, y⟩ = ⟨x, Σ_o y·w⟩: two index lists are exchanged",
            lambda: (*_contraction(), _on_two()), uses=("sums.scaled", "sums.exchanged", "adjointness.same_terms"),
        ),
        Obligation("adjointness.elementwise", NAME, "⟨a·x, y⟩ = ⟨x, a·y⟩, entry by entry", _elementwise),
        Obligation(
            "adjointness.rows", NAME, "the matrix between values of each row is that of its transpose, turned",
            check=_turned_rows, basis=BOUNDED, bound="two and three devices", uses=("modes.rows",),
        ),
        Obligation(
            "adjointness.programs", NAME, "⟨L t, c⟩ = ⟨t, Lᵀ c⟩ for the linear programs of drawn programs, on devices",
            check=_programs, basis=TESTED,
        ),
        *map(_of, linear_samples()),
    )  # fmt: skip


THEOREM: Final = Theorem(
    NAME,
    "Every linear primitive, cast and collective and its transpose are adjoint, in the pairing that the states define "
    "on families of blocks: replicated with replicated counts once, and all else is added up over devices.",
    "⟨f x, y⟩ = ⟨x, fᵀ y⟩;  ⟨x, y⟩ = x·y for N, N, and Σ_d ⟨x_d, y_d⟩ for (S, S), (R, U), (U, R), (V, V)",
    (
        (SUMMED, "what is pending is the sum of what devices hold"),
        (COPIED, "what is a copy is the same on every device"),
        (TURNED, "a sum over pairs can be added up by rows or by columns"),
    ),
    "proofs/adjointness.md",
    obligations,
)
