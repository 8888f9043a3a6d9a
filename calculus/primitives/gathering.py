"""A gather: windows of one array, at the places that an index array says (`x[indices]`, `take`, an embedding). What
windows are, and which dims travel to the result: `calculus.primitives.windows`."""

from __future__ import annotations

from typing import Any, Final

from calculus.parameters import bad, required, sizes
from calculus.primitives.declaration import INEXACT, Primitive, Site, like_operands
from calculus.primitives.windows import Names, begin, integer_places, mode, numbers, places_of, windows
from calculus.programs import Call, Parameters, Value
from calculus.refusals import Place
from calculus.schemes import Scheme
from calculus.types import dtype_class

NAMES: Final = Names(
    "GatherDimensionNumbers", "offset_dims", "collapsed_slice_dims", "start_index_map", "start_indices_batching_dims"
)


def _scheme(site: Site) -> Scheme:
    """`([V,d], [b,C]) -> [b,d]`, V and C needed whole: with places b and windows of a row."""
    shape, where = site.shapes
    places = places_of(where)
    _constant(site.parameters)
    said = numbers(site.parameters, NAMES, len(shape), places)
    found = windows(shape, where, sizes(site.parameters, "slice_sizes"), said, Place("parameter", name="slice_sizes"))
    operand = [() if shape[dim] == 1 and dim in said.single else one for dim, one in enumerate(found.array)]
    return Scheme((tuple(operand), found.indices), (found.windows,), found.sizes, found.roles)


def _dtype(site: Site) -> tuple[str, ...]:
    integer_places(site)
    return like_operands(0, 1)(site)


#: dtypes that lack NaN, or zero
_LACKING: Final = frozenset({"f4_e2m1fn", "f8_e8m0fnu"})


def _linearity(site: Site) -> str:
    """Linear, unless windows are filled with a constant that does not sum to itself: zero does, and NaN in the dtypes
    that have it; the least integer, which JAX fills with, does not."""
    fill, dtype = _constant(site.parameters), site.dtypes[0] or ""
    if fill is None:
        return "x ; indices"
    number = _number(fill)
    lasting = number is not None and (number == 0 or (number != number and dtype_class(dtype) in INEXACT))
    return "x ; indices" if lasting and dtype not in _LACKING else "/ x ; indices"


def _constant(parameters: Parameters) -> Value:
    """What windows that are not inside are filled with; `None` where none is filled."""
    fill = required(parameters, "fill_value")
    if mode(parameters) != "FILL_OR_DROP":
        return None
    if fill is None:
        raise bad("fill_value", "None", "the constant that windows are filled with")
    return fill


def filled(parameters: Parameters) -> complex | None:
    """The number that windows are filled with which are not inside; `None` where none is filled."""
    fill = _constant(parameters)
    return None if fill is None else _number(fill)


def _number(value: Value) -> complex | None:
    """A constant as a number, printed as `0`, `nan`, `(1+2j)` or `np.float32(0.0)`; `None` where it is none."""
    if isinstance(value, Call) and value.name.startswith("np.") and len(value.arguments) == 1 and not value.keywords:
        return _number(value.arguments[0])
    if isinstance(value, (int, str)):  # truth values too
        try:
            return complex(value)
        except (ValueError, OverflowError):
            return None
    return None


def _gather(np: Any, p: Any, x: Any, indices: Any) -> Any:
    said = numbers(p, NAMES, x.ndim, indices.ndim - 1)
    window, fill = sizes(p, "slice_sizes"), _constant(p)
    found = np.empty((*indices.shape[:-1], *(window[dim] for dim in said.kept(x.ndim))), x.dtype)
    for place in np.ndindex(*indices.shape[:-1]):
        first, inside = begin(said, place, indices[place], x.shape, window)
        part = x[tuple(slice(at, at + size) for at, size in zip(inside, window, strict=True))]
        if fill is not None and inside != first:
            found[place] = np.asarray(_number(fill) if x.dtype.kind == "c" else fill, x.dtype)
        else:
            found[place] = part.reshape(found.shape[len(place) :])
    places = [dim for dim in range(found.ndim) if dim not in said.windowed]
    return np.moveaxis(found, range(found.ndim), [*places, *said.windowed])


GATHERING = (
    Primitive(
        "gather",
        ("x", "indices"),
        _linearity,
        _scheme,
        _dtype,
        kernel=_gather,
        joins="x",
        sized="slice_sizes x",
    ),
)
