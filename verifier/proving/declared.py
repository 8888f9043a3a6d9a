"""What is declared of a kernel that is opaque: that it is additive, or that it is monotone. It is assumed, and run."""

from __future__ import annotations

from typing import Any

from calculus.elements import Fold
from verifier.proving import extended
from verifier.proving.setting import PIECES, Setting
from verifier.solver import And, Formula, Implies, Not, Term


def declared(here: Setting, kind: str, both: Any, one: Any, other: Any) -> tuple[tuple[str, Formula], ...]:
    """Of a kernel that is opaque, what its declaration says of it: that it is additive, or that it is monotone."""
    name = here.primitive.name
    if here.seen or isinstance(both, Fold):
        return ()
    terms = here.terms
    if kind == "sum":
        return ((f"{name} is additive in its linear operands", terms.same(both, terms.combine("sum", one, other))),)
    pending = [position for position, state in enumerate(here.judgment.given) if state in PIECES]
    joins = [join for join in here.q.signature.joins if set(pending) <= set(join.operands) and kind in join.kinds]
    if not here.scheme.elementwise or len(pending) != 1 or not joins:
        return ((f"{name} commutes with {kind}", terms.same(both, terms.combine(_other(here), one, other))),)
    digits = {factor: here.digit(factor, False) for factor in here.results}
    x, y = (here.array(pending[0], f"{which}{pending[0]}", False)(digits) for which in ("one", "other"))
    total = any(len(join.kinds) == 2 for join in joins)
    antitone = any(join.antitone for join in joins)
    return tuple(_monotone(here, kind, x, y, one, other, total, antitone, name))


def _other(here: Setting) -> str:
    return PIECES[str(here.judgment.result)]


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
