"""Why a judgment on one mesh axis is refused, in one sentence of mathematics (`because` of a refusal).

Either the judgment is not Local: then the sentence says what the devices' own blocks fail to give. Or it is Local and
not in Q: then some chain of transposes and tangents leads out of Local, and the sentence follows a shortest one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from calculus.cotangents import State
from calculus.linearity import COPIES, KIND, Demand, Relation, States
from calculus.signatures import COTANGENT

_WORDS: Final[Mapping[State, str]] = {
    "N": "replicated",
    "R": "reduced",
    "U": "unreduced",
    "Umax": "unreduced of kind max",
    "Umin": "unreduced of kind min",
}


class Blame(NamedTuple):
    """Why a judgment is refused. local: whether it is right forward all the same (*one-way*, not *unsound*).
    operand: the one it is about; `None` if it is about the result. because: the sentence."""

    local: bool
    operand: int | None
    because: str


def blame(
    relation: Relation, states: Sequence[State], result: State | None = None, axis: str = "the axis"
) -> Blame | None:
    """Why the judgment, or every judgment from these states, is not in Q; `None` if there is nothing to blame.
    `axis` is the mesh axis's name, for the sentence."""
    inputs = tuple(states)
    local = relation.local_results(inputs)
    if not local or (result is not None and result not in local):
        return _not_local(relation, inputs, result, axis)
    if result is None:
        if any(relation.contains(inputs, state) for state in local):
            return None
        result = next(state for state in ("R", *sorted(local, key=str)) if state in local)
    if relation.contains(inputs, result):
        return None
    steps = way_out(relation, inputs, result)
    return Blame(True, steps[0].operand, _follow(relation, steps, axis))


def way_out(relation: Relation, states: States, result: State) -> tuple[Demand, ...]:
    """A shortest chain of demands from a Local judgment outside Q to one that is not Local. Empty if there is none,
    that is if the judgment is in Q."""
    chains: list[tuple[Demand, ...]] = [(demand,) for demand in relation.demands(states, result)]
    seen: set[tuple[Relation, States, State]] = set()
    for chain in chains:  # grows while it is read: breadth first
        last = chain[-1]
        if last.result not in last.relation.local_results(last.states):
            return chain
        if last[2:] not in seen:
            seen.add(last[2:])
            chains.extend((*chain, demand) for demand in last.relation.demands(last.states, last.result))
    return ()


def _word(state: State) -> str:
    return "sharded" if isinstance(state, tuple) else _WORDS.get(state, f"in state {state}")


def _follow(start: Relation, steps: Sequence[Demand], axis: str) -> str:
    said: list[str] = []
    names = start.signature.names
    for condition, operand, relation, inputs, output in steps:
        if condition == "transpose":
            given = _word(inputs[relation.signature.names.index(COTANGENT)])
            step = f"the transpose with respect to {names[operand]} takes a cotangent that is {given} to one that is"
        else:
            step = (
                f"the tangent with respect to {names[operand]} multiplies a coefficient that is {_word(inputs[0])} by "
                f"a tangent that is {_word(inputs[1])} to a result that is"
            )
        said.append(f"{step} {_word(output)}")
        names = relation.signature.names
    last = steps[-1]
    return f"{'; of that, '.join(said)}: {_gap(last.relation, last.states, last.result, axis)}"


def _gap(relation: Relation, states: States, result: State, axis: str) -> str:
    """What stands between the states and a result state that is not Local for them."""
    local = relation.local_results(states)
    if "U" in local:
        return f"a sum across {axis}{'' if result in COPIES else ' into blocks'}"
    if "N" in local and result == "U":
        return f"every device along {axis} would hold all of it, and the sum would count it once per device"
    if result in COPIES and any(isinstance(state, tuple) for state in local):
        return f"a gather of blocks across {axis}"
    return _not_local(relation, states, result, axis).because


def _not_local(relation: Relation, states: States, result: State | None, axis: str) -> Blame:
    names = relation.signature.names
    local = relation.local_results(states)
    if local:
        given = " or ".join(sorted(map(_word, local)))
        wanted = "in another state" if result is None else _word(result)
        return Blame(False, None, f"the devices along {axis} compute a result that is {given}, not {wanted}")
    cut = [index for index, state in enumerate(states) if isinstance(state, tuple)]
    pending = [index for index, state in enumerate(states) if not isinstance(state, tuple) and state not in COPIES]
    if not cut:
        return _no_commuting(relation, states, pending)
    first, block = names[cut[0]], states[cut[0]]
    start = relation.scheme.accumulator
    if start is not None and states[start] in COPIES and relation.scheme.role(block[1]) == "sum":
        return _counted(relation, states, start)
    if pending:
        part = names[pending[0]]
        because = f"a block of {first} would meet only its own device's piece of {part}, not all pieces"
        return Blame(False, pending[0], because)
    for index in cut:
        if states[index] != block:
            because = f"{first} and {names[index]} are cut along different dims, and only equal blocks meet"
            return Blame(False, index, because)
    for index, factors in enumerate(relation.scheme.operands):
        if block[1] in factors and states[index] != block:
            return Blame(False, index, f"a block of {first} would meet the whole of {names[index]}")
    return Blame(False, cut[0], f"no device can do its part with a block of {first}: the dim is needed whole")


def _no_commuting(relation: Relation, states: States, pending: Sequence[int]) -> Blame:
    names, groups = relation.signature.names, relation.signature.groups
    first = pending[0]
    kind = states[first]
    if any(states[index] != kind for index in pending):
        return Blame(False, first, "pieces of a sum, a maximum or a minimum do not combine with pieces of another kind")
    if kind in KIND:
        which = f"{'jointly ' if len(pending) > 1 else ''}with the {KIND[kind]}imum that is pending in "
        where = "over its whole dtype (wrapping and NaN included) the operation does not commute"
        return Blame(False, first, f"{where} {which}{', '.join(names[i] for i in pending)}")
    if kind != "U":
        return Blame(False, first, f"{names[first]} is {_word(kind)}, and such pieces have no common value")
    for index in pending:
        if not any(index in group for group in groups):
            return Blame(False, index, f"not additive in {names[index]}: f(x + y) is not f(x) + f(y)")
    group = next(group for group in groups if first in group)
    for index in pending:
        if index not in group:
            because = f"a product of two sums has terms that pair pieces of {names[first]} and {names[index]} from"
            return Blame(False, index, f"{because} different devices")
    return _counted(relation, states, next(index for index in group if index not in pending))


def _counted(relation: Relation, states: States, index: int) -> Blame:
    name, word = relation.signature.names[index], _word(states[index])
    return Blame(False, index, f"{name} is {word}: added on every device, it would count once per device")
