"""Elements that are gathered up: products, reductions, cumulated reductions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calculus.elements import Arithmetic, Call, Digit, Element, Fold, Term
from calculus.parameters import integer
from calculus.primitives.grouped_products import ragged_of
from calculus.types import dtype_class


def _cumulated(monoid: str) -> Element:
    def element(e: Arithmetic, call: Call) -> Fold:
        """Up to here, or from here on."""
        along = integer(call.parameters["axis"], "axis")
        rank = len(call.scheme.operands[0])
        (factor,) = call.scheme.operands[0][along]
        here = call.digit(along)

        def term(digit: Digit) -> Term:
            counts = digit >= here if call.parameters["reverse"] else digit <= here
            there = call.read(0, *(digit if dim == along else call.digit(dim) for dim in range(rank)))
            return e.where(counts, there, e.identity(monoid, call.result))

        return Fold(monoid, (factor,), term)

    return element


def _grouped(e: Arithmetic, call: Call) -> Fold:
    """A product of groups: of an element and a group that it is in."""
    said = ragged_of(call.parameters, call.site.shapes)
    over = [factor for indices in call.scheme.operands[:2] for dim in indices for factor in dim]
    over = [factor for factor in dict.fromkeys(over) if factor not in call.digits]

    def term(*digits: Digit) -> Term:
        at = {**call.digits, **dict(zip(over, digits, strict=True))}
        product = e.combine("prod", call.arrays[0](at), call.arrays[1](at))
        if said.mode == "batched":
            return product
        group, here = at[said.groups], at[said.ragged]
        first = e.before("groups", group, lambda one: call.arrays[2]({**at, said.groups: one}))
        inside = [here >= first, here < first + call.arrays[2](at)]
        return e.where(e.all(inside), product, e.identity("sum", call.result))

    return Fold("sum", tuple(over), term)


def _scaled(e: Arithmetic, call: Call) -> Fold:
    """A product of scaled operands: a scale is for a block of elements that are contracted."""
    over = [factor for dim in call.scheme.operands[0] for factor in dim if factor not in call.digits]

    def term(*digits: Digit) -> Term:
        at = {**call.digits, **dict(zip(over, digits, strict=True))}
        found = None
        for position, array in enumerate(call.arrays):
            own = {}
            for dim, (factor,) in enumerate(call.scheme.operands[position]):
                if factor not in at:  # a block of the factor that the operand has here
                    (whole,) = call.scheme.operands[position - 2][dim]
                    each = int(str(call.scheme.sizes[whole])) // int(str(call.scheme.sizes[factor]))
                    (own[factor],) = e.mapped(
                        f"block{factor}", 1, [at[whole]], lambda digit, each=each: [digit // each]
                    )
            one = array({**at, **own})
            found = one if found is None else e.combine("prod", found, one)
        return found

    return Fold("sum", tuple(over), term)


def _block(each: int, digit: int) -> tuple[int]:
    return (digit // each,)


def _gathered(monoid: str, of_truths: str) -> Element:
    def element(e: Arithmetic, call: Call) -> Term | Fold:
        """The product of the operands, over all that the result lacks. By which monoid, no scheme is asked."""
        over = [factor for indices in call.scheme.operands for dim in indices for factor in dim]
        over = [factor for factor in dict.fromkeys(over) if factor not in call.digits]
        truths = dtype_class(call.result) == "b"

        def term(*digits: Digit) -> Term:
            at = {**call.digits, **dict(zip(over, digits, strict=True))}
            found = None
            for array in call.arrays:
                one = array(at)
                found = one if found is None else e.combine("min" if truths else "prod", found, one)
            return found

        return Fold(of_truths if truths else monoid, tuple(over), term) if over else term()

    return element


ELEMENTS: Final[Mapping[str, Element]] = {
    "dot_general": _gathered("sum", "max"),
    "reduce_sum": _gathered("sum", "sum"),
    "reduce_prod": _gathered("prod", "prod"),
    "reduce_max": _gathered("max", "max"),
    "reduce_min": _gathered("min", "min"),
    "reduce_and": _gathered("and", "min"),
    "reduce_or": _gathered("or", "max"),
    "reduce_xor": _gathered("xor", "xor"),
    "ragged_dot_general": _grouped,
    "scaled_dot": _scaled,
    "cumsum": _cumulated("sum"),
    "cumprod": _cumulated("prod"),
    "cummax": _cumulated("max"),
    "cummin": _cumulated("min"),
}
