"""Reductions: dims that leave, combined by a monoid; and scans along a dim, which need it whole. Seeds B21, B22."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calculus.parameters import integer, integers, required
from calculus.primitives.declaration import (
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


def _along(site: Site) -> Scheme:
    return windowed([site.shapes[0]], site.shapes[0], [integer(required(site.parameters, "axis"), "axis")])


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
    _row("argmax", "argmax", "; x", lambda np, p, x: x.argmax(p["axes"][0]), "fiub", named_dtype("index_dtype")),
    _row("argmin", "argmin", "; x", lambda np, p, x: x.argmin(p["axes"][0]), "fiub", named_dtype("index_dtype")),
    _cumulative("cumsum", "x", "add"),
    _cumulative("cumprod", "/ x", "multiply"),
    _cumulative("cummax", "/ x", "maximum", joins_on(fiu="max(x)")),
    _cumulative("cummin", "/ x", "minimum", joins_on(fiu="min(x)")),
)
