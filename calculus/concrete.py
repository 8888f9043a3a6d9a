"""How a concrete array is stored, beside what its type says. Seeds B11, B33, B37.

A type mentions explicit axes only. The sharding of a concrete array also says what the compiler chose along auto axes,
so it is consistent with the type, and may be more specific. Both are written in one language: an `ArrayType`, which
for a stored array may mention auto axes.

    stored ≼ type      per dim, the type's list of axes is the stored one's without some auto axes

≼ is a partial order whose maximal elements, on a mesh, are the types: `type_of` is the one type above a stored array.
Theorems `order` and `one-type`: proofs/concrete.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from calculus.meshes import AxisMode, Mesh
from calculus.types import ArrayType, Axes, array_type


def type_of(stored: ArrayType, mesh: Mesh) -> ArrayType:
    """The type of a stored array: the same with every auto axis left out."""

    def visible(axes: Iterable[str]) -> Axes:
        return tuple(axis for axis in axes if mesh.mode(axis) is not AxisMode.AUTO)

    states = visible(stored.varying), visible(stored.unreduced), visible(stored.reduced)
    lists = tuple(map(visible, stored.axes))
    return array_type(stored.dtype, stored.shape, lists, *states, stored.kind, stored.memory, stored.weak)


def refines(finer: ArrayType, coarser: ArrayType, mesh: Mesh) -> bool:
    """Whether finer ≼ coarser: one array, of which the coarser says the same along explicit axes and no more along auto
    ones. A stored array is consistent with a type when it refines it."""
    if type_of(finer, mesh).canonical is not type_of(coarser, mesh).canonical:
        return False
    states = ((finer.varying, coarser.varying), (finer.unreduced, coarser.unreduced), (finer.reduced, coarser.reduced))
    if coarser.unreduced and finer.kind != coarser.kind:
        return False
    return all(_left_out(more, less) for more, less in zip(finer.axes, coarser.axes, strict=True)) and all(
        set(less) <= set(more) for more, less in states
    )


def _left_out(more: Axes, less: Axes) -> bool:
    """Whether the one list is the other with some axes left out, in the same order."""
    rest = iter(more)
    return all(axis in rest for axis in less)
