"""What the table says along one mesh axis: every relation that its declarations make, and the judgments of each.

A relation is what one axis sees of one result of one call: which factors each operand has, and in which it is linear.
Renaming factors makes no other relation, so that the sample calls of the whole table make some hundred. A judgment says
in which state each operand and the result is. The states are finitely many; nothing depends on the axis' size.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Final, NamedTuple

from calculus.cotangents import State
from calculus.linearity import KIND, Factor, Relation, States, axis_scheme, relation
from calculus.primitives import TABLE
from calculus.signatures import Signature
from calculus.states import relation_of
from verifier.samples import NoSample, samples

MOST: Final = 4
"""The most operands of a call whose judgments are all gone through. Calls with more are of primitives that take any
number of arrays, alike."""

PLAIN: Final[tuple[State, ...]] = ("N", "R", "U")


class Row(NamedTuple):
    """One relation, and the primitives whose calls make it."""

    relation: Relation
    primitives: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called in an objection."""
        return self.primitives[0]


@cache
def rows() -> tuple[Row, ...]:
    """The relations of the table, each once."""
    found: dict[Relation, dict[str, None]] = {}
    for name, primitive in TABLE.items():
        try:
            calls = samples(name)
        except NoSample:
            continue
        for call in calls:
            scheme = primitive.scheme(call.site)
            for number in range(len(scheme.results)):
                one = renamed(relation_of(primitive, call.site, scheme, number))
                if len(one.scheme.operands) <= MOST:
                    found.setdefault(one, {})[name] = None
    return tuple(Row(one, tuple(names)) for one, names in found.items())


def renamed(given: Relation) -> Relation:
    """The same relation with its factors called by number, in an order that their names do not decide."""
    scheme = given.scheme

    def place(factor: Factor) -> tuple[tuple[bool, ...], str]:
        return (*(factor in operand for operand in scheme.operands), factor in scheme.result), scheme.role(factor)

    factors = sorted(scheme.result.union(*scheme.operands), key=lambda factor: (place(factor), str(factor)))
    new = {factor: number for number, factor in enumerate(factors)}
    roles = {new[factor]: role for factor, role in scheme.reduced}
    sets = [[new[factor] for factor in operand] for operand in scheme.operands]
    made = axis_scheme(sets, [new[factor] for factor in scheme.result], roles, scheme.accumulator)
    return relation(made, given.signature)


def factors(given: Relation) -> list[Factor]:
    """The factors that an operand or the result has."""
    return sorted(given.scheme.result.union(*given.scheme.operands), key=str)


def judgments(given: Relation) -> Iterator[tuple[States, State]]:
    """Every judgment that Local allows, of the states N, R, U and S. Copies that meet what is cut are sliced first."""
    cut: list[State] = [("S", factor) for factor in factors(given)]
    own = [[*PLAIN, *(state for state in cut if state[1] in operand)] for operand in given.scheme.operands]
    for states in product(*own):
        for result in given.local_results(given.scheme.aligned(states)):
            if result not in KIND:
                yield states, result


def free(source: State, target: State) -> bool:
    """Whether a cast along the chain N, R ≼ S ≼ U takes one state to the other."""
    return source == target or source in ("N", "R") or (isinstance(source, tuple) and target == "U")


def restricted(given: Relation, factor: Factor | None) -> Relation:
    """What is left of a relation when all factors but one are forgotten."""
    scheme = given.scheme
    sets = [operand & {factor} for operand in scheme.operands]
    roles = {name: role for name, role in scheme.reduced if name == factor}
    return relation(axis_scheme(sets, scheme.result & {factor}, roles, scheme.accumulator), given.signature)


def every(arity: int) -> Iterator[Relation]:
    """Every relation of one factor and so many operands: each operand has the factor or not, it is passed on, summed,
    or only the result's; each operand is in some group, or not linear, or an index; a sum may start
    from an operand, which is then jointly linear with all that is linear."""
    for places in _placed(arity):
        groups = tuple(
            tuple(operand for operand, place in enumerate(places) if place == number)
            for number in range(max((*places, -1)) + 1)
        )
        nonlinear, index = (
            tuple(operand for operand, place in enumerate(places) if place == kind) for kind in (-1, -2)
        )
        signature = Signature(tuple(f"x{operand}" for operand in range(arity)), groups, nonlinear, index)
        for having in product((False, True), repeat=arity):
            sets = [{0} if has else set() for has in having]
            yield relation(axis_scheme(sets, {0}), signature)
            yield relation(axis_scheme(sets, ()), signature)
            if any(having):
                starts = [operand for operand, has in enumerate(having) if not has]
                for start in (None, *(one for one in starts if all(one in group for group in groups))):
                    yield relation(axis_scheme(sets, (), {0: "sum"}, start), signature)


def _placed(arity: int) -> Iterator[tuple[int, ...]]:
    """For each operand the number of its group, or -1 or -2; groups are numbered in the order in which they begin."""
    for places in product(range(-2, arity), repeat=arity):
        begun = -1
        for place in places:
            if place > begun + 1:
                break
            begun = max(begun, place)
        else:
            yield places
