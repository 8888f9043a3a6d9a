"""Arithmetic as JAX's: what a dtype is in numpy, how literals read, and what a primitive computes on arrays.

Floats of 16 bits and fewer are computed in 32 bits and rounded once, as XLA does on CPU; integers narrower than a byte
in a byte, and cut. Integers wrap, division by zero and overflow of floats give infinities and NaN, and nothing warns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import ml_dtypes
import numpy as np

from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Literal
from calculus.types import DTYPES, ArrayType, Type, array_type, dtype_class
from verifier.devices import MERGE, Array, numpy_dtype
from verifier.execution import keys
from verifier.kernels import compute


class CannotRun(Exception):
    """What no executor of ours can run. The message says which construct, and why."""


def stored(type: ArrayType) -> ArrayType:
    """The type of the numbers that a value of a type is kept as: of keys, their words in one number."""
    if type.dtype == "key<fry>":
        dtype = "u64"
    elif type.dtype == "float0":
        dtype = "bool"
    else:
        return type
    return array_type(
        dtype, type.shape, type.axes, type.varying, type.unreduced, type.reduced, type.kind, type.memory, type.weak
    )


@cache
def dtype_of(dtype: str) -> np.dtype[Any]:
    """Numpy's dtype for one of ours. Raises `CannotRun` where it has none."""
    try:
        return numpy_dtype(dtype)
    except ValueError as error:
        raise CannotRun(str(error)) from error


@cache
def _wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that numbers of a narrow one are computed in; of others, itself."""
    short = _SHORT.get(dtype)
    if short is None or DTYPES[short][1] > 16 or (DTYPES[short][1] >= 8 and dtype_class(short) != "f"):
        return dtype
    return np.dtype({"f": "float32", "i": "int8", "u": "uint8"}[dtype_class(short)])


_SHORT: Final = {
    numpy_dtype(short): short
    for short in DTYPES
    if dtype_class(short) in "fiu" and hasattr(ml_dtypes, DTYPES[short][0])
}
_SHORT[np.dtype("float16")] = "f16"

_AS_WRITTEN: Final = frozenset({"bitcast_convert_type", "nextafter", "eq_to", "le_to", "lt_to", "copy", "copy_p"})
"""Primitives that look at how a number is written."""


def widened(array: Array) -> Array:
    """The same numbers in the dtype that they are computed in."""
    wider = _wider(array.dtype)
    return array if wider == array.dtype else array.astype(wider)


def applied(primitive: Primitive, site: Site, blocks: Sequence[Array]) -> list[Array]:
    """What a primitive computes of these arrays, in the dtypes that it declares. Raises `CannotRun`."""
    dtypes = [dtype_of(dtype) for dtype in primitive.dtypes(site)]
    drawn = keys.DRAWN.get(primitive.name)
    with np.errstate(all="ignore"):
        if drawn is not None:
            found = drawn(site, *blocks)
        else:
            given = blocks if primitive.name in _AS_WRITTEN else [widened(block) for block in blocks]
            try:
                if primitive.name == "convert_element_type":
                    found = [converted(blocks[0], primitive.dtypes(site)[0])]
                else:
                    found = compute(primitive, site, given)
            except ValueError as error:
                raise CannotRun(f"{primitive.name} cannot be computed here: {error}") from error
        return [one if one.dtype == dtype else _cast(one, dtype) for one, dtype in zip(found, dtypes, strict=True)]


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    return (array.real if array.dtype.kind == "c" and dtype.kind != "c" else array).astype(dtype)


def converted(x: Array, target: str) -> Array:
    """Numbers in another dtype, as XLA converts them: what is out of an integer's range is its nearest end, and NaN is
    zero. (The kernel of `convert_element_type` leaves that to the machine.)"""
    dtype = dtype_of(target)
    if dtype_class(target) not in "iu" or x.dtype.kind not in "f":
        return _cast(x, dtype)
    ends = np.iinfo(dtype)
    low, high = float(ends.min), float(ends.max)
    inside = np.where(np.isnan(x), 0, np.clip(x, low, high))
    whole = np.where(inside >= high, 0, inside).astype(dtype)
    return np.where(inside >= high, dtype.type(ends.max), whole)


def number(literal: Literal, wanted: Type | None = None) -> Array:
    """The value of a literal. Raises `CannotRun` where neither it nor what is wanted has an array's type."""
    type = literal.type if literal.type is not None else wanted
    if type is None:  # the older dialect: it has the dtype of what stands beside it
        return np.asarray(complex(literal.text).real if literal.text not in _TRUTH else literal.text == "True")
    if not isinstance(type, ArrayType):
        raise CannotRun(f"the literal {literal} is no array")
    dtype = dtype_of(type.dtype)
    text = literal.text
    if text.startswith("["):
        raise CannotRun(f"the array {text}, which is printed as a literal")
    if type.dtype == "float0":
        return np.zeros(_whole(type), dtype)
    if dtype == np.bool_:
        value: Any = text == "True" or (text != "False" and complex(text) != 0)
    elif dtype_class(type.dtype) in "iu":
        value = int(text) if text.lstrip("-").isdigit() else int(text == "True") if text in _TRUTH else int(float(text))
        bits = DTYPES[type.dtype][1] if type.dtype in DTYPES else 64
        value %= 1 << bits
        if dtype_class(type.dtype) == "i" and value >> (bits - 1):
            value -= 1 << bits
    elif dtype.kind == "c":
        value = complex(text)
    else:
        value = float(text) if text not in _TRUTH else float(text == "True")
    with np.errstate(all="ignore"):
        return np.broadcast_to(np.asarray(value).astype(dtype), _whole(type))


_TRUTH: Final = ("True", "False")


def _whole(type: ArrayType) -> tuple[int, ...]:
    if any(isinstance(size, str) for size in type.shape):
        raise CannotRun(f"{type} has a symbolic size")
    return tuple(int(size) for size in type.shape)


def merged(monoid: str, blocks: Sequence[Array]) -> Array:
    """Several blocks combined by a monoid, in their order, in the dtype they are computed in."""
    dtype = blocks[0].dtype
    combine = _MONOIDS[monoid]
    with np.errstate(all="ignore"):
        found = widened(blocks[0])
        for block in blocks[1:]:
            found = combine(found, widened(block))
        return found.astype(dtype)


_MONOIDS: Final[dict[str, Any]] = {
    **MERGE,
    "cut-off-sum": np.add,
    "prod": np.multiply,
    "or": np.bitwise_or,
    "and": np.bitwise_and,
    "xor": np.bitwise_xor,
}
