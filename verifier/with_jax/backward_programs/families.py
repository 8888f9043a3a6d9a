"""The fixed family: small functions of every kind that models are made of, each in every layout that it can have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from verifier.with_jax.backward_programs import layers, repeated
from verifier.with_jax.backward_programs.layouts import BLOCKS, LAYOUTS
from verifier.with_jax.gradients import Sample

ROOMS = layers, repeated
"""What fills the blocks."""


def families() -> Iterator[tuple[str, Callable[[], Sample]]]:
    """Every block in every layout that it has, by name."""
    for name, block in BLOCKS.items():
        for layout in LAYOUTS:
            made = block(layout)
            if made is not None:
                yield f"{name} ({layout.name})", functools.partial(Sample, *made)
