"""The state of a result along every axis that is not plainly sharded or replicated: the relation Q, asked per axis.
Seeds A18, A20, A22, A25, A26."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from calculus.blame import blame
from calculus.cotangents import State
from calculus.linearity import AxisScheme, Relation, axis_scheme, literal_states, relation
from calculus.meshes import Mesh
from calculus.programs import Literal
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme
from calculus.signatures import Signature
from calculus.types import ArrayType, Axes, Type, array_type

Given: TypeAlias = "State | frozenset[State]"

_KINDS: Final = {"sum": "U", "max": "Umax", "min": "Umin"}
_KIND_OF: Final = {state: kind for kind, state in _KINDS.items()}
_MARKS: Final = ("R", *_KIND_OF)


@lru_cache(maxsize=None)
def _signature(text: str, operands: tuple[str, ...], joins: str) -> Signature:
    return Signature.parse(text, operands, joins)


def state_of_results(
    name: str,
    linearity: str,
    operand_names: tuple[str, ...],
    joins: str,
    scheme: Scheme,
    number: int,
    operands: Sequence[Type | Literal],
    arrays: Sequence[ArrayType | None],
    place: dict[int, Axes],
    lists: Sequence[Axes],
    printed: ArrayType | None,
    mesh: Mesh,
) -> tuple[Axes, Axes, str]:
    """The unreduced axes, the reduced axes and the kind of one result.

    Refuses `state` (no local reading), `transpose-communicates` (Local, not in Q), `result-state` (the printed state
    is another one), `choose-state` (several, and none printed), `two-kinds`.
    """
    axes: dict[str, None] = {}
    for type in (*arrays, printed):
        if type is not None and type.marked:
            axes.update(dict.fromkeys((*type.unreduced, *type.reduced)))
    if not axes:
        return (), (), "sum"
    signature = _signature(linearity, operand_names, joins).of(len(operands))
    sets = tuple(tuple(factor for dim in indices for factor in dim) for indices in scheme.operands)
    result = tuple(factor for dim in scheme.results[number] for factor in dim)
    gone = {factor for indices in sets for factor in indices if factor not in result}
    roles = {factor: role for factor, role in scheme.roles.items() if role == "whole" or factor in gone}
    one_axis = axis_scheme(sets, result, roles)
    q = relation(one_axis, signature)
    unreduced: list[str] = []
    reduced: list[str] = []
    kinds: set[str] = set()
    for axis in mesh.in_order(axes):
        states = [_given(axis, operand, type, place, factors) for operand, type, factors in zip(operands, arrays, sets, strict=True)]
        state = _one(name, axis, states, q, one_axis, signature, place, lists, scheme, number, printed, arrays)
        if state == "R":
            reduced.append(axis)
        elif state in _KIND_OF:
            unreduced.append(axis)
            kinds.add(_KIND_OF[state])
    if len(kinds) > 1:
        raise refuse(
            "two-kinds",
            f"the result of {name} would be unreduced of kind {' and '.join(sorted(kinds))}",
            because="a type has one kind of pending reduction",
            help="finish one of them first, with a reshard",
            place=Place("binder", number),
        )
    return tuple(unreduced), tuple(reduced), next(iter(kinds), "sum")


def _given(
    axis: str, operand: Type | Literal, type: ArrayType | None, place: dict[int, Axes], factors: Sequence[int]
) -> Given:
    """An operand's state along an axis, after the one implicit coercion: a copy that meets a cut dim is sliced."""
    if isinstance(operand, Literal):
        return literal_states(operand.zero)
    if type is None:
        return "N"
    state = type.state(axis)
    if state == "U":
        return _KINDS[type.kind]
    if state in ("S", "N", "R"):
        for factor in factors:
            if axis in place.get(factor, ()):
                return ("S", factor)
    return "N" if state == "S" else state


def _one(
    name: str,
    axis: str,
    states: list[Given],
    q: Relation,
    one_axis: AxisScheme,
    signature: Signature,
    place: dict[int, Axes],
    lists: Sequence[Axes],
    scheme: Scheme,
    number: int,
    printed: ArrayType | None,
    arrays: Sequence[ArrayType | None],
) -> State:
    said = _said(axis, printed, lists, scheme, number, place)
    marked = any(state in _MARKS for state in states if isinstance(state, str))
    if not marked and said not in _MARKS:
        return "N"  # an ordinary judgment: the target rule types it, and it pays
    found = q.results(states)
    if said is not None and said in found:
        return said
    if said is None:
        landed = {state for state in found if isinstance(state, tuple)} if any(axis in dim for dim in lists) else set()
        plain = {state for state in found if not isinstance(state, tuple)}
        choices = landed or plain
        if len(choices) == 1:
            return next(iter(choices))
        if choices and not marked:
            return "N"
        if choices:
            raise refuse(
                "choose-state",
                f"along {axis} the result of {name} may be {' or '.join(sorted(map(_word, choices)))}",
                because="each of them reads back right, with a free transpose",
                help="write the result's type after its name",
                place=Place("binder", number),
            )
    raise _no(name, axis, states, q, said, found, arrays, number, printed)


def _said(
    axis: str,
    printed: ArrayType | None,
    lists: Sequence[Axes],
    scheme: Scheme,
    number: int,
    place: dict[int, Axes],
) -> State | None:
    """The printed state along an axis, by factor where a dim is cut."""
    if printed is None:
        return None
    state = printed.state(axis)
    if state == "U":
        return _KINDS[printed.kind]
    if state == "S":
        for dim, axes in enumerate(printed.axes):
            if axis in axes and dim < len(scheme.results[number]):
                factors = scheme.results[number][dim]
                return ("S", next((factor for factor in factors if axis in place.get(factor, ())), factors[0] if factors else -1))
    return state


def _word(state: State) -> str:
    if isinstance(state, tuple):
        return "sharded"
    return {"N": "replicated", "R": "reduced", "U": "unreduced", "V": "varying"}.get(state, f"unreduced ({state[1:]})")


def _concrete(states: Sequence[Given]) -> tuple[State, ...]:
    """Literals stand for copies when a judgment is explained."""
    copies: State = "R" if any(state in ("R", "U") for state in states if isinstance(state, str)) else "N"
    return tuple(copies if isinstance(state, frozenset) else state for state in states)


def _no(
    name: str,
    axis: str,
    states: Sequence[Given],
    q: Relation,
    said: State | None,
    found: frozenset[State],
    arrays: Sequence[ArrayType | None],
    number: int,
    printed: ArrayType | None,
) -> Exception:
    concrete = _concrete(states)
    local = q.local_results(concrete)
    shown = ", ".join("literal" if isinstance(given, frozenset) else _word(given) for given in states)
    culprit = next((index for index, state in enumerate(concrete) if state in _MARKS), 0)
    place = Place("operand", culprit)
    if found and said is not None and said not in local:
        wanted = " or ".join(sorted(map(_word, found)))
        return refuse(
            "result-state",
            f"along {axis} the operands of {name} are ({shown}), so its result is {wanted}, not {_word(said)}",
            because=f"{_word(said)} reads the devices' blocks in another way, and gives another value",
            help=f"bind it {wanted} along {axis}, and reshard afterwards",
            place=Place("binder", number),
        )
    if local and (said is None or said in local):
        result = said if said is not None else min(local, key=str)
        return refuse(
            "transpose-communicates",
            f"{name} of ({shown}) along {axis} is right forward, and its transpose is not free",
            because=_because(q, concrete, result, axis),
            help=_repair(axis, concrete, arrays, found),
            place=_odd_one(concrete, place),
        )
    return refuse(
        "state",
        f"{name} of ({shown}) along {axis} reads back wrong",
        because=_because(q, concrete, None if said is not None and said not in local else said, axis),
        help=_repair(axis, concrete, arrays, found),
        place=place,
    )


def _because(q: Relation, states: tuple[State, ...], result: State | None, axis: str) -> str:
    found = blame(q, states, result, axis)
    return found.because if found else ""


def _odd_one(states: tuple[State, ...], place: Place) -> Place:
    """The operand that would have to be cast: a plain copy among marked operands."""
    for index, state in enumerate(states):
        if state == "N":
            return Place("operand", index)
    return place


def _repair(
    axis: str, states: tuple[State, ...], arrays: Sequence[ArrayType | None], found: frozenset[State]
) -> str:
    steps: list[str] = []
    for index, (state, type) in enumerate(zip(states, arrays, strict=True)):
        if type is None:
            continue
        if state == "N" and "U" in states and len(states) > 1:
            reduced = array_type(type.dtype, type.shape, type.axes, type.varying, type.unreduced, (*type.reduced, axis), type.kind)
            pending = array_type(type.dtype, type.shape, type.axes, type.varying, (*type.unreduced, axis), type.reduced, type.kind)
            steps.append(f"reshard operand {index} to {reduced} (to multiply) or {pending} (to add), free")
        elif state == "N" and "R" in states:
            reduced = array_type(type.dtype, type.shape, type.axes, type.varying, type.unreduced, (*type.reduced, axis), type.kind)
            steps.append(f"reshard operand {index} to {reduced}, free")
        elif state in _KIND_OF:
            rest = tuple(name for name in type.unreduced if name != axis)
            done = array_type(type.dtype, type.shape, type.axes, type.varying, rest, type.reduced, type.kind)
            steps.append(f"reshard operand {index} to {done} first, an all-reduce over {axis}")
    return "; or ".join(steps) or f"reshard along {axis} first"
