"""Collectives that the types say and those that are compiled, as they stand for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from verifier.compiled.classes import Class
from verifier.compiled.derived import Said
from verifier.compiled.module import BITS
from verifier.compiled.reading import Moved

_XLAS: Final = {"bool": "pred", "i2": "s2", "i4": "s4", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64"}
"""XLA's names of dtypes that have others in printed programs."""


class Pair(NamedTuple):
    """Collectives that stand for each other. class_: how they differ; `None` where they do not."""

    said: tuple[Said, ...]
    moved: tuple[Moved, ...]
    class_: Class | None = None

    @property
    def placed(self) -> bool:
        """Whether the compiled ones come from a line of the equation."""
        lines = {frame for one in self.said for frame in one.frames}
        return not lines or all(not one.frames or not lines.isdisjoint(one.frames) for one in self.moved)


@dataclass
class Matching:
    """What two sides have in common. unexplained: what each has besides."""

    pairs: list[Pair] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)

    @property
    def unexplained(self) -> int:
        """How many collectives no class explains."""
        return len(self.said) + len(self.moved)

    @property
    def equal(self) -> list[Pair]:
        """Those that are the same on both sides."""
        return [pair for pair in self.pairs if pair.class_ is None]

    @property
    def classes(self) -> Counter[str]:
        """How many differences of each class there are."""
        return Counter(pair.class_.name for pair in self.pairs if pair.class_ is not None)


Loops: TypeAlias = "tuple[int | None, ...]"
Fits: TypeAlias = Callable[[Said, Moved], bool]
Explain: TypeAlias = "Callable[[Matching, Class, Mapping[str, int]], None]"
"""Takes what a class explains out of what is unexplained."""


def same(one: Said, other: Moved) -> bool:
    """Whether two are of one kind, over the same axes, in the same loops."""
    return (one.kind, one.axes, one.loops) == (other.kind, other.axes, other.loops)


def dtype_of(one: Said) -> str:
    """As XLA calls it; empty where it is not known."""
    return _XLAS.get(one.dtype, one.dtype.replace("_", ""))


def alike(one: Said, other: Moved) -> bool:
    """Whether as many elements of the same dtype are moved."""
    return one.payload == other.payload and (dtype_of(one) not in BITS or dtype_of(one) == other.dtype)


def payload_in(one: Said, dtype: str) -> int | None:
    """The payload if as many elements were of this dtype."""
    width = BITS.get(dtype_of(one), 0)
    if one.payload is None or not width or dtype not in BITS:
        return one.payload
    return one.payload * BITS[dtype] // width


def remove(everything: list[Said] | list[Moved], those: Sequence[object]) -> None:
    """Without these, each by identity."""
    identities = {id(one) for one in those}
    everything[:] = [one for one in everything if id(one) not in identities]  # type: ignore[misc]
