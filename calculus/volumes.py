"""How much is moved: the bytes of one device's block, as a number where all sizes are known, and as a formula in the
sizes of mesh axes and of symbolic dims always."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from calculus.meshes import Mesh
from calculus.types import DTYPES, ArrayType, Axes, Dim


class Volume(NamedTuple):
    """The block of an array of this dtype and shape that is placed by these lists, one for each dim. copies: the axes
    along which as many blocks as there are devices are meant together."""

    dtype: str
    shape: tuple[Dim, ...]
    lists: tuple[Axes, ...]
    copies: Axes = ()

    def bytes(self, mesh: Mesh) -> int | None:
        """Bytes per device; `None` where the mesh or a symbolic dim leaves it open."""
        count = 1
        for size, axes in zip(self.shape, self.lists, strict=True):
            if isinstance(size, str):
                return None
            if axes:
                parts = mesh.size(axes)
                if parts is None:
                    return None
                count *= -(-size // parts)
            else:
                count *= size
        whole = (count * self._bits + 7) // 8
        if not self.copies:
            return whole
        many = mesh.size(self.copies)
        return None if many is None else many * whole

    @property
    def _bits(self) -> int:
        return DTYPES[self.dtype][1] if self.dtype in DTYPES else 0

    @property
    def divisor(self) -> Axes:
        """The axes that cut the array: the number of bytes is divided by their sizes."""
        return tuple(axis for axes in self.lists for axis in axes)

    def __str__(self) -> str:
        """The formula, where every cut dim is divisible: `4,096·b/(data·model)`, each name standing for a size."""
        bits = self._bits * prod(size for size in self.shape if not isinstance(size, str))
        number = f"{bits // 8:,}" if bits % 8 == 0 else f"{bits:,}/8"
        symbols = [*self.copies, *(size for size in self.shape if isinstance(size, str))]
        above = "·".join([*([] if number == "1" and symbols else [number]), *map(_factor, symbols)])
        below = self.divisor
        return above if not below else f"{above}/{below[0]}" if len(below) == 1 else f"{above}/({'·'.join(below)})"


def _factor(symbol: str) -> str:
    """A symbol as a factor of a product: a sum of symbols in brackets."""
    return symbol if symbol.isidentifier() else f"({symbol})"


def volume(type: ArrayType, lists: Sequence[Axes] | None = None) -> Volume:
    """The block of an array of this type, or of one placed by other lists."""
    return Volume(type.dtype, tuple(type.shape), tuple(type.axes if lists is None else map(tuple, lists)))
