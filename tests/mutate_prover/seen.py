"""Who sees a mutant, within how long."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from verifier import solver

SOLVER, RUN, READING, LAW, LATE, NOBODY = "solver", "run", "reading", "law", "over its bound", "nobody"
WAYS: Final = (SOLVER, RUN, READING, LAW, LATE, NOBODY)
WORK: Final = 300_000
"""What a query about something wrong may cost: more than any that is right. What the solver does not know then is not
shown, but run."""
PATIENCE: Final = 20_000
"""Milliseconds that such a query may take, where the solver counts no steps."""
BOUND: Final = 120.0
"""Seconds of a processor that one mutant may take. The slowest takes a tenth of them."""


class Seen(NamedTuple):
    """A mutant, who saw it, and what was said."""

    what: str
    by: str
    says: str = ""


class _Over(BaseException):
    """Not to be caught on the way."""


@contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    def over(*_: Any) -> None:
        raise _Over

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def seen(what: str, look: Callable[[], Seen], bound: float = BOUND) -> Seen:
    """Look who sees a mutant, for so many seconds of a processor."""
    try:
        with _bounded(bound):
            return look()
    except _Over:
        return Seen(what, LATE, f"nobody has seen it after {bound:g} seconds")


@contextmanager
def little_work() -> Iterator[None]:
    """The solver is not asked for long."""
    before = solver.WORK, solver.PATIENCE
    vars(solver).update(WORK=WORK, PATIENCE=PATIENCE)
    try:
        yield
    finally:
        vars(solver).update(WORK=before[0], PATIENCE=before[1])
