"""Elementwise primitives that look at how numbers are written: their bits, the number next to one, the total order.
They have no derivative, `nextafter` aside.
"""

from __future__ import annotations

from typing import Any

from calculus.primitives.declaration import joins_on, truth
from calculus.primitives.elementwise import row


def _shift_logical(np: Any, p: Any, x: Any, y: Any) -> Any:
    return (x.view(f"u{x.itemsize}") >> y.view(f"u{y.itemsize}")).view(x.dtype)


def _shift_arithmetic(np: Any, p: Any, x: Any, y: Any) -> Any:
    return (x.view(f"i{x.itemsize}") >> y.view(f"i{y.itemsize}")).view(x.dtype)


def _population_count(np: Any, p: Any, x: Any) -> Any:
    return np.bitwise_count(x.view(f"u{x.itemsize}")).astype(x.dtype)


def _ordered(np: Any, x: Any) -> Any:
    """Integers in the total order of IEEE 754: -NaN, -∞ … -0, 0 … ∞, NaN."""
    if x.dtype.kind in "iub":
        return x
    bits = x.view(f"i{x.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _leading_zeros(np: Any, p: Any, x: Any) -> Any:
    bits, width = x.view(f"u{x.itemsize}"), 8 * x.itemsize
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < width:
            bits = bits | bits >> bits.dtype.type(shift)
    return (width - np.bitwise_count(bits)).astype(x.dtype)


def _high_half(np: Any, p: Any, x: Any, y: Any) -> Any:
    return (x.astype(object) * y.astype(object) >> 8 * x.itemsize).astype(x.dtype)


# fmt: off
BITS = (
    # x itself, but for its last bit: so the derivative is that of x, and none in what it moves towards
    row("nextafter", "x y", "/ x ; y", lambda np, p, x, y: np.nextafter(x, y), "f", joins=joins_on(f="x | y")),
    # the total order tells the zeros apart, which are one number to a pending maximum
    row("eq_to", "x y", "; x y", lambda np, p, x, y: _ordered(np, x) == _ordered(np, y), "fiub", dtypes=truth),
    row("le_to", "x y", "; x y", lambda np, p, x, y: _ordered(np, x) <= _ordered(np, y), "fiub", dtypes=truth,
         joins=joins_on(iub="-x | y")),
    row("lt_to", "x y", "; x y", lambda np, p, x, y: _ordered(np, x) < _ordered(np, y), "fiub", dtypes=truth,
         joins=joins_on(iub="-x | y")),
    row("and", "x y", "; x y", lambda np, p, x, y: x & y, "iub", joins=joins_on(b="min(x y) | x | y")),
    row("or", "x y", "; x y", lambda np, p, x, y: x | y, "iub", joins=joins_on(b="max(x y) | x | y")),
    row("xor", "x y", "; x y", lambda np, p, x, y: x ^ y, "iub"),
    row("not", "x", "; x", lambda np, p, x: ~x, "iub", joins="-x"),
    row("population_count", "x", "; x", _population_count, "iu"),
    row("clz", "x", "; x", _leading_zeros, "iu", joins=joins_on(u="-x")),
    row("mulhi", "x y", "; x y", _high_half, "iu", joins=joins_on(u="x | y")),
    row("shift_left", "x y", "x ; y", lambda np, p, x, y: x << y, "iu"),
    row("shift_right_logical", "x y", "; x y", _shift_logical, "iu", joins=joins_on(u="x")),
    row("shift_right_arithmetic", "x y", "; x y", _shift_arithmetic, "iu", joins="x"),
)
# fmt: on
