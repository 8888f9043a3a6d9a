"""Operations of the table: a move picks values, and proposes one equation on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from calculus.building import sharding
from calculus.programs import Value, Word
from calculus.types import ArrayType
from verifier.generated.growing import MOST, SIZES, Grower, like, sizes

LINEAR: Final[dict[str, dict[str, Value]]] = {"neg": {}, "copy": {}}
CURVED: Final[dict[str, dict[str, Value]]] = {
    "sin": {}, "cos": {}, "tanh": {"accuracy": None}, "logistic": {"accuracy": None}, "erf": {}, "atan": {},
    "asinh": {}, "integer_pow": {"y": 2}, "square": {}, "abs": {}, "exp2": {"accuracy": None}, "one_minus_square": {},
    "sinh": {}, "sign": {}, "floor": {}, "erfc": {}, "exp": {"accuracy": None}, "expm1": {"accuracy": None},
}  # fmt: skip
SUMS: Final = ("add", "sub", "add_any")
PAIRS: Final = ("mul", "mul", "max", "min", "atan2")
ALONG: Final = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")


def _unary(grower: Grower) -> None:
    atom = grower.pick()
    if atom is None:
        return
    names = LINEAR if grower.type(atom).unreduced else {**CURVED, **LINEAR}
    name = grower.random.choice(list(names))
    grower.propose(name, (atom,), names[name])


def _negated(grower: Grower) -> None:
    atom = grower.pick()
    if atom is not None:
        grower.propose("neg", (atom,))


def _pair(grower: Grower) -> None:
    first = grower.pick()
    if first is None:
        return
    type = grower.type(first)
    same = grower.pick(lambda other: other == type)
    near = grower.pick(lambda other: other.shape == type.shape)
    if type.unreduced and grower.random.random() < 0.5:
        reduced = grower.pick(lambda other: other.reduced == type.unreduced and other.shape == type.shape)
        if reduced is not None:
            grower.propose("mul", (first, reduced))
            return
    second = near if grower.random.random() < 0.3 else same
    if second is not None:
        grower.propose(grower.random.choice(SUMS if type.unreduced else (*SUMS, *PAIRS)), (first, second))


def _added(grower: Grower) -> None:
    first = grower.pick()
    if first is not None:
        second = grower.pick(lambda other: other == grower.type(first))
        grower.propose("add_any", (first, second or first))


def _scaled(grower: Grower) -> None:
    atom = grower.pick()
    if atom is None:
        return
    number = grower.builder.literal(grower.random.choice((0.5, 2.0, -1.5)), "f32")
    name = "mul" if grower.type(atom).unreduced else grower.random.choice(("mul", "add", "sub", "div", "max"))
    grower.propose(name, (atom, number) if name == "div" or grower.random.random() < 0.7 else (number, atom))


def _scaled_by_one(grower: Grower) -> None:
    """A lone number scales an array, as `broadcast` is written implicitly."""
    number = grower.pick(lambda type: not type.shape and not type.unreduced)
    array = grower.pick(lambda type: bool(type.shape))
    if number is not None and array is not None:
        grower.propose("mul", (number, array))


def _chosen(grower: Grower) -> None:
    first = grower.pick(lambda type: not type.unreduced)
    if first is None:
        return
    second = grower.pick(lambda other: other == grower.type(first))
    which = grower.propose(grower.random.choice(("gt", "le")), (first, second or first))
    third = grower.pick(lambda other: other == grower.type(first))
    if which and third is not None:
        grower.propose("select_n", (*which, first, third))


def _dot(grower: Grower) -> None:
    first = grower.pick(lambda type: 1 <= type.rank <= 3)
    if first is None:
        return
    left = sizes(grower.type(first))
    second = grower.pick(lambda type: 1 <= type.rank <= 2 and bool(set(sizes(type)) & set(left)))
    if second is None:
        return
    right = sizes(grower.type(second))
    at = grower.random.choice([dim for dim, size in enumerate(left) if size in right])
    beside = grower.random.choice([dim for dim, size in enumerate(right) if size == left[at]])
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    if grower.random.random() < 0.2:
        pairs = [(i, j) for i in range(len(left)) for j in range(len(right)) if i != at and j != beside]
        pairs = [(i, j) for i, j in pairs if left[i] == right[j]]
        if pairs:
            i, j = grower.random.choice(pairs)
            batch = ((i,), (j,))
    numbers = (((at,), (beside,)), batch)
    rows: dict[str, Value] = {"dimension_numbers": numbers, "preferred_element_type": Word("float32")}
    free = [left[dim] for dim in range(len(left)) if dim not in (at, *batch[0])]
    shape = [*(left[dim] for dim in batch[0]), *free]
    shape += [right[dim] for dim in range(len(right)) if dim not in (beside, *batch[1])]
    lists = [grower.type(first).axes[at], grower.type(second).axes[beside]]
    if all(lists) or (any(lists) and grower.random.random() < 0.5):
        target = grower.placed(shape, beside=grower.type(first))
        if (
            "U" in grower.states and grower.random.random() < 0.6
        ):  # pending along what was summed over, nothing else asked for
            pending = dict.fromkeys((*(lists[0] or lists[1]), *grower.type(first).unreduced))
            target = like(grower.type(first), shape, None, tuple(pending))
        grower.propose("dot_general", (first, second), rows, (target,))
    else:
        grower.propose("dot_general", (first, second), rows)


def _transposed(grower: Grower) -> None:
    atom = grower.pick(lambda type: type.rank > 1)
    if atom is not None:
        order = list(range(grower.type(atom).rank))
        grower.random.shuffle(order)
        grower.propose("transpose", (atom,), {"permutation": tuple(order)})


def _summed(grower: Grower) -> None:
    atom = grower.pick(lambda type: type.rank > 0)
    if atom is None:
        return
    type = grower.type(atom)
    dims = tuple(grower.some(range(type.rank), 1, 2))
    cut = tuple(axis for dim in dims for axis in type.axes[dim])
    kept = [dim for dim in range(type.rank) if dim not in dims]
    if cut and not type.reduced and "U" in grower.states and grower.random.random() < 0.6:
        pending = grower.mesh.in_order((*type.unreduced, *cut))
        target = like(type, [sizes(type)[dim] for dim in kept], [type.axes[dim] for dim in kept], pending)
        rows: dict[str, Value] = {"axes": dims, "out_sharding": sharding(target, grower.mesh)}
        grower.propose("reduce_sum", (atom,), rows, (target,))
    else:
        grower.propose("reduce_sum", (atom,), {"axes": dims, "out_sharding": None})


def _greatest(grower: Grower) -> None:
    atom = grower.pick(lambda type: type.rank > 0 and not type.unreduced)
    if atom is not None:
        name = grower.random.choice(("reduce_max", "reduce_min", "reduce_prod"))
        dims = tuple(grower.some(range(grower.type(atom).rank), 1, 1))
        rows: dict[str, Value] = {"axes": dims}
        grower.propose(name, (atom,), rows if name == "reduce_prod" else {**rows, "out_sharding": None})


def _spread(grower: Grower) -> None:
    atom = grower.pick(lambda type: type.rank < 3)
    if atom is None:
        return
    type = grower.type(atom)
    at = grower.random.randint(0, type.rank)
    shape, axes = list(sizes(type)), list(type.axes)
    shape.insert(at, grower.random.choice((1, *SIZES)))
    axes.insert(at, ())
    free = [axis for axis in grower.explicit if type.state(axis) == "N"]
    if free and shape[at] > 1 and grower.random.random() < 0.5:
        axes[at] = (grower.random.choice(free),)
    kept = tuple(dim for dim in range(len(shape)) if dim != at)
    grower.propose("broadcast_in_dim", (atom,), {"broadcast_dimensions": kept}, (like(type, shape, axes),))


def _reshaped(grower: Grower) -> None:
    atom = grower.pick(lambda type: type.rank > 0)
    if atom is None:
        return
    shape = list(sizes(grower.type(atom)))
    at = grower.random.randrange(len(shape))
    if grower.random.random() < 0.5 and at + 1 < len(shape):
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    elif shape[at] % 2 == 0:
        shape[at : at + 1] = grower.random.choice(([2, shape[at] // 2], [shape[at] // 2, 2], [shape[at], 1]))
    grower.propose("reshape", (atom,), {"dimensions": None, "new_sizes": tuple(shape), "sharding": None})


def _squeezed(grower: Grower) -> None:
    atom = grower.pick(lambda type: 1 in type.shape)
    if atom is not None:
        grower.propose("squeeze", (atom,), {"dimensions": (sizes(grower.type(atom)).index(1),)})


def _whole(grower: Grower, least: int = 1) -> tuple[str, int] | None:
    """A value with a dim that no axis cuts, and the dim."""

    def dims(type: ArrayType) -> list[int]:
        return [dim for dim, size in enumerate(sizes(type)) if size > least and not type.axes[dim]]

    atom = grower.pick(lambda type: bool(dims(type)))
    return None if atom is None else (atom, grower.random.choice(dims(grower.type(atom))))


def _cut_out(grower: Grower) -> None:
    found = _whole(grower)
    if found is not None:
        atom, at = found
        shape = sizes(grower.type(atom))
        starts = [grower.random.randrange(shape[at] // 2) if dim == at else 0 for dim in range(len(shape))]
        ends = [starts[at] + shape[at] // 2 if dim == at else size for dim, size in enumerate(shape)]
        rows: dict[str, Value] = {"start_indices": tuple(starts), "limit_indices": tuple(ends), "strides": None}
        grower.propose("slice", (atom,), rows)


def _padded(grower: Grower) -> None:
    found = _whole(grower)
    if found is not None:
        atom, at = found
        config = tuple((1, 3, 0) if dim == at else (0, 0, 0) for dim in range(grower.type(atom).rank))
        grower.propose("pad", (atom, grower.builder.literal(0, "f32")), {"padding_config": config})


def _joined(grower: Grower) -> None:
    found = _whole(grower)
    if found is not None:
        atom, at = found
        other = grower.pick(lambda type: type == grower.type(atom))
        grower.propose("concatenate", (atom, other or atom), {"dimension": at})


def _split(grower: Grower) -> None:
    found = _whole(grower)
    if found is not None:
        atom, at = found
        size = sizes(grower.type(atom))[at]
        rows: dict[str, Value] = {"axis": at, "sizes": (size // 2, size - size // 2)}
        grower.propose("split", (atom,), rows, (None, None))


def _reversed(grower: Grower) -> None:
    found = _whole(grower)
    if found is not None:
        grower.propose("rev", found[:1], {"dimensions": (found[1],)})


def _accumulated(grower: Grower) -> None:
    found = _whole(grower)
    if found is not None:
        name = "cumsum" if grower.type(found[0]).unreduced else grower.random.choice(ALONG)
        rows: dict[str, Value] = {"axis": found[1], "reverse": grower.random.random() < 0.5}
        grower.propose(name, found[:1], rows)


def _sorted(grower: Grower) -> None:
    found = _whole(grower)
    if found is not None and not grower.type(found[0]).unreduced:
        rows: dict[str, Value] = {"dimension": found[1], "is_stable": True, "num_keys": 1}
        grower.propose("sort", found[:1], rows)


def _taken(grower: Grower) -> None:
    """A part of an array whose place is a number that the program computes."""
    found = _whole(grower)
    lone = grower.pick(lambda type: not type.shape and type.plain, "i32")
    if found is not None:
        atom, at = found
        zero = grower.builder.literal(0, "i32")
        shape = sizes(grower.type(atom))
        starts = [lone if dim == at and lone is not None else zero for dim in range(len(shape))]
        rows: dict[str, Value] = {
            "slice_sizes": tuple(size // 2 if dim == at else size for dim, size in enumerate(shape))
        }
        grower.propose("dynamic_slice", (atom, *starts), rows)


def _counted(grower: Grower) -> None:
    """The place of the greatest number: whole numbers, which have no derivative."""
    found = _whole(grower)
    if found is not None and not grower.type(found[0]).unreduced:
        rows: dict[str, Value] = {"axes": (found[1],), "index_dtype": Word("int32")}
        grower.propose("argmax", found[:1], rows)


def _small(move: Callable[[Grower], None]) -> Callable[[Grower], None]:
    """A move that makes arrays larger, while they are small."""

    def made(grower: Grower) -> None:
        before = len(grower.values)
        move(grower)
        grower.values[before:] = [one for one in grower.values[before:] if _elements(grower.type(one)) <= MOST]

    return made


def _elements(type: ArrayType) -> int:
    count = 1
    for size in sizes(type):
        count *= size
    return count


_DOT: Final = _small(_dot)
_SPREAD: Final = _small(_spread)

PLAIN: Final[tuple[Callable[[Grower], None], ...]] = (
    _unary, _unary, _unary, _pair, _pair, _pair, _scaled, _scaled_by_one, _chosen, _DOT, _DOT, _DOT, _transposed,
    _summed, _summed, _SPREAD, _reshaped, _squeezed, _cut_out, _padded, _joined, _split, _reversed, _taken,
)  # fmt: skip
"""Each as often as it is likely."""

MOVES: Final[tuple[Callable[[Grower], None], ...]] = (
    *PLAIN, *PLAIN, _greatest, _accumulated, _sorted, _counted, _counted,
)  # fmt: skip

DATA_PARALLEL: Final[tuple[Callable[[Grower], None], ...]] = (
    _unary, _pair, _scaled, _scaled_by_one, _DOT, _DOT, _DOT, _transposed, _summed, _summed,
)  # fmt: skip
"""What a step of training is mostly made of."""

SWAPPED: Final[tuple[Callable[[Grower], None], ...]] = (
    _negated, _added, _DOT, _DOT, _transposed, _summed, _SPREAD,
)  # fmt: skip
"""Operations whose transposes swap index lists, and nothing else."""
