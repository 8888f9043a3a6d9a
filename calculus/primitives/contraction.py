"""Contractions: the scheme is the kernel. Seeds A15 to A18, B26 to B28."""

from __future__ import annotations

from calculus.parameters import bad, integer, required, sequence
from calculus.primitives.declaration import NUMBERS, Primitive, Site
from calculus.refusals import refuse
from calculus.schemes import Scheme, contraction
from calculus.types import SHORT_NAMES


def _dot_scheme(site: Site) -> Scheme:
    """`([b,i,k], [b,k,j]) -> [b,i,j]`, k reduced by sum: `dimension_numbers` = (contracting, batch), each a pair."""
    name = "dimension_numbers"
    pairs = [sequence(pair, name) for pair in sequence(required(site.parameters, name), name)]
    if len(pairs) != 2 or any(len(pair) != 2 for pair in pairs):
        raise bad(name, site.parameters[name], "((contracting, contracting), (batch, batch))")
    (left, right), (left_batch, right_batch) = (
        tuple([integer(dim, name) for dim in sequence(side, name)] for side in pair) for pair in pairs
    )
    return contraction(site.shapes[0], site.shapes[1], (left, right), (left_batch, right_batch))


def _dot_dtype(site: Site) -> tuple[str, ...]:
    preferred = site.parameters.get("preferred_element_type")
    if preferred is not None:
        return (SHORT_NAMES.get(str(preferred), str(preferred)),)
    left, right = site.dtypes
    if left != right or left is None:
        raise refuse(
            "dtype",
            f"operands of {left} and {right}, and no preferred_element_type",
            because="without it the result has the dtype that both operands have",
            help="print preferred_element_type",
        )
    return (left,)


CONTRACTION = (
    Primitive("dot_general", ("x", "y"), "x | y", _dot_scheme, _dot_dtype, target="printed", accepts=NUMBERS + "b"),
)
