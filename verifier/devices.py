"""Devices, modelled: what a primitive computes on one device's blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from calculus.primitives.declaration import Primitive, Site
from calculus.schemes import Scheme
from calculus.types import DTYPES

Array: TypeAlias = "npt.NDArray[Any]"


def compute(primitive: Primitive, site: Site, blocks: Sequence[Array]) -> list[Array]:
    """What a primitive computes of these arrays, one array for each result. `site`: the call, at their own shapes.

    Its kernel runs; where it has none, its scheme is computed. Raises `ValueError` where that is not possible.
    """
    with np.errstate(all="ignore"):
        if primitive.kernel is None:
            return [_by_scheme(primitive.scheme(site), primitive.dtypes(site)[0], blocks)]
        found = primitive.kernel(np, site.parameters, *blocks)
    return [np.asarray(one) for one in (found if isinstance(found, (list, tuple)) else [found])]


def _by_scheme(scheme: Scheme, dtype: str, blocks: Sequence[Array]) -> Array:
    """A contraction, a broadcast or a permutation: the product of the operands at each index of all factors, gathered
    up by sum (of truth values, by `or`) over those that the result lacks."""
    if not set(scheme.roles.values()) <= {"sum", "or", "cut-off-sum"} or not blocks:
        raise ValueError(f"a scheme is no kernel where it says no more than {scheme}")
    target = np.dtype(DTYPES[dtype][0])
    exact = "cut-off-sum" not in scheme.roles.values()
    sizes: Any = scheme.sizes
    arguments: list[Any] = []
    for indices, block in zip(scheme.operands, blocks, strict=True):
        factors = [factor for dim in indices for factor in dim]
        arguments.append((block.astype(target) if exact else block).reshape([sizes[one] for one in factors]))
        arguments.append(factors)
    (result,) = scheme.results
    made = [factor for dim in result for factor in dim]
    held = {factor for factors in arguments[1::2] for factor in factors}
    product = np.einsum(*arguments, [factor for factor in made if factor in held])
    spread = product.reshape([sizes[factor] if factor in held else 1 for factor in made])
    shape: Any = scheme.shape(result)
    return np.broadcast_to(spread, [sizes[one] for one in made]).reshape(shape).astype(target)
