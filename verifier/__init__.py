"""Independent ways to be wrong: the checker, its command line, and the engines it is compared with.

`verifier.check(f, *args)` checks a function; `verifier.FunctionReport` is what it returns. Both need JAX, and load it
when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verifier.functions import FunctionReport as FunctionReport
    from verifier.functions import check as check

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name in ("check", "FunctionReport"):
        from verifier import functions

        return getattr(functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
