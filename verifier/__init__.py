"""Independent ways to be wrong: the checker, its command line, and the engines it is compared with.

`verifier.check(f, *args)` checks a function; `verifier.FunctionReport` is what it returns, and its `backward()` gives a
`verifier.BackwardReport`, or raises `verifier.UnknownInput`; its `explain()`, as `verifier.explain(f, *args)`, says
where the function communicates, forward and backward, and why. Inside a function,
`verifier.assert_type(x, "f32[8@X,4]")` holds a value against a type while JAX traces it, or raises
`verifier.WrongType`. All need JAX, and load it when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verifier.backward import UnknownInput as UnknownInput
    from verifier.function_backward import BackwardReport as BackwardReport
    from verifier.functions import FunctionReport as FunctionReport
    from verifier.functions import check as check
    from verifier.functions import explain as explain
    from verifier.with_jax.asserted import WrongType as WrongType
    from verifier.with_jax.asserted import assert_type as assert_type

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name in ("check", "explain", "FunctionReport"):
        from verifier import functions

        return getattr(functions, name)
    if name == "BackwardReport":
        from verifier import function_backward

        return function_backward.BackwardReport
    if name == "UnknownInput":
        from verifier import backward

        return backward.UnknownInput
    if name in ("assert_type", "WrongType"):
        from verifier.with_jax import asserted

        return getattr(asserted, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
