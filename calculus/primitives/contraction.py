"""Contractions: the scheme is the kernel. Seeds A15 to A18, B26 to B28."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from calculus.parameters import bad, required, sequence, whole_numbers
from calculus.primitives.declaration import INEXACT, NUMBERS, Primitive, Site
from calculus.programs import Parameters, Value
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, contraction
from calculus.types import SHORT_NAMES, dtype_class


def _dot_scheme(site: Site) -> Scheme:
    """`([b,i,k], [b,k,j]) -> [b,i,j]`, k reduced by sum: `dimension_numbers` = (contracting, batch), each a pair."""
    scheme = contraction(site.shapes[0], site.shapes[1], *_paired_dims(site.parameters))
    monoid = gathered_by(site)
    if monoid == "sum":
        return scheme
    return Scheme(scheme.operands, scheme.results, scheme.sizes, dict.fromkeys(scheme.roles, monoid))


_Pair: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"


@lru_cache(maxsize=1024)
def _paired_dims(parameters: Parameters) -> tuple[_Pair, _Pair]:
    name = "dimension_numbers"
    return paired_dims(required(parameters, name), name)


def paired_dims(value: Value, name: str) -> tuple[_Pair, _Pair]:
    """The contracting and the batch dims, each of the left and of the right operand."""
    pairs = [sequence(pair, name) for pair in sequence(value, name)]
    if len(pairs) != 2 or any(len(pair) != 2 for pair in pairs):
        raise bad(name, value, "((contracting, contracting), (batch, batch))")
    (left, right), (left_batch, right_batch) = ([whole_numbers(side, name) for side in pair] for pair in pairs)
    return (left, right), (left_batch, right_batch)


def gathered_by(site: Site) -> str:
    """How products are gathered up: by a sum; truth values by `or`, which is their maximum; and a sum of real numbers
    that ends as an integer is cut off after it, so that parts of it do not add up (`cut-off-sum` is no monoid that
    anything is pending by)."""
    result = dtype_class(product_dtype(site)[0])
    if result == "b":
        return "max"
    real = any(dtype is not None and dtype_class(dtype) in INEXACT for dtype in site.dtypes)
    return "cut-off-sum" if result in "iu" and real else "sum"


def product_linearity(left: str, right: str) -> Callable[[Site], str]:
    """Bilinear, unless the products are formed in another arithmetic than the operands': int8 pieces that add up
    modulo 2^8 do not add up to the same products in int32."""

    def linearity(site: Site) -> str:
        (result,) = product_dtype(site)
        if result == "bool":
            return f"; {left} {right}"
        real = dtype_class(result) in INEXACT and all(
            dtype is None or dtype_class(dtype) in INEXACT for dtype in site.dtypes
        )
        exact = real or all(dtype in (None, result) for dtype in site.dtypes)
        return f"{left} | {right}" if exact else f"/ {left} {right}"

    return linearity


def product_dtype(site: Site) -> tuple[str, ...]:
    """The dtype that products are asked for in, or the one that both operands have."""
    preferred = site.parameters.get("preferred_element_type")
    left, right = site.dtypes
    if preferred is not None:
        found = SHORT_NAMES.get(str(preferred), str(preferred))
        for index, dtype in enumerate(site.dtypes):
            if dtype is not None and not _holds(dtype, found):
                raise refuse(
                    "dtype",
                    f"operand {index} is {dtype}, and the products are asked for in {found}",
                    because="products are formed in a dtype of the same class",
                    help="insert a convert_element_type",
                    place=Place("parameter", name="preferred_element_type"),
                )
        return (found,)
    if left != right or left is None:
        raise refuse(
            "dtype",
            f"operands of {left} and {right}, and no preferred_element_type",
            because="without it the result has the dtype that both operands have",
            help="print preferred_element_type",
        )
    return (left,)


def _holds(dtype: str, products: str) -> bool:
    """Whether products of this dtype can be asked for in another: of the same class, wider or narrower (which rounds);
    unsigned ones as integers, real ones as complex."""
    before, after = dtype_class(dtype), dtype_class(products)
    return before == after or (before, after) in (("u", "i"), ("f", "c"), ("f", "i"))


def _dot_joins(site: Site) -> str:
    """Of truth values a product is their minimum, and what it is gathered by is their maximum."""
    if gathered_by(site) != "max":
        return ""
    (contracted, _), _ = _paired_dims(site.parameters)
    return "max(x) | max(y)" if contracted else "min(x y) | x | y"


CONTRACTION = (
    Primitive(
        "dot_general",
        ("x", "y"),
        product_linearity("x", "y"),
        _dot_scheme,
        product_dtype,
        target="printed",
        accepts=NUMBERS + "b",
        joins=_dot_joins,
    ),
)
