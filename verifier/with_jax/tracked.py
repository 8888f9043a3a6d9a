"""A function traced as if every shard_map in it had check_vma=True, so that JAX knows what varies: what it then
differentiates inside is what is to be held against a gradient that was made without that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from verifier.with_jax.otherwise import traced_otherwise
from verifier.with_jax.replaced import Place
from verifier.with_jax.trace import Trace

_TRACKING: Final[ContextVar[bool]] = ContextVar("tracking", default=False)
_CHECKS: Final = "check_vma"


def tracked(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: Any) -> Trace | None:
    """The program of a function with check_vma=True throughout; `None` where JAX does not trace it so: where it claims
    that copies are equal which need not be."""
    return traced_otherwise(_TRACKING, True, PLACES, f, args, kwargs, mesh)


def _binding(before: Callable[..., Any]) -> Callable[..., Any]:
    """A shard_map as it is bound. The function that it maps casts its results to what out_specs say where it closes
    over a true `check_vma`."""

    def bind(self: Any, trace: Any, args: Any, avals: Any, params: Any, /) -> Any:
        if not _TRACKING.get() or params.get(_CHECKS) is not False:
            return before(self, trace, args, avals, params)
        (function,) = params["subfuns"]
        names = function.__code__.co_freevars
        cells = [function.__closure__[names.index(_CHECKS)]] if _CHECKS in names else []
        try:
            for cell in cells:
                cell.cell_contents = True
            return before(self, trace, args, avals, {**params, _CHECKS: True})
        finally:
            for cell in cells:
                cell.cell_contents = False

    return bind


PLACES: Final[tuple[Place, ...]] = (("jax._src.shard_map", "ShardMapPrimitive.bind_with_trace", _binding),)
