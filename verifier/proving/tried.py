"""What is shown by running: the declared properties of opaque kernels, and that what is refused reads back wrong."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Final

import numpy as np

from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from verifier.proving.judgments import Judgment, of_declaration, of_dims, word
from verifier.proving.obligations import TESTED, Obligation
from verifier.samples import Sample, samples
from verifier.trials.cases import runs
from verifier.trials.claims import arguable, claimed
from verifier.trials.executions import LONG, DimState, Execution, combinations, confirmed, states

MOST: Final = 64
"""The most combinations of operand states of one call that are tried here; tests/laws/test_local.py tries more."""


def _chosen(sample: Sample) -> Sequence[tuple[DimState, ...]]:
    """All combinations, or so many drawn with a fixed seed."""
    every = combinations(sample)
    return every if len(every) <= MOST else random.Random(0).sample(every, MOST)


def objection(primitive: Primitive, sample: Sample, number: int, judgment: Judgment) -> str:
    """A run of an accepted judgment that reads back wrong; empty where every one is right."""
    states = of_dims(primitive, sample, number, judgment)
    if states is None or _right(primitive, sample, number, *states):
        return ""
    return f"a run of {judgment} on two devices reads back wrong"


def reads_back_right(primitive: Primitive, sample: Sample, number: int, judgment: Judgment) -> bool:
    """Whether a judgment reads back right in every one of very many runs."""
    states = of_dims(primitive, sample, number, judgment)
    return states is not None and _right(primitive, sample, number, *states, LONG)


def _right(
    primitive: Primitive, sample: Sample, number: int, given: tuple[DimState, ...], result: DimState, often: int = 0
) -> bool:
    execution = _execution(sample, primitive)
    left: list[list[DimState]] = [[result] if one == number else [] for one in range(len(execution.results))]
    return result in execution.sound(given, left, often)[number]


@lru_cache(maxsize=1)
def _execution(sample: Sample, primitive: Primitive) -> Execution:
    """The runs of a call, for all of its judgments; of another declaration by the same name others."""
    return Execution(sample)


def refusals(name: str) -> list[Obligation]:
    """Of each sample call of a primitive: what is refused as unsound is unsound (theorem `maximality`)."""
    primitive = TABLE[name]
    return [
        Obligation(
            f"maximality.{sample}",
            "maximality",
            f"of {sample}, every judgment that is refused as unsound reads back wrong in a run",
            check=partial(_refused, primitive, sample),
            basis=TESTED,
            domain=f"two devices, at the sizes of the sample, at most {MOST} combinations of states",
        )
        for sample in samples(name)
        if runs(sample)
    ]


def _refused(primitive: Primitive, sample: Sample) -> str:
    _, missing = unsound_unrefuted(primitive, sample)
    return f"no run refutes {', '.join(missing[:3])}" if missing else ""


def said_of(state: DimState) -> str:
    """A state of dims in words."""
    return f"sharded on dim {state[1]}" if isinstance(state, tuple) else word(state)


def unsound_unrefuted(
    primitive: Primitive, sample: Sample, elsewhere: Callable[..., bool] | None = None
) -> tuple[int, list[str]]:
    """How many judgments are refused as unsound, of one call; and those of which no run reads back wrong, though the
    states say something that anyone could want (`arguable`). elsewhere: whether other runs refute a number of a result,
    states of the operands, and a state of it."""
    count = 0
    missing: list[str] = []
    dtypes = primitive.dtypes(sample.site)
    execution = Execution(sample)
    for number in range(len(primitive.scheme(sample.site).results)):
        scheme, q = of_declaration(primitive, sample, number)
        shape = scheme.shape(scheme.results[number])
        for given in _chosen(sample):
            looked = {
                state for at, state in enumerate(given) if at not in q.signature.unseen and isinstance(state, tuple)
            }
            others = {given[at] for at in q.signature.unseen}
            if others != looked and any(isinstance(state, tuple) for state in given) and others:
                continue
            said = claimed(scheme, q, number, given)
            refused = [
                state
                for state in states(shape)
                if state not in said and not arguable(sample, given, state, dtypes[number], q.signature.unseen)
            ]
            if not refused:
                continue
            count += len(refused)
            execution.random = np.random.default_rng(zlib.crc32(repr(given).encode()))
            left = [list(refused) if one == number else [] for one in range(len(execution.results))]
            missing += [
                f"({', '.join(map(said_of, given))}) -> {said_of(state)}"
                for state in execution.sound(given, left)[number]
                if confirmed(sample, number, given, state) and not (elsewhere and elsewhere(number, given, state))
            ]
    return count, missing
