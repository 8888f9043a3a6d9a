"""Local soundness, both ways: what scheme, signature and joins of a declaration allow together is what runs of its
kernel show, for every combination of states of the operands and every state of the result."""

from __future__ import annotations

import math
from typing import Final

import pytest

from calculus.linearity import Relation
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from tests.laws.cases import RUN
from tests.laws.claims import arguable, claimed, q_of
from tests.laws.executions import DimState, confirmed, states, truth
from verifier.samples import Sample


def differences(primitive: Primitive, sample: Sample) -> list[str]:
    """Where a declaration and the runs of its kernel differ."""
    found = []
    dtypes = primitive.dtypes(sample.site)
    for number, sound in enumerate(truth(sample)):
        scheme, q = q_of(primitive, sample, number)
        for given, right in sound.items():
            cut = {state for state in given if isinstance(state, tuple)}
            if cut and any(given[position] not in cut for position in q.signature.unseen):
                continue  # what is not looked at is sliced like the others: the kernel has them in one shape
            said = claimed(scheme, q, number, given)
            found += _idle(q, given, said)
            found += [f"{_shown(given)} -> {_word(state)} reads back wrong" for state in said - right]
            found += [
                f"{_shown(given)} -> {_word(state)} is sound, and refused"
                for state in right - said
                if not arguable(sample, given, state, dtypes[number], q.signature.unseen)
                and confirmed(sample, number, given, state)
            ]
    return found


def _idle(q: Relation, given: tuple[DimState, ...], said: frozenset[DimState]) -> list[str]:
    """Joins that are declared and come to nothing."""
    pending = {position for position, state in enumerate(given) if state != "C"}
    kinds = {given[position] for position in pending}
    if kinds not in ({"Umax"}, {"Umin"}):
        return []
    joined = q.signature.joined(pending, "max" if kinds == {"Umax"} else "min")
    return [f"{_shown(given)} is said to commute into {kind}" for kind in joined if f"U{kind}" not in said]


def _word(state: DimState) -> str:
    return state if isinstance(state, str) else f"S{state[1]}"


def _shown(given: tuple[DimState, ...]) -> str:
    return f"({', '.join(map(_word, given))})"


def _chosen() -> list[Sample]:
    """Every call; of those with very many cells, one class of dtypes for each, and the first on every class."""
    first: dict[tuple[str, int], Sample] = {}
    for sample in RUN:
        first.setdefault((sample.primitive, sample.number), sample)
    few = [math.prod(len(states(type.shape)) for type in sample.operands) <= FEW for sample in RUN]
    return [
        sample
        for sample, small in zip(RUN, few, strict=True)
        if small or sample.number == 0 or first[sample.primitive, sample.number] is sample
    ]


FEW: Final = 50


@pytest.mark.parametrize("sample", _chosen(), ids=str)
def test_local_is_what_runs_show(sample: Sample) -> None:
    assert not differences(TABLE[sample.primitive], sample)
