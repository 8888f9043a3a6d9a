"""A gather: windows of one array, at the places that an index array says (`x[indices]`, `take`, an embedding).

The dims of the index array before the last are *places*, and the last is the index vector that says where a window
begins. A dim of the operand that a window has entire travels to the result. A batched dim is one dim of operand, index
array and result. Along all others the primitive looks, so they are needed whole, and so is the index vector.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from calculus.parameters import bad, distinct_dims, required, sizes, whole_numbers
from calculus.primitives.declaration import INEXACT, Primitive, Site, like_operands
from calculus.programs import Call, Parameters, Value, Word
from calculus.refusals import Place, refuse
from calculus.schemes import Factor, Scheme, Shape
from calculus.types import Dim, dtype_class

_NUMBERS: Final = "dimension_numbers"


class _Numbers(NamedTuple):
    """What `GatherDimensionNumbers` says. offset: the dims of the result that are dims of a window. collapsed: dims of
    the operand, of one element in a window, that the result lacks. starts: the dims of the operand that the index
    vector has a number for. batching: pairs of a dim of the operand and the dim of the index array that it meets."""

    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    starts: tuple[int, ...]
    batching: dict[int, int]


def _numbers(parameters: Parameters, rank: int, places: int) -> _Numbers:
    """Refuses `bad-parameter` unless every dim of the operand is a window's, collapsed or batched."""
    value = required(parameters, _NUMBERS)
    if not isinstance(value, Call) or value.name != "GatherDimensionNumbers":
        raise bad(_NUMBERS, value, "GatherDimensionNumbers(...)")

    def named(name: str, rank: int, default: tuple[int, ...] | None = None, ordered: bool = True) -> tuple[int, ...]:
        found = value.keyword(name)
        if found is None and default is not None:
            return default
        dims = distinct_dims(whole_numbers(found, _NUMBERS), _NUMBERS, rank)
        if ordered and list(dims) != sorted(dims):
            raise bad(_NUMBERS, f"{name}={dims}", f"{name} in order")
        return dims

    collapsed = named("collapsed_slice_dims", rank)
    batched = named("operand_batching_dims", rank, ())
    meeting = named("start_indices_batching_dims", places, (), ordered=False)
    starts = named("start_index_map", rank, ordered=False)
    windows = rank - len(collapsed) - len(batched)
    offset = named("offset_dims", max(0, windows) + places)
    if {*collapsed, *starts} & {*batched} or len(batched) != len(meeting) or len(offset) != windows:
        raise refuse(
            "bad-parameter",
            f"dimension_numbers place {len(offset)} window dims, {len(collapsed)} collapsed and {len(batched)} batched "
            f"ones of an operand of rank {rank}, beside {len(meeting)} batched ones of the index array",
            because="a dim of the operand is a window's, collapsed or batched, and batched dims come in pairs",
            place=Place("parameter", name=_NUMBERS),
        )
    return _Numbers(offset, collapsed, starts, dict(zip(batched, meeting, strict=True)))


def _scheme(site: Site) -> Scheme:
    """`([V,d], [b,C]) -> [b,d]`, V and C needed whole: with places b and windows of a row."""
    shape, where = site.shapes
    if not where:
        raise refuse(
            "shape",
            "the index array is a scalar",
            because="its last dim is the index vector",
            place=Place("operand", 1),
        )
    _constant(site.parameters)
    places = len(where) - 1
    numbers = _numbers(site.parameters, len(shape), places)
    window = sizes(site.parameters, "slice_sizes")
    if len(numbers.starts) != where[-1]:
        raise refuse(
            "shape",
            f"an index vector of {where[-1]} numbers for {len(numbers.starts)} dims of the operand",
            because="the index vector has a number for each dim that start_index_map names",
            place=Place("operand", 1),
        )
    _fits(shape, where, window, numbers)
    all_sizes: list[Dim] = list(where)  # a place is the factor of its number
    roles: dict[Factor, str] = {places: "whole"}

    def add(size: Dim, role: str = "") -> Factor:
        all_sizes.append(size)
        if role:
            roles[len(all_sizes) - 1] = role
        return len(all_sizes) - 1

    collapsed, offset = frozenset(numbers.collapsed), frozenset(numbers.offset)
    operand: list[tuple[Factor, ...]] = []
    taken: list[Factor] = []
    for dim, (size, part) in enumerate(zip(shape, window, strict=True)):
        if dim in numbers.batching:
            operand.append((numbers.batching[dim],))
        elif dim in collapsed:
            operand.append(() if size == 1 else (add(size, "whole"),))
        else:
            operand.append((add(size, "" if size == part else "whole"),))
            taken.append(operand[-1][0] if size == part else add(part, "whole"))
    windows, each = iter(taken), iter(range(places))
    result = tuple([(next(windows if dim in offset else each),) for dim in range(len(taken) + places)])
    indices = tuple((index,) for index in range(places + 1))
    return Scheme((tuple(operand), indices), (result,), all_sizes, roles)


def _fits(shape: Shape, where: Shape, window: Shape, numbers: _Numbers) -> None:
    """Refuses `shape` where a window does not lie in its operand, or batched dims differ. Where there are no places
    there are no windows, and any size will do. What symbolic sizes come to is not known."""
    if len(window) != len(shape):
        raise refuse(
            "shape",
            f"windows of {list(window)} in {list(shape)}",
            because="a window has a size for each dim of the operand",
            place=Place("parameter", name="slice_sizes"),
        )
    single = {*numbers.batching, *numbers.collapsed}
    for dim, (size, part) in enumerate(zip(shape, window, strict=True)):
        larger = isinstance(part, int) and isinstance(size, int) and part > size and 0 not in where
        one = part == 1 or part == size == 0
        if larger or (not one and dim in single):
            raise refuse(
                "shape",
                f"windows of {list(window)} in {list(shape)}: {part} of dim {dim}, which has size {size}",
                because="a window lies inside the array, and has one element in a dim that is collapsed or batched",
                place=Place("parameter", name="slice_sizes"),
            )
    for dim, meets in numbers.batching.items():
        if shape[dim] != where[meets]:
            raise refuse(
                "shape",
                f"dim {dim} of the operand has size {shape[dim]}, dim {meets} of the index array {where[meets]}",
                because="batched dims are paired one to one",
                place=Place("operand", 1),
            )


def _dtype(site: Site) -> tuple[str, ...]:
    dtype = site.dtypes[1]
    if dtype is not None and dtype_class(dtype) not in "iu":
        raise refuse(
            "dtype",
            f"the index array is {dtype}, which is no integer",
            because="it says where windows begin",
            help="insert a convert_element_type",
            place=Place("operand", 1),
        )
    return like_operands(0, 1)(site)


_MODES: Final = {f"GatherScatterMode.{name}": name for name in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS")}


def _mode(parameters: Parameters) -> str:
    """What becomes of a window that is not inside: `CLIP` it is moved there, `FILL_OR_DROP` it is filled with a
    constant, `PROMISE_IN_BOUNDS` there is none."""
    value = required(parameters, "mode")
    found = _MODES.get(value) if isinstance(value, Word) else None
    if found is None:
        raise bad("mode", value, f"one of {', '.join(_MODES)}")
    return found


#: dtypes that lack NaN, or zero
_LACKING: Final = frozenset({"f4_e2m1fn", "f8_e8m0fnu"})


def _linearity(site: Site) -> str:
    """Linear, unless windows are filled with a constant that does not sum to itself: zero does, and NaN in the dtypes
    that have it; the least integer, which JAX fills with, does not."""
    fill, dtype = _constant(site.parameters), site.dtypes[0] or ""
    if fill is None:
        return "x ; indices"
    number = _number(fill)
    lasting = number is not None and (number == 0 or (number != number and dtype_class(dtype) in INEXACT))
    return "x ; indices" if lasting and dtype not in _LACKING else "/ x ; indices"


def _constant(parameters: Parameters) -> Value:
    """What windows that are not inside are filled with; `None` where none is filled."""
    fill = required(parameters, "fill_value")
    if _mode(parameters) != "FILL_OR_DROP":
        return None
    if fill is None:
        raise bad("fill_value", "None", "the constant that windows are filled with")
    return fill


def _number(value: Value) -> complex | None:
    """A constant as a number, printed as `0`, `nan`, `(1+2j)` or `np.float32(0.0)`; `None` where it is none."""
    if isinstance(value, Call) and value.name.startswith("np.") and len(value.arguments) == 1 and not value.keywords:
        return _number(value.arguments[0])
    if isinstance(value, (int, str)):  # truth values too
        try:
            return complex(value)
        except (ValueError, OverflowError):
            return None
    return None


def _gather(np: Any, p: Any, x: Any, indices: Any) -> Any:
    numbers = _numbers(p, x.ndim, indices.ndim - 1)
    window, fill = sizes(p, "slice_sizes"), _constant(p)
    kept = [dim for dim in range(x.ndim) if dim not in numbers.collapsed and dim not in numbers.batching]
    found = np.empty((*indices.shape[:-1], *(window[dim] for dim in kept)), x.dtype)
    for place in np.ndindex(*indices.shape[:-1]):
        first = [0] * x.ndim
        for dim, meets in numbers.batching.items():
            first[dim] = place[meets]
        for dim, start in zip(numbers.starts, indices[place], strict=True):
            first[dim] = int(start)
        inside = [min(max(at, 0), whole - size) for at, whole, size in zip(first, x.shape, window, strict=True)]
        part = x[tuple(slice(at, at + size) for at, size in zip(inside, window, strict=True))]
        if fill is not None and inside != first:
            found[place] = np.asarray(_number(fill) if x.dtype.kind == "c" else fill, x.dtype)
        else:
            found[place] = part.reshape(found.shape[len(place) :])
    places = [dim for dim in range(found.ndim) if dim not in numbers.offset]
    return np.moveaxis(found, range(found.ndim), [*places, *numbers.offset])


GATHERING = (
    Primitive(
        "gather",
        ("x", "indices"),
        _linearity,
        _scheme,
        _dtype,
        kernel=_gather,
        joins="x",
    ),
)
