"""Primitives that make arrays from nothing, or from other bits. Seed B24."""

from __future__ import annotations

from typing import Any

from calculus.parameters import dim_number, sizes
from calculus.primitives.declaration import NUMBERS, Primitive, Site, named_dtype
from calculus.primitives.elementwise import aligned
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, creation
from calculus.types import DTYPES, SHORT_NAMES, dtype_class


def _shape_scheme(site: Site) -> Scheme:
    return creation(sizes(site.parameters, "shape"))


def _counted(site: Site) -> Scheme:
    """`() -> [i,j]`, the dim that is counted along whole: a block of it does not begin at 0."""
    scheme = creation(sizes(site.parameters, "shape"))
    counted = dim_number(site.parameters, "dimension", len(scheme.sizes))
    return Scheme((), scheme.results, scheme.sizes, {counted: "whole"})


def _counting_dtype(site: Site) -> tuple[str, ...]:
    (found,) = named_dtype("dtype")(site)
    if dtype_class(found) not in NUMBERS:
        raise refuse(
            "dtype",
            f"iota counts in {found}",
            because="positions are numbers",
            place=Place("parameter", name="dtype"),
        )
    return (found,)


def _scalar_scheme(site: Site) -> Scheme:
    return creation(())


def _bitcast_dtype(site: Site) -> tuple[str, ...]:
    target = SHORT_NAMES.get(str(site.parameters.get("new_dtype")), "")
    source = site.dtypes[0]
    if source not in DTYPES or target not in DTYPES or DTYPES[source][1] != DTYPES[target][1]:
        raise refuse(
            "unmodelled-construct",
            f"a bitcast from {source} to {target or site.parameters.get('new_dtype')}",
            because="between dtypes of different widths a bitcast adds or drops a dim, which is not written",
            help="convert the element type instead, or keep the width",
            place=Place("parameter", name="new_dtype"),
        )
    if source != target and not {dtype_class(source), dtype_class(target)} <= {*"fiu"}:
        raise refuse(
            "dtype",
            f"a bitcast from {source} to {target}",
            because="the bits of truth values, complex numbers and keys are not for reading",
            help="convert the element type instead",
            place=Place("parameter", name="new_dtype"),
        )
    return (target,)


def _bitcast_linearity(site: Site) -> str:
    """Integers of one width add up alike, with a sign or without."""
    dtypes = {site.dtypes[0], *_bitcast_dtype(site)}
    return "x" if all(dtype is not None and dtype_class(dtype) in "iu" for dtype in dtypes) else "; x"


def _iota(np: Any, p: Any) -> Any:
    shape, dim = p["shape"], p["dimension"]
    steps = np.arange(shape[dim]).reshape([-1 if index == dim else 1 for index in range(len(shape))])
    return np.broadcast_to(steps, shape).astype(str(p["dtype"]))


def _bitcast(np: Any, p: Any, x: Any) -> Any:
    return x.view(str(p["new_dtype"]))


def _empty(np: Any, p: Any) -> Any:
    """Ones, which stand for anything: zeros could be pieces of a sum. Of `empty2` no shape is printed."""
    return np.ones(p.get("shape", ()), str(p["dtype"]))


CREATION = (
    Primitive("iota", (), "", _counted, _counting_dtype, target="sharding", kernel=_iota, sized="shape result"),
    # what is in memory, whatever that is, on each device: that it is written before it is read is assumed
    Primitive(
        "empty",
        (),
        "",
        _shape_scheme,
        named_dtype("dtype"),
        target="printed",
        kernel=_empty,
        sized="shape result",
        trusted=True,
    ),
    Primitive("empty2", (), "", _scalar_scheme, named_dtype("dtype"), kernel=_empty),
    Primitive("bitcast_convert_type", ("x",), _bitcast_linearity, aligned, _bitcast_dtype, kernel=_bitcast),
)
