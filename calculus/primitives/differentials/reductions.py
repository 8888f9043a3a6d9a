"""Rows of reductions and of what accumulates along a dim.

Products, maxima and logarithms of sums are unfolded: what accumulates in pairs, level after level; what is reduced in
halves, or element after element where only their order tells what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import pi, prod
from typing import TYPE_CHECKING, Final

from calculus.parameters import flag, integer, integers, required
from calculus.primitives.declaration import Site, Unfold
from calculus.primitives.reducers import held
from calculus.types import DTYPES, ArrayType, array_type, dtype_class

if TYPE_CHECKING:
    from calculus.unfolding import Dual, Unfolding


def extreme(site: Site) -> str:
    """Of a maximum or minimum over dims: the mean of the tangents of the elements that are it."""
    shape, axes = site.shapes[0], integers(site.parameters, "axes")
    ones = tuple(1 if dim in axes else size for dim, size in enumerate(shape))
    found = f"x == reshape(result, dimensions=None, new_sizes={ones}, sharding=None)"
    where = f"convert_element_type({found}, new_dtype={DTYPES[site.dtypes[0] or 'f32'][0]}, weak_type=False)"
    over = f"axes={axes}, out_sharding=None"
    return f"reduce_sum(g * {where}, {over}) / reduce_sum({where}, {over})"


def from_the_other_end(site: Site, position: int) -> str:
    """Of a cumulated sum."""
    return f"cumsum(g, axis={site.parameters['axis']}, reverse={not site.parameters['reverse']})"


def part(u: Unfolding, x: Dual, axis: int, start: int, limit: int, stride: int = 1) -> Dual:
    """Some of the elements along one dim."""
    sizes = u.sizes(x)
    starts = tuple(start if dim == axis else 0 for dim in range(len(sizes)))
    limits = tuple(limit if dim == axis else size for dim, size in enumerate(sizes))
    strides = tuple(stride if dim == axis else 1 for dim in range(len(sizes)))
    return u.one("slice", x, start_indices=starts, limit_indices=limits, strides=strides)


def padded(u: Unfolding, x: Dual, axis: int, low: int, high: int, inner: int, fill: Dual | float = 0) -> Dual:
    """An array with more elements along one dim, zeros if nothing else is said."""
    config = tuple((low, high, inner) if dim == axis else (0, 0, 0) for dim in range(len(u.sizes(x))))
    return u.one("pad", x, fill, padding_config=config)


def cumulated(combine: Callable[[Unfolding, Dual, Dual], Dual]) -> Unfold:
    """What an associative function makes of all elements up to each: of pairs first, of those the same again, and from
    it what comes between."""

    def along(u: Unfolding, x: Dual, axis: int) -> Dual:
        size = u.sizes(x)[axis]
        if size < 2:
            return x
        odd = along(u, combine(u, part(u, x, axis, 0, size - 1, 2), part(u, x, axis, 1, size, 2)), axis)
        count = size // 2
        before = part(u, odd, axis, 0, count - 1) if size % 2 == 0 else odd
        even = combine(u, before, part(u, x, axis, 2, size, 2))
        even = u.one("concatenate", part(u, x, axis, 0, 1), even, dimension=axis)
        alike = size % 2 == 0
        return u.one("add", padded(u, even, axis, 0, int(alike), 1), padded(u, odd, axis, 1, int(not alike), 1))

    def unfold(u: Unfolding) -> Sequence[Dual] | None:
        (x,) = u.operands
        if any(isinstance(size, str) for size in u.type(x).shape):
            return None
        axis = integer(required(u.parameters, "axis"), "axis")
        x = u.whole(x, (axis,))
        if not flag(u.parameters, "reverse"):
            return [along(u, x, axis)]
        turned = u.one("rev", x, dimensions=(axis,))
        return [u.one("rev", along(u, turned, axis), dimensions=(axis,))]

    return unfold


def by(primitive: str) -> Callable[[Unfolding, Dual, Dual], Dual]:
    """A primitive of two numbers."""
    return lambda u, one, other: u.one(primitive, one, other)


def logarithm_of_sum(u: Unfolding, one: Dual, other: Dual) -> Dual:
    """log(e^x + e^y), and its derivative: each tangent in proportion to its part of the sum."""
    real = dtype_class(u.type(one).dtype) == "f"
    found = u.formula(_LOGARITHM if real else _COMPLEX_LOGARITHM, x=u.known(one), y=u.known(other))
    result = type(one)(found)
    terms = [
        u.formula(
            f"g * exp({_finite('x', real)} - {_finite('result', real)})",
            g=u.tangent(each), x=u.known(each), result=result,
        )
        for each in (one, other)
        if each.tangent is not None
    ]  # fmt: skip
    return type(one)(found, u.walk.linear.one("add", terms) if len(terms) == 2 else terms[0] if terms else None)


def _finite(name: str, real: bool) -> str:
    """A number, or 0 in place of infinity."""
    return f"select_n({name if real else f'real({name})'} == 1e999, {name}, full(0, {name}))"


_LOGARITHM: Final = "most = max(x, y); apart = x - y; select_n(ne(apart, apart), most + log1p(exp(-abs(apart))), x + y)"
_COMPLEX_LOGARITHM: Final = (
    "most = max(x, y); sum = most + log1p(exp((x + y) - most * 2)); "
    f"turn = rem(imag(sum) + {pi}, {2 * pi}); "
    f"complex(real(sum), select_n(turn < 0, turn, turn + {2 * pi}) - {pi})"
)

MOST_FOLDED: Final = 256
"""The most elements that are combined one after the other: each is an equation, or a few."""


def flattened(u: Unfolding, x: Dual, dims: Sequence[int]) -> Dual:
    """An array some of whose dims are the first one."""
    x = u.whole(x, dims)
    shape = u.sizes(x)
    kept = [dim for dim in range(len(shape)) if dim not in dims]
    wanted, order = (prod(shape[dim] for dim in dims), *(shape[dim] for dim in kept)), (*dims, *kept)
    turned = None if order == tuple(range(len(shape))) else order
    if wanted == shape and turned is None:
        return x
    return u.one("reshape", x, dimensions=turned, new_sizes=wanted, sharding=None)


def multiplied(u: Unfolding) -> Sequence[Dual] | None:
    """The product over dims, by halves."""
    (x,) = u.operands
    if any(isinstance(size, str) for size in u.type(x).shape):
        return None
    x = flattened(u, x, integers(u.parameters, "axes"))
    count = u.sizes(x)[0]
    if not count:
        return [u.full(1, u.result(0))]
    while count > 1:
        half = (count + 1) // 2
        rear = part(u, x, 0, half, count)
        x = u.one("mul", part(u, x, 0, 0, half), rear if half * 2 == count else padded(u, rear, 0, 0, 1, 0, 1))
        count = half
    return [u.one("squeeze", x, dimensions=(0,))]


def folded(u: Unfolding) -> Sequence[Dual] | None:
    """What a function makes of the elements along dims, one after the other, from a number on."""
    count = len(u.operands) // 2
    dims = integers(u.parameters, "dimensions")
    shape = u.type(u.operands[0]).shape
    if any(isinstance(size, str) for size in shape):
        return None
    flat = [flattened(u, one, dims) for one in u.operands[:count]]
    many = u.sizes(flat[0])[0]
    if many > MOST_FOLDED:
        return None
    steps = [[u.one("squeeze", part(u, one, 0, at, at + 1), dimensions=(0,)) for one in flat] for at in range(many)]
    return in_turn(u, "jaxpr", steps, u.operands[count:])


def in_turn(
    u: Unfolding, body: str, steps: Sequence[Sequence[Dual]], starts: Sequence[Dual]
) -> Sequence[Dual]:  # fmt: skip
    """A function of numbers applied to what came of it so far and the next elements, again and again."""
    program = held(u.parameters, body)
    found = [
        u.one("broadcast_in_dim", start, to=spread_out(u.type(start), u.result(number)), broadcast_dimensions=())
        for number, start in enumerate(starts)
    ]
    for elements in steps:
        found = u.apply(program, (*found, *elements))
    return found


def spread_out(number: ArrayType, result: ArrayType) -> ArrayType:
    """The type of a number everywhere, cut as a result is, and reduced where either is: beside what is reduced stands
    a number that is written in the program."""
    cut = {axis for axes in result.axes for axis in axes}
    beside = tuple(axis for axis in result.reduced if axis not in number.mentioned)
    reduced = tuple(axis for axis in (*number.reduced, *beside) if axis not in cut)
    return array_type(number.dtype, result.shape, result.axes, number.varying, number.unreduced, reduced)


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    "reduce_max": extreme,
    "reduce_min": extreme,
}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    "cumsum": from_the_other_end,
}

UNFOLDED: Final[Mapping[str, Unfold]] = {
    "cumprod": cumulated(by("mul")),
    "cummax": cumulated(by("max")),
    "cummin": cumulated(by("min")),
    "cumlogsumexp": cumulated(logarithm_of_sum),
    "reduce_prod": multiplied,
    "reduce": folded,
}
