"""Reductions: dims that leave, combined by a monoid; and scans along a dim, which need it whole. Seeds B21, B22."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calculus.parameters import bad, dim_number, dim_numbers, integers
from calculus.primitives.declaration import (
    INEXACT,
    NUMBERS,
    DtypesOf,
    Kernel,
    Primitive,
    SchemeOf,
    Site,
    joins_on,
    like_operands,
    named_dtype,
    same_dtype,
)
from calculus.primitives.reducers import computed, held, reducer
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, reduction, windowed
from calculus.types import dtype_class


def _reduced_by(monoid: str) -> SchemeOf:
    def scheme(site: Site) -> Scheme:
        return reduction(site.shapes[0], integers(site.parameters, "axes"), monoid)

    return scheme


def _bitwise(name: str) -> SchemeOf:
    """By `or` or `and`. Of truth values these are the maximum and the minimum."""

    def scheme(site: Site) -> Scheme:
        monoid = {"or": "max", "and": "min"}[name] if site.dtypes[0] == "bool" else name
        return reduction(site.shapes[0], integers(site.parameters, "axes"), monoid)

    return scheme


def _row(
    name: str,
    monoid: str | SchemeOf,
    linearity: str,
    kernel: Kernel,
    accepts: str = "fiuc",
    dtypes: DtypesOf = same_dtype,
    joins: str | Callable[[Site], str] = "",
) -> Primitive:
    scheme = _reduced_by(monoid) if isinstance(monoid, str) else monoid
    return Primitive(name, ("x",), linearity, scheme, dtypes, "out_sharding", kernel, accepts, joins)


def _place_of(monoid: str) -> SchemeOf:
    """The scheme of a search for the place of an extreme, along one dim that has elements."""

    def scheme(site: Site) -> Scheme:
        shape, axes = site.shapes[0], integers(site.parameters, "axes")
        if len(axes) != 1 or not 0 <= axes[0] < len(shape) or shape[axes[0]] == 0:
            raise bad("axes", str(axes), "one dim, and one that has elements")
        return reduction(shape, axes, monoid)

    return scheme


def _index_dtype(site: Site) -> tuple[str, ...]:
    (found,) = named_dtype("index_dtype")(site)
    if dtype_class(found) not in "iu":
        raise bad("index_dtype", found, "an integer dtype")
    return (found,)


def _search(name: str) -> Primitive:
    def kernel(np: Any, p: Any, x: Any) -> Any:
        return getattr(x, name)(p["axes"][0])

    return Primitive(name, ("x",), "; x", _place_of(name), _index_dtype, "out_sharding", kernel, "fiub")


def _along(site: Site) -> Scheme:
    shape = site.shapes[0]
    return windowed([shape], shape, [dim_number(site.parameters, "axis", len(shape))])


def _cumulated_logarithms(np: Any, p: Any, x: Any) -> Any:
    """log(e^x₀ + e^x₁ + …), one term after the other."""
    ahead = np.moveaxis(np.flip(x, p["axis"]) if p["reverse"] else x, p["axis"], 0)
    found = np.empty_like(ahead)
    for index, term in enumerate(ahead):
        before = found[index - 1] if index else np.full_like(term, -np.inf)
        most = np.maximum(np.maximum(before.real, term.real), np.finfo(x.dtype).min)
        found[index] = most + np.log(np.exp(before - most) + np.exp(term - most))
    found = np.moveaxis(found, 0, p["axis"])
    return np.flip(found, p["axis"]) if p["reverse"] else found


def _cumulative(name: str, linearity: str, ufunc: str, joins: str | Callable[[Site], str] = "") -> Primitive:
    def kernel(np: Any, p: Any, x: Any) -> Any:
        if p["reverse"]:
            return np.flip(getattr(np, ufunc).accumulate(np.flip(x, p["axis"]), p["axis"], dtype=x.dtype), p["axis"])
        return getattr(np, ufunc).accumulate(x, p["axis"], dtype=x.dtype)

    return Primitive(name, ("x",), linearity, _along, same_dtype, kernel=kernel, accepts=NUMBERS, joins=joins)


def _folded_scheme(site: Site) -> Scheme:
    """Arrays of one shape, each with the number that it starts from: `([V,j], []) -> [j]`. Of a function that JAX has
    no name for it is not known how parts of a dim go together, so the dims are needed whole."""
    count = len(site.shapes) // 2
    arrays, starts = site.shapes[:count], site.shapes[count:]
    if len(starts) != count or any(starts) or any(shape != arrays[0] for shape in arrays):
        raise refuse(
            "shape",
            f"a reduction of {', '.join(str(list(shape)) for shape in site.shapes)}",
            because="its operands are arrays of one shape, and as many numbers to start from",
        )
    reducer(site.parameters, "jaxpr", "consts", site.dtypes[:count] * 2, site.dtypes[:count])
    dims = dim_numbers(site.parameters, "dimensions", len(arrays[0]))
    operand = tuple((dim,) for dim in range(len(arrays[0])))
    result = tuple(one for dim, one in enumerate(operand) if dim not in dims)
    return Scheme((operand,) * count + ((),) * count, (result,) * count, arrays[0], dict.fromkeys(dims, "whole"))


def _folded_dtypes(site: Site) -> tuple[str, ...]:
    found = []
    for number in range(len(site.dtypes) // 2):
        (dtype,) = like_operands(number, number + 1)(site)
        start = site.dtypes[len(site.dtypes) // 2 + number]
        if start not in (None, dtype):
            raise refuse(
                "dtype",
                f"a reduction of {dtype} starts from {start}",
                because="an element and what is reduced so far are of one dtype",
                help="insert a convert_element_type",
                place=Place("operand", len(site.dtypes) // 2 + number),
            )
        found.append(dtype)
    return tuple(found)


def _folded(np: Any, p: Any, *operands: Any) -> Any:
    """Element after element, which is one of the orders that there may be."""
    count = len(operands) // 2
    program = held(p, "jaxpr")
    dims = tuple(p["dimensions"])
    first = [np.moveaxis(array, dims, range(len(dims))) for array in operands[:count]]
    rows = [array.reshape(-1, *array.shape[len(dims) :]) for array in first]
    found = [np.broadcast_to(start, row.shape[1:]) for start, row in zip(operands[count:], rows, strict=True)]
    for each in zip(*rows, strict=True):
        found = computed(np, program, *found, *each)
    return found


def _axes(p: Any) -> Any:
    return tuple(p["axes"])


REDUCTIONS = (
    _row("reduce_sum", "sum", "x", lambda np, p, x: x.sum(_axes(p), dtype=x.dtype)),
    _row("reduce_max", "max", "/ x", lambda np, p, x: x.max(_axes(p)), "fiub", joins="max(x)"),
    _row("reduce_min", "min", "/ x", lambda np, p, x: x.min(_axes(p)), "fiub", joins="min(x)"),
    _row("reduce_prod", "prod", "/ x", lambda np, p, x: x.prod(_axes(p), dtype=x.dtype)),
    _row(
        "reduce_and",
        _bitwise("and"),
        "; x",
        lambda np, p, x: np.bitwise_and.reduce(x, _axes(p)),
        "iub",
        joins=joins_on(b="min(x)"),
    ),
    _row(
        "reduce_or",
        _bitwise("or"),
        "; x",
        lambda np, p, x: np.bitwise_or.reduce(x, _axes(p)),
        "iub",
        joins=joins_on(b="max(x)"),
    ),
    _row("reduce_xor", "xor", "; x", lambda np, p, x: np.bitwise_xor.reduce(x, _axes(p)), "iub"),
    Primitive("reduce", ("x...",), "/ x...", _folded_scheme, _folded_dtypes, kernel=_folded),
    _search("argmax"),
    _search("argmin"),
    _cumulative("cumsum", "x", "add"),
    Primitive("cumlogsumexp", ("x",), "/ x", _along, same_dtype, kernel=_cumulated_logarithms, accepts=INEXACT),
    _cumulative("cumprod", "/ x", "multiply"),
    _cumulative("cummax", "/ x", "maximum", joins_on(fiu="max(x)")),
    _cumulative("cummin", "/ x", "minimum", joins_on(fiu="min(x)")),
)
