"""What is shown by running: the declared properties of opaque kernels, and that what is refused reads back wrong."""

from __future__ import annotations

from calculus.primitives.declaration import Primitive
from verifier.proving.judgments import Judgment, of_declaration
from verifier.samples import Sample
from verifier.trials import cases
from verifier.trials.claims import arguable, claimed, cut_factor
from verifier.trials.executions import DimState, Execution, combinations, confirmed, states, truth


def runs(sample: Sample) -> bool:
    """Whether there is a function of ours to run."""
    return sample in _RUN


_RUN = frozenset(cases.RUN)


def objection(primitive: Primitive, sample: Sample, number: int, judgment: Judgment) -> str:
    """A run of an accepted judgment that reads back wrong; empty where every one is right."""
    scheme, _ = of_declaration(primitive, sample, number)
    given = []
    for position, state in enumerate(judgment.given):
        found = _dim(scheme, scheme.operands[position], state)
        if found is None:
            return ""
        given.append(found)
    result = _dim(scheme, scheme.results[number], judgment.result)
    if result is None:
        return ""
    execution = Execution(sample)
    left: list[list[DimState]] = [[result] if one == number else [] for one in range(len(execution.results))]
    if result in execution.sound(tuple(given), left)[number]:
        return ""
    return f"a run of {judgment} on two devices reads back wrong"


def _dim(scheme: object, indices: object, state: object) -> DimState | None:
    """A state of factors as one of dims; `None` where no dim can be cut in two so."""
    if not isinstance(state, tuple):
        return state  # type: ignore[return-value]
    for dim in range(len(indices)):  # type: ignore[arg-type]
        if cut_factor(scheme, indices, dim) == state[1]:  # type: ignore[arg-type]
            return ("S", dim)
    return None


def unsound_unrefuted(primitive: Primitive, sample: Sample) -> tuple[int, list[str]]:
    """How many judgments are refused as unsound, of one call; and those of which no run reads back wrong, though the
    states say something that anyone could want (`arguable`)."""
    count = 0
    missing: list[str] = []
    dtypes = primitive.dtypes(sample.site)
    for number in range(len(primitive.scheme(sample.site).results)):
        scheme, q = of_declaration(primitive, sample, number)
        shape = scheme.shape(scheme.results[number])
        for given in combinations(sample):
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
            right = truth(sample, given)[number]
            missing += [
                f"{given} -> {state}"
                for state in refused
                if state in right and confirmed(sample, number, given, state)
            ]
    return count, missing
