"""Contractions: the scheme is the kernel. Seeds A15 to A18, B26 to B28."""

from __future__ import annotations

from calculus.parameters import bad, required, sequence, whole_numbers
from calculus.primitives.declaration import INEXACT, NUMBERS, Primitive, Site
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, contraction
from calculus.types import DTYPES, SHORT_NAMES, dtype_class


def _dot_scheme(site: Site) -> Scheme:
    """`([b,i,k], [b,k,j]) -> [b,i,j]`, k reduced by sum: `dimension_numbers` = (contracting, batch), each a pair."""
    name = "dimension_numbers"
    pairs = [sequence(pair, name) for pair in sequence(required(site.parameters, name), name)]
    if len(pairs) != 2 or any(len(pair) != 2 for pair in pairs):
        raise bad(name, site.parameters[name], "((contracting, contracting), (batch, batch))")
    (left, right), (left_batch, right_batch) = ([whole_numbers(side, name) for side in pair] for pair in pairs)
    scheme = contraction(site.shapes[0], site.shapes[1], (left, right), (left_batch, right_batch))
    if site.dtypes[0] == "bool":
        return Scheme(scheme.operands, scheme.results, scheme.sizes, dict.fromkeys(scheme.roles, "or"))
    return scheme


def _dot_linearity(site: Site) -> str:
    """Bilinear, unless the products are formed in another arithmetic than the operands': int8 pieces that add up
    modulo 2^8 do not add up to the same products in int32."""
    if site.dtypes[0] == "bool":
        return "; x y"
    exact = all(dtype is None or dtype_class(dtype) in INEXACT or (dtype,) == _dot_dtype(site) for dtype in site.dtypes)
    return "x | y" if exact else "/ x y"


def _dot_dtype(site: Site) -> tuple[str, ...]:
    preferred = site.parameters.get("preferred_element_type")
    left, right = site.dtypes
    if preferred is not None:
        found = SHORT_NAMES.get(str(preferred), str(preferred))
        for index, dtype in enumerate(site.dtypes):
            if dtype is not None and not _widens(dtype, found):
                raise refuse(
                    "dtype",
                    f"operand {index} is {dtype}, and the products are asked for in {found}",
                    because="a contraction may compute in a wider dtype of the same class, never in another",
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


def _widens(dtype: str, wider: str) -> bool:
    """Whether a dtype's products fit the wider one's class: signs are kept, a real product may be complex."""
    before, after = dtype_class(dtype), dtype_class(wider)
    wide = DTYPES[dtype][1] <= DTYPES[wider][1] if dtype in DTYPES and wider in DTYPES else dtype == wider
    return wide and (before == after or (before == "u" and after == "i") or (before, after) == ("f", "c"))


CONTRACTION = (
    Primitive(
        "dot_general", ("x", "y"), _dot_linearity, _dot_scheme, _dot_dtype, target="printed", accepts=NUMBERS + "b"
    ),
)
