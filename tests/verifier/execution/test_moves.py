"""Every move between two placements, carried out: the derived collectives lead there, and move the bytes derived."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from grammar.meshes import parse_meshes
from verifier.execution.texts import Ran, run_text


def lists(axes: Sequence[str]) -> str:
    return axes[0] if len(axes) == 1 else f"({','.join(axes)})"


def placed(size: int, states: Sequence[tuple[str, str]]) -> str:
    """A matrix whose axes have these states: a dim, N, R or U."""
    cut = [[axis for axis, state in states if state == dim] for dim in "01"]
    dims = ",".join(f"{size}@{lists(axes)}" if axes else str(size) for axes in cut)
    kinds = [(kind, [axis for axis, state in states if state == kind]) for kind in "RU"]
    braces = ",".join(f"{kind}:{lists(sorted(axes))}" for kind, axes in kinds if axes)
    return f"f32[{dims}]" + (f"{{{braces}}}" if braces else "")


def every_placement() -> Iterator[str]:
    """All placements of a matrix on two axes, both orders of a dim that is cut on both."""
    for one, other in itertools.product("NRU01", repeat=2):
        states = [("X", one), ("Y", other)]
        yield placed(4, states)
        if one == other and one in "01":
            yield placed(4, states[::-1])


PLACEMENTS = list(every_placement())


def moved(source: str, target: str, mesh: str) -> Ran:
    return run_text(f"{{ lambda ; a:{source}. let b:{target} = reshard a in (b,) }}", parse_meshes(mesh), "move")


def unequal(pairs: Sequence[tuple[str, str]], mesh: str) -> list[tuple[str, str, list[str]]]:
    found = []
    for source, target in pairs:
        ran = moved(source, target, mesh)
        if ran.verdict != "equal":
            said = [one.message for one in ran.outcome.problems] if ran.outcome else [str(ran.report.refusals)]
            found.append((source, target, said))
    return found


def test_there_are_27_placements() -> None:
    assert len({*PLACEMENTS}) == 27


@pytest.mark.parametrize("source", PLACEMENTS)
def test_every_pair_on_two_axes(source: str) -> None:
    assert unequal([(source, target) for target in PLACEMENTS], "X=2,Y=2") == []


@pytest.mark.parametrize("mesh", ["X=2,Y=2,Z=2", "X=4,Y=2,Z=2"])
def test_pairs_on_three_axes(mesh: str) -> None:
    drawing = random.Random(1)

    def drawn() -> str:
        axes = drawing.sample("XYZ", 3)
        return placed(16, [(axis, drawing.choice("NU0011")) for axis in axes])

    assert unequal([(drawn(), drawn()) for _ in range(300)], mesh) == []


@pytest.mark.parametrize(
    ("source", "target", "executed"),
    [
        ("f32[4@(X,Y),4]", "f32[4@Y,4]", [("collective-permute", 16), ("all-gather", 32)]),
        ("f32[4@Y,4]", "f32[4,4@(X,Y)]", [("all-to-all", 16)]),
        ("f32[4@X,4@Y]", "f32[4,4]{U:Y}", [("all-gather", 32)]),
        ("f32[4@(X,Y),4]", "f32[4,4]{U:Y}", [("all-gather", 64)]),
        ("f32[4@Y,4]", "f32[4@X,4]{U:Y}", [("collective-permute", 32)]),
        ("f32[4@X,4]", "f32[4,4]{U:X}", []),
    ],
)
def test_what_is_executed_is_what_xla_compiles(source: str, target: str, executed: list[tuple[str, int]]) -> None:
    """Measured: kinds and bytes of the partitioner's output for four CPU devices."""
    outcome = moved(source, target, "X=2,Y=2").outcome
    assert outcome is not None
    assert [(line.collective.kind, line.moved) for line in outcome.lines] == executed


@pytest.mark.parametrize("result", ["1,4@X", "4@X,1"])
def test_a_parameter_that_lists_sizes_speaks_of_the_whole(result: str) -> None:
    """`shape` of a broadcast is that of the whole array, and every device makes its block."""
    dim, shape = result.split(",").index("4@X"), result.replace("@X", "")
    text = f"""{{ lambda ; a:f32[4@X]. let
        b:f32[{result}] = broadcast_in_dim[broadcast_dimensions=({dim},) shape=({shape}) sharding=None] a
      in (b,) }}"""
    assert run_text(text, parse_meshes("X=2"), "broadcast").verdict == "equal"
