"""Tangents and cotangents that a person hands to a derivative: the seed of a pull-back, the result of a rule of one's
own. Seeds A2, A12, A26.

    p : τ    c : σ    σ = cotangent(τ), or c is a constant that is in every state of cotangent(τ)
    ─────────────────────────────────────────────────────────────────────────────────────────────
    c is a cotangent of p

A constant is the same on every device of every mesh, so it is sharded, replicated, reduced or varying at will. It is
unreduced only as zero: what is pending is the sum over the devices, and n copies of 1.0 sum to n.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from calculus.cotangents import cotangent
from calculus.linearity import literal_states
from calculus.meshes import Mesh
from calculus.reconciling import turned
from calculus.refusals import Place, refuse
from calculus.types import ArrayType, Type, array_type, dtype_class, same

TANGENT: Final = "tangent"
COTANGENT: Final = "cotangent"


class Handed(NamedTuple):
    """What is handed in. what: as people call it (`the seed of the pull-back`). kind: `tangent` or `cotangent`, of a
    value of type primal. constant: whether it lies on no mesh, a number or an array of the program's text; zero:
    whether it is one of zeros."""

    what: str
    kind: str
    primal: ArrayType
    type: ArrayType
    constant: bool = False
    zero: bool = False


def wanted(kind: str, primal: Type) -> ArrayType | None:
    """The type of a value's tangents or cotangents; `None` where nothing changes (integers, cells, tokens). A tangent
    lies as its primal does. Refuses `no-cotangent` for the kinds max and min."""
    if not isinstance(primal, ArrayType) or dtype_class(primal.dtype) not in ("f", "c"):
        return None
    found = cotangent(primal)
    return found if kind == COTANGENT and isinstance(found, ArrayType) else primal


def hold(handed: Handed, mesh: Mesh) -> None:
    """Refuses `inconsistent-type` for what is not of the type that the primal's determines, and `no-cotangent`. Which
    of the floating dtypes it has is no matter: JAX casts it."""
    type = wanted(handed.kind, handed.primal)
    if type is None:
        return
    given = handed.type
    if {dtype_class(given.dtype), dtype_class(type.dtype)} <= {"f", "c"}:
        given = _at(given, type.dtype)
    if same(given, type) or (handed.constant and given.shape == type.shape and fits(type, handed.zero)):
        return
    way = turned(given, type, mesh)
    raise refuse(
        "inconsistent-type",
        f"{handed.what} is {'the same constant on every device, ' if handed.constant else ''}{handed.type}; "
        f"a {handed.kind} of {handed.primal} is {type}",
        because=_because(handed, type),
        help=way.of("it", type) if way is not None else contributed(given, type) or f"give it at {type}",
        place=Place("operand", 0),
    )


def fits(type: ArrayType, zero: bool) -> bool:
    """Whether a constant is of this type as it is."""
    states = literal_states(zero)
    return all(state in states or state == "V" for state in map(type.state, (*type.unreduced, *type.reduced)))


def contributed(given: ArrayType, type: ArrayType) -> str:
    """What is meant where each device gives its own contribution to what they share; nothing where that is not so."""
    if (given.shape, given.axes) != (type.shape, type.axes):
        return ""
    ways = {"U": "say that what the devices have are pieces of a sum over", "N": "sum what the devices have over"}
    found = [(axis, type.state(axis)) for axis in given.varying if type.state(axis) != "V"]
    if (
        not found
        or any(state not in ways for _, state in found)
        or given.without([axis for axis, _ in found]).mentioned
    ):
        return ""
    return "; ".join(f"{ways[state]} {axis}" for axis, state in found)


def _at(type: ArrayType, dtype: str) -> ArrayType:
    return array_type(dtype, type.shape, type.axes, type.varying, type.unreduced, type.reduced, type.kind, type.memory)


def _because(handed: Handed, type: ArrayType) -> str:
    function = f"the type of a {handed.kind} is a function of the primal's type (A2)"
    given = handed.type
    if given.shape != type.shape:
        return f"{function}: its shape is {list(type.shape)}, not {list(given.shape)}"
    if _at(given, type.dtype) is type or dtype_class(given.dtype) not in ("f", "c"):
        return f"{function}: its dtype is {type.dtype}, not {given.dtype}"
    if pending := [axis for axis in type.unreduced if given.state(axis) in ("N", "R")]:
        axes = ", ".join(pending)
        return f"{function}: its value is the sum over {axes}, so the same on every device counts once for each of them"
    for axis in dict.fromkeys((*type.mentioned, *given.mentioned)):
        have, want = given.state(axis), type.state(axis)
        if have != want:
            return f"{function}: along {axis} it is {STATES[want[0]]}, and what is given is {STATES[have[0]]}"
    return function


STATES: Final = {"S": "sharded", "V": "varying", "U": "unreduced", "R": "reduced", "N": "replicated"}
