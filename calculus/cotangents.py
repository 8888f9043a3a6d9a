"""The cotangent map: the type of a cotangent is a function of the primal's type. Seeds A2, A5, A26.

    state of the primal        state of its cotangent
    sharded on a dim           sharded on that dim
    replicated                 replicated
    varying                    varying
    reduced                    unreduced, kind sum
    unreduced, kind sum        reduced
    unreduced, kind max, min   none: a maximum over devices has no linear part

Where a cast from one state to another is free, each device making its block of its own, that is s ≼ t: R ≼ S ≼ U, and
N ≼ S. Theorems `involution`, `shape-is-kept`, `order-reversing` (of ≼ on R, S, U): proofs/cotangents.md.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from calculus.refusals import refuse
from calculus.types import ArrayType, OpaqueType, RefType, Type, array_type, dtype_class

State: TypeAlias = "str | tuple[str, int | str]"
"""A state along one mesh axis: `N`, `R`, `U` (kind sum), `Umax`, `Umin`, `V`, or `("S", factor)`."""

_SWAPPED: Final[dict[State, State]] = {"R": "U", "U": "R"}


def cotangent_state(state: State) -> State:
    """The cotangent's state along one mesh axis. Refuses `no-cotangent` for the kinds max and min."""
    if state in ("Umax", "Umin"):
        raise _none(f"kind {str(state)[1:]}")
    return _SWAPPED.get(state, state)


def cotangent_dtype(dtype: str) -> str:
    """The cotangent's dtype: the primal's, or `float0` where there is nothing to differentiate (integers, bools,
    keys). Refuses `unmodelled-construct` for an extended dtype that nobody has described."""
    kind = dtype_class(dtype)
    if kind in ("f", "c"):
        return dtype
    if kind == "o" and dtype != "float0" and not dtype.startswith("key<"):
        raise refuse(
            "unmodelled-construct",
            f"the cotangent of dtype {dtype} is not known",
            because="an extended dtype brings its own tangent dtype",
            help="differentiate with respect to arrays of a plain dtype",
        )
    return "float0"


def cotangent(type: Type) -> Type:
    """The type of the cotangents of values of this type: R and U swapped, all else kept (shape, dims' axes, varying
    axes, memory, weakness). A cell's cotangent is a cell. Refuses `no-cotangent` for the kinds max and min, and
    `unmodelled-construct` for a type that nobody has described."""
    if isinstance(type, ArrayType):
        found = type._cotangent
        if found is None:
            if type.kind != "sum":
                raise _none(f"{type}, of kind {type.kind},")
            found = type._cotangent = array_type(
                cotangent_dtype(type.dtype), type.shape, type.axes, type.varying, type.reduced, type.unreduced,
                memory=type.memory, weak=type.weak,
            )  # fmt: skip
        return found
    if isinstance(type, RefType):
        return RefType(cotangent(type.inner), type.space)
    if type == _TOKEN:
        return type
    raise refuse(
        "unmodelled-construct",
        f"the cotangent of {type} is not known",
        because="the type is kept verbatim and its meaning is not described",
        help="differentiate with respect to arrays only",
    )


_TOKEN: Final = OpaqueType("Tok")


def _none(what: str) -> Exception:
    return refuse(
        "no-cotangent",
        f"{what} has no cotangent",
        because="a maximum or minimum over devices that is still pending is not differentiable",
        help="finish the maximum or minimum with a reshard before differentiating",
    )
