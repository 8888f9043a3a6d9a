"""Drawn programs as strategies of hypothesis: it chooses what they are drawn from, makes that smaller where a law
fails, and keeps what failed in its database, which several machines may share."""

from __future__ import annotations

from hypothesis import strategies as st

from verifier.generated import MANY_MESHES, drawn
from verifier.generated.growing import Grown


def programs(longest: int = 12, guests: int = 2) -> st.SearchStrategy[Grown]:
    """Well-typed programs on meshes of one to three axes; a shorter one is a smaller one."""
    return st.builds(
        drawn,
        seed=st.integers(0, 2**32 - 1),
        length=st.integers(1, longest),
        mesh=st.sampled_from(MANY_MESHES),
        nesting=st.integers(0, 2),
        guests=st.integers(0, guests),
    )
