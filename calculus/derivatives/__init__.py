"""How forms are differentiated: each has a rule that linearizes it and one that transposes what that made of it.

A form's two rules stand in the room named like that of its typing rule: `placing` (reshards, constraints, casts and
collectives), `calls`, `custom` (rules of one's own), `remats`, `loops`, `whiles`, `branches`, `solving`, `boundaries`.
"""

from __future__ import annotations

from typing import Final

from calculus.derivatives.boundaries import BOUNDARIES
from calculus.derivatives.branches import BRANCHES
from calculus.derivatives.calls import CALLS
from calculus.derivatives.custom import CUSTOM
from calculus.derivatives.loops import LOOPS
from calculus.derivatives.placing import PLACING
from calculus.derivatives.remats import REMATS
from calculus.derivatives.rules import Form
from calculus.derivatives.solving import SOLVING
from calculus.derivatives.whiles import WHILES

FORMS: Final[dict[str, Form]] = {
    **PLACING,
    **CALLS,
    **CUSTOM,
    **REMATS,
    **LOOPS,
    **WHILES,
    **SOLVING,
    **BRANCHES,
    **BOUNDARIES,
}
