"""The state of a result along every axis that is not plainly sharded or replicated: the relation Q, asked per axis.
Seeds A18, A20, A22, A25, A26."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from calculus.blame import blame
from calculus.cotangents import State
from calculus.linearity import Relation, axis_scheme, literal_states, relation
from calculus.placement import Placed
from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Literal
from calculus.refusals import Place, refuse
from calculus.repairs import repairs
from calculus.schemes import Scheme
from calculus.signatures import Signature
from calculus.types import ArrayType, Axes
from calculus.uses import Use

Given: TypeAlias = "State | frozenset[State]"

_KINDS: Final = {"sum": "U", "max": "Umax", "min": "Umin"}
_KIND_OF: Final = {state: kind for kind, state in _KINDS.items()}
_MARKS: Final = ("R", *_KIND_OF)


def relation_of(primitive: Primitive, site: Site, scheme: Scheme, number: int) -> Relation:
    """The relation Q of one result of a call, whose scheme this is."""
    signature = primitive.read(site._replace(number=number))
    result = {factor for dim in scheme.results[number] for factor in dim}
    roles = {factor: role for factor, role in scheme.roles.items() if role == "whole" or factor not in result}
    sets = _factors(scheme, signature)
    return relation(axis_scheme(sets, result, roles, scheme.accumulator), signature)


def _factors(scheme: Scheme, signature: Signature) -> tuple[tuple[int, ...], ...]:
    """The factors of each operand that is looked at."""
    return tuple(
        () if index in signature.unseen else tuple(factor for dim in indices for factor in dim)
        for index, indices in enumerate(scheme.operands)
    )


def state_of_result(
    use: Use, place: Placed, lists: Sequence[Axes], printed: ArrayType | None
) -> tuple[Axes, Axes, str]:
    """The unreduced axes, the reduced axes and the kind of one result, whose dims have these lists.

    Refuses `state` (no local reading), `transpose-communicates` (Local, not in Q), `result-state` (the printed state
    is another one), `choose-state` (several, and none printed), `two-kinds`.
    """
    axes: dict[str, None] = {}
    for type in (*use.arrays, printed):
        if type is not None and type.marked:
            axes.update(dict.fromkeys((*type.unreduced, *type.reduced)))
    if not axes:
        return (), (), "sum"
    primitive, scheme = use.primitive, use.scheme
    q = relation_of(primitive, use.site, scheme, use.number)
    sets = _factors(scheme, q.signature)
    question = _Question(use, place, lists, printed, sets, q)
    unreduced: list[str] = []
    reduced: list[str] = []
    kinds: set[str] = set()
    for axis in use.mesh.in_order(axes):
        state = question.answer(axis)
        if state == "R":
            reduced.append(axis)
        elif state in _KIND_OF:
            unreduced.append(axis)
            kinds.add(_KIND_OF[state])
    if len(kinds) > 1:
        raise refuse(
            "two-kinds",
            f"the result of {primitive.name} would be unreduced of kind {' and '.join(sorted(kinds))}",
            because="a type has one kind of pending reduction",
            help="finish one of them first, with a reshard",
            place=Place("binder", use.number),
        )
    return tuple(unreduced), tuple(reduced), next(iter(kinds), "sum")


def _endless(text: str) -> bool:
    """Whether a literal is infinite, or no number."""
    return "inf" in text.lower() or "nan" in text.lower()


class _Question(NamedTuple):
    """What Q is asked about one result, axis by axis."""

    use: Use
    place: Placed
    lists: Sequence[Axes]
    printed: ArrayType | None
    factors: tuple[tuple[int, ...], ...]
    q: Relation

    def answer(self, axis: str) -> State:
        """The result's state along an axis."""
        states = [self._given(axis, index) for index in range(len(self.use.operands))]
        said = self._said(axis)
        marked = any(state in _MARKS for state in states if isinstance(state, str))
        if not marked and (said not in _MARKS or self.use.unasked):
            return "N"  # an ordinary judgment: the target rule types it, and it pays
        found = self.q.results(states)
        if found and "U" in states:
            self._scaled()
        if said is not None and said in (self.q.askable(states) if self.use.targeted else found):
            return said
        if said is None:
            landed = any(axis in dim for dim in self.lists)
            choices = {state for state in found if isinstance(state, tuple) == landed}
            if len(choices) == 1:
                return next(iter(choices))
            if choices and not marked:
                return "N"
            if choices:
                raise refuse(
                    "choose-state",
                    f"along {axis} the result of {self.use.primitive.name} may be "
                    f"{' or '.join(sorted(map(_word, choices)))}",
                    because="each of them reads back right, with a free transpose",
                    help="write the result's type after its name",
                    place=Place("binder", self.use.number),
                )
        raise self._no(axis, states, said, found)

    def _scaled(self) -> None:
        """Refuses a number beside pieces of a sum of which it makes infinite ones: pieces have both signs, and
        infinities of both signs add up to no number, whatever the sum of the pieces is."""
        nonlinear = self.q.signature.nonlinear
        for index, operand in enumerate(self.use.operands):
            if isinstance(operand, Literal) and (_endless(operand.text) or (operand.zero and index in nonlinear)):
                raise refuse(
                    "state",
                    f"{self.use.primitive.name} of a pending sum and the number {operand.text}",
                    because="it makes pieces of both signs infinite, and infinities of both signs add up to no number",
                    help="finish the sum first",
                    place=Place("operand", index),
                )

    def _given(self, axis: str, index: int) -> Given:
        """An operand's state, after the one implicit coercion: a copy that meets a cut dim is sliced."""
        operand, type = self.use.operands[index], self.use.arrays[index]
        if index in self.q.signature.unseen:
            return "N"
        if isinstance(operand, Literal):
            return literal_states(operand.zero)
        if type is None:
            return "N"
        state = type.state(axis)
        if state == "U":
            return _KINDS[type.kind]
        if state != "V":
            own = self.factors[index]
            if state == "S":  # where it is cut itself: another of its factors may be cut on the same axis elsewhere
                dims = zip(self.use.scheme.operands[index], type.axes, strict=True)
                own = next(dim for dim, axes in dims if axis in axes)
            for factor in own:
                axes = self.place.get(factor, ())
                if axis in axes and (state == "S" or self._sliced(type, index, factor, axes)):
                    return ("S", factor)
        if state == "R" and self.q.signature.differentiable and index in self.q.signature.index:
            return "N"  # it is looked up, never differentiated: of the result, its mark says nothing
        return "N" if state == "S" else state

    def _sliced(self, type: ArrayType, index: int, factor: int, axes: Axes) -> bool:
        """Whether a copy can be sliced along a factor: none of the factor's axes cuts another of its dims."""
        dims = zip(self.use.scheme.operands[index], type.axes, strict=True)
        return all(factor in dim or set(axes).isdisjoint(own) for dim, own in dims)

    def _said(self, axis: str) -> State | None:
        """The printed state, by factor where a dim is cut."""
        if self.printed is None:
            return None
        state = self.printed.state(axis)
        if state == "U":
            return _KINDS[self.printed.kind]
        if state == "S":
            for dim, axes in zip(self.use.scheme.results[self.use.number], self.printed.axes, strict=False):
                if axis in axes:
                    return ("S", next((one for one in dim if axis in self.place.get(one, ())), dim[0] if dim else -1))
        return state

    def _no(self, axis: str, states: Sequence[Given], said: State | None, found: frozenset[State]) -> Exception:
        name = self.use.primitive.name
        concrete = _concrete(states)
        local = self.q.local_results(concrete)
        shown = ", ".join("literal" if isinstance(given, frozenset) else _word(given) for given in states)
        if found and said is not None and said not in local:
            wanted = " or ".join(sorted(set(map(_word, found))))
            return refuse(
                "result-state",
                f"along {axis} the operands of {name} are ({shown}), so its result is {wanted}, not {_word(said)}",
                because=f"{_word(said)} reads the devices' blocks in another way, and gives another value",
                help=f"bind it {wanted} along {axis}, and reshard afterwards",
                place=Place("binder", self.use.number),
            )
        one_way = bool(local) and (said is None or said in local)
        if not one_way:  # a constant counts as what it is: the same on every device
            concrete = tuple("N" if isinstance(given, frozenset) else given for given in states)
        why = blame(self.q, concrete, said if one_way else None, axis)
        odd = "N" if one_way and "N" in concrete else next((s for s in concrete if s in _MARKS), concrete[0:1])
        those = [index for index, state in enumerate(concrete) if state == odd]
        marked = next((index for index in those if index not in self.q.signature.index), those[0] if those else 0)
        return refuse(
            "transpose-communicates" if one_way else "state",
            f"{name} of ({shown}) along {axis} is right forward, and its transpose is not free"
            if one_way
            else f"{name} of ({shown}) along {axis} reads back wrong",
            because=why.because if why else "",
            help=lambda: self._repair(axis, states, said, found if one_way else frozenset()),
            place=Place("operand", why.operand if not one_way and why and why.operand is not None else marked),
        )

    def _repair(self, axis: str, states: Sequence[Given], said: State | None, free: frozenset[State]) -> str:
        """Ways out, the cheapest first: another type for the result, where its operands have one that is `free`;
        reshards of operands that lead to the type printed; those that lead to another."""
        words = " or ".join(sorted(set(map(_word, free))))
        ways = [f"bind the result {words} along {axis}: free, and so is its transpose"] if words else []
        numbers = (operand.type if isinstance(operand, Literal) else None for operand in self.use.operands)
        literals = (type if isinstance(type, ArrayType) else None for type in numbers)
        arrays = [type or number for type, number in zip(self.use.arrays, literals, strict=True)]
        found = repairs(axis, states, arrays, said, self.q, self.use.mesh)
        others = repairs(axis, states, arrays, None, self.q, self.use.mesh)
        ways += map(str, found or others)
        another = next((one for one in others if one not in found), None)
        if found and another is not None and not ways[0].startswith("bind"):
            ways.append(f"with another result, {another}")
        if not ways and all(isinstance(state, tuple) for state in states):
            return f"reshard one of them, so that {axis} cuts the same dim of both, or none"
        return "; or ".join(ways) or f"finish what is pending along {axis} first, with a reshard"


def _word(state: State) -> str:
    if isinstance(state, tuple):
        return "sharded"
    return {"N": "replicated", "R": "reduced", "U": "unreduced", "V": "varying"}.get(state, f"unreduced ({state[1:]})")


def _concrete(states: Sequence[Given]) -> tuple[State, ...]:
    """Literals stand for copies when a judgment is explained."""
    copies: State = "R" if any(state in ("R", "U") for state in states if isinstance(state, str)) else "N"
    return tuple(copies if isinstance(state, frozenset) else state for state in states)
