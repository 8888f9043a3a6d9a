"""Reductions: dims that leave, combined by a monoid; and scans along a dim, which need it whole. Seeds B21, B22."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calculus.parameters import bad, dim_number, integers
from calculus.primitives.declaration import (
    INEXACT,
    NUMBERS,
    DtypesOf,
    Kernel,
    Primitive,
    SchemeOf,
    Site,
    joins_on,
    named_dtype,
    same_dtype,
)
from calculus.schemes import Scheme, reduction, windowed
from calculus.types import dtype_class


def _reduced_by(monoid: str) -> SchemeOf:
    def scheme(site: Site) -> Scheme:
        return reduction(site.shapes[0], integers(site.parameters, "axes"), monoid)

    return scheme


def _row(
    name: str,
    monoid: str,
    linearity: str,
    kernel: Kernel,
    accepts: str = "fiuc",
    dtypes: DtypesOf = same_dtype,
    joins: str | Callable[[Site], str] = "",
) -> Primitive:
    return Primitive(name, ("x",), linearity, _reduced_by(monoid), dtypes, "out_sharding", kernel, accepts, joins)


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


def _axes(p: Any) -> Any:
    return tuple(p["axes"])


REDUCTIONS = (
    _row("reduce_sum", "sum", "x", lambda np, p, x: x.sum(_axes(p), dtype=x.dtype)),
    _row("reduce_max", "max", "/ x", lambda np, p, x: x.max(_axes(p)), "fiub", joins="max(x)"),
    _row("reduce_min", "min", "/ x", lambda np, p, x: x.min(_axes(p)), "fiub", joins="min(x)"),
    _row("reduce_prod", "prod", "/ x", lambda np, p, x: x.prod(_axes(p), dtype=x.dtype)),
    _row(
        "reduce_and",
        "and",
        "; x",
        lambda np, p, x: np.bitwise_and.reduce(x, _axes(p)),
        "iub",
        joins=joins_on(b="min(x)"),
    ),
    _row(
        "reduce_or", "or", "; x", lambda np, p, x: np.bitwise_or.reduce(x, _axes(p)), "iub", joins=joins_on(b="max(x)")
    ),
    _row("reduce_xor", "xor", "; x", lambda np, p, x: np.bitwise_xor.reduce(x, _axes(p)), "iub"),
    _search("argmax"),
    _search("argmin"),
    _cumulative("cumsum", "x", "add"),
    Primitive("cumlogsumexp", ("x",), "/ x", _along, same_dtype, kernel=_cumulated_logarithms, accepts=INEXACT),
    _cumulative("cumprod", "/ x", "multiply"),
    _cumulative("cummax", "/ x", "maximum", joins_on(fiu="max(x)")),
    _cumulative("cummin", "/ x", "minimum", joins_on(fiu="min(x)")),
)
