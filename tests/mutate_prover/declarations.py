"""Wrong declarations, put to the prover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import Final

from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive, Site
from calculus.refusals import Refused
from calculus.schemes import Scheme
from tests import mutate
from tests.mutate_prover.seen import LAW, NOBODY, READING, RUN, SOLVER, Seen, little_work, seen
from verifier.proving.judgments import Judgment, accepted
from verifier.proving.obligations import DEFINITION, OPEN, REFUTED, Obligation, discharge
from verifier.proving.setting import PIECES
from verifier.proving.soundness import judged, shown
from verifier.proving.tried import objection, reads_back_right
from verifier.samples import Sample, samples
from verifier.solver import IllSorted, decide
from verifier.trials.cases import runs

MANY: Final = 100
FEW: Final = 4
"""Of more refused typings of one call than `MANY`, so few are tried to be proved."""


@cache
def _accepted(name: str, sample: Sample, number: int) -> frozenset[Judgment]:
    return frozenset(accepted(sample, number, TABLE[name]))


def declaration(mutant: mutate.Mutant) -> Seen:
    """Who sees a wrong declaration."""
    what = f"{mutant.primitive.name}: {mutant.what}"
    return seen(what, partial(_seen, mutant, what))


def _seen(mutant: mutate.Mutant, what: str) -> Seen:
    try:
        found = list(_refuted(mutant.primitive, [mutant.sample] if mutant.sample else samples(mutant.primitive.name)))
    except (ValueError, Refused) as error:  # it contradicts itself
        return Seen(what, READING, str(error))
    for by in (SOLVER, RUN, READING):
        for one, says in found:
            if one == by:
                return Seen(what, by, says)
    return Seen(what, LAW if mutate.objects(mutant) else NOBODY)


def _refuted(primitive: Primitive, calls: Sequence[Sample]) -> Iterator[tuple[str, str]]:
    """What the prover objects to, where the declaration says something else than the table's: the solver's objection
    ends it."""
    missing: list[tuple[Sample, int, Judgment]] = []
    for sample in calls:
        for number in range(len(primitive.scheme(sample.site).results)):
            said, true = frozenset(accepted(sample, number, primitive)), _accepted(primitive.name, sample, number)
            for judgment in sorted(said - true, key=str):
                one = Obligation(f"{sample}.{judgment}", "soundness", str(judgment))
                outcome = discharge(replace(judged(one, primitive, sample, number, judgment), blocks=tuple))
                if outcome.status == REFUTED:
                    asked = [answer.proved for _, answer in outcome.answers]
                    by = READING if not asked else RUN if all(asked) else SOLVER
                    yield by, f"{sample} takes {judgment}: {outcome.objection}"
                    if by == SOLVER:
                        return
                if outcome.status == OPEN and runs(sample) and objection(primitive, sample, number, judgment):
                    yield RUN, f"{sample} takes {judgment}, which the solver cannot show, and a run refutes"
                    return
            refused = sorted(true - said, key=str)
            missing += [(sample, number, judgment) for judgment in refused]
            for judgment in refused[: FEW if len(refused) > MANY else None]:
                if _provable(primitive, sample, number, judgment):
                    yield SOLVER, f"{sample} refuses {judgment}, which is proved"
                    return
    for sample, number, judgment in missing:
        if runs(sample) and _reads_back_right(primitive.name, sample, number, judgment):
            yield RUN, f"{sample} refuses {judgment}, which no run refutes"
            return


@cache
def _reads_back_right(name: str, sample: Sample, number: int, judgment: Judgment) -> bool:
    return reads_back_right(TABLE[name], sample, number, judgment)


def _provable(primitive: Primitive, sample: Sample, number: int, judgment: Judgment) -> bool:
    """Whether a judgment follows from what the kernel computes, and from nothing that is declared of it: of what is cut
    the role is not believed."""
    scheme = primitive.scheme(sample.site)
    roles = {factor: role for factor, role in scheme.roles.items() if factor != judgment.cut}
    pending = PIECES.get(judgment.result) if isinstance(judgment.result, str) else None
    schemes = [scheme]
    if judgment.cut is not None:
        freed = {**roles, judgment.cut: pending} if pending else roles
        schemes.append(Scheme(scheme.operands, scheme.results, scheme.sizes, freed, scheme.along, scheme.accumulator))
    for one in schemes:
        try:
            found = shown(replace(primitive, scheme=partial(_constant, one)), sample, number, judgment)
        except (IllSorted, TypeError, ValueError, KeyError):
            continue
        if found.basis == DEFINITION and found.queries and all(decide(query).proved for query in found.queries):
            return True
    return False


def _constant(scheme: Scheme, site: Site) -> Scheme:
    return scheme


def count(name: str) -> int:
    """How many wrong declarations of a primitive there are."""
    return sum(1 for _ in mutate.mutants(name))


def some(name: str, start: int, stop: int | None) -> list[Seen]:
    """Of wrong declarations of one primitive, from one to another."""
    with little_work():
        return [declaration(mutant) for mutant in islice(mutate.mutants(name), start, stop)]


def declarations(name: str) -> list[Seen]:
    """Of all wrong declarations of one primitive."""
    return some(name, 0, None)
