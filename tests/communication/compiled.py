"""The collectives of a compiled program: what XLA's partitioner makes of it for CPU devices, before anything is
combined, hoisted or folded; and two classes of differences, apart from those of the command."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, TypeAlias

from verifier.compiled.reading import read
from verifier.compiled.targets import CPU, Target
from verifier.with_jax import meshes
from verifier.with_jax.compiling import compile_

Moved: TypeAlias = tuple[str, tuple[str, ...], int]
"""Kind, mesh axes (`("?",)` for groups that are none), payload bytes per device: of the result for an all-gather, else
of the operands."""


def collectives(mesh: Any, made: Any) -> Counter[Moved]:
    """How often each collective of what was traced on a mesh runs, loops counted."""
    compiled = compile_(made, Target(CPU), mesh, quick=True)
    sizes = {axis.name: axis.size or 1 for axis in meshes.ours(mesh).axes}
    (text,) = compiled.texts.values()
    return counted(text, sizes)


def counted(text: str, sizes: dict[str, int]) -> Counter[Moved]:
    """The collectives of a module's text."""
    found: Counter[Moved] = Counter()
    for one in read(text, sizes):
        assert one.times is not None
        found[one.kind, one.axes, one.payload] += one.times
    return found


SCATTERED: Final = "reduced, then sliced"
"""For CPU devices XLA makes no reduce-scatter of an explicit sharding: it reduces everything and keeps a block."""

ONCE: Final = "moved once for several uses"
"""XLA moves a value once, where several equations, or iterations that do not change it, move it to one place."""


def explained(typed: Counter[Moved], found: Counter[Moved]) -> tuple[set[str], Counter[Moved], Counter[Moved]]:
    """How what the types say differs from what is found: by which classes, and what is left that no class explains."""
    classes: set[str] = set()
    ours, theirs = typed - found, found - typed
    for kind, axes, size in list(ours):
        reduced = "all-reduce", axes, size
        count = min(ours[kind, axes, size], theirs[reduced]) if kind == "reduce-scatter" else 0
        if count:
            classes.add(SCATTERED)
            ours[kind, axes, size] -= count
            theirs[reduced] -= count
    for move in list(+ours):
        if found[move] or (move[0] == "reduce-scatter" and found["all-reduce", *move[1:]]):
            classes.add(ONCE)
            del ours[move]
    return classes, +ours, +theirs
