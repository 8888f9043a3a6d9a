"""Windows of an array, at the places that an index array says: what gathers and scatters have in common.

The dims of the index array before the last are *places*, and the last is the index vector that says where a window
begins. The array of windows has the places as dims, and the dims of a window. A dim that a window has entire is one dim
of the array and of the windows. A batched dim is one dim of array, index array and windows. Along all other dims of
the array the primitive looks, so they are needed whole, and so is the index vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from calculus.parameters import bad, distinct_dims, required, whole_numbers
from calculus.primitives.declaration import Site
from calculus.programs import Call, Parameters, Word
from calculus.refusals import Place, refuse
from calculus.schemes import Factor, Indices, Shape
from calculus.types import Dim, dtype_class

_NUMBERS: Final = "dimension_numbers"


class Names(NamedTuple):
    """What a kind of dimension numbers calls its fields: those of `Numbers`, batching in two."""

    call: str
    windowed: str
    single: str
    starts: str
    meeting: str


class Numbers(NamedTuple):
    """What dimension numbers say. windowed: the dims of the array of windows that are dims of a window. single: dims
    of the array, of one element in a window, that the windows lack. starts: the dims of the array that the index vector
    has a number for. batching: pairs of a dim of the array and the dim of the index array that it meets."""

    windowed: tuple[int, ...]
    single: tuple[int, ...]
    starts: tuple[int, ...]
    batching: dict[int, int]

    def kept(self, rank: int) -> list[int]:
        """The dims of an array of this rank that are dims of a window too."""
        return [dim for dim in range(rank) if dim not in self.single and dim not in self.batching]


def numbers(parameters: Parameters, names: Names, rank: int, places: int) -> Numbers:
    """Refuses `bad-parameter` unless every dim of the array is a window's, single or batched."""
    value = required(parameters, _NUMBERS)
    if not isinstance(value, Call) or value.name != names.call:
        raise bad(_NUMBERS, value, f"{names.call}(...)")

    def named(name: str, rank: int, default: tuple[int, ...] | None = None, ordered: bool = True) -> tuple[int, ...]:
        found = value.keyword(name)
        if found is None and default is not None:
            return default
        dims = distinct_dims(whole_numbers(found, _NUMBERS), _NUMBERS, rank)
        if ordered and list(dims) != sorted(dims):
            raise bad(_NUMBERS, f"{name}={dims}", f"{name} in order")
        return dims

    single = named(names.single, rank)
    batched = named("operand_batching_dims", rank, ())
    meeting = named(names.meeting, places, (), ordered=False)
    starts = named(names.starts, rank, ordered=False)
    windows = rank - len(single) - len(batched)
    windowed = named(names.windowed, max(0, windows) + places)
    if {*single, *starts} & {*batched} or len(batched) != len(meeting) or len(windowed) != windows:
        raise refuse(
            "bad-parameter",
            f"dimension_numbers place {len(windowed)} window dims, {len(single)} of one element and {len(batched)} "
            f"batched ones of an operand of rank {rank}, beside {len(meeting)} batched ones of the index array",
            because="a dim of the operand is a window's, of one element or batched, and batched dims come in pairs",
            place=Place("parameter", name=_NUMBERS),
        )
    return Numbers(windowed, single, starts, dict(zip(batched, meeting, strict=True)))


def places_of(where: Shape) -> int:
    """How many dims of the index array are places. Refuses `shape` where it has no index vector."""
    if not where:
        raise refuse(
            "shape",
            "the index array is a scalar",
            because="its last dim is the index vector",
            place=Place("operand", 1),
        )
    return len(where) - 1


class Windows(NamedTuple):
    """Index lists of the array, the index array and the windows; sizes and roles. `sizes` begins with the dims of the
    index array, so that a place is the factor of its number."""

    array: Indices
    indices: Indices
    windows: Indices
    sizes: list[Dim]
    roles: dict[Factor, str]


def windows(shape: Shape, where: Shape, window: Sequence[Dim], numbers: Numbers, fault: Place) -> Windows:
    """`[V,d], [b,C], [b,d]`, V and C needed whole: with places b and windows of a row. `window`: the size of a window
    in each dim of the array. `fault` is where the sizes stand. Refuses `shape` where they do not fit."""
    if len(numbers.starts) != where[-1]:
        raise refuse(
            "shape",
            f"an index vector of {where[-1]} numbers for {len(numbers.starts)} dims of the operand",
            because="the index vector has a number for each dim of the operand that dimension_numbers name for it",
            place=Place("operand", 1),
        )
    _fits(shape, where, window, numbers, fault)
    places = len(where) - 1
    all_sizes: list[Dim] = list(where)
    roles: dict[Factor, str] = {places: "whole"}

    def add(size: Dim, role: str = "") -> Factor:
        all_sizes.append(size)
        if role:
            roles[len(all_sizes) - 1] = role
        return len(all_sizes) - 1

    array: list[tuple[Factor, ...]] = []
    taken: list[Factor] = []
    for dim, (size, part) in enumerate(zip(shape, window, strict=True)):
        if dim in numbers.batching:
            array.append((numbers.batching[dim],))
        elif dim in numbers.single:
            array.append((add(size, "whole"),))
        else:
            array.append((add(size, "" if size == part else "whole"),))
            taken.append(array[-1][0] if size == part else add(part, "whole"))
    of_a_window, each, windowed = iter(taken), iter(range(places)), frozenset(numbers.windowed)
    dims = tuple([(next(of_a_window if dim in windowed else each),) for dim in range(len(taken) + places)])
    return Windows(tuple(array), tuple((index,) for index in range(places + 1)), dims, all_sizes, roles)


def _fits(shape: Shape, where: Shape, window: Sequence[Dim], numbers: Numbers, fault: Place) -> None:
    """Where there are no places there are no windows, and any size will do. What symbols come to is not known."""
    if len(window) != len(shape):
        raise refuse(
            "shape",
            f"windows of {list(window)} in {list(shape)}",
            because="a window has a size for each dim of the operand",
            place=fault,
        )
    one_element = {*numbers.batching, *numbers.single}
    for dim, (size, part) in enumerate(zip(shape, window, strict=True)):
        larger = isinstance(part, int) and isinstance(size, int) and part > size and 0 not in where
        one = part == 1 or part == size == 0
        if larger or (not one and dim in one_element):
            raise refuse(
                "shape",
                f"windows of {list(window)} in {list(shape)}: {part} of dim {dim}, which has size {size}",
                because="a window lies inside the array, and has one element in a dim that it lacks or that is batched",
                place=fault,
            )
    for dim, meets in numbers.batching.items():
        if shape[dim] != where[meets]:
            raise refuse(
                "shape",
                f"dim {dim} of the operand has size {shape[dim]}, dim {meets} of the index array {where[meets]}",
                because="batched dims are paired one to one",
                place=Place("operand", 1),
            )


def integer_places(site: Site) -> None:
    """Refuses `dtype` unless the index array, operand 1, is one of integers."""
    dtype = site.dtypes[1]
    if dtype is not None and dtype_class(dtype) not in "iu":
        raise refuse(
            "dtype",
            f"the index array is {dtype}, which is no integer",
            because="it says where windows begin",
            help="insert a convert_element_type",
            place=Place("operand", 1),
        )


_MODES: Final = {f"GatherScatterMode.{name}": name for name in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS")}


def mode(parameters: Parameters) -> str:
    """What becomes of a window that is not inside: `CLIP` it is moved there, `FILL_OR_DROP` it is filled with a
    constant (or not written), `PROMISE_IN_BOUNDS` there is none."""
    value = required(parameters, "mode")
    found = _MODES.get(value) if isinstance(value, Word) else None
    if found is None:
        raise bad("mode", value, f"one of {', '.join(_MODES)}")
    return found


def begin(numbers: Numbers, place: Sequence[int], vector: Any, shape: Sequence[int], window: Sequence[Any]) -> Any:
    """For kernels: where the window at a place begins in each dim, and where the nearest one inside does."""
    first = [0] * len(shape)
    for dim, meets in numbers.batching.items():
        first[dim] = place[meets]
    for dim, start in zip(numbers.starts, vector, strict=True):
        first[dim] = int(start)
    return first, [min(max(at, 0), size - part) for at, size, part in zip(first, shape, window, strict=True)]
