"""Contractions of groups: rows, contracted elements or matrices of a batch that come in groups of given sizes, and
operands that have a scale for each block of contracted elements.

Where a group begins depends on the sizes of those before it, so the dim that is in groups is needed whole, and so are
the groups.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from calculus.parameters import bad, distinct_dims, required, whole_numbers
from calculus.primitives.contraction import gathered_by, paired_dims, product_dtype, product_linearity
from calculus.primitives.declaration import NUMBERS, Primitive, Site
from calculus.programs import Call, Parameters
from calculus.refusals import Place, refuse
from calculus.schemes import Factor, Scheme, Shape, contraction
from calculus.types import SHORT_NAMES, Dim, dtype_class

_NUMBERS: Final = "ragged_dot_dimension_numbers"


class Ragged(NamedTuple):
    """A ragged contraction: the scheme, how products are gathered up aside; which of the left operand's factors is in
    groups, and the groups' own factor, with their sizes' list of factors before it; what it is of the left operand:
    `free`, `contracted` or `batched`."""

    scheme: Scheme
    ragged: Factor
    groups: Factor
    mode: str


def ragged_of(parameters: Parameters, shapes: tuple[Shape, ...]) -> Ragged:
    """`([m,k], [g,k,n], [g]) -> [m,n]`, rows in groups; `([k,m], [k,n], [g]) -> [g,m,n]`, contracted elements in
    groups; or batches in groups, which a product does not see."""
    if parameters.get("group_offset") is not None:
        raise refuse(
            "unmodelled-construct",
            "a ragged contraction of some of the groups",
            because="JAX has no meaning for group_offset yet",
            place=Place("parameter", name="group_offset"),
        )
    value = required(parameters, _NUMBERS)
    if not isinstance(value, Call) or value.name != "RaggedDotDimensionNumbers":
        raise bad(_NUMBERS, value, "RaggedDotDimensionNumbers(...)")
    left, right, sizes = shapes
    contracting, batch = paired_dims(value.keyword("dot_dimension_numbers"), _NUMBERS)
    base = contraction(left, right, contracting, batch)
    named = distinct_dims(whole_numbers(value.keyword("lhs_ragged_dimensions"), _NUMBERS), _NUMBERS, len(left))
    groups = distinct_dims(whole_numbers(value.keyword("rhs_group_dimensions"), _NUMBERS), _NUMBERS, len(right))
    if len(named) != 1 or not sizes:
        raise bad(_NUMBERS, value, "one ragged dim, and a size for each group")
    (dim,) = named
    mode = "contracted" if dim in contracting[0] else "batched" if dim in batch[0] else "free"
    taken = {*contracting[1], *batch[1]}
    if len(groups) != (mode == "free") or any(one in taken for one in groups):
        raise bad(_NUMBERS, value, "one dim of groups on the right where rows are in groups, and none elsewhere")
    all_sizes, roles = [*base.sizes, sizes[-1]], dict(base.roles)
    count, ragged = len(base.sizes), base.operands[0][dim][0]
    roles[count] = roles[ragged] = "whole"
    (result,) = base.results
    operand = base.operands[1]
    if mode == "free":
        group = operand[groups[0]]
        result = tuple(one for one in result if one != group)
        operand = tuple((count,) if one == group else one for one in operand)
        if right[groups[0]] != sizes[-1]:
            raise _unlike(sizes, [right[groups[0]]])
    elif mode == "contracted":
        result = ((count,), *result)
    before = _before(mode, dim, contracting[0], batch[0], len(left))
    if len(sizes) > 1 and sizes[:-1] != tuple(left[one] for one in before):
        raise _unlike(sizes, [*(left[one] for one in before), sizes[-1]])
    prefix = tuple(base.operands[0][one] for one in before) if len(sizes) > 1 else ()
    return Ragged(
        Scheme((base.operands[0], operand, (*prefix, (count,))), (result,), all_sizes, roles), ragged, count, mode
    )


def _before(mode: str, dim: int, contracting: tuple[int, ...], batch: tuple[int, ...], rank: int) -> list[int]:
    """The dims of the left operand that groups may be given for one by one: the batch, and those before the ragged
    one."""
    free = [one for one in range(rank) if one not in contracting and one not in batch]
    among = {"free": free, "contracted": list(contracting), "batched": list(batch)}[mode]
    earlier = among[: among.index(dim)]
    return earlier if mode == "batched" else [*batch, *earlier]


def _unlike(sizes: Shape, expected: list[Dim]) -> Exception:
    return refuse(
        "shape",
        f"the sizes of groups have shape {list(sizes)}, where {expected} is expected",
        because="there is one size for each group, for all or for each of the dims before",
        place=Place("operand", 2),
    )


def _products(site: Site) -> Site:
    """The two operands that are multiplied."""
    return site._replace(shapes=site.shapes[:2], dtypes=site.dtypes[:2])


def _ragged_scheme(site: Site) -> Scheme:
    scheme = ragged_of(site.parameters, site.shapes).scheme
    monoid = gathered_by(_products(site))
    roles = {factor: monoid if role == "sum" else role for factor, role in scheme.roles.items()}
    return Scheme(scheme.operands, scheme.results, scheme.sizes, roles)


def _ragged_linearity(site: Site) -> str:
    found = product_linearity("x", "y")(_products(site))
    return f"{found} sizes" if found.startswith(";") else f"{found} ; sizes"


def _ragged_dtype(site: Site) -> tuple[str, ...]:
    sizes = site.dtypes[2]
    if sizes is not None and dtype_class(sizes) not in "iu":
        raise refuse(
            "dtype",
            f"the sizes of groups are {sizes}",
            because="a group has a whole number of elements",
            help="insert a convert_element_type",
            place=Place("operand", 2),
        )
    return product_dtype(_products(site))


def _ragged_product(np: Any, p: Any, x: Any, y: Any, sizes: Any) -> Any:
    found = ragged_of(p, (x.shape, y.shape, sizes.shape))
    target = np.result_type(x, y) if p["preferred_element_type"] is None else str(p["preferred_element_type"])
    flat = [
        [factor for dim in indices for factor in dim] for indices in (*found.scheme.operands, *found.scheme.results)
    ]
    operands: list[Any] = [x.astype(target), flat[0], y.astype(target), flat[1]]
    if found.mode != "batched":  # whether an element is in a group
        ends = np.cumsum(sizes, axis=-1)[..., None]
        places = np.arange(found.scheme.sizes[found.ragged])
        inside = (places >= ends - sizes[..., None]) & (places < ends)
        operands += [inside.astype(target), [*flat[2], found.ragged]]
    return np.einsum(*operands, flat[3]).astype(target)


def _scaled_scheme(site: Site) -> Scheme:
    """`([b,i,K], [b,j,L], [b,i,M], [b,j,N]) -> [b,i,j]`, scales M and N for blocks of K and L. No parameter asks where
    the result of a cut contraction goes, so the contracted dims are needed whole."""
    contracting, batch = paired_dims(required(site.parameters, "dimension_numbers"), "dimension_numbers")
    base = contraction(site.shapes[0], site.shapes[1], contracting, batch)
    all_sizes, roles = list(base.sizes), dict.fromkeys(base.roles, "whole")
    operands = list(base.operands)
    for side in (0, 1):
        shape, scale = site.shapes[side], site.shapes[side + 2]
        indices: list[tuple[Factor, ...]] = []
        for dim, size in enumerate(scale if len(scale) == len(shape) else ()):
            if dim in contracting[side]:
                whole = shape[dim]
                even = not isinstance(size, int) or not isinstance(whole, int) or (size > 0 and whole % size == 0)
                indices.append((len(all_sizes),))
                roles[len(all_sizes)] = "whole"
                all_sizes.append(size)
            else:
                even = size == shape[dim]
                indices.append(operands[side][dim])
            if not even:
                break
        else:
            if len(indices) == len(shape):
                operands.append(tuple(indices))
                continue
        raise refuse(
            "shape",
            f"scales of shape {list(scale)} for {list(shape)}",
            because="there is a scale for each block of contracted elements, and for each element of the other dims",
            place=Place("operand", side + 2),
        )
    return Scheme(tuple(operands), base.results, all_sizes, roles)


def _scaled_linearity(site: Site) -> str:
    """In the scales too, unless they are powers of two, which have no sum."""
    powers = [name for name, dtype in zip(("sx", "sy"), site.dtypes[2:], strict=True) if dtype == "f8_e8m0fnu"]
    linear = [name for name in ("sx", "sy") if name not in powers]
    return " | ".join(["x", "y", *linear]) + (f" / {' '.join(powers)}" if powers else "")


def _scaled_dtype(site: Site) -> tuple[str, ...]:
    for index, dtype in enumerate(site.dtypes):
        if dtype is not None and dtype_class(dtype) != "f":
            raise refuse(
                "dtype",
                f"operand {index} is {dtype}",
                because="what is scaled, and by what, are floating numbers",
                help="insert a convert_element_type",
                place=Place("operand", index),
            )
    preferred = site.parameters.get("preferred_element_type")
    if preferred is None:
        return ("bf16",)
    found = SHORT_NAMES.get(str(preferred), str(preferred))
    if dtype_class(found) != "f":
        raise bad("preferred_element_type", str(preferred), "a floating dtype")
    return (found,)


def _scaled_product(np: Any, p: Any, x: Any, y: Any, x_scale: Any, y_scale: Any) -> Any:
    (contracting, batch) = paired_dims(p["dimension_numbers"], "dimension_numbers")
    target = np.dtype("bfloat16" if p["preferred_element_type"] is None else str(p["preferred_element_type"]))
    within = np.result_type(target if target.kind == "f" else np.float32, np.float32)
    scaled = []
    for array, scale, dims in ((x, x_scale, contracting[0]), (y, y_scale, contracting[1])):
        scale = scale.astype(within)
        for dim in dims:
            scale = np.repeat(scale, array.shape[dim] // scale.shape[dim], axis=dim)
        scaled.append(array.astype(within) * scale)
    scheme = contraction(x.shape, y.shape, contracting, batch)
    flat = [[factor for (factor,) in indices] for indices in (*scheme.operands, *scheme.results)]
    return np.einsum(scaled[0], flat[0], scaled[1], flat[1], flat[2]).astype(target)


GROUPED_PRODUCTS = (
    Primitive(
        "ragged_dot_general",
        ("x", "y", "sizes"),
        _ragged_linearity,
        _ragged_scheme,
        _ragged_dtype,
        target="out_sharding",
        kernel=_ragged_product,
        accepts=NUMBERS,
    ),
    Primitive(
        "scaled_dot",
        ("x", "y", "sx", "sy"),
        _scaled_linearity,
        _scaled_scheme,
        _scaled_dtype,
        kernel=_scaled_product,
        accepts="f",
    ),
)
