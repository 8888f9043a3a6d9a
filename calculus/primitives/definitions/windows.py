"""Elements of windows: convolutions and pooling. What windows along a dim are: calculus/primitives/sliding.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from calculus.elements import Arithmetic, Call, Condition, Digit, Element, Fold, Term
from calculus.parameters import sizes
from calculus.primitives.contraction import gathered_by
from calculus.primitives.convolution import numbers_of
from calculus.primitives.convolution import slides_of as slides_of_convolution
from calculus.primitives.pooling import slides_of
from calculus.primitives.sliding import Factors, Slide, factors, met
from calculus.schemes import Factor, Indices
from calculus.types import Dim


def _parts(slide: Slide, found: Dim, role: str, operand: bool) -> str:
    """Which of the three is counted by the others along a dim."""
    numbered: list[str] = []

    def add(size: Dim, role: str) -> Factor:
        numbered.append(role)
        return len(numbered) - 1

    return factors(slide, found, add, role, operand).how


def _convolution(e: Arithmetic, call: Call) -> Fold:
    """Over the features of a group, and over the window."""
    numbers = numbers_of(call.parameters, len(call.scheme.operands[0]))
    role = gathered_by(call.site)
    input, kernel, result = call.scheme.operands[0], call.scheme.operands[1], call.scheme.results[0]
    over = [factor for dim in kernel for factor in dim if factor not in call.digits]
    found = [int(str(size)) for size in call.scheme.shape(result)]
    slides = slides_of_convolution(call.site, numbers)
    spatial = list(zip(*(indices[2:] for indices in numbers), strict=True))

    def term(*digits: Digit) -> Term:
        at = {**call.digits, **dict(zip(over, digits, strict=True))}
        base: dict[Factor, Digit] = {factor: at[factor] for dim in numbers.input[:2] for factor in input[dim]}
        conditions: list[Condition] = []
        for slide, (left, right, out) in zip(slides, spatial, strict=True):
            parts = Factors(input[left], kernel[right], result[out], how=_parts(slide, found[out], role, operand=True))
            window = at[kernel[right][0]] if kernel[right] else 0
            some, own = met(e, str(left), slide, parts, at, window, call.arrays[0].size(left))
            conditions += some
            base |= own
        product = e.combine("min" if call.result == "bool" else "prod", call.arrays[0](base), call.arrays[1](at))
        if not conditions:
            return product
        return e.where(e.all(conditions), product, e.identity(role, call.result))

    return Fold(role, tuple(over), term)


class _Windows:
    """The windows of pooling: the elements that an element of the result is made of, by their place in a window. What
    is a window's place and no factor is numbered from the last factor on."""

    def __init__(self, e: Arithmetic, call: Call, role: str, base: Indices, result: Indices, chosen: bool) -> None:
        self.e, self.call, self.base, self.result = e, call, base, result
        shape = tuple(call.scheme.shape(base))
        names = ("window_strides", "", "") if chosen else ("window_strides", "base_dilation", "window_dilation")
        self.slides = slides_of(call.site._replace(shapes=(shape,)), shape, names)
        found = call.scheme.shape(result)
        self.how = [_parts(slide, size, role, operand=False) for slide, size in zip(self.slides, found, strict=True)]
        self.over: list[Factor] = []
        self.sizes: dict[Factor, Digit] = {}
        windows = sizes(call.parameters, "window_dimensions")
        for dim, (how, size) in enumerate(zip(self.how, windows, strict=True)):
            if how == "filled":
                self.over.append(base[dim][-1])
            elif size != 1:
                self.over.append(len(call.scheme.sizes) + dim)
                self.sizes[self.over[-1]] = e.some(f"window{dim}", int(str(size)), 1)

    def seen(self, at: Mapping[Factor, Digit], digits: Sequence[Digit]) -> tuple[list[Condition], dict[Factor, Digit]]:
        """The digits of the base, and under which conditions they are inside. at: those of the result."""
        inner = dict(zip(self.over, digits, strict=True))
        conditions: list[Condition] = []
        base: dict[Factor, Digit] = {}
        for dim, (slide, how) in enumerate(zip(self.slides, self.how, strict=True)):
            parts = Factors(self.base[dim], (), self.result[dim], how=how)
            place = self.base[dim][-1] if how == "filled" else len(self.call.scheme.sizes) + dim
            size: Digit = 1
            for factor in self.base[dim]:
                size = size * self.call.sizes[factor]
            some, own = met(self.e, str(dim), slide, parts, at, inner.get(place, 0), size)
            conditions += some
            base |= own
        return conditions, base

    def reach(self) -> list[Digit]:
        """How far the digits of a window go."""
        return [self.sizes[one] if one in self.sizes else self.call.sizes[one] for one in self.over]


def _pooled(monoid: str) -> Element:
    def element(e: Arithmetic, call: Call) -> Fold:
        windows = _Windows(e, call, monoid, call.scheme.operands[0], call.scheme.results[0], chosen=False)

        def term(*digits: Digit) -> Term:
            conditions, base = windows.seen(call.digits, digits)
            found = call.arrays[0](base)
            return e.where(e.all(conditions), found, e.identity(monoid, call.result)) if conditions else found

        return Fold(monoid, tuple(windows.over), term, sizes=windows.sizes)

    return element


def _gather_chosen(e: Arithmetic, call: Call) -> Term:
    """The tangent that belongs to the greatest or least element of a window; none where there is only padding."""
    windows = _Windows(e, call, "whole", call.scheme.operands[0], call.scheme.results[0], chosen=False)

    def seen(*digits: Digit) -> tuple[Condition, Term]:
        conditions, base = windows.seen(call.digits, digits)
        return e.all(conditions), call.arrays[1](base)

    greatest = str(call.parameters["select_prim"]) == "ge"
    there, digits = e.extreme("window", windows.reach(), greatest, seen)
    conditions, base = windows.seen(call.digits, digits)
    return e.where(e.all([there, *conditions]), call.arrays[0](base), e.identity("sum", call.result))


def _scatter_chosen(e: Arithmetic, call: Call) -> Term | Fold:
    """The elements of the source whose windows' greatest or least element lies here."""
    source, base = call.scheme.operands[0], call.scheme.operands[1]
    windows = _Windows(e, call, "whole", base, source, chosen=True)
    over = [factor for dim in source for factor in dim if factor not in call.digits]

    def term(*digits: Digit) -> Term:
        at = {**call.digits, **dict(zip(over, digits, strict=True))}

        def seen(*inner: Digit) -> tuple[Condition, Term]:
            conditions, place = windows.seen(at, inner)
            return e.all(conditions), call.arrays[1](place)

        greatest = str(call.parameters["select_prim"]) == "ge"
        there, chosen = e.extreme("window", windows.reach(), greatest, seen)
        conditions, place = windows.seen(at, chosen)
        here = [
            place[factor] == call.digits[factor]
            for factor in place
            if factor not in at or place[factor] is not at[factor]
        ]
        return e.where(e.all([there, *conditions, *here]), call.arrays[0](at), e.identity("sum", call.result))

    return Fold("max" if call.result == "bool" else "sum", tuple(over), term) if over else term()


ELEMENTS: Final[Mapping[str, Element]] = {
    "conv_general_dilated": _convolution,
    "reduce_window_sum": _pooled("sum"),
    "reduce_window_max": _pooled("max"),
    "reduce_window_min": _pooled("min"),
    "select_and_gather_add": _gather_chosen,
    "select_and_scatter_add": _scatter_chosen,
}
