"""Moves that change a state and nothing else: reshards, and the casts and collectives of per-device code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from calculus.collectives import COLLECTIVES
from calculus.programs import Value
from verifier.generated.growing import Grower, sizes


def _resharded(grower: Grower) -> None:
    atom = grower.pick()
    if atom is not None:
        type = grower.type(atom)
        grower.propose("reshard", (atom,), None, (grower.placed(sizes(type), beside=type),))


CASTS: Final[tuple[Callable[[Grower], None], ...]] = (_resharded, _resharded, _resharded)

ONCE: Final = (
    "pvary", "preduced", "reduced_vary_cast", "vary_unreduced_cast", "psum_invariant", "unreduced_psum",
    "reduce_scatter", "unreduced_reduce_scatter", "all_gather", "all_gather_invariant", "all_gather_reduced",
    "all_to_all", "ppermute",
)  # fmt: skip


def _collected(grower: Grower) -> None:
    axis = grower.random.choice(grower.manual)
    state = grower.random.choice("NRUVVV")
    atom = grower.pick(lambda type: type.state(axis) == state) or grower.pick()
    if atom is None:
        return
    name = grower.random.choice([one for one in ONCE if COLLECTIVES[one].before == grower.type(atom).state(axis)])
    row = COLLECTIVES[name]
    rows: dict[str, Value] = {row.axes: (axis,)}
    size = grower.mesh.size((axis,)) or 1
    whole = [dim for dim, each in enumerate(sizes(grower.type(atom))) if each % size == 0]
    if name == "ppermute":
        rows["perm"] = tuple((each, (each + 1) % size) for each in range(size))
    elif row.axes == "axis_name":
        if not whole:
            return
        at = grower.random.choice(whole)
        rows |= {"axis_index_groups": None, "tiled": True, "axis_size": size}
        if name == "all_to_all":
            del rows["axis_size"]
            rows |= {"split_axis": at, "concat_axis": grower.random.choice(whole)}
        else:
            rows["scatter_dimension" if "scatter" in name else "all_gather_dimension"] = at
    grower.propose(name, (atom,), rows)


def _met(grower: Grower) -> None:
    """A value that is the same everywhere is brought to meet one that is not."""
    axis = grower.random.choice(grower.manual)
    atom = grower.pick(lambda type: type.state(axis) in "NR")
    if atom is not None:
        name = "pvary" if grower.type(atom).state(axis) == "N" else "reduced_vary_cast"
        grower.propose(name, (atom,), {"axes": (axis,)})


PER_DEVICE: Final[tuple[Callable[[Grower], None], ...]] = (*(_collected,) * 30, *(_met,) * 6)
