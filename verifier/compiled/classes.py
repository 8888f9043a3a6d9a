"""The ways in which a compiled program may communicate otherwise than the types say: each has a name and says what it
explains, so that nothing else is.

A class is a claim about one derived collective and the compiled ones that stand for it, and every quantity in it is
checked: kind, axes, payload, loops. What no class explains is unexplained, whoever is wrong.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from verifier.compiled.targets import PARTITIONED, RUN


class Class(NamedTuple):
    """name: as reports show it. stages: at which stages of compiling it occurs (`verifier.compiled.targets`): what a
    later pass does explains nothing before. means: what it explains, and by what it is recognised."""

    name: str
    stages: tuple[str, ...]
    means: str


ALWAYS: Final = (PARTITIONED, RUN)


SCATTERED: Final = Class(
    "reduced, then sliced",
    ALWAYS,
    "A reduce-scatter is compiled to an all-reduce over the same axes, of the same operand, as often, in the same"
    " loops, and a block is cut out of its result.",
)
SHARED: Final = Class(
    "moved once for several uses",
    ALWAYS,
    "Several equations move one value to one place, the same value by where it comes from and what was done to "
    "it, and one of them is compiled; the others have no collective of their own.",
)
HOISTED: Final = Class(
    "hoisted out of a loop",
    ALWAYS,
    "A loop moves the same value in each iteration: nothing that the loop changes has a part in it. It is moved "
    "once, by the same kind over the same axes with the same payload, outside of that loop and inside all outer "
    "ones.",
)
FOLDED: Final = Class(
    "folded away",
    ALWAYS,
    "A pending sum whose pieces were cut, just before, from a value that every device had is that value again, "
    "or its blocks: nothing is compiled.",
)
CONSTANT: Final = Class(
    "constant",
    ALWAYS,
    "No input has a part in what is moved, so that each device computes all of it: nothing is compiled.",
)
ALIKE: Final = Class(
    "one number in many places",
    ALWAYS,
    "What is moved from one place to another is one number, spread out before, and perhaps computed with element by "
    "element: each device spreads it out where it is to be, and nothing is compiled.",
)
LATER: Final = Class(
    "summed after the loop",
    (RUN,),
    "A loop only adds the sum to what it carries, or stacks the sums: the all-reduce is compiled once, behind "
    "that loop, over the same axes, of what was carried, or of all that was stacked.",
)
ADDED: Final = Class(
    "added first",
    (RUN,),
    "Several sums over the same axes, of the same payload, in the same loops, to the same place, are added up: what "
    "is pending is added, and summed once.",
)
BLOCKS: Final = Class(
    "a block kept at once",
    (RUN,),
    "An all-reduce, out of whose result the program cuts a block along the same axes, is compiled to a "
    "reduce-scatter of the same operand.",
)
PADDED: Final = Class(
    "gathered as a sum",
    (RUN,),
    "An all-gather is compiled to an all-reduce over the same axes whose payload is its whole result: each device"
    " has put its block among zeros. The elements may be of another dtype.",
)
AGAIN: Final = Class(
    "not yet shared",
    (PARTITIONED,),
    "One value is moved to one place once for every use, from the same instruction, in the same loops: the "
    "compiler has not made equal instructions one at this stage. The types count it once.",
)
TURNED: Final = Class(
    "multiplied in a ring",
    ALWAYS,
    "The product of a contraction is computed block by block while blocks go round the devices: "
    "collective-permutes of one block each over the same axes, from the line of the contraction, at least n-1 of "
    "them, stand for its all-gather or reduce-scatter over n devices.",
)
WIDENED: Final = Class(
    "widened",
    (RUN,),
    "The same collective in a wider dtype: its payload is that of as many elements, of the compiled dtype.",
)
NARROWED: Final = Class(
    "converted first",
    (RUN,),
    "The same collective in a narrower dtype: the conversion that follows it is done before it. Its payload is "
    "that of as many elements, of the compiled dtype.",
)
RING: Final = Class(
    "a ring of permutes",
    ALWAYS,
    "An all-gather over n devices is compiled to collective-permutes over the same axes, which together send the "
    "n-1 blocks of its result that a device does not have, or the two halves of them in two directions. The blocks may "
    "be of another dtype.",
)
RENUMBERED: Final = Class(
    "along another axis",
    ALWAYS,
    "Two axes of one size are alike to a partitioner: blocks go to the places that they would have along the "
    "other axis, by one collective-permute of a block, and are gathered over that one, with the same payload, or that "
    "of as many elements of the compiled dtype. Blocks that are only permuted go over more axes that the value is cut "
    "along.",
)
SPREAD: Final = Class(
    "spread over an idle axis",
    ALWAYS,
    "A sum is computed in n parts along an axis of n devices that its result is not cut along: the all-reduce "
    "moves one n-th of the payload, and an all-gather over that axis, of the whole payload, puts the parts "
    "together; or, of a reduce-scatter over n devices, one collective-permute of a part sends each to where it should "
    "be. The payloads may be those of another dtype.",
)
MARGIN: Final = Class(
    "scattered with a margin",
    (RUN,),
    "A reduce-scatter over n devices is compiled to one of an array that is longer by a thirty-second at most, over "
    "the same axes, in the same loops, so that blocks suit the chip; a collective-permute of (n - 1)/n of the margin "
    "brings what then lies on another device.",
)
AT_ONCE: Final = Class(
    "over all axes at once",
    ALWAYS,
    "One equation sums over one axis and then over another: one all-reduce of the same payload over both is compiled.",
)
UNCUT: Final = Class(
    "gathered for a whole operation",
    ALWAYS,
    "An operation that works along one dim only (`topk`) is not cut along the others by the partitioner: its operand "
    "is gathered along those, for it alone. The types count nothing.",
)
SEARCHED: Final = Class(
    "estimate",
    ALWAYS,
    "The types do not determine what moves, and the price is marked `estimate`: whatever is compiled from the "
    "line of that equation, or of the one that made its operand, in its loops, over its axes, those that its operands "
    "are cut along, or others of their sizes, along which devices may be renumbered. No more bytes are sent than by "
    "the way that is priced.",
)
MORE: Final = Class(
    "more than is needed",
    ALWAYS,
    "An estimate too, by the same lines, loops and axes: XLA sends more bytes, on a ring, than the way that is priced, "
    "which is one that is enough.",
)
CHOSEN: Final = Class(
    "chosen by the compiler",
    ALWAYS,
    "The axes are automatic there and the types say so: whatever is compiled from those lines over these axes or "
    "others of their sizes, in those loops.",
)

CLASSES: Final = (
    SCATTERED, BLOCKS, SHARED, AGAIN, HOISTED, LATER, ADDED, FOLDED, ALIKE, CONSTANT, WIDENED, NARROWED, PADDED, RING,
    TURNED, RENUMBERED, SPREAD, MARGIN, AT_ONCE, UNCUT, SEARCHED, MORE, CHOSEN,
)  # fmt: skip


def page() -> str:
    """The classes as proofs/compiled.md lists them."""
    lines = ["| class | seen | what it explains, and by what it is recognised |", "|---|---|---|"]
    lines += [f"| {one.name} | {', '.join(one.stages)} | {one.means} |" for one in CLASSES]
    return "\n".join(lines) + "\n"
