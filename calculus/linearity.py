"""Linearity signatures, and the reduced/unreduced relation: which judgments on one mesh axis are free, with free
transposes. Nothing here is a policy; everything follows from a primitive's index scheme and its signature.

Fix one mesh axis. Each array is in one state along it (`State`): N, R, U, Umax, Umin, or ("S", f) where f is the factor
of the index scheme that is cut into blocks. A *judgment* is  (s₁ … sₙ) → s′.

* *Local*: for all legal families of blocks, the primitive's own kernel, run on each device's own blocks, gives a legal
  family of s′ that reads back the right value. No slicing, no masking. A factor that only the result has is
  broadcast; there the kernel may run at the local size.
* A judgment is *marked* if it mentions R or U.
* **Q is the greatest subset of Local such that every marked member of it also has**
  (T) for each linear operand i, the transposed judgment  (s[i := CT s′] → CT sᵢ)  in Q of the transposed primitive;
  (L) for each nonlinear differentiable operand i,  ((s′, sᵢ) → s′)  in Q of the multiplication that its tangent is.
* A judgment whose result is Umax or Umin has no cotangent, so (T) and (L) ask nothing of it.

(T) and (L) ask for finitely many judgments each, for all of them, never for one or another. Hence a judgment is in Q
exactly when every judgment that it leads to is Local: theorem `reachability` in proofs/linearity.md, beside
`greatest-fixed-point` (Q exists), `local` (the algebraic form of Local), `unique` and `conservative`. Why a judgment is
not in Q: calculus/blame.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from calculus.cotangents import State, cotangent_state
from calculus.signatures import Signature as Signature

Factor: TypeAlias = "int | str"
Role: TypeAlias = str
States: TypeAlias = "tuple[State, ...]"

NOTHING: Final[frozenset[State]] = frozenset()
COPIES: Final = frozenset({"N", "R"})
PENDING: Final[Mapping[Role, State]] = {"sum": "U", "max": "Umax", "min": "Umin"}
KIND: Final[Mapping[State, str]] = {"Umax": "max", "Umin": "min"}


@dataclass(frozen=True, slots=True)
class AxisScheme:
    """What one mesh axis sees of an index scheme: which factors each operand has, which the result has, by which
    monoid the others are reduced, and the operand that the reduction starts from. Build it with `axis_scheme`, which
    brings it into canonical form: factors that are needed whole are gone, since no device can do its part of them, and
    nothing starts where nothing is reduced."""

    operands: tuple[frozenset[Factor], ...]
    result: frozenset[Factor]
    reduced: frozenset[tuple[Factor, Role]]
    accumulator: int | None = None

    @property
    def broadcast(self) -> frozenset[Factor]:
        """The factors that only the result has."""
        return self.result.difference(*self.operands)

    def role(self, factor: Factor) -> Role:
        """`pass` (or broadcast), the monoid that reduces the factor, or `whole`."""
        if factor in self.result:
            return "pass"
        return next((monoid for name, monoid in self.reduced if name == factor), "whole")

    def aligned(self, states: States) -> States:
        """The design's one implicit coercion: where one factor is cut, operands in N or R that have this factor are
        sliced to it, free. Unchanged where no factor or several factors are cut."""
        cut = {state for state in states if isinstance(state, tuple)}
        if len(cut) != 1:
            return states
        (block,) = cut
        return tuple(
            block if state in COPIES and block[1] in factors else state
            for state, factors in zip(states, self.operands, strict=True)
        )


def axis_scheme(
    operands: Iterable[Iterable[Factor]],
    result: Iterable[Factor],
    roles: Mapping[int, Role] | Mapping[str, Role] | Mapping[Factor, Role] | None = None,
    accumulator: int | None = None,
) -> AxisScheme:
    """The canonical `AxisScheme`. `roles` names the monoid (`sum`, `max`, `min`, `prod`, `or`, `and`) of the factors
    that are reduced and `whole` for those that are needed whole. A factor that the result lacks and that no monoid
    reduces is needed whole. `accumulator` is the operand that the reduction starts from. Raises `ValueError` where the
    result or the accumulator has a reduced factor."""
    given: dict[Factor, Role] = dict(roles.items()) if roles else {}
    kept = {factor for factor, role in given.items() if role != "whole"}
    target = frozenset(result)
    if kept & target:
        raise ValueError(f"the result has the factors {sorted(map(str, kept & target))}, which are reduced")
    live = kept | {factor for factor in target if factor not in given}
    sets = tuple(frozenset(factors) & live for factors in operands)
    present = kept.intersection(frozenset[Factor]().union(*sets))
    if accumulator is not None and present & sets[accumulator]:
        raise ValueError(f"operand {accumulator} starts a reduction over factors that it has itself")
    reduced = frozenset((factor, given[factor]) for factor in present)
    return AxisScheme(sets, target & live, reduced, accumulator if reduced else None)


class Demand(NamedTuple):
    """One judgment that another leads to, by (T) (`transpose`) or (L) (`tangent`) with respect to an operand."""

    condition: str
    operand: int
    relation: Relation
    states: States
    result: State


class Relation:
    """Q on one mesh axis, for one scheme and one signature. Get it from `relation`, which shares it.

    Everything is computed on demand and remembered, so that a question costs one look-up the second time. Wherever a
    state is asked for, `results` also takes a frozenset of allowed states (see `literal_states`).
    """

    __slots__ = ("_in_q", "_local", "_results", "_tangents", "_transposes", "scheme", "signature")

    def __init__(self, scheme: AxisScheme, signature: Signature) -> None:
        self.scheme = scheme
        self.signature = signature
        self._in_q: dict[tuple[States, State], bool] = {}
        self._local: dict[States, frozenset[State]] = {}
        self._results: dict[tuple[State | frozenset[State], ...], frozenset[State]] = {}
        self._transposes: dict[int, tuple[Relation, tuple[int, ...]]] = {}
        self._tangents: dict[int, Relation] = {}

    def results(self, states: Sequence[State | frozenset[State]]) -> frozenset[State]:
        """The result states that Q allows. Where the primitive has no derivative at all the result has no cotangent
        either, and of N and R only one is left: R if some operand is R, else N.

        Of operands with several allowed states, those in one group of the signature with the same factors and the same
        allowed states choose alike; mixing N and R among them allows no further result.
        """
        key = tuple(states)
        found = self._results.get(key)
        if found is None:
            choices = self._choices(key)
            found = self._results[key] = frozenset(result for choice in choices for result in self._inferred(choice))
        return found

    def askable(self, states: Sequence[State | frozenset[State]]) -> frozenset[State]:
        """The result states that a caller may ask for: those of `results`, and where the primitive has no derivative,
        N and R alike. Devices hold the same value in both, and there is no cotangent to tell them apart."""
        found = self.results(states)
        return found | COPIES if found & COPIES and not self.signature.differentiable else found

    def local_results(self, states: Sequence[State]) -> frozenset[State]:
        """The result states that Local allows: right forward, whatever the transpose costs."""
        key = tuple(states)
        found = self._local.get(key)
        if found is None:
            found = self._local[key] = self._find_local(key)
        return found

    def contains(self, states: Sequence[State], result: State) -> bool:
        """Whether the judgment is in Q: whether it and all it leads to are Local."""
        start = (self, tuple(states), result)
        known = self._in_q.get(start[1:])
        if known is not None:
            return known
        seen = {start}
        todo = [start]
        holds = True
        while todo:
            relation, inputs, output = todo.pop()
            known = relation._in_q.get((inputs, output))
            if known:
                continue
            if known is False or output not in relation.local_results(inputs):
                holds = False
                break
            for demand in relation.demands(inputs, output):
                if demand[2:] not in seen:
                    seen.add(demand[2:])
                    todo.append(demand[2:])
        for relation, inputs, output in seen if holds else [start]:
            relation._in_q[inputs, output] = holds
        return holds

    def demands(self, states: States, result: State) -> Iterator[Demand]:
        """The judgments that (T) and (L) ask for, one for each distinct kind of operand."""
        if result in KIND or not (result in ("R", "U") or "R" in states or "U" in states):
            return
        seen: set[tuple[int, frozenset[Factor], State]] = set()
        for index, group in self.signature.linear_operands():
            kind = (group, self.scheme.operands[index], states[index])
            if kind not in seen:
                seen.add(kind)
                relation, kept = self.transposed(index)
                swapped = cotangent_state(result)
                inputs = tuple(swapped if operand == index else states[operand] for operand in kept)
                yield Demand("transpose", index, relation, inputs, cotangent_state(states[index]))
        cut = next((state for state in states if isinstance(state, tuple)), None)
        for index in self.signature.nonlinear:
            kind = (-1, self.scheme.operands[index], states[index])
            if kind not in seen:
                seen.add(kind)
                relation = self.tangent(index)
                before = cut is not None and cut[1] in relation.scheme.operands[0]
                coefficient = cut if cut is not None and before else result
                yield Demand("tangent", index, relation, (coefficient, states[index]), result)

    def transposed(self, operand: int) -> tuple[Relation, tuple[int, ...]]:
        """The relation of the transpose with respect to a linear operand, and the operands it keeps: those of other
        groups, and the cotangent in the operand's place. The index lists of operand and result change places; the
        result's factors that the operand lacks are summed over. What is added to an accumulator is not in its term,
        so its transpose keeps no operand that is reduced."""
        found = self._transposes.get(operand)
        if found is None:
            operands, result = self.scheme.operands, self.scheme.result
            others = set(next(group for group in self.signature.groups if operand in group)) - {operand}
            if operand == self.scheme.accumulator:
                added = {factor for factor, _ in self.scheme.reduced}
                others |= {i for i, factors in enumerate(operands) if factors & added}
            kept = tuple(i for i in range(self.signature.arity) if i not in others)
            target = operands[operand]
            sets = [result if i == operand else operands[i] for i in kept]
            roles = dict.fromkeys(frozenset[Factor]().union(*sets) - target, "sum")
            found = relation(axis_scheme(sets, target, roles), self.signature.transposed(operand, kept)), kept
            self._transposes[operand] = found
        return found

    def tangent(self, operand: int) -> Relation:
        """The relation of the tangent with respect to a nonlinear operand: coefficient times tangent, summed over the
        factors that the result lacks. The coefficient ∂f/∂xᵢ has the factors of the result and of the operand. For an
        elementwise primitive that is `mul` itself, and the coefficient is in the result's state, as the design says; a
        coefficient with a factor that is cut and reduced afterwards is still cut there."""
        found = self._tangents.get(operand)
        if found is None:
            result, factors = self.scheme.result, self.scheme.operands[operand]
            roles = dict.fromkeys(factors - result, "sum")
            found = self._tangents[operand] = relation(axis_scheme((result | factors, factors), result, roles), _MUL)
        return found

    def _find_local(self, states: States) -> frozenset[State]:
        if len(states) != len(self.scheme.operands):
            raise ValueError(f"{len(states)} states for {len(self.scheme.operands)} operands")
        cut = {state for state in states if isinstance(state, tuple)}
        if len(cut) > 1:
            return NOTHING
        if cut:
            return self._local_cut(states, cut.pop())
        pending = {index for index, state in enumerate(states) if state not in COPIES}
        if not pending:
            return COPIES.union(("S", factor) for factor in self.scheme.broadcast)
        kinds = {states[index] for index in pending}
        if len(kinds) > 1:
            return NOTHING
        kind = kinds.pop()
        if kind == "U":
            return frozenset({"U"}) if any(pending == set(group) for group in self.signature.groups) else NOTHING
        if kind not in KIND:
            return NOTHING
        alone = pending == {self.scheme.accumulator}
        monoids = set() if alone else {PENDING.get(monoid) for _, monoid in self.scheme.reduced}
        found = self.signature.joined(pending, KIND[kind])
        return frozenset(PENDING[target] for target in found if monoids <= {PENDING[target]})

    def _local_cut(self, states: States, block: State) -> frozenset[State]:
        factor = block[1]
        role = self.scheme.role(factor)
        start = self.scheme.accumulator if role in PENDING else None
        for index, (state, factors) in enumerate(zip(states, self.scheme.operands, strict=True)):
            if factor in factors:
                fits = state == block
            elif index == start:  # counted on every device; a maximum may count twice
                fits = state == PENDING[role] or (role != "sum" and state in COPIES)
            else:
                fits = state in COPIES
            if not fits:
                return NOTHING
        if role == "pass":
            return frozenset({block})
        return frozenset({PENDING[role]}) if role in PENDING else NOTHING

    def _inferred(self, states: States) -> frozenset[State]:
        found = frozenset(result for result in self.local_results(states) if self.contains(states, result))
        if self.signature.differentiable:
            return found
        return found - {"N" if "R" in states else "R"}

    def _choices(self, states: tuple[State | frozenset[State], ...]) -> Iterator[States]:
        sections = self.signature.sections()
        alike: dict[tuple[int, frozenset[Factor], frozenset[State]], list[int]] = {}
        for index, state in enumerate(states):
            if isinstance(state, frozenset):
                allowed = state if self.signature.differentiable or "N" not in state else state - {"R"}
                key = (sections[index], self.scheme.operands[index], allowed)
                alike.setdefault(key, []).append(index)
        chosen: list[State] = ["N" if isinstance(state, frozenset) else state for state in states]
        for values in itertools.product(*(key[2] for key in alike)):
            for indices, value in zip(alike.values(), values, strict=True):
                for index in indices:
                    chosen[index] = value
            yield tuple(chosen)


def literal_states(zero: bool, factors: Iterable[Factor] = ()) -> frozenset[State]:
    """The states a literal may be taken in: every one that its value has, and U only for zero, since n copies of zero
    are the one constant that sums to itself. Umax and Umin need no mention: N and R are already both."""
    return frozenset({"N", "R", *(["U"] if zero else []), *(("S", factor) for factor in factors)})


@cache
def relation(scheme: AxisScheme, signature: Signature) -> Relation:
    """The one `Relation` for this scheme and signature. Raises `ValueError` on a declaration that cannot be true: a
    linear operand under a reduction by another monoid than the sum, or an unequal number of operands."""
    if signature.arity != len(scheme.operands):
        raise ValueError(f"a signature of {signature.arity} operands for a scheme of {len(scheme.operands)}")
    wrong = sorted({monoid for _, monoid in scheme.reduced} - {"sum"})
    if signature.groups and wrong:
        raise ValueError(f"a reduction by {', '.join(wrong)} is linear in no operand")
    return Relation(scheme, signature)


_MUL: Final = Signature(("the coefficient", "the tangent"), ((0,), (1,)))
