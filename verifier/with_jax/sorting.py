"""A function traced with what it sorts together cast alike first, as `jax.lax.sort` does. `jax.lax.sort_key_val`, and
`jax.numpy.argsort` by it, do not: what follows keys that vary is then typed as the same on every device, and is not
(difference 39 of the ledger)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

import jax

from verifier.with_jax.otherwise import traced_otherwise
from verifier.with_jax.replaced import Place
from verifier.with_jax.trace import Trace

_CASTING: Final[ContextVar[bool]] = ContextVar("casting", default=False)


def sorted_alike(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: Any) -> Trace | None:
    """The program of a function with those casts; `None` where JAX does not trace it so."""
    return traced_otherwise(_CASTING, True, PLACES, f, args, kwargs, mesh)


def _cast(before: Callable[..., Any]) -> Callable[..., Any]:
    def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> Any:
        if not _CASTING.get():
            return before(keys, values, dimension, is_stable)
        return jax.lax.sort((keys, jax.numpy.asarray(values)), dimension=dimension, is_stable=is_stable)

    return sort_key_val


PLACES: Final[tuple[Place, ...]] = (
    ("jax._src.lax.lax", "sort_key_val", _cast),
    ("jax.lax", "sort_key_val", _cast),
)
