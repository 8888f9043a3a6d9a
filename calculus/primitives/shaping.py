"""Primitives that move elements and compute none: broadcasts, transposes, reshapes, slices, concatenations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

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
    """`[j] -> [i,j]`: JAX does not print the shape, so the printed type says it; without `broadcast_dimensions` a
    scalar goes everywhere."""
    open_ = site.printed[:1] == (None,) and "shape" in site.parameters
    result = dims(site.parameters, "shape") if open_ else site.printed_shape()
    if "shape" in site.parameters and dims(site.parameters, "shape") != result:
        raise bad("shape", str(list(dims(site.parameters, "shape"))), f"{list(result)}, as the result is printed")
    value = site.parameters.get("broadcast_dimensions")
    placed = () if value is None else whole_numbers(value, "broadcast_dimensions")
    distinct_dims(placed, "broadcast_dimensions", len(result))
    return broadcast(site.shapes[0], result, placed)


def _trailing_scheme(site: Site) -> Scheme:
    """`[j] -> [i,j]`: new dims come first."""
    shape, result = site.shapes[0], sizes(site.parameters, "shape")
    if len(shape) > len(result):
        raise bad("shape", str(list(result)), f"a shape of at least {len(shape)} dims, as the operand has")
    return broadcast(shape, result, range(len(result) - len(shape), len(result)))


def _reshape_scheme(site: Site) -> Scheme:
    """Dims are regrouped, after they are put in the order that `dimensions` says, if it is given."""
    shape, result = site.shapes[0], sizes(site.parameters, "new_sizes")
    if any(isinstance(size, str) for size in (*shape, *result)) and _apart(_total(shape), _total(result)):
        raise refuse(
            "shape",
            f"{list(shape)} has another number of elements than {list(result)}",
            because="a reshape keeps every element, whatever the symbols stand for",
            place=Place("parameter", name="new_sizes"),
        )
    if site.parameters.get("dimensions") is None:
        return regrouping(shape, result)
    order = integers(site.parameters, "dimensions")
    turned = permutation(shape, order, "dimensions")
    scheme = regrouping(turned.shape(turned.results[0]), result)
    operand = tuple([scheme.operands[0][order.index(dim)] for dim in range(len(shape))])
    return Scheme((operand,), scheme.results, scheme.sizes, scheme.roles)


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
        if isinstance(size, int) and isinstance(low, int) and isinstance(high, int) and isinstance(step, int):
            fits = 0 <= low <= high <= size and step >= 1
            length: Dim = -(-(high - low) // step) if fits else 0
        else:
            taken = _sum((high,), (low,))
            bounds = (_normal(low), taken, _sum((size,), (high,)))
            fits = all(_constant(bound) >= 0 for bound in bounds) and (isinstance(step, str) or step >= 1)
            length = _as_printed(site, dim, _steps(taken, step)) if fits else 0
        if not fits:
            raise refuse(
                "shape",
                f"slice [{low}:{high}:{step}] of dim {dim}, which has size {size}",
                because="a slice stays inside its operand",
                place=Place("parameter", name="limit_indices"),
            )
        result.append(length)
    return windowed([shape], tuple(result), cut)


_Normal: TypeAlias = "dict[tuple[tuple[str, int], ...], int]"
"""A size as a polynomial: the coefficient of each product of powers. What is no name (`floordiv(n, 2)`) counts as one
whose value is not known."""

_SIGNED: Final = re.compile(r"[()*+-]")
_FEW: Final = 64
"""The most terms of a product that is multiplied out."""


def _normal(size: Dim | _Normal) -> _Normal:
    if isinstance(size, dict):
        return size
    if isinstance(size, int):
        return {(): size} if size else {}
    found: _Normal = {}
    depth = start = 0
    coefficient = 1
    powers: dict[str, int] = {}
    for end, sign in [*((match.start(), match[0]) for match in _SIGNED.finditer(size)), (len(size), "+")]:
        if sign in "()":
            depth += 1 if sign == "(" else -1
        if sign in "()" or (depth and end < len(size)):
            continue
        factor = size[start:end].strip()
        start = end + 1
        if factor or sign == "*" or powers:
            base, _, power = factor.rpartition("^")
            if factor.isdecimal() and len(factor) < 19:
                coefficient *= int(factor)
            elif power.isdecimal() and len(power) < 19:
                powers[base] = powers.get(base, 0) + int(power)
            else:
                powers[factor] = powers.get(factor, 0) + 1
        if sign != "*":
            _add(found, tuple(sorted(powers.items())), coefficient if factor or powers else 0)
            coefficient, powers = -1 if sign == "-" else 1, {}
    return found


def _add(normal: _Normal, powers: tuple[tuple[str, int], ...], coefficient: int) -> None:
    total = normal.pop(powers, 0) + coefficient
    if total:
        normal[powers] = total


def _sum(plus: Iterable[Dim | _Normal], minus: Iterable[Dim | _Normal] = ()) -> _Normal:
    found: _Normal = {}
    for sign, each in ((1, plus), (-1, minus)):
        for size in each:
            for powers, coefficient in _normal(size).items():
                _add(found, powers, sign * coefficient)
    return found


def _total(shape: Shape) -> _Normal:
    """The number of elements; one unknown where it has more terms than are worth multiplying out."""
    factors = [_normal(size) for size in shape]
    if not all(factors):
        return {}
    scale = 1
    common: dict[str, int] = {}
    found: _Normal = {(): 1}
    for factor in factors:
        if len(factor) == 1:
            for powers, coefficient in factor.items():
                scale *= coefficient
                for name, power in powers:
                    common[name] = common.get(name, 0) + power
        elif len(found) * len(factor) > _FEW:
            return {((f"({','.join(map(str, shape))})", 1),): 1}
        else:
            found = _product(found, factor)
    return _product(found, {tuple(sorted(common.items())): scale})


def _product(left: _Normal, right: _Normal) -> _Normal:
    found: _Normal = {}
    for powers, coefficient in left.items():
        for others, times in right.items():
            both = dict(powers)
            for name, power in others:
                both[name] = both.get(name, 0) + power
            _add(found, tuple(sorted(both.items())), coefficient * times)
    return found


def _constant(size: _Normal) -> int:
    """The number that this is, 0 where it depends on symbols."""
    return size[()] if size.keys() == {()} else 0


def _apart(left: _Normal, right: _Normal) -> bool:
    """Whether two sizes are known to differ. A size that depends on symbols is printed as an expression in them, never
    as a number; what functions such as `floordiv` come to is not known."""
    difference = _sum((left,), (right,))
    names = all(name.isidentifier() for powers in difference for name, _ in powers)
    return bool(difference) and (names or not all(size.keys() - {()} for size in (left, right)))


def _shown(size: _Normal) -> str:
    text = ""
    for powers, coefficient in sorted(size.items(), key=lambda term: (-sum(power for _, power in term[0]), term[0])):
        factors = [name if power == 1 else f"{name}^{power}" for name, power in powers]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        text += f" {'-' if coefficient < 0 else '+'} {'*'.join(factors)}"
    return text.removeprefix(" + ").strip() or "0"


def _steps(length: _Normal, step: Dim) -> _Normal:
    """How many steps begin in a length."""
    if step == 1 or not length:
        return length
    if isinstance(step, int) and length.keys() == {()}:
        return _normal(-(-length[()] // step))
    return {((f"floordiv({_shown(_sum((length,), (1,)))}, {step})", 1),): 1, (): 1}


def _as_printed(site: Site, dim: int, size: _Normal) -> Dim:
    """A size as the result's type spells it, if that may be the same size; else as we spell it, so that the two are
    compared and refused."""
    if not size.keys() - {()}:
        return _constant(size)
    shape = site.printed_shape()
    printed = shape[dim] if dim < len(shape) else 0
    return printed if isinstance(printed, str) and not _apart(size, _normal(printed)) else _shown(size)


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
                gaps = {powers: interior * times for powers, times in _sum((size,), (1,)).items() if interior}
                result.append(_as_printed(site, dim, _sum((low, high, size, gaps))))
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
    total = _as_printed(site, dim, _sum([shape[dim] for shape in site.shapes if len(shape) == len(first)]))
    return windowed(site.shapes, (*first[:dim], total, *first[dim + 1 :]), [dim])


def _split_scheme(site: Site) -> Scheme:
    shape = site.shapes[0]
    parts, dim = sizes(site.parameters, "sizes"), dim_number(site.parameters, "axis", len(shape))
    if not parts or _apart(_sum(parts), _normal(shape[dim])):
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


def _rev_scheme(site: Site) -> Scheme:
    shape = site.shapes[0]
    return windowed([shape], shape, dim_numbers(site.parameters, "dimensions", len(shape)))


def _reshape(np: Any, p: Any, x: Any) -> Any:
    turned = x if p["dimensions"] is None else np.transpose(x, p["dimensions"])
    return turned.reshape(p["new_sizes"])


def _squeeze(np: Any, p: Any, x: Any) -> Any:
    return x.squeeze(p["dimensions"])


def _expand(np: Any, p: Any, x: Any) -> Any:
    return np.expand_dims(x, p["dimensions"])


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


def _broadcast(np: Any, p: Any, x: Any) -> Any:
    return np.broadcast_to(x, p["shape"])


def _concatenate(np: Any, p: Any, *parts: Any) -> Any:
    return np.concatenate(parts, axis=p["dimension"])


def _split(np: Any, p: Any, x: Any) -> Any:
    return np.split(x, np.cumsum(p["sizes"])[:-1], axis=p["axis"])


def _split_dtypes(site: Site) -> tuple[str, ...]:
    return same_dtype(site) * len(dims(site.parameters, "sizes"))


SHAPING = (
    Primitive(
        "broadcast_in_dim",
        ("x",),
        "x",
        _broadcast_scheme,
        same_dtype,
        target="printed",
        joins="x",
        sized="shape result",
    ),
    Primitive(
        "broadcast_to", ("x",), "x", _trailing_scheme, same_dtype, kernel=_broadcast, joins="x", sized="shape result"
    ),
    Primitive(
        "transpose",
        ("x",),
        "x",
        lambda site: permutation(site.shapes[0], integers(site.parameters, "permutation")),
        same_dtype,
        joins="x",
    ),
    Primitive(
        "reshape", ("x",), "x", _reshape_scheme, same_dtype, "sharding", _reshape, joins="x", sized="new_sizes result"
    ),
    Primitive("squeeze", ("x",), "x", _squeeze_scheme, same_dtype, kernel=_squeeze, joins="x"),
    Primitive("expand_dims", ("x",), "x", _expand_scheme, same_dtype, kernel=_expand, joins="x"),
    Primitive(
        "slice",
        ("x",),
        "x",
        _slice_scheme,
        same_dtype,
        kernel=_slice,
        joins="x",
        window="halo",
        sized="limit_indices x",
    ),
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
