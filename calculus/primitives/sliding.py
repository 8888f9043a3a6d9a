"""How windows go along one dim, and which factors three dims have then: the dim itself (the *base*), the window, and
the result, which has one element for each place of the window.

Element `a` of the base meets element `b` of the window for the result's element `c` where

    a · dilation + low = c · stride + b · window_dilation

Mostly a device with a block of a dim cannot do its part alone, since windows reach over the edge of the block: the dims
are needed whole. Where one of the three is counted by the other two, as the digits of a number are, they are factors:

* windows lie each in its own stretch of `stride` elements: the base is `(c within)`, and c passes through; where they
  fill their stretches, `within` is b, and what is gathered up over b is gathered up over that factor;
* elements of the window lie each in its own stretch of `window_dilation` elements: the base is `(b within)`, and b is
  gathered up (a gradient of the first with respect to the window);
* elements of the base lie each in its own stretch of `dilation` elements of the result: the result is `(a within)` (a
  gradient of the first with respect to the base).

A window of one element at every place is the simplest: the dim passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from calculus.parameters import bad, dim, required, sequence, whole_numbers
from calculus.primitives.declaration import Site
from calculus.programs import Parameters
from calculus.refusals import Place, refuse
from calculus.schemes import Factor
from calculus.types import ArrayType, Dim

if TYPE_CHECKING:
    from calculus.elements import Arithmetic, Condition, Digit

Add: TypeAlias = Callable[[Dim, str], Factor]
"""A new factor of this size, with a role, or none (`""`)."""


class Slide(NamedTuple):
    """Windows along one dim. size: of the dim. window: elements in a window. low, high: padding at either end, or what
    is cropped there, where negative. dilation, window_dilation: the distance of neighbours in the base and in the
    window."""

    size: Dim
    window: Dim
    stride: int
    low: Dim
    high: Dim
    dilation: int = 1
    window_dilation: int = 1

    @property
    def passes(self) -> bool:
        """Whether the result's element at each place is made from the one element there."""
        return self.window == self.stride == self.dilation == 1 and self.low == self.high == 0


class Factors(NamedTuple):
    """The factors of the base, the window and the result. looked: the one factor of the base that is needed whole, so
    that a partitioner may slide windows along it, block by block. how: which of the three is counted by the others."""

    base: tuple[Factor, ...]
    window: tuple[Factor, ...]
    result: tuple[Factor, ...]
    looked: Factor | None = None
    how: str = "looked"


def places(slide: Slide, printed: Dim | None) -> Dim:
    """How many places windows have: the size of the result. Of symbolic sizes it is as printed, if it is printed as an
    expression. Refuses `shape` where more is cropped than there is."""
    size, window, stride, low, high, dilation, window_dilation = slide
    if slide.passes:
        return size
    if any(isinstance(each, str) for each in (size, window, low, high)):
        return printed if isinstance(printed, str) else f"places({size}, {window}, {stride}, {low}, {high})"
    numbers = [each for each in (size, window, low, high) if isinstance(each, int)]
    whole, reach = extent(numbers[0], dilation), extent(numbers[1], window_dilation)
    padded = whole + numbers[2] + numbers[3]
    if padded < 0:
        raise refuse(
            "shape",
            f"a dim of size {size} is padded by {low} and {high}",
            because="padding cannot take away more than there is",
            place=Place("parameter", name="padding"),
        )
    return max(0, (padded - reach) // stride + 1)


def extent(size: int, dilation: int) -> int:
    """How many elements there are from the first to the last, where neighbours have this distance."""
    return max(0, 1 + dilation * (size - 1))


def factors(slide: Slide, found: Dim, add: Add, role: str, operand: bool) -> Factors:
    """The factors along one dim. found: the size of the result. role: how elements of a window are gathered up, `whole`
    where that is no monoid. operand: whether the window is an array."""
    size, window, low = slide.size, slide.window, slide.low
    if slide.passes or (size == window == found == 1 and low == 0):
        passed = (add(size, ""),)
        return Factors(passed, (), passed, how="passed")
    if isinstance(size, int) and isinstance(window, int) and isinstance(low, int) and isinstance(found, int):
        counted = _counted(size, window, low, found, slide, add, role, operand)
        if counted is not None:
            return counted
    looked = add(size, "whole")
    return Factors((looked,), _whole(window, add), (add(found, "whole"),), looked)


def _counted(
    size: int, window: int, low: int, found: int, slide: Slide, add: Add, role: str, operand: bool
) -> Factors | None:
    """The factors where one of the three dims is counted by the other two. A factor of size 1 is left out."""
    if not size or not found or not window:
        return None
    stride, dilation, stretch = slide.stride, slide.dilation, slide.window_dilation
    reach = extent(window, stretch)
    if stride == 1 < dilation and found == size * dilation and reach <= low + 1 <= dilation:
        major = _several(size, add)
        return Factors(major, _whole(window, add), (*major, *_whole(dilation, add)), how="spread")
    if dilation > 1 or low > 0:
        return None
    own = size if found == 1 else stride
    apart = size == found * own and reach - low <= own  # each window lies in a stretch of its own
    if apart and window == own == reach and role != "whole":
        major, filled = _several(found, add), (add(window, role),)
        return Factors((*major, *filled), filled, major, how="filled")
    if operand and window > 1 and size == window * stretch and (found - 1) * stride - low < stretch:
        over = (add(window, role),)
        if stride == 1 and found == stretch:
            passed = (add(found, ""),)
            return Factors((*over, *passed), over, passed, how="over")
        return Factors((*over, *_whole(stretch, add)), over, _whole(found, add), how="over")
    if apart:
        major, within = _several(found, add), _whole(own, add)
        return Factors((*major, *within), _whole(window, add), major, None if major else within[0], how="apart")
    return None


def met(
    e: Arithmetic, name: str, slide: Slide, parts: Factors, at: Mapping[Factor, Digit], window: Digit, size: Digit
) -> tuple[list[Condition], dict[Factor, Digit]]:
    """The base's digits that an element of the window meets for an element of the result, and under which conditions
    it meets any. at: the digits of the result. size: of the base, where it is looked along. name: of the dim."""
    stride, low = e.some(f"stride{name}", slide.stride, 1), e.some(f"low{name}", int(str(slide.low)))
    base, result = parts.base, parts.result
    reached = window * e.some(f"stretch{name}", slide.window_dilation, 1) - low
    if parts.how == "passed":
        return [], {factor: at[factor] for factor in base}
    if parts.how == "spread":
        within = at[result[-1]] if len(result) > len(base) else 0
        return [within + reached == 0], {factor: at[factor] for factor in base}
    if parts.how == "filled":
        return [], {**{factor: at[factor] for factor in result}, base[-1]: window}
    if parts.how == "over":
        passed = base[1:] == result
        inner = {factor: at[factor] if passed else _first(at, result) * stride - low for factor in base[1:]}
        return [], {base[0]: window, **inner}
    if parts.how == "apart":
        own = {factor: at[factor] for factor in result}
        return [], {**own, **{factor: reached for factor in base if factor not in own}}
    place, conditions = _first(at, result) * stride + reached, []
    if slide.dilation > 1:
        place, rest = e.divided(place, e.some(f"dilation{name}", slide.dilation, 1))
        conditions = [rest == 0]
    return [*conditions, place >= 0, place < size], {base[0]: place}


def _first(at: Mapping[Factor, Digit], factors: tuple[Factor, ...]) -> Digit:
    return at[factors[0]] if factors else 0


def _several(size: Dim, add: Add) -> tuple[Factor, ...]:
    """The factors of a dim that passes through: none where it has one element."""
    return () if size == 1 else (add(size, ""),)


def _whole(size: Dim, add: Add) -> tuple[Factor, ...]:
    """The factors of a dim that is needed whole: none where it has one element."""
    return () if size == 1 else (add(size, "whole"),)


def slides(site: Site, sizes: Sequence[Dim], windows: Sequence[Dim], names: Sequence[str]) -> list[Slide]:
    """The windows along each of these dims. names: the parameters that hold the strides, the dilations and those of the
    window; one that is empty says 1 for each dim. Refuses `bad-parameter` where they do not hold a number for each."""
    count = len(sizes)
    strides, dilations, window_dilations = (
        _positive(site.parameters, name, count) if name else (1,) * count for name in names
    )
    rows = [sequence(row, "padding") for row in sequence(required(site.parameters, "padding"), "padding")]
    if len(rows) != count or any(len(row) != 2 for row in rows):
        raise bad("padding", site.parameters["padding"], f"(low, high) for each of {count} dims")
    ends = [[dim(end, "padding") for end in row] for row in rows]
    return [
        Slide(size, window, stride, low, high, dilation, window_dilation)
        for size, window, stride, (low, high), dilation, window_dilation in zip(
            sizes, windows, strides, ends, dilations, window_dilations, strict=True
        )
    ]


def _positive(parameters: Parameters, name: str, count: int) -> tuple[int, ...]:
    found = whole_numbers(required(parameters, name), name)
    if len(found) != count or any(number < 1 for number in found):
        raise bad(name, str(found), f"a positive number for each of {count} dims")
    return found


def printed_size(site: Site, dim: int) -> Dim | None:
    """The size of a dim of the first result as it is printed; `None` where it is not."""
    type = site.printed[0] if site.printed else None
    return type.shape[dim] if isinstance(type, ArrayType) and dim < type.rank else None


def spread(np: Any, x: Any, along: Sequence[Slide], fill: Any) -> Any:
    """The last dims of an array with their gaps and padding, filled with a constant, and without what is cropped."""
    first = x.ndim - len(along)
    whole = [extent(size, slide.dilation) for size, slide in zip(x.shape[first:], along, strict=True)]
    ends = [(int(slide.low), int(slide.high)) for slide in along]
    padded = [max(0, low) + size + max(0, high) for size, (low, high) in zip(whole, ends, strict=True)]
    found = np.full((*x.shape[:first], *padded), fill, x.dtype)
    inside = zip(whole, ends, along, strict=True)
    found[(..., *(slice(max(0, low), max(0, low) + size, slide.dilation) for size, (low, _), slide in inside))] = x
    kept = zip(padded, ends, strict=True)
    return found[(..., *(slice(max(0, -low), size - max(0, -high)) for size, (low, high) in kept))]


def reached(along: Sequence[Slide], found: Sequence[Dim], at: Sequence[int]) -> tuple[slice, ...]:
    """Where an element of the window lies at all places, in the base as `spread` has it."""
    parts = []
    for slide, count, index in zip(along, found, at, strict=True):
        first = index * slide.window_dilation
        parts.append(slice(first, first + (int(count) - 1) * slide.stride + 1 if count else first, slide.stride))
    return tuple(parts)
