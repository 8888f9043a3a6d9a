"""An array laid beside itself, several times along its dims."""

from __future__ import annotations

from typing import Any

from calculus.parameters import bad, dims
from calculus.primitives.declaration import Primitive, Site, same_dtype
from calculus.schemes import Factor, Scheme
from calculus.types import Dim


def _tile_scheme(site: Site) -> Scheme:
    """`[i,j] -> [(k i),j]`, k new: a dim that is repeated has its elements in the minor part, so that blocks of it do
    not make one block of the result."""
    shape, times = site.shapes[0], dims(site.parameters, "reps")
    if len(times) != len(shape) or any(isinstance(one, int) and one < 0 for one in times):
        raise bad("reps", str(list(times)), f"{len(shape)} numbers, none of them negative")
    all_sizes: list[Dim] = list(shape)
    result: list[tuple[Factor, ...]] = []
    for dim, count in enumerate(times):
        if count == 1:
            result.append((dim,))
        else:
            result.append((len(all_sizes), dim))
            all_sizes.append(count)
    return Scheme((tuple((dim,) for dim in range(len(shape))),), (tuple(result),), all_sizes)


def _tile(np: Any, p: Any, x: Any) -> Any:
    return np.tile(x, p["reps"])


TILING = (Primitive("tile", ("x",), "x", _tile_scheme, same_dtype, kernel=_tile, joins="x", sized="reps result each"),)
