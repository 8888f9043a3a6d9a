"""Local soundness, both ways: what scheme, signature and joins of a declaration allow together is what runs of its
kernel show, for every combination of states of the operands and every state of the result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import pytest

import tests.laws.drawn  # noqa: F401  (JAX computes what keys are for)
from calculus.linearity import Relation
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from verifier.samples import Sample
from verifier.trials.cases import DRAWN, RUN
from verifier.trials.claims import arguable, claimed, q_of
from verifier.trials.executions import DimState, combinations, confirmed, states, truth


def differences(primitive: Primitive, sample: Sample, other: Primitive | None = None) -> Iterator[str]:
    """Where a declaration and the runs of its kernel differ. `other`: only where the two declarations say different
    things."""
    dtypes = primitive.dtypes(sample.site)
    for number in range(len(primitive.scheme(sample.site).results)):
        scheme, q = q_of(primitive, sample, number)
        shape = scheme.shape(scheme.results[number])
        old = q_of(other, sample, number) if other else None
        for given in combinations(sample):
            looked = {
                state for at, state in enumerate(given) if at not in q.signature.unseen and isinstance(state, tuple)
            }
            others = {given[at] for at in q.signature.unseen}
            if others != looked and any(isinstance(state, tuple) for state in given) and others:
                continue  # what is not looked at is sliced like the others: the kernel has them in one shape
            said, joined = claimed(scheme, q, number, given), _joined(q, given)
            if old and (said, joined) == (claimed(*old, number, given), _joined(old[1], given)):
                continue
            yield from (f"{_shown(given)} is said to commute into {kind}" for kind in joined if f"U{kind}" not in said)
            excused = {
                state
                for state in states(shape)
                if state not in said and arguable(sample, given, state, dtypes[number], q.signature.unseen)
            }
            if not said and len(excused) == len(states(shape)):
                continue  # nothing to be seen
            right = truth(sample, given)[number]
            yield from (f"{_shown(given)} -> {_word(state)} reads back wrong" for state in said - right)
            yield from (
                f"{_shown(given)} -> {_word(state)} is sound, and refused"
                for state in right - said - excused
                if confirmed(sample, number, given, state)
            )


def _joined(q: Relation, given: tuple[DimState, ...]) -> set[str]:
    """The kinds that are declared to come of what is pending."""
    pending = {position for position, state in enumerate(given) if state != "C"}
    kinds = {given[position] for position in pending}
    if kinds not in ({"Umax"}, {"Umin"}):
        return set()
    return q.signature.joined(pending, "max" if kinds == {"Umax"} else "min")


def _word(state: DimState) -> str:
    return state if isinstance(state, str) else f"S{state[1]}"


def _shown(given: tuple[DimState, ...]) -> str:
    return f"({', '.join(map(_word, given))})"


FEW: Final = 50
CALLS: Final = [*RUN, *DRAWN]


def _chosen() -> list[Sample]:
    """Every call; of those with very many cells, one class of dtypes for each, and the first on every class."""
    first: dict[tuple[str, int], Sample] = {}
    for sample in CALLS:
        first.setdefault((sample.primitive, sample.number), sample)
    few = [math.prod(len(states(type.shape)) for type in sample.operands) <= FEW for sample in CALLS]
    return [
        sample
        for sample, small in zip(CALLS, few, strict=True)
        if small or sample.number == 0 or first[sample.primitive, sample.number] is sample
    ]


@pytest.mark.parametrize("sample", _chosen(), ids=str)
def test_local_is_what_runs_show(sample: Sample) -> None:
    assert not list(differences(TABLE[sample.primitive], sample))
