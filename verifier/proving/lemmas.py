"""Lemmas about families of devices and about folds, for every number of devices and every size. Each is an induction:
what is claimed of n + 1 follows from what is claimed of n, and it holds of the first.

The element operations are whatever is associative, commutative, with an identity: an uninterpreted ⊕ with these laws,
instantiated where they are used.
"""

from __future__ import annotations

from typing import Final

from verifier.proving.obligations import Obligation
from verifier.solver import INTEGERS, TRUTHS, And, Constant, Function, If, Implies, Integers, Query, Sort, Truth

_E: Final = Sort("element")
_PLUS: Final = Function("plus", _E, _E, _E)


def _add(*terms: object) -> object:
    found = terms[0]
    for one in terms[1:]:
        found = _PLUS(found, one)
    return found


def _blocks() -> list[Query]:
    """F(p) folds t over k < p; B(d) folds over the first d blocks, of m each."""
    d, j, m = Integers("d j m")
    fold = Function("fold", INTEGERS, _E)
    blocks = Function("blocks", INTEGERS, _E)
    local = Function("local", INTEGERS, INTEGERS, _E)
    element = Function("element", INTEGERS, _E)
    before = _add(blocks(d), local(d, j))
    return [
        Query(
            "a block is folded element by element, after those before it",
            (
                ("the block is folded so far", before == fold(d * m + j)),
                ("local fold", local(d, j + 1) == _add(local(d, j), element(d * m + j))),
                ("global fold", fold(d * m + j + 1) == _add(fold(d * m + j), element(d * m + j))),
                (
                    "associative",
                    _add(blocks(d), _PLUS(local(d, j), element(d * m + j))) == _PLUS(before, element(d * m + j)),
                ),
            ),
            _add(blocks(d), local(d, j + 1)) == fold(d * m + j + 1),
        ),
        Query(
            "the next block begins where the last one ends",
            (
                ("the blocks so far", blocks(d) == fold(d * m)),
                ("nothing is folded of the next block", _add(blocks(d), local(d, 0)) == blocks(d)),
            ),
            _add(blocks(d), local(d, 0)) == fold(d * m + 0),
        ),
        Query(
            "a whole block",
            (
                ("the block is folded", _add(blocks(d), local(d, m)) == fold(d * m + m)),
                ("the next blocks", blocks(d + 1) == _add(blocks(d), local(d, m))),
            ),
            blocks(d + 1) == fold((d + 1) * m),
        ),
    ]


def _pieces() -> list[Query]:
    """With what each device starts from: ⊕ over d of (a_d ⊕ b_d) = (⊕ a) ⊕ (⊕ b)."""
    both, starts, rest = (Function(name, INTEGERS, _E) for name in ("both", "starts", "rest"))
    start, block = (Function(name, INTEGERS, _E) for name in ("start", "block"))
    (d,) = Integers("d")
    regrouped = _PLUS(_PLUS(starts(d), rest(d)), _PLUS(start(d), block(d)))
    return [
        Query(
            "one more device",
            (
                ("so far", both(d) == _PLUS(starts(d), rest(d))),
                ("both", both(d + 1) == _PLUS(both(d), _PLUS(start(d), block(d)))),
                ("starts", starts(d + 1) == _PLUS(starts(d), start(d))),
                ("blocks", rest(d + 1) == _PLUS(rest(d), block(d))),
                (
                    "associative and commutative",
                    regrouped == _PLUS(_PLUS(starts(d), start(d)), _PLUS(rest(d), block(d))),
                ),
            ),
            both(d + 1) == _PLUS(starts(d + 1), rest(d + 1)),
        ),
    ]


def _devices() -> list[Query]:
    """f(x ⊕ y) = f(x) ⊕′ f(y) for two, so for n: with X(n) = ⊕ of x_d and Y(n) = ⊕′ of f(x_d)."""
    other, image = Sort("image"), Function("f", _E, Sort("image"))
    join = Function("join", other, other, other)
    pieces, images, piece = Function("X", INTEGERS, _E), Function("Y", INTEGERS, other), Function("x", INTEGERS, _E)
    (n,) = Integers("n")
    return [
        Query(
            "one more device",
            (
                ("so far", images(n) == image(pieces(n))),
                ("pieces", pieces(n + 1) == _PLUS(pieces(n), piece(n))),
                ("images", images(n + 1) == join(images(n), image(piece(n)))),
                ("for two", image(_PLUS(pieces(n), piece(n))) == join(image(pieces(n)), image(piece(n)))),
            ),
            images(n + 1) == image(pieces(n + 1)),
        ),
        Query(
            "one device",
            (("pieces", pieces(1) == piece(0)), ("images", images(1) == image(piece(0)))),
            images(1) == image(pieces(1)),
        ),
    ]


def _folds() -> list[Query]:
    """What commutes element by element commutes with a fold: with s_k = a_k + b_k, ⊕ s = (⊕ a) + (⊕ b), where
    (a ⊕ b) + (c ⊕ d) = (a + c) ⊕ (b + d)."""
    plus, fold = _PLUS, Function("fold", _E, _E, _E)
    both, left, right = (Function(name, INTEGERS, _E) for name in ("S", "A", "B"))
    s, a, b = (Function(name, INTEGERS, _E) for name in ("s", "a", "b"))
    (k,) = Integers("k")
    return [
        Query(
            "one more element",
            (
                ("so far", both(k) == plus(left(k), right(k))),
                ("each element", s(k) == plus(a(k), b(k))),
                ("S", both(k + 1) == fold(both(k), s(k))),
                ("A", left(k + 1) == fold(left(k), a(k))),
                ("B", right(k + 1) == fold(right(k), b(k))),
                (
                    "the two operations change places",
                    fold(plus(left(k), right(k)), plus(a(k), b(k))) == plus(fold(left(k), a(k)), fold(right(k), b(k))),
                ),
            ),
            both(k + 1) == plus(left(k + 1), right(k + 1)),
        ),
        Query(
            "one element",
            (
                ("each element", s(0) == plus(a(0), b(0))),
                ("the first", And(both(1) == s(0), left(1) == a(0), right(1) == b(0))),
            ),
            both(1) == plus(left(1), right(1)),
        ),
    ]


def _alike() -> list[Query]:
    """Folds of equal elements are equal."""
    one, other = Function("one", INTEGERS, _E), Function("other", INTEGERS, _E)
    t, u = Function("t", INTEGERS, _E), Function("u", INTEGERS, _E)
    (k,) = Integers("k")
    return [
        Query(
            "one more element",
            (
                ("so far", one(k) == other(k)),
                ("each element", t(k) == u(k)),
                ("the folds", And(one(k + 1) == _PLUS(one(k), t(k)), other(k + 1) == _PLUS(other(k), u(k)))),
            ),
            one(k + 1) == other(k + 1),
        ),
        Query(
            "none", (("nothing", And(one(0) == Constant("e", _E), other(0) == Constant("e", _E))),), one(0) == other(0)
        ),
    ]


def _in_range() -> list[Query]:
    """The block of device d < n of a dim of n·m elements lies inside. That no element is in two blocks is
    `sums.owner`."""
    d, j, n, m = Integers("d j n m")
    own = (("a device", And(d >= 0, d < n)), ("an element of its block", And(j >= 0, j < m)))
    return [Query("inside", own, And(d * m + j >= 0, d * m + j < n * m))]


def _programs() -> list[Query]:
    """By induction on equations, and on steps of a loop: legal(k) says that what is computed k-th reads back right."""
    legal, so_far = Function("legal", INTEGERS, TRUTHS), Function("all before", INTEGERS, TRUTHS)
    carried = Function("what is carried is legal", INTEGERS, TRUTHS)
    first, second, chosen = Truth("first"), Truth("second"), Truth("chosen")
    (k,) = Integers("k")
    return [
        Query(
            "one more equation",
            (
                ("so far", so_far(k)),
                ("its typing is sound", Implies(so_far(k), legal(k))),
                ("all before", so_far(k + 1) == And(so_far(k), legal(k))),
            ),
            so_far(k + 1),
        ),
        Query(
            "one more step",
            (("so far", carried(k)), ("the body's typing is sound", Implies(carried(k), carried(k + 1)))),
            carried(k + 1),
        ),
        Query(
            "a branch that all devices take",
            (("either branch reads back right", And(first, second)),),
            If(chosen, first, second),
        ),
    ]


def _lemma(name: str, says: str, queries: object) -> Obligation:
    return Obligation(f"lemma.{name}", "lemma", says, queries, domain="any arithmetic")  # type: ignore[arg-type]


LEMMAS: Final = (
    _lemma("blocks", "a fold over n·m elements is the fold over n blocks of the folds over m", _blocks),
    _lemma("pieces", "⊕ over devices of (a ⊕ b) is (⊕ a) ⊕ (⊕ b)", _pieces),
    _lemma("devices", "what commutes for two devices commutes for n", _devices),
    _lemma("folds", "what commutes with ⊕ element by element commutes with a fold by ⊕", _folds),
    _lemma("alike", "folds of equal elements are equal", _alike),
    _lemma("programs", "a program, a loop and a branch of sound typings are sound", _programs),
    _lemma("in-range", "the block of each device lies inside of a dim of n·m", _in_range),
)
"""What soundness rests on beside the definitions."""
