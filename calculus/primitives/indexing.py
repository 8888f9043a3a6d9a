"""Primitives that look a position up: a window at a dynamic place, the parts of a stack, an order. Every dim that they
look along is needed whole; index operands have no derivative."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from calculus.parameters import bad, dim, dim_number, flag, integer, required, sizes
from calculus.primitives.declaration import Primitive, Site, like_operands, same_dtype
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, Shape, windowed
from calculus.types import Dim, dtype_class


def _first_dtype(site: Site) -> tuple[str, ...]:
    _integer_indices(site, 1)
    return like_operands(0, 1)(site)


def _both_dtypes(site: Site) -> tuple[str, ...]:
    _integer_indices(site, 2)
    return like_operands(0, 2)(site)


def _integer_indices(site: Site, first: int) -> None:
    for index in range(first, len(site.dtypes)):
        dtype = site.dtypes[index]
        if (dtype is not None and dtype_class(dtype) not in "iu") or site.shapes[index] != ():
            raise refuse(
                "dtype",
                f"operand {index} is {dtype}{list(site.shapes[index])}, not an integer scalar",
                because="it says where the window begins",
                place=Place("operand", index),
            )
    found = {dtype for dtype in site.dtypes[first:] if dtype is not None}
    if len(found) > 1:
        raise refuse(
            "dtype",
            f"the indices are {' and '.join(sorted(found))}",
            because="the indices of one window have one dtype",
            help="insert a convert_element_type",
            place=Place("operand", first),
        )
    if len(site.dtypes) - first != len(site.shapes[0]):
        raise refuse(
            "arity", f"{len(site.dtypes) - first} indices for the {len(site.shapes[0])} dims of {site.shapes[0]}"
        )


def _window(shape: Shape, part: Shape, what: str) -> list[int]:
    """The dims in which a window is smaller than its array. Refuses `shape` where it does not fit."""
    fits = len(shape) == len(part) and all(
        size == whole or (isinstance(size, int) and isinstance(whole, int) and size <= whole)
        for size, whole in zip(part, shape, strict=True)
    )
    if not fits:
        raise refuse("shape", f"{what} of {list(part)} in {list(shape)}", because="the window lies inside the array")
    return [dim for dim, (size, whole) in enumerate(zip(part, shape, strict=True)) if size != whole]


def _with_indices(scheme: Scheme, count: int) -> Scheme:
    return Scheme((*scheme.operands, *((),) * count), scheme.results, scheme.sizes, scheme.roles)


def _slice_scheme(site: Site) -> Scheme:
    shape, taken = site.shapes[0], sizes(site.parameters, "slice_sizes")
    return _with_indices(windowed([shape], taken, _window(shape, taken, "a slice")), len(site.shapes) - 1)


def _update_scheme(site: Site) -> Scheme:
    shape, update = site.shapes[0], site.shapes[1]
    scheme = windowed([shape, update], shape, _window(shape, update, "an update"))
    return _with_indices(scheme, len(site.shapes) - 2)


def _unstack_scheme(site: Site) -> Scheme:
    """`[i,j] -> [j], [j], …`: one result for each index of the dim."""
    shape = site.shapes[0]
    dim = dim_number(site.parameters, "axis", len(shape))
    if not isinstance(shape[dim], int) or shape[dim] != len(site.printed):
        raise refuse(
            "shape",
            f"dim {dim} of {list(shape)} is taken apart into {len(site.printed)} results",
            because="each index of the dim is one result",
            place=Place("parameter", name="axis"),
        )
    indices = tuple((index,) for index in range(len(shape)))
    rest = (*indices[:dim], *indices[dim + 1 :])
    return Scheme((indices,), (rest,) * len(site.printed), shape, {dim: "whole"})


def _stack_scheme(site: Site) -> Scheme:
    """`[j], [j], … -> [i,j]`: a new dim, whole on every device."""
    shape = site.shapes[0]
    dim = dim_number(site.parameters, "axis", len(shape) + 1)
    if any(other != shape for other in site.shapes):
        raise refuse(
            "shape",
            f"arrays of shapes {', '.join(str(list(other)) for other in site.shapes)} are stacked on dim {dim}",
            because="the parts of a stack have one shape",
            place=Place("parameter", name="axis"),
        )
    sizes: list[Dim] = [*shape, len(site.shapes)]
    indices = tuple((index,) for index in range(len(shape)))
    result = (*indices[:dim], (len(shape),), *indices[dim:])
    return Scheme((indices,) * len(site.shapes), (result,), sizes, {len(shape): "whole"})


def _sort_scheme(site: Site) -> Scheme:
    """Arrays of one shape put in order along a dim that is needed whole: `([V,j], [V,j]) -> [V,j], [V,j]`."""
    shape = site.shapes[0]
    if any(other != shape for other in site.shapes):
        raise refuse(
            "shape",
            f"arrays of shapes {', '.join(str(list(other)) for other in site.shapes)} are sorted together",
            because="elements at one place are put in order together",
        )
    _keys(site)
    flag(site.parameters, "is_stable")
    indices = tuple((dim,) for dim in range(len(shape)))
    count = len(site.shapes)
    along = dim_number(site.parameters, "dimension", len(shape))
    return Scheme((indices,) * count, (indices,) * count, shape, {along: "whole"})


def _keys(site: Site) -> int:
    found = integer(required(site.parameters, "num_keys"), "num_keys")
    if not 0 < found <= len(site.shapes):
        raise bad("num_keys", str(found), f"a number of keys, 1 to {len(site.shapes)}")
    return found


def _sort_linearity(site: Site) -> str:
    """Keys are put in order, the first ones first. What follows them is moved, where it is said in which order equal
    keys leave it; else it may be another order on each device. No derivative is taken of an order."""
    keys, number = _keys(site), site.number
    deciding = range(min(number, keys))
    others = _named(other for other in range(len(site.shapes)) if other != number and other not in deciding)
    moved = number >= keys and flag(site.parameters, "is_stable")
    return f"{'' if moved else '/ '}x{number} ; {_named(deciding)} ~ {others}"


def _named(operands: Iterable[int]) -> str:
    return " ".join([f"x{operand}" for operand in operands])


def _sort_joins(site: Site) -> str:
    moved = site.number >= _keys(site) and flag(site.parameters, "is_stable")
    return f"x{site.number}" if moved else ""


def _each_dtype(site: Site) -> tuple[str, ...]:
    return tuple([like_operands(number, number + 1)(site)[0] for number in range(len(site.dtypes))])


def _top(site: Site, axis: int, kept: Dim) -> Scheme:
    """The values and where they stood: `[i,j] -> [i,k], [i,k]`."""
    shape = site.shapes[0]
    size = shape[axis]
    if isinstance(size, int) and isinstance(kept, int) and kept > size:
        raise bad("k", str(kept), f"0 to {size}, which is how many there are")
    scheme = windowed([shape], (*shape[:axis], kept, *shape[axis + 1 :]), [axis])
    return Scheme(scheme.operands, scheme.results * 2, scheme.sizes, scheme.roles)


def _top_k_scheme(site: Site) -> Scheme:
    return _top(site, dim_number(site.parameters, "axis", len(site.shapes[0])), _count(site, 0))


def _approximate_scheme(site: Site) -> Scheme:
    """How many candidates stay where they are not gathered up to k is the compiler's to say, and the printed type's."""
    rank = len(site.shapes[0])
    axis = integer(required(site.parameters, "reduction_dimension"), "reduction_dimension")
    if not -rank <= axis < rank:
        raise bad("reduction_dimension", str(axis), f"a dim of an array of rank {rank}")
    kept = _count(site, 1)
    if flag(site.parameters, "aggregate_to_topk"):
        return _top(site, axis % rank, kept)
    printed = site.printed_shape()
    stay = printed[axis] if len(printed) == rank else -1
    if isinstance(stay, int) and stay < (kept if isinstance(kept, int) else 0):
        raise bad("k", str(kept), f"no more than the result's, {list(printed)}")
    return _top(site, axis % rank, stay)


def _count(site: Site, least: int) -> Dim:
    found = dim(required(site.parameters, "k"), "k")
    if isinstance(found, int) and found < least:
        raise bad("k", str(found), f"{least} or more")
    return found


def _with_places(site: Site) -> tuple[str, ...]:
    return (*same_dtype(site), "i32")


def _top_k(np: Any, p: Any, x: Any) -> Any:
    """The greatest first, and of equal ones the first."""
    return _first(np, x, p["axis"], p["k"], np.flip)


def _approximate_top_k(np: Any, p: Any, x: Any) -> Any:
    """All of the greatest, or of the least, which is as near as can be."""
    if not p["aggregate_to_topk"]:
        raise ValueError("how many come out before they are sorted, a platform decides")
    return _first(np, x, p["reduction_dimension"], p["k"], np.flip if p["is_max_k"] else lambda x, axis: x)


def _first(np: Any, x: Any, axis: int, count: int, turned: Any) -> Any:
    order = turned(np.argsort(turned(x, axis), axis=axis, kind="stable"), axis)
    order = order if turned is not np.flip else x.shape[axis] - 1 - order
    order = np.take(order, range(count), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int32)


def _slice(np: Any, p: Any, x: Any, *starts: Any) -> Any:
    first = [
        min(max(int(start), 0), whole - size)
        for start, whole, size in zip(starts, x.shape, p["slice_sizes"], strict=True)
    ]
    return x[tuple(slice(start, start + size) for start, size in zip(first, p["slice_sizes"], strict=True))]


def _update(np: Any, p: Any, x: Any, update: Any, *starts: Any) -> Any:
    first = [
        min(max(int(start), 0), whole - size) for start, whole, size in zip(starts, x.shape, update.shape, strict=True)
    ]
    result = x.copy()
    result[tuple(slice(start, start + size) for start, size in zip(first, update.shape, strict=True))] = update
    return result


def _unstack(np: Any, p: Any, x: Any) -> Any:
    return [np.take(x, index, p["axis"]) for index in range(x.shape[p["axis"]])]


def _stack(np: Any, p: Any, *parts: Any) -> Any:
    return np.stack(parts, p["axis"])


def _sort(np: Any, p: Any, *arrays: Any) -> Any:
    """Equal keys keep their order, NaN comes last, and the zeros are equal."""
    keys = arrays[: p["num_keys"]]
    order = np.lexsort(keys[::-1], axis=p["dimension"])
    return [np.take_along_axis(array, order, p["dimension"]) for array in arrays]


INDEXING = (
    Primitive(
        "dynamic_slice",
        ("x", "i..."),
        "x ; i...",
        _slice_scheme,
        _first_dtype,
        kernel=_slice,
        joins="x",
        window="gather",
        sized="slice_sizes x",
    ),
    Primitive(
        "dynamic_update_slice",
        ("x", "u", "i..."),
        "x u ; i...",
        _update_scheme,
        _both_dtypes,
        kernel=_update,
        joins="x u",
        window="gather",
    ),
    Primitive(
        "unstack",
        ("x",),
        "x",
        _unstack_scheme,
        lambda site: same_dtype(site) * len(site.printed),
        kernel=_unstack,
        joins="x",
    ),
    Primitive("stack", ("x...",), "x...", _stack_scheme, same_dtype, kernel=_stack, joins="x"),
    Primitive("top_k", ("x",), "/ x", _top_k_scheme, _with_places, kernel=_top_k, accepts="fiub"),
    Primitive("approx_top_k", ("x",), "/ x", _approximate_scheme, _with_places, kernel=_approximate_top_k, accepts="f"),
    Primitive("sort", ("x...",), _sort_linearity, _sort_scheme, _each_dtype, kernel=_sort, joins=_sort_joins),
)
