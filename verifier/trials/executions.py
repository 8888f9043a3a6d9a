"""What is locally sound, found by running: for each sample call, every combination of the operands' states on one axis
of two devices, and every state of the result.

The kernel runs on each device's own blocks, and the results are read back in every way there is. Nothing here looks at
a scheme (but for a primitive whose scheme is its kernel), a signature or a join. States are those of dims, not of
factors: `("S", 1)` cuts dim 1. `C` stands for N and R, which are the same blocks.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, TypeAlias

import numpy as np

from calculus.meshes import Axis, Mesh
from calculus.refusals import Refused
from calculus.schemes import Shape
from calculus.types import SHORT_NAMES, ArrayType, array_type
from verifier.devices import MERGE, Array, devices, place, read_back
from verifier.kernels import on_blocks
from verifier.samples import Sample
from verifier.trials.cases import Case

DimState: TypeAlias = "str | tuple[str, int]"

COUNT: Final = 2
MESH: Final = Mesh([Axis("X", COUNT)])
KINDS: Final = {"U": "sum", "Umax": "max", "Umin": "min"}
TRIALS: Final = 6
"""How often what looks sound is tried; more often where a maximum is pending, whose coincidences are likelier."""
MORE: Final = 30
LONG: Final = 300
"""How often what looks sound and is refused is tried."""


def states(shape: Shape) -> list[DimState]:
    """The states of an array along the axis: dims of size 1 cannot be cut, and in blocks of size 1 numpy would not tell
    a dim from one that widens."""
    cut: list[DimState] = [("S", dim) for dim, size in enumerate(shape) if isinstance(size, int) and size % COUNT == 0]
    return ["C", *KINDS, *cut]


def state_type(dtype: str, shape: Shape, state: DimState) -> ArrayType:
    """The type of an array in a state along the axis."""
    if isinstance(state, tuple):
        return array_type(dtype, shape, tuple(("X",) if dim == state[1] else () for dim in range(len(shape))))
    return array_type(dtype, shape, unreduced=("X",), kind=KINDS[state]) if state in KINDS else array_type(dtype, shape)


class Execution(Case):
    """Runs of one sample call on two devices."""

    def __init__(self, sample: Sample) -> None:
        super().__init__(sample)
        self.results = self.run([self.draw(position) for position in range(len(self.shapes))])

    def ignored(self, position: int) -> bool:
        """Whether the result is the same whatever this operand is."""
        for trial in range(TRIALS):
            operands = [  # some of them alike
                self.draw(each) if trial % 2 else self.special(each, pending=False) for each in range(len(self.shapes))
            ]
            before = self.run(operands)
            operands[position] = self.special(position, pending=True)
            if not all(_same(one, other, 0) for one, other in zip(before, self.run(operands), strict=True)):
                return False
        return True

    def families(self, given: Sequence[DimState]) -> tuple[list[Array], list[list[Array]]]:
        """Random operands in these states: the whole arrays, and the blocks of each device."""
        extreme = "Umax" in given or "Umin" in given
        wholes: list[Array] = []
        blocks: list[list[Array]] = [[] for _ in range(COUNT)]
        for position, state in enumerate(given):
            if state in ("Umax", "Umin"):
                held = [self.special(position, pending=True) for _ in range(COUNT)]
                whole = self.either_zero(np.asarray(MERGE[KINDS[str(state)]].reduce(held)))
            else:
                whole = self.special(position, pending=False) if extreme else self.draw(position, whole=True)
                if state == "U":  # a sum is 0 here and there, though its pieces are not
                    whole = np.where(self.random.random(whole.shape) < 0.2, np.zeros_like(whole), whole)
                    if whole.dtype.kind == "f" and self.results[0].dtype.kind == "b":  # asked whether it is finite
                        whole = np.where(self.random.random(whole.shape) < 0.1, np.inf, whole)
                type = state_type(self.dtypes[position], self.shapes[position], state)
                held = list(place(whole, type, MESH, self.random).values())
            wholes.append(whole)
            for each, block in zip(blocks, held, strict=True):
                each.append(block)
        return wholes, blocks

    def sound(
        self, given: tuple[DimState, ...], left: list[list[DimState]] | None = None, often: int = 0
    ) -> list[frozenset[DimState]]:
        """For each result, the states in which it reads back right, every time: of those given, or of all."""
        ranks = [len(indices) for indices in self.primitive.scheme(self.site).results]
        left = left or [states(result.shape[:rank]) for result, rank in zip(self.results, ranks, strict=True)]
        often = often or (MORE if "Umax" in given or "Umin" in given else TRIALS)
        for _ in range(often * (8 if min(result.size for result in self.results) < 4 else 1)):
            wholes, blocks = self.families(given)
            expected = self.run(wholes)
            computed: dict[Shape, list[list[Array]] | None] = {}
            for number, whole in enumerate(expected):
                for state in list(left[number]):
                    if state in ("Umax", "Umin") and "C" in left[number]:
                        continue  # what is the same on every device is its own maximum
                    local = _halved(whole.shape, state[1]) if isinstance(state, tuple) else whole.shape
                    if local not in computed:
                        computed[local] = self.computed(blocks, local)
                    held = computed[local]
                    if held is None or not reads_back([each[number] for each in held], whole, state, self.near):
                        left[number].remove(state)
            if not any(left):
                break
        return list(map(frozenset, left))

    def computed(self, blocks: list[list[Array]], local: Shape) -> list[list[Array]] | None:
        """The results on each device, `None` where the function is not defined on blocks of these shapes."""
        try:
            found = [self.compute(on_blocks(self.primitive, self.site, each, local), each) for each in blocks]
        except (ValueError, IndexError, TypeError, Refused):
            return None
        return found if all(len(each) == len(self.results) for each in found) else None


def _halved(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return (*shape[:dim], shape[dim] // COUNT, *shape[dim + 1 :])


def reads_back(parts: list[Array], whole: Array, state: DimState, near: float) -> bool:
    """Whether the blocks are a family of this state, and its value is the whole. Functions that round may differ in the
    last places from block to whole, and sums of what they round in a few more."""
    dtype = SHORT_NAMES[whole.dtype.name]
    try:
        found = read_back(dict(zip(devices(MESH), parts, strict=True)), state_type(dtype, whole.shape, state), MESH)
    except ValueError:
        return False
    return _same(found, whole, near, summed=state == "U")


def _same(one: Array, other: Array, near: float, summed: bool = False) -> bool:
    if np.array_equal(one, other):  # nearly all are, and that is soon seen
        return True
    if one.dtype.kind not in "fc":
        return False
    near = near if one.real.dtype.itemsize >= 8 else 1e7 * near
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(other), where=np.isfinite(other), initial=0) if summed else 0
        return bool(np.allclose(one, other, rtol=near, atol=near * largest, equal_nan=True))


@cache
def ignored(sample: Sample) -> frozenset[int]:
    """The operands of a call on which its results do not depend."""
    one = _execution(sample)
    one.random = np.random.default_rng(7)
    return frozenset(position for position in range(len(one.shapes)) if one.ignored(position))


MANY: Final = 2000
"""Of calls with more combinations of states than that, only those are tried in which all that are no copies are
alike: what has eight operands has a million."""


@cache
def combinations(sample: Sample) -> tuple[tuple[DimState, ...], ...]:
    """The combinations of states of the operands of a call that are tried, those with few copies last."""
    each = [states(type.shape) for type in sample.operands]
    if math.prod(map(len, each)) <= MANY:
        found: Iterable[tuple[DimState, ...]] = itertools.product(*each)
    else:
        every = dict.fromkeys(state for several in each for state in several)
        found = itertools.chain.from_iterable(
            itertools.product(*({"C": 0, state: 0} if state in several else ["C"] for several in each))
            for state in every
        )
    return tuple(sorted(dict.fromkeys(found), key=lambda given: len(given) - given.count("C")))


@cache
def _execution(sample: Sample) -> Execution:
    return Execution(sample)


def pending(given: Sequence[DimState]) -> bool:
    """Whether something is pending."""
    return any(state in KINDS for state in given)


@cache
def truth(sample: Sample, given: tuple[DimState, ...]) -> tuple[frozenset[DimState], ...]:
    """For each result, the states in which it reads back right when the operands are in these states."""
    one = _execution(sample)
    one.random = np.random.default_rng(zlib.crc32(repr(given).encode()))
    keys = [type.dtype.startswith("key<") for type in sample.operands]
    if any(key and state in KINDS for key, state in zip(keys, given, strict=True)):  # they have no sum and no order
        return (frozenset(),) * len(one.results)
    made = [dtype.startswith("key<") for dtype in one.primitive.dtypes(one.site)]
    return tuple(
        found - {*KINDS} if key and pending(given) else found for key, found in zip(made, one.sound(given), strict=True)
    )


@cache
def confirmed(sample: Sample, number: int, given: tuple[DimState, ...], state: DimState) -> bool:
    """Whether what looks sound is so in many more trials."""
    one = _execution(sample)
    one.random = np.random.default_rng(number + 12)
    left: list[list[DimState]] = [[state] if each == number else [] for each in range(len(one.results))]
    return state in one.sound(given, left, LONG)[number]
