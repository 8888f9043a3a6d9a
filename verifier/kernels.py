"""What a primitive computes on one device's blocks: its kernel, or its scheme."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from calculus.parameters import sizes
from calculus.primitives.declaration import Primitive, Site
from calculus.programs import Call, Parameters, Value
from calculus.schemes import Scheme, Shape
from calculus.types import ArrayType, array_type
from verifier.devices import Array, numpy_dtype


def on_blocks(primitive: Primitive, site: Site, blocks: Sequence[Array], result: Shape) -> Site:
    """A call as a device sees it that has these blocks, and shall have a block of this shape of its only result: where
    a parameter lists the sizes of an array's dims, it lists those of the block."""
    shapes = tuple([block.shape for block in blocks])
    printed = site.printed
    if len(printed) == 1 and isinstance(printed[0], ArrayType):
        printed = (array_type(printed[0].dtype, result),)
    parameters = site.parameters
    if callable(primitive.sized):
        parameters = primitive.sized(parameters, site.shapes, shapes)
    elif primitive.sized:
        name, array, *each = primitive.sized.split()
        if array == "result":
            local: Shape = (
                tuple([size // block for size, block in zip(result, shapes[0], strict=True)]) if each else result
            )
        else:
            at = primitive.operands.index(array)
            listed = zip(sizes(parameters, name), site.shapes[at], shapes[at], strict=True)
            local = tuple([block if size == whole else size for size, whole, block in listed])
        parameters = Parameters(tuple((dict(parameters) | {name: local}).items()))
    return Site(parameters, shapes, site.dtypes, printed)


def compute(primitive: Primitive, site: Site, blocks: Sequence[Array]) -> list[Array]:
    """What a primitive computes of these arrays, one array for each result. `site`: the call, at their own shapes.

    Its kernel runs; where it has none, its scheme is computed. Raises `ValueError` where that is not possible.
    """
    with np.errstate(all="ignore"):
        if primitive.kernel is None:
            return [_by_scheme(primitive.scheme(site), primitive.dtypes(site)[0], blocks)]
        found = primitive.kernel(np, plain(site.parameters), *blocks)
    return [np.asarray(one) for one in (found if isinstance(found, (list, tuple)) else [found])]


@lru_cache(maxsize=4096)
def plain(parameters: Parameters) -> Parameters:
    """Parameters as kernels read them: a number that is printed as numpy's is a number."""
    return Parameters(tuple([(name, _plain(value)) for name, value in parameters.items_in_order]))


def _plain(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple([_plain(item) for item in value])
    if isinstance(value, Call) and value.name.startswith("np.int") and len(value.arguments) == 1:
        return value.arguments[0]
    return value


def _by_scheme(scheme: Scheme, dtype: str, blocks: Sequence[Array]) -> Array:
    """A contraction, a broadcast or a permutation: the product of the operands at each index of all factors, gathered
    up by sum (of truth values, which only have a maximum, by `or`) over those that the result lacks."""
    if not set(scheme.roles.values()) <= {"sum", "max", "cut-off-sum"} or not blocks:
        raise ValueError(f"a scheme is no kernel where it says no more than {scheme}")
    target = numpy_dtype(dtype)
    within = np.dtype("float32") if target.kind == "V" or target.name == "float16" else target  # numpy sums no others
    exact = "cut-off-sum" not in scheme.roles.values()
    sizes: Any = scheme.sizes
    arguments: list[Any] = []
    for indices, block in zip(scheme.operands, blocks, strict=True):
        factors = [factor for dim in indices for factor in dim]
        arguments.append((block.astype(within) if exact else block).reshape([sizes[one] for one in factors]))
        arguments.append(factors)
    (result,) = scheme.results
    made = [factor for dim in result for factor in dim]
    held = {factor for factors in arguments[1::2] for factor in factors}
    product = np.einsum(*arguments, [factor for factor in made if factor in held])
    spread = product.reshape([sizes[factor] if factor in held else 1 for factor in made])
    shape: Any = scheme.shape(result)
    return np.broadcast_to(spread, [sizes[one] for one in made]).reshape(shape).astype(target)
