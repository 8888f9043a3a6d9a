"""Well-formed types: the side conditions of the type grammar, each with its own refusal. Seed B19, A42.

Every axis is known, in a mode that the type may mention, and mentioned at most once; sharded dims divide; the
states along one axis exclude each other.
"""

from __future__ import annotations

from typing import Final

from calculus.meshes import AxisMode, Mesh
from calculus.refusals import Place, refuse
from calculus.types import ArrayType, FutureType, RefType, Type

_HERE = Place("type")

RANK: Final = 256
"""The most dims of a type."""
ELEMENTS: Final = (1 << 63) - 1
"""The most elements of a type."""
SYMBOLS: Final = 10_000
"""The most characters of all symbolic sizes of a type."""


def well_formed(type: Type, mesh: Mesh) -> None:
    """Raise `Refused` unless the type is well formed on this mesh; axes of unknown size divide everything."""
    if isinstance(type, (RefType, FutureType)):
        return well_formed(type.inner, mesh)
    if not isinstance(type, ArrayType):
        return None
    _countable(type)
    if type.plain:
        return None
    _states_exclude_each_other(type)
    if type.unreduced and type.dtype.startswith("key<"):
        raise refuse(
            "dtype",
            f"{type} is unreduced, and keys have no sum",
            because="no pieces on the devices add up to a key",
            help="keep the key the same on every device",
            place=Place("type", axis=type.unreduced[0]),
        )
    if type.unreduced and type.kind == "sum" and type.dtype == "f8_e8m0fnu":
        raise refuse(
            "dtype",
            f"{type} is unreduced, and powers of two have no sum",
            because="a piece may be zero or negative, and a power of two is neither",
            help="convert it to another floating dtype first",
            place=Place("type", axis=type.unreduced[0]),
        )
    for axis in type.mentioned:
        if axis not in mesh:
            known = f"name one of {', '.join(mesh.by_name)}, or " if mesh.by_name else ""
            missing = dict.fromkeys(name for name in type.mentioned if name not in mesh)
            sizes = ",".join([*str(mesh).split(", ")[: len(mesh.axes)], *(f"{name}=..." for name in missing)])
            raise refuse(
                "unknown-axis",
                f"{type} mentions axis {axis}, and {f'the mesh is ({mesh})' if mesh.axes else 'no mesh is given'}",
                because="a type's axes are those of its mesh",
                help=f"{known}give a mesh that has {axis}: --mesh {sizes}",
                place=Place("type", axis=axis),
            )
        _mode_allows(type, axis, mesh)
    for dim, (size, axes) in enumerate(zip(type.shape, type.axes, strict=True)):
        parts = mesh.size(axes) if axes else 1
        if parts is not None and isinstance(size, int) and size % parts:
            raise refuse(
                "indivisible",
                f"dim {dim} of {type} has size {size}, and ({', '.join(axes)}) cuts it into {parts}",
                because="every device holds a block of the same shape",
                help=f"pad the dim to a multiple of {parts}, or shard it on fewer axes",
                place=Place("type", dim=dim),
            )
    return None


def _countable(type: ArrayType) -> None:
    """Numbers of elements fit a machine's integers, and symbolic sizes a line, so that they can be shown and computed
    with."""
    elements = 1
    symbols = 0
    for size in type.shape:
        if isinstance(size, int):
            elements = min(elements * size, ELEMENTS + 1)
        else:
            symbols += len(size)
    what = (
        f"has {type.rank} dims, and {RANK} are the most"
        if type.rank > RANK
        else f"has more than {ELEMENTS:,} elements"
        if elements > ELEMENTS
        else f"has symbolic sizes of more than {SYMBOLS} characters"
        if symbols > SYMBOLS
        else ""
    )
    if what:
        text = str(type)
        raise refuse(
            "too-large",
            f"{text if len(text) <= 60 else text[:60] + '…'} {what}",
            because="sizes are numbers that machines compute with",
            help="correct the sizes",
            place=_HERE,
        )


def _states_exclude_each_other(type: ArrayType) -> None:
    varying, unreduced, reduced = set(type.varying), set(type.unreduced), set(type.reduced)
    for clash, code, words in (
        (varying & (unreduced | reduced), "varying-and-reduced", "both varying and reduced or unreduced"),
        (unreduced & reduced, "reduced-and-unreduced", "both reduced and unreduced"),
    ):
        if clash:
            raise refuse(
                code,
                f"{type} is {words} along {', '.join(sorted(clash))}",
                because="along one mesh axis an array is in one state",
                help="keep one of the two",
                place=Place("type", axis=min(clash)),
            )
    mentioned = type.mentioned
    if len(set(mentioned)) != len(mentioned):
        seen: set[str] = set()
        twice = next(axis for axis in mentioned if axis in seen or seen.add(axis))  # type: ignore[func-returns-value]
        raise refuse(
            "repeated-axis",
            f"{type} mentions axis {twice} more than once",
            because="a device has one coordinate along an axis, so the axis can cut one dim only, and only once",
            help=f"drop all but one mention of {twice}",
            place=Place("type", axis=twice),
        )


def _mode_allows(type: ArrayType, axis: str, mesh: Mesh) -> None:
    mode = mesh.mode(axis)
    if mode is AxisMode.AUTO:
        raise refuse(
            "hidden-axis",
            f"{type} mentions axis {axis}, which is auto",
            because="along an auto axis the compiler chooses, so the type cannot say",
            help=f"make {axis} explicit, or drop it from the type",
            place=Place("type", axis=axis),
        )
    if mode is AxisMode.MANUAL and axis in type.sharded:
        raise refuse(
            "manual-axis-on-dim",
            f"{type} shards a dim on {axis}, which is manual here",
            because="inside a shard_map the dim is cut already; what remains is a block that varies",
            help=f"write the block's own size and {{V:{axis}}}",
            place=Place("type", axis=axis),
        )
    if mode is not AxisMode.MANUAL and axis in type.varying:
        raise refuse(
            "varying-outside-manual",
            f"{type} varies over {axis}, which is not manual here",
            because="outside a shard_map a value is one array, and its type says how it is stored",
            help=f"shard a dim on {axis}, or put the code inside a shard_map over {axis}",
            place=Place("type", axis=axis),
        )
