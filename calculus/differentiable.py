"""Which types have tangents that are not all zero."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calculus.cotangents import cotangent, cotangent_dtype
from calculus.refusals import Place, Refused, refuse
from calculus.types import ArrayType, Type


def differentiable(type: Type) -> bool:
    """Whether values of this type have tangents that are not all zero."""
    return isinstance(type, ArrayType) and cotangent_dtype(type.dtype) != "float0"


def floating(types: Iterable[Type | None]) -> tuple[int, ...]:
    """The positions of what has a cotangent."""
    return tuple(at for at, type in enumerate(types) if type is not None and differentiable(type))


def differentiable_inputs(types: Sequence[Type], wrt: Sequence[int], what: str, held: int) -> None:
    """That these inputs (counted from 0, after `held` constants) have what is asked for, a tangent or a gradient.
    Refuses `no-cotangent`."""
    for index in wrt:
        place = Place("input", held + index)
        try:
            cotangent(types[index])  # there is one: nothing pends by max or min
        except Refused as refused:
            refused.refusal.place = place
            raise
        if not differentiable(types[index]):
            raise refuse(
                "no-cotangent",
                f"input {index} is {types[index]}",
                because=f"only what changes continuously has a {what}",
                help="differentiate with respect to floating inputs",
                place=place,
            )
