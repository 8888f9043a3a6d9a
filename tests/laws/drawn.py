"""What primitives compute that have no kernel of ours, since keys are JAX's own: JAX is asked. A key is its words here,
so an array of keys has one more dim."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.extend.random import threefry_prng_impl

from tests.laws.bound import primitive, value
from verifier.devices import Array
from verifier.samples import Sample
from verifier.trials.cases import computed_by


def drawn(sample: Sample, blocks: Sequence[Array]) -> list[Array]:
    """What JAX computes of these blocks. Raises `ValueError` where that is not defined."""
    with jax.enable_x64(True):
        try:
            return [np.asarray(one) for one in _function(sample)(*blocks)]
        except Exception as error:  # noqa: BLE001  (of many kinds, those of the compiler among them)
            raise ValueError(f"JAX does not compute {sample} of these blocks: {error}") from None


@cache
def _function(sample: Sample) -> Any:
    parameters = {name: value(one) for name, one in sample.parameters.items()}
    if "impl" in parameters:
        parameters["impl"] = threefry_prng_impl

    def function(*blocks: Any) -> list[Any]:
        operands = [
            jax.random.wrap_key_data(block, impl="threefry2x32") if type.dtype.startswith("key<") else block
            for type, block in zip(sample.operands, blocks, strict=True)
        ]
        found = primitive(sample.primitive).bind(*operands, **parameters)
        return [_array(one) for one in (found if isinstance(found, (list, tuple)) else [found])]

    return jax.jit(function)


def _array(found: Any) -> Any:
    keys = jax.numpy.issubdtype(found.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(found) if keys else found


computed_by(drawn)
