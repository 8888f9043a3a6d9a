"""What the types say beside what is compiled: each class explains what it says, and nothing near it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from verifier.compiled.classes import CLASSES, page
from verifier.compiled.derived import Said
from verifier.compiled.matching import matched
from verifier.compiled.reading import Moved
from verifier.compiled.targets import PARTITIONED, RUN

SIZES = {"X": 4, "Y": 4}
HERE, THERE = (("train.py", 3),), (("train.py", 9),)

GATHER = Said("all-gather", ("X",), 256, 4, "exact", "reshard", "f32", (5,), HERE, source="w", site=1)
REDUCE = Said("all-reduce", ("X",), 256, 4, "exact", "dot_general", "f32", (5,), HERE, site=2)
SCATTER = replace(REDUCE, kind="reduce-scatter", primitive="reshard")


def compiled(one: Said, **changed: object) -> Moved:
    """What the types say, compiled as it is but for these."""
    made = Moved(one.kind, one.axes, one.payload or 0, one.group or 1, one.dtype, one.loops, frames=one.frames)
    return replace(made, **changed)  # type: ignore[arg-type]


EXAMPLES: dict[str, tuple[list[Said], list[Moved]]] = {
    "reduced, then sliced": ([SCATTER], [compiled(SCATTER, kind="all-reduce", sliced=True)]),
    "a block kept at once": ([replace(REDUCE, cut=True)], [compiled(REDUCE, kind="reduce-scatter")]),
    "moved once for several uses": ([GATHER, replace(GATHER, site=3)], [compiled(GATHER)]),
    "not yet shared": ([GATHER], [compiled(GATHER, source=("main", "w"))] * 2),
    "hoisted out of a loop": ([replace(GATHER, invariant=1)], [compiled(GATHER, loops=())]),
    "summed after the loop": ([replace(REDUCE, later=(1, 5))], [compiled(REDUCE, loops=(), payload=1280)]),
    "added first": (
        [replace(REDUCE, terms=frozenset({1, 2})), replace(REDUCE, terms=frozenset({2}), site=3)],
        [compiled(REDUCE)],
    ),
    "folded away": ([replace(REDUCE, masked=True)], []),
    "one number in many places": ([replace(GATHER, spread=True)], []),
    "constant": ([replace(GATHER, constant=True)], []),
    "widened": ([replace(GATHER, dtype="bf16")], [compiled(GATHER, dtype="f32", payload=512)]),
    "converted first": ([GATHER], [compiled(GATHER, dtype="bf16", payload=128)]),
    "gathered as a sum": ([GATHER], [compiled(GATHER, kind="all-reduce", padded=True)]),
    "a ring of permutes": ([GATHER], [compiled(GATHER, kind="collective-permute", payload=64, loops=(5, 3))]),
    "multiplied in a ring": (
        [replace(SCATTER, primitive="dot_general")],
        [compiled(SCATTER, kind="collective-permute", payload=64, loops=(5, 2))] * 2,
    ),
    "along another axis": (
        [GATHER],
        [
            compiled(GATHER, kind="collective-permute", axes=("X", "Y"), payload=64, group=16),
            compiled(GATHER, axes=("Y",)),
        ],
    ),
    "spread over an idle axis": (
        [REDUCE],
        [compiled(REDUCE, payload=64), compiled(REDUCE, kind="all-gather", axes=("Y",))],
    ),
    "over all axes at once": (
        [replace(REDUCE, site=("sum", 0, 0)), replace(REDUCE, site=("sum", 1, 0), axes=("Y",))],
        [compiled(REDUCE, axes=("X", "Y"))],
    ),
    "gathered for a whole operation": ([], [compiled(GATHER, uncut=True)]),
    "estimate": ([replace(GATHER, exactness="estimate")], [compiled(GATHER, kind="all-to-all", payload=8)]),
    "scattered with a margin": (
        [replace(SCATTER, payload=268435456)],
        [
            compiled(SCATTER, payload=270532608),
            compiled(SCATTER, kind="collective-permute", payload=1572864),
        ],
    ),
    "more than is needed": (
        [replace(GATHER, exactness="estimate", along=("X", "Y"))],
        [compiled(GATHER), compiled(GATHER, axes=("Y",), payload=512)],
    ),
    "chosen by the compiler": (
        [replace(GATHER, exactness="chosen by the compiler", payload=None)],
        [compiled(GATHER, kind="all-reduce", payload=8)],
    ),
}

OPEN = ("estimate", "more than is needed", "chosen by the compiler")


def test_every_class_has_an_example() -> None:
    assert [*EXAMPLES] == [one.name for one in CLASSES] or {*EXAMPLES} == {one.name for one in CLASSES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_class_explains_its_example_at_its_stages(name: str) -> None:
    said, moved = EXAMPLES[name]
    (class_,) = (one for one in CLASSES if one.name == name)
    for stage in (PARTITIONED, RUN):
        found = matched(said, [replace(one) for one in moved], SIZES, stage)
        assert (found.classes == {name: 1} and not found.unexplained) is (stage in class_.stages), (stage, found)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_wrong_price_does_not_hide_in_a_class(name: str) -> None:
    """Of each derived collective of each example: another payload, kind, axis or number of rounds, and it itself when
    nothing of it is compiled."""
    said, moved = EXAMPLES[name]
    (class_,) = (one for one in CLASSES if one.name == name)
    for at, one in enumerate(said):
        if name in OPEN or not moved:
            continue
        wrong = [
            replace(one, payload=(one.payload or 0) + 4),
            replace(one, kind="all-to-all"),
            replace(one, axes=("Y",) if one.axes != ("Y",) else ("X",)),
        ]
        wrong += [replace(one, loops=(7,), later=(0, 1), invariant=0), replace(one, payload=(one.payload or 0) * 2)]
        for other in wrong:
            given = [*said[:at], other, *said[at + 1 :]]
            assert matched(given, [replace(each) for each in moved], SIZES, class_.stages[0]).unexplained, other


@pytest.mark.parametrize("name", OPEN)
def test_what_is_open_is_open_at_its_lines_and_in_its_loops_only(name: str) -> None:
    (one,), (*_, other) = EXAMPLES[name]
    for elsewhere in (replace(other, frames=THERE), replace(other, loops=()), replace(other, axes=("Z",))):
        assert matched([one], [elsewhere], {**SIZES, "Z": 2}).moved == [elsewhere]


def test_an_estimate_that_is_one_of_two_ways() -> None:
    """A ring gathers 256 bytes in 192, one that is as large takes no more; a byte more does. What is estimated and
    equal stays so, where nothing is left."""
    one = replace(GATHER, exactness="estimate")
    for payload, name in ((192, "estimate"), (193, "more than is needed")):
        moved = compiled(one, kind="collective-permute", payload=payload)
        assert matched([one], [moved], SIZES).classes == {name: 1}
    other = replace(one, site=7, source="v", frames=THERE)
    found = matched([one, other], [compiled(one), compiled(other), compiled(one, payload=512)], SIZES)
    assert (len(found.equal), found.classes) == (1, {"more than is needed": 1})


def test_each_sum_over_all_axes_at_once_is_found_among_others() -> None:
    """Of two equations, the larger compiled first."""
    said, (large,) = EXAMPLES["over all axes at once"]
    small = [replace(one, payload=4, site=("other", at, 0)) for at, one in enumerate(said)]
    found = matched([*small, *said], [large, replace(large, payload=4)], SIZES)
    assert (found.classes, found.unexplained) == ({"over all axes at once": 2}, 0)


NEAR: dict[str, tuple[list[Said], list[Moved]]] = {
    "nothing is cut out of the sum": ([SCATTER], [compiled(SCATTER, kind="all-reduce")]),
    "the program cuts no block": ([REDUCE], [compiled(REDUCE, kind="reduce-scatter")]),
    "another value": ([GATHER, replace(GATHER, source="v", site=3)], [compiled(GATHER)]),
    "the same equation twice": ([GATHER, GATHER], [compiled(GATHER)]),
    "the loop changes it": ([GATHER], [compiled(GATHER, loops=())]),
    "the sum is used in the loop": ([REDUCE], [compiled(REDUCE, loops=(), payload=1280)]),
    "sums that are not added": ([replace(REDUCE, terms=frozenset({1})), replace(REDUCE, site=3)], [compiled(REDUCE)]),
    "a sum of nothing": ([REDUCE], []),
    "a sum of one number in many places": ([replace(SCATTER, spread=True)], []),
    "sums of two equations": (
        [replace(REDUCE, site=("a", 0, 0)), replace(REDUCE, site=("b", 0, 0), axes=("Y",))],
        [compiled(REDUCE, axes=("X", "Y"))],
    ),
    "no block among zeros": ([GATHER], [compiled(GATHER, kind="all-reduce")]),
    "too few permutes": ([GATHER], [compiled(GATHER, kind="collective-permute", payload=64, loops=(5, 2))]),
    "a wider dtype at the same bytes": ([replace(GATHER, dtype="bf16")], [compiled(GATHER, dtype="f32")]),
    "more than the types say": ([], [compiled(GATHER)]),
}


def test_scatters_are_added_first_too() -> None:
    """Each of two, sliced out of an all-reduce or not; not a sum that goes elsewhere."""
    first, other = replace(SCATTER, terms=frozenset({1})), replace(SCATTER, terms=frozenset({1}), site=3)
    for one in (compiled(SCATTER), compiled(SCATTER, kind="all-reduce", sliced=True)):
        found = matched([first, other], [one], SIZES, RUN)
        assert (found.classes["added first"], found.unexplained) == (1, 0)
    assert matched([first, replace(other, kind="all-reduce")], [compiled(SCATTER)], SIZES, RUN).unexplained


def test_a_scatter_may_be_spread_over_an_idle_axis() -> None:
    """A quarter of 256 bytes is summed, and sent to where it should be."""
    part = compiled(SCATTER, kind="all-reduce", payload=64)
    sent = compiled(SCATTER, kind="collective-permute", axes=("X", "Y"), payload=64)
    assert matched([SCATTER], [part, sent], SIZES).classes == {"spread over an idle axis": 1}
    for wrong in (replace(sent, payload=128), replace(sent, axes=("Z",)), replace(sent, loops=())):
        assert matched([SCATTER], [part, wrong], {**SIZES, "Z": 2}).unexplained == 3
    assert matched([SCATTER], [part, sent], {"X": 4, "Y": 2}).unexplained == 3


def test_another_route_may_be_taken_in_another_dtype() -> None:
    """Of as many elements: half the bytes in bfloat16, and no other number of them. The value that is moved again is
    the same one, whichever is gathered first."""
    again = replace(GATHER, site=3)
    one, other = EXAMPLES["along another axis"][1]
    narrow = [replace(one, payload=32, dtype="bf16"), replace(other, payload=128, dtype="bf16")]
    found = matched([GATHER, again], narrow, SIZES, RUN)
    assert found.classes == {"along another axis": 1, "moved once for several uses": 1}
    assert matched([GATHER], [replace(step, payload=step.payload // 2) for step in narrow], SIZES, RUN).unexplained
    (padded,) = EXAMPLES["gathered as a sum"][1]
    bf16 = replace(padded, payload=128, dtype="bf16")
    assert matched([GATHER], [bf16], SIZES, RUN).classes == {"gathered as a sum": 1}
    assert matched([GATHER], [replace(bf16, payload=256)], SIZES, RUN).unexplained
    (ring,) = EXAMPLES["a ring of permutes"][1]
    assert matched([GATHER], [replace(ring, payload=32, dtype="bf16")], SIZES, RUN).classes == {"a ring of permutes": 1}
    assert matched([GATHER], [replace(ring, payload=32)], SIZES, RUN).unexplained


def test_blocks_may_be_permuted_over_more_axes_that_they_are_cut_along() -> None:
    """Measured: from 8@X to 8@(Z,X,Y) the places change along X and Z, and XLA permutes over all three."""
    said = Said("collective-permute", ("X", "Z"), 32, 4, "exact", "reshard", "f32", along=("X", "Y", "Z"))
    wide = compiled(said, axes=("X", "Y", "Z"))
    sizes = {"X": 2, "Y": 2, "Z": 2, "W": 2}
    assert matched([said], [wide], sizes).classes == {"along another axis": 1}
    assert matched([replace(said, along=("X", "Z"))], [wide], sizes).unexplained == 2
    assert matched([said], [replace(wide, payload=64)], sizes).unexplained == 2
    assert matched([said], [replace(wide, axes=("X", "Y"))], sizes).unexplained == 2


def test_a_margin_is_small_and_what_it_moves_is_sent() -> None:
    """Measured on v5p:16x16x16: vocabulary by width over 4 devices, longer by 1/128."""
    said, (wide, step) = EXAMPLES["scattered with a margin"]
    for moved in ([wide], [wide, replace(step, payload=step.payload * 2)], [wide, replace(step, loops=())]):
        assert matched(said, moved, SIZES, RUN).unexplained
    large = [replace(wide, payload=268435456 * 2), replace(step, payload=268435456 * 3 // 4)]
    assert matched(said, large, SIZES, RUN).unexplained


@pytest.mark.parametrize("name", NEAR)
def test_near_a_class_is_not_in_it(name: str) -> None:
    said, moved = NEAR[name]
    for stage in (PARTITIONED, RUN):
        assert matched(said, moved, SIZES, stage).unexplained, stage


def test_of_several_the_one_from_the_line_is_taken() -> None:
    here, there = compiled(GATHER), compiled(GATHER, frames=THERE)
    found = matched([GATHER], [there, here], SIZES)
    assert (found.pairs[0].moved, found.moved) == ((here,), [there])
    assert found.pairs[0].placed
    assert not matched([GATHER], [there], SIZES).pairs[0].placed


def test_the_page_says_what_the_classes_say() -> None:
    text = (Path(__file__).parents[3] / "proofs" / "compiled.md").read_text(encoding="utf-8")
    assert page() in text
    assert max(Counter(one.name for one in CLASSES).values()) == 1
