"""What JAX says of a program that it has no derivative of."""

from __future__ import annotations

from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun
from jax.sharding import NamedSharding

from verifier.with_jax.gradients import traced
from verifier.with_jax.shared import opened


def undifferentiated(program: Any) -> str:
    """What JAX raises where it is asked for the gradient, or the vjp, of a program; nothing where it has it."""
    try:
        made = traced(jaxpr_as_fun(program), [_struct(one.aval) for one in opened(program).invars])
    except Exception:  # noqa: BLE001 - then nobody knows
        return ""
    try:
        made.derivative()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is JAX's answer
        return f"{type(error).__name__}: {' '.join(str(error).partition('. ')[0].split())}"
    return ""


def _struct(aval: Any) -> jax.ShapeDtypeStruct:
    sharding = getattr(aval, "sharding", None)
    on = sharding if isinstance(sharding, NamedSharding) and not sharding.mesh.empty else None
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=on)
