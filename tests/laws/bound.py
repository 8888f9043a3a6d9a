"""A sample call as JAX's own primitive, bound to the same operands and parameters: an engine of its own."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad

from calculus.programs import Call, Real, Word
from calculus.types import DTYPES, SHORT_NAMES
from verifier.samples import Sample

_MISSING = re.compile(r"'(\w+)'")


@cache
def _primitives() -> dict[str, Any]:
    """JAX's primitives by name; of several, the one that has a derivative."""
    found: dict[str, Any] = {}
    for one in gc.get_objects():
        if isinstance(one, Primitive) and (one.name not in found or one in ad.primitive_jvps):
            found[one.name] = one
    return found


def primitive(name: str) -> Any:
    """JAX's own. Raises `LookupError` where this JAX has none."""
    return _primitives()[name]


def value(one: Any) -> Any:
    """A parameter, as JAX has it."""
    if isinstance(one, Word):
        if one.startswith("GatherScatterMode."):
            return getattr(lax.GatherScatterMode, one.partition(".")[2])
        if one.startswith("RNG_"):
            return getattr(lax.RandomAlgorithm, one)
        return np.dtype(one) if one in SHORT_NAMES else one
    if isinstance(one, Real):
        return float(one)
    if isinstance(one, Call):
        return getattr(lax, one.name)(*map(value, one.arguments), **{k: value(v) for k, v in one.keywords})
    return one


def operands_of(sample: Sample) -> list[Any]:
    """The shapes and dtypes of its operands, as JAX has them."""
    found = []
    for type in sample.operands:
        dtype = jax.random.key(0).dtype if type.dtype.startswith("key<") else np.dtype(DTYPES[type.dtype][0])
        found.append(jax.ShapeDtypeStruct(type.shape, dtype))
    return found


def bound(sample: Sample) -> Callable[..., Any]:
    """JAX's primitive with these parameters. Those that are not printed, and so are not in the sample, are `None` or
    what the result's shape says. Raises `LookupError` where this JAX has no such primitive, `TypeError` or `ValueError`
    where it cannot be bound so."""
    parameters = {name: value(one) for name, one in sample.parameters.items()}
    if sample.primitive == "broadcast_in_dim" and sample.results[0] is not None:
        parameters["shape"] = sample.results[0].shape

    def call(*operands: Any) -> Any:
        return primitive(sample.primitive).bind(*operands, **parameters)

    for _ in range(9):  # each complaint names some that are missing
        try:
            jax.eval_shape(call, *operands_of(sample))
        except (TypeError, KeyError) as error:
            missing = [name for name in _MISSING.findall(str(error)) if name not in parameters]
            if not missing:
                raise
            parameters |= dict.fromkeys(missing)
        else:
            return call
    raise TypeError(f"{sample} cannot be bound")
