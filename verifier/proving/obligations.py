"""Obligations: what is to be shown, and how it was shown.

An obligation belongs to a theorem of `proofs/`. It is a list of queries that all have to be proved, or a check that has
to run. Its *status* says on what the proof rests, and statuses are never mixed:

    proved from definition      the solver unfolded what the kernels compute
    from declared properties    of a kernel that the solver cannot look into, properties are assumed, and tested
    bounded                     shown up to a bound, which the obligation says
    tested                      shown by execution only
    open                        not shown (the solver does not know)
    refuted                     wrong: there is a counterexample
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final, NamedTuple

from verifier.solver import Answer, Query, decide

DEFINITION: Final = "proved from definition"
PROPERTIES: Final = "from declared properties"
BOUNDED: Final = "bounded"
TESTED: Final = "tested"
OPEN: Final = "open"
REFUTED: Final = "refuted"
STATUSES: Final = (DEFINITION, PROPERTIES, BOUNDED, TESTED, OPEN, REFUTED)


@dataclass(frozen=True)
class Obligation:
    """One thing to show.

    name: dotted and stable, `soundness.mul.f.unreduced_copy`. theorem: the theorem that it is part of. says: the
    statement, in a line of words and symbols. queries: what the solver is asked; all have to be proved. check: what
    runs instead (or as well) and returns an objection, empty where there is none. basis: the status if all is well.
    domain: of what the elements are: `reals`, `integers`, `any arithmetic`. bound: where the basis is `bounded`, which.
    uses: the obligations (lemmas) on which it rests. cells: how many judgments it stands for. blocks: where it is
    refuted, what devices hold that shows it, line by line. shows: what is found on the way, line by line.
    """

    name: str
    theorem: str
    says: str
    queries: Callable[[], Sequence[Query]] = tuple
    check: Callable[[], str] | None = None
    basis: str = DEFINITION
    domain: str = "reals"
    bound: str = ""
    uses: tuple[str, ...] = ()
    cells: int = 1
    blocks: Callable[[], tuple[str, ...]] = tuple
    shows: Callable[[], tuple[str, ...]] = tuple


class Outcome(NamedTuple):
    """What came of an obligation. answers: of each query. objection: why it does not hold. blocks: what devices hold
    that shows it, line by line."""

    obligation: Obligation
    status: str
    milliseconds: float
    answers: tuple[tuple[Query, Answer], ...] = ()
    objection: str = ""
    blocks: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether it is shown, on whatever basis."""
        return self.status not in (OPEN, REFUTED)


def discharge(obligation: Obligation) -> Outcome:
    """Ask the solver, and run what is to be run. An obligation without queries and without a check is open."""
    start = perf_counter()
    answers: list[tuple[Query, Answer]] = []
    status, objection = obligation.basis, ""
    try:
        queries = obligation.queries()
    except ValueError as error:  # what it is about cannot even be asked
        return Outcome(obligation, REFUTED, 1000 * (perf_counter() - start), objection=str(error))
    for query in queries:
        answer = decide(query)
        answers.append((query, answer))
        if not answer.proved:
            status = REFUTED if answer.verdict in ("refuted", "vacuous") else OPEN
            values = ", ".join(f"{name} = {value}" for name, value in answer.model)
            objection = f"{query.name} is {answer.verdict}: {values or answer.why}"
            break
    if not objection and obligation.check is not None:
        objection = obligation.check()
        status = REFUTED if objection else status
    if not queries and obligation.check is None:
        status, objection = OPEN, "nothing is asked"
    blocks = obligation.blocks() if status == REFUTED else ()
    return Outcome(obligation, status, 1000 * (perf_counter() - start), tuple(answers), objection, blocks)


def discharged(obligations: Sequence[Obligation]) -> Iterator[Outcome]:
    """One after the other."""
    yield from map(discharge, obligations)
