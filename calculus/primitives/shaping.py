"""Primitives that move elements and compute none: broadcasts, transposes, reshapes, slices, concatenations."""

from __future__ import annotations

from typing import Any

from calculus.parameters import (
    bad,
    dim_number,
    dim_numbers,
    dims,
    distinct_dims,
    integer,
    integers,
    required,
    sequence,
    sizes,
    whole_numbers,
)
from calculus.primitives.declaration import Primitive, Site, like_operands, same_dtype
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, Shape, broadcast, permutation, regrouping, windowed
from calculus.types import Dim


def _broadcast_scheme(site: Site) -> Scheme:
    """`[j] -> [i,j]`: the shape is not printed, so the printed type says it; without `broadcast_dimensions` a scalar
    goes everywhere."""
    result = site.printed_shape()
    if "shape" in site.parameters and dims(site.parameters, "shape") != result:
        raise bad("shape", str(list(dims(site.parameters, "shape"))), f"{list(result)}, as the result is printed")
    value = site.parameters.get("broadcast_dimensions")
    placed = () if value is None else whole_numbers(value, "broadcast_dimensions")
    distinct_dims(placed, "broadcast_dimensions", len(result))
    return broadcast(site.shapes[0], result, placed)


def _reshape_scheme(site: Site) -> Scheme:
    if site.parameters.get("dimensions") is not None:
        raise refuse(
            "unmodelled-construct",
            "a reshape that permutes through dimensions=",
            because="the scheme of such a reshape is not written",
            help="transpose first",
            place=Place("parameter", name="dimensions"),
        )
    return regrouping(site.shapes[0], sizes(site.parameters, "new_sizes"))


def _squeeze_scheme(site: Site) -> Scheme:
    shape = site.shapes[0]
    dropped = dim_numbers(site.parameters, "dimensions", len(shape))
    for dim in dropped:
        if shape[dim] != 1:
            raise refuse(
                "shape",
                f"squeeze drops dim {dim} of {shape}",
                because="only dims of size 1 can be dropped",
                place=Place("parameter", name="dimensions"),
            )
    return regrouping(shape, tuple(size for dim, size in enumerate(shape) if dim not in dropped))


def _expand_scheme(site: Site) -> Scheme:
    shape = site.shapes[0]
    rank = len(shape) + len(integers(site.parameters, "dimensions"))
    added = dim_numbers(site.parameters, "dimensions", rank)
    result: list[Dim] = list(shape)
    for dim in sorted(added):
        result.insert(dim, 1)
    return regrouping(shape, tuple(result))


def _slice_scheme(site: Site) -> Scheme:
    """A dim that is taken entire passes through; a dim that is cut is needed whole."""
    shape = site.shapes[0]
    start, limit = dims(site.parameters, "start_indices"), dims(site.parameters, "limit_indices")
    printed = site.parameters.get("strides")
    strides: Shape = (1,) * len(shape) if printed is None else dims(site.parameters, "strides")
    if not len(start) == len(limit) == len(strides) == len(shape):
        raise refuse("shape", f"slice bounds for {len(start)} dims of an operand of rank {len(shape)}")
    result: list[Dim] = []
    cut: list[int] = []
    for dim, (size, low, high, step) in enumerate(zip(shape, start, limit, strides, strict=True)):
        if low == 0 and high == size and step == 1:
            result.append(size)
            continue
        cut.append(dim)
        numbers = (size, low, high, step)
        if any(isinstance(number, str) for number in numbers):
            result.append(_printed_dim(site, dim))
            continue
        whole, first, last, stride = (number for number in numbers if isinstance(number, int))
        if not (0 <= first <= last <= whole and stride >= 1):
            raise refuse(
                "shape",
                f"slice [{first}:{last}:{stride}] of dim {dim}, which has size {whole}",
                because="a slice stays inside its operand",
                place=Place("parameter", name="limit_indices"),
            )
        result.append(-(-(last - first) // stride))
    return windowed([shape], tuple(result), cut)


def _printed_dim(site: Site, dim: int) -> Dim:
    shape = site.printed_shape()
    return shape[dim] if dim < len(shape) else 0


def _pad_scheme(site: Site) -> Scheme:
    """Dims with no padding pass through; the others are needed whole. The padding value is a scalar."""
    shape = site.shapes[0]
    config = [
        tuple(integer(item, "padding_config") for item in sequence(row, "padding_config"))
        for row in sequence(required(site.parameters, "padding_config"), "padding_config")
    ]
    if len(config) != len(shape) or any(len(row) != 3 for row in config) or site.shapes[1] != ():
        raise refuse("shape", f"padding_config has {len(config)} rows for an operand of rank {len(shape)}")
    result: list[Dim] = []
    padded: list[int] = []
    for dim, (size, (low, high, interior)) in enumerate(zip(shape, config, strict=True)):
        if interior < 0:
            raise bad("padding_config", str(config), "(low, high, interior) for each dim, no interior negative")
        if low == high == interior == 0:
            result.append(size)
        else:
            padded.append(dim)
            if isinstance(size, str):
                result.append(_printed_dim(site, dim))
            else:
                left = low + high + size + interior * max(0, size - 1)
                if left < 0:
                    raise refuse(
                        "shape",
                        f"dim {dim} has size {size}, and {left} after padding",
                        because="padding cannot take away more than there is",
                        place=Place("parameter", name="padding_config"),
                    )
                result.append(left)
    scheme = windowed([shape], tuple(result), padded)
    return Scheme((*scheme.operands, ()), scheme.results, scheme.sizes, scheme.roles)


def _concatenate_scheme(site: Site) -> Scheme:
    first = site.shapes[0]
    dim = dim_number(site.parameters, "dimension", len(first))
    parts = [shape[dim] for shape in site.shapes if len(shape) == len(first)]
    numbers = [part for part in parts if isinstance(part, int)]
    total: Dim = sum(numbers) if len(numbers) == len(parts) else _printed_dim(site, dim)
    return windowed(site.shapes, (*first[:dim], total, *first[dim + 1 :]), [dim])


def _split_scheme(site: Site) -> Scheme:
    shape = site.shapes[0]
    parts, dim = sizes(site.parameters, "sizes"), dim_number(site.parameters, "axis", len(shape))
    if not parts or _total(parts) != shape[dim]:
        raise refuse(
            "shape",
            f"split of dim {dim} of {shape} into {parts}",
            because="the parts make up the dim",
            place=Place("parameter", name="sizes"),
        )
    scheme = windowed([shape], (*shape[:dim], parts[0], *shape[dim + 1 :]), [dim])
    results = [scheme.results[0]]
    all_sizes, roles = list(scheme.sizes), dict(scheme.roles)
    for size in parts[1:]:
        roles[len(all_sizes)] = "whole"
        results.append((*scheme.results[0][:dim], (len(all_sizes),), *scheme.results[0][dim + 1 :]))
        all_sizes.append(size)
    return Scheme(scheme.operands, tuple(results), all_sizes, roles)


def _total(sizes: Shape) -> Dim:
    return sum(size for size in sizes if isinstance(size, int))


def _rev_scheme(site: Site) -> Scheme:
    shape = site.shapes[0]
    return windowed([shape], shape, dim_numbers(site.parameters, "dimensions", len(shape)))


def _rev(np: Any, p: Any, x: Any) -> Any:
    return np.flip(x, p["dimensions"])


def _slice(np: Any, p: Any, x: Any) -> Any:
    strides = p["strides"] or (1,) * x.ndim
    return x[tuple(map(slice, p["start_indices"], p["limit_indices"], strides))]


def _pad(np: Any, p: Any, x: Any, value: Any) -> Any:
    config = [
        [int(str(item)) if isinstance(item, int) else int(item.arguments[0]) for item in row]
        for row in p["padding_config"]
    ]
    shape = [
        low + high + size + inner * max(0, size - 1) for size, (low, high, inner) in zip(x.shape, config, strict=True)
    ]
    spread = np.full(
        [max(0, size - min(low, 0) - min(high, 0)) for size, (low, high, _) in zip(shape, config, strict=True)],
        value,
        x.dtype,
    )
    spread[
        tuple(
            slice(max(low, 0), max(low, 0) + size + inner * max(0, size - 1), inner + 1)
            for size, (low, _, inner) in zip(x.shape, config, strict=True)
        )
    ] = x
    return spread[
        tuple(slice(-min(low, 0), spread.shape[dim] + min(high, 0)) for dim, (low, high, _) in enumerate(config))
    ]


def _concatenate(np: Any, p: Any, *parts: Any) -> Any:
    return np.concatenate(parts, axis=p["dimension"])


def _split(np: Any, p: Any, x: Any) -> Any:
    return np.split(x, np.cumsum(p["sizes"])[:-1], axis=p["axis"])


def _split_dtypes(site: Site) -> tuple[str, ...]:
    return same_dtype(site) * len(dims(site.parameters, "sizes"))


SHAPING = (
    Primitive("broadcast_in_dim", ("x",), "x", _broadcast_scheme, same_dtype, target="printed", joins="x"),
    Primitive(
        "transpose",
        ("x",),
        "x",
        lambda site: permutation(site.shapes[0], integers(site.parameters, "permutation")),
        same_dtype,
        joins="x",
    ),
    Primitive("reshape", ("x",), "x", _reshape_scheme, same_dtype, target="sharding", joins="x"),
    Primitive("squeeze", ("x",), "x", _squeeze_scheme, same_dtype, joins="x"),
    Primitive("expand_dims", ("x",), "x", _expand_scheme, same_dtype, joins="x"),
    Primitive("slice", ("x",), "x", _slice_scheme, same_dtype, kernel=_slice, joins="x", window="halo"),
    Primitive("pad", ("x", "p"), "x p", _pad_scheme, same_dtype, kernel=_pad, joins="x p", window="halo"),
    Primitive(
        "concatenate",
        ("x...",),
        "x...",
        _concatenate_scheme,
        like_operands(0),
        kernel=_concatenate,
        joins="x",
        window="halo",
    ),
    Primitive("split", ("x",), "x", _split_scheme, _split_dtypes, kernel=_split, joins="x", window="halo"),
    Primitive("rev", ("x",), "x", _rev_scheme, same_dtype, kernel=_rev, joins="x", window="permute"),
)
