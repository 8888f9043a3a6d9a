"""Explaining: what it takes to say where a loss communicates, forward and backward, and why, beside JAX's tracing of
its gradient.

From the program that JAX holds: it is checked, its backward program derived and priced, and each collective's row made,
with the author's line and the fact that decides it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bench.gradients import Forward
from bench.measure import Fresh, in_turn, ratios, spread
from verifier.functions import check

TIMES_FASTER: Final = 10.0
EXPLAINED: Final = "checked, and explained"
JAX: Final = "make_jaxpr(jax.grad), of the function"


def measured(name: str, rounds: int) -> dict[str, Any]:
    """Both on one forward program, new in each run; what either remembers from one run to the next stays."""
    forward = Forward(name)

    def explained() -> Callable[[], object]:
        program = forward.traced()
        return lambda: check(program).explain()

    rows = len(check(forward.traced()).explain().entries)
    runs = in_turn({EXPLAINED: Fresh(explained), JAX: Fresh(forward.of_the_function)}, rounds, {EXPLAINED, JAX})
    return {
        "program": name,
        "rows": rows,
        "rounds": rounds,
        "seconds": {who: spread(times) for who, times in runs.items()},
        "times faster": ratios(runs, JAX, EXPLAINED),
    }


def claim(result: dict[str, Any]) -> dict[str, Any]:
    """That it takes less than a tenth of the time."""
    found = result["times faster"]["median"]
    return {
        "claim": f"to explain the loss of {result['program']}, from objects, takes at most 1/{TIMES_FASTER:g} of the "
        f"time of {JAX}",
        "found": f"1/{found:.1f}",
        "held": found >= TIMES_FASTER,
    }
