"""`python -m tests.mutate_prover [names...]`: the score."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import Final

from tests.mutate_prover.score import counted, everything, kind, page, tasks, totals
from tests.mutate_prover.seen import LATE, LAW, NOBODY, Seen
from verifier.progress import duration, forecast
from verifier.spread import Pace

EACH: Final = 0.25
"""About how many seconds a mutant takes."""


def main(names: list[str]) -> int:
    """Print who saw how many, what only a law saw, and what nobody saw. names: primitives, or rows."""
    all_of = tasks(names)
    pace = Pace(os.cpu_count() or 1)
    pace.expected = EACH * sum(totals(all_of).values())
    found = []
    with forecast(f"{sum(totals(all_of).values()):,} wrong rules") as said:
        said(pace, "")
        for task, seen in everything(all_of):
            found.append((task, seen))
            pace.done += EACH * task.many
            said(pace, task.name)
    every: list[Seen] = [one for _, seen in found for one in seen]
    by_law = Counter(kind(one.what) for one in every if one.by == LAW)
    left = [f"{one.what} ({one.by}) {one.says}" for one in every if one.by in (LATE, NOBODY)]
    print(*page(counted(found)), "", sep="\n")
    print("seen by a law alone:", *(f"{count} {what}" for what, count in by_law.most_common()), sep="\n    ")
    print("seen by nothing, or over their bound:", *(sorted(left) or ["none"]), sep="\n    ")
    print(duration(time.monotonic() - pace.started), flush=True)
    return int(bool(left) or not every)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
