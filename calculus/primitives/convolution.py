"""Convolutions: a contraction over the features of the input (and over elements of the window, where the dims are
factors: calculus/primitives/sliding.py). The batch and the features of the output pass through. In groups, the features
or the batch are `(group within)`, and the groups pass through too. Nothing is turned round: the kernel lies as it is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from calculus.parameters import bad, distinct_dims, integer, required, whole_numbers
from calculus.primitives.contraction import gathered_by, product_dtype, product_linearity
from calculus.primitives.declaration import NUMBERS, Primitive, Site, joins_on
from calculus.primitives.sliding import Add, Slide, factors, places, printed_size, reached, slides, spread
from calculus.programs import Call, Parameters
from calculus.refusals import Place, refuse
from calculus.schemes import Factor, Scheme, Shape
from calculus.types import DTYPES, SHORT_NAMES, Dim

_NUMBERS: Final = "dimension_numbers"

Dims: TypeAlias = "tuple[Factor, ...]"
"""The factors of one dim."""


class Numbers(NamedTuple):
    """What `ConvDimensionNumbers` says: dim numbers, the batch first, then the features, then the spatial dims; of the
    kernel the features of the output, then those of the input."""

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]


def numbers_of(parameters: Parameters, rank: int) -> Numbers:
    """The dim numbers of a convolution of arrays of this rank. Refuses `bad-parameter` where they are not that."""
    value = required(parameters, _NUMBERS)
    if not isinstance(value, Call) or value.name != "ConvDimensionNumbers":
        raise bad(_NUMBERS, value, "ConvDimensionNumbers(...)")

    def named(name: str) -> tuple[int, ...]:
        found = distinct_dims(whole_numbers(value.keyword(name), _NUMBERS), _NUMBERS, rank)
        if len(found) != rank or rank < 2:
            raise bad(_NUMBERS, f"{name}={found}", f"{name} with each of {max(rank, 2)} dims")
        return found

    return Numbers(named("lhs_spec"), named("rhs_spec"), named("out_spec"))


def _scheme(site: Site) -> Scheme:
    """`([n,i,X], [o,i,W]) -> [n,o,Y]`, i reduced by sum, X, W and Y needed whole or made of factors. With groups of
    features g: `([n,(g i)], [(g o),i]) -> [n,(g o)]`; of the batch: `([(g n),i], [(g o),i]) -> [n,(g o)]`."""
    shape, kernel = site.shapes
    if len(shape) != len(kernel):
        raise refuse(
            "shape",
            f"an input of rank {len(shape)} and a kernel of rank {len(kernel)}",
            because="both have two dims beside the spatial ones",
            place=Place("operand", 1),
        )
    numbers = numbers_of(site.parameters, len(shape))
    role = gathered_by(site)
    sizes: list[Dim] = []
    roles: dict[Factor, str] = {}

    def add(size: Dim, role: str) -> Factor:
        sizes.append(size)
        if role:
            roles[len(sizes) - 1] = role
        return len(sizes) - 1

    dims: list[list[tuple[Factor, ...]]] = [[()] * len(shape) for _ in numbers]
    input, window, output = dims
    for (first, second), indices, each in zip(_ends(site, numbers, add, role), numbers, dims, strict=True):
        each[indices[0]], each[indices[1]] = first, second
    along: dict[Factor, int] = {}
    spatial = zip(*(indices[2:] for indices in numbers), strict=True)
    for slide, (left, right, result) in zip(slides_of(site, numbers), spatial, strict=True):
        found = factors(slide, places(slide, printed_size(site, result)), add, role, operand=True)
        input[left], window[right], output[result] = found.base, found.window, found.result
        if found.looked is not None:
            along[found.looked] = result
    return Scheme((tuple(input), tuple(window)), (tuple(output),), sizes, roles, along)


def slides_of(site: Site, numbers: Numbers) -> list[Slide]:
    """The windows along each spatial dim."""
    shape, kernel = site.shapes
    return slides(
        site,
        [shape[dim] for dim in numbers.input[2:]],
        [kernel[dim] for dim in numbers.kernel[2:]],
        ("window_strides", "lhs_dilation", "rhs_dilation"),
    )


def groups_of(parameters: Parameters) -> tuple[int, int]:
    """How many groups of features there are, and how many of the batch."""
    names = ("feature_group_count", "batch_group_count")
    features, batch = (integer(required(parameters, name), name) for name in names)
    if min(features, batch) < 1 or (features > 1 < batch):
        raise bad(names[0], f"{features} beside {names[1]}={batch}", "groups of the one kind or of the other")
    return features, batch


def _ends(site: Site, numbers: Numbers, add: Add, role: str) -> tuple[tuple[Dims, Dims], ...]:
    """The factors of the two dims that are not spatial, of the input, of the kernel and of the output."""
    shape, kernel = site.shapes
    batch, inputs = (shape[dim] for dim in numbers.input[:2])
    outputs, within = (kernel[dim] for dim in numbers.kernel[:2])
    of_features, of_batch = groups_of(site.parameters)
    groups = max(of_features, of_batch)
    if _part(inputs, of_features, "features") != within:
        raise refuse(
            "shape",
            f"{inputs} features of the input in {_counted(of_features)}, and {within} of the kernel",
            because="the kernel has a number for each feature of a group",
            place=Place("operand", 1),
        )
    rows, columns = _part(batch, of_batch, "elements of the batch"), _part(outputs, groups, "features of the output")
    group = (add(groups, ""),) if groups > 1 else ()

    def beside(size: Dim, role: str) -> Dims:
        return (add(size, role),) if size != 1 or groups == 1 else ()

    n, i, o = beside(rows, ""), beside(within, role), beside(columns, "")
    return (
        ((*group, *n) if of_batch > 1 else n, (*group, *i) if of_features > 1 else i),
        ((*group, *o), i),
        (n, (*group, *o)),
    )


def _part(size: Dim, groups: int, what: str) -> Dim:
    """How many of these are in each group."""
    if groups == 1:
        return size
    if isinstance(size, str):
        raise refuse(
            "unmodelled-construct",
            f"{size} {what} in {_counted(groups)}",
            because="how many there are in a group is not known of a size that depends on symbols",
            help="trace it at a size that is a number",
        )
    if size % groups:
        raise refuse("shape", f"{size} {what} in {_counted(groups)}", because="every group has as many as every other")
    return size // groups


def _counted(groups: int) -> str:
    return f"{groups} groups" if groups > 1 else "one group"


def _convolution(np: Any, p: Any, x: Any, kernel: Any) -> Any:
    """Each element of the window by itself: what it meets at all places, and all of these added up."""
    numbers = numbers_of(p, x.ndim)
    site = Site(p, (x.shape, kernel.shape), tuple(SHORT_NAMES[each.dtype.name] for each in (x, kernel)), ())
    dtype = np.dtype(DTYPES[product_dtype(site)[0]][0])
    common = np.result_type(x, kernel, dtype)
    of_features, of_batch = groups_of(p)
    groups = max(of_features, of_batch)
    x, kernel = x.transpose(numbers.input).astype(common), kernel.transpose(numbers.kernel).astype(common)
    rows, columns, within = x.shape[0] // of_batch, kernel.shape[0] // groups, kernel.shape[1]
    if of_batch > 1:
        x = x.reshape(groups, rows, within, *x.shape[2:])
    else:
        x = np.moveaxis(x.reshape(rows, groups, within, *x.shape[2:]), 1, 0)
    window, each = kernel.shape[2:], slides_of(site, numbers)
    kernel = kernel.reshape(groups, 1, columns, within, *window)
    x = spread(np, x, each, 0)[:, :, None]
    found = [places(slide, None) for slide in each]
    total = np.zeros((groups, rows, columns, *found), common)
    for at in np.ndindex(*window):
        seen = x[(..., *reached(each, found, at))]
        total += (seen * kernel[(..., *at)].reshape(*kernel.shape[:4], *(1,) * len(found))).sum(3, dtype=common)
    total = np.moveaxis(total, 0, 1).reshape(rows, groups * columns, *found).astype(dtype)
    return np.moveaxis(total, range(total.ndim), numbers.output)


def _shared(p: Parameters, shapes: tuple[Shape, ...], blocks: tuple[Shape, ...]) -> Parameters:
    """The parameters for blocks: where the groups are divided among devices, each has some of them. Features of the
    input are divided among groups first, and then within them."""
    numbers = numbers_of(p, len(shapes[0]))
    cuts = (0, numbers.input[0]), (0, numbers.input[1]), (1, numbers.kernel[0]), (1, numbers.kernel[1])
    batch, inputs, outputs, within = ((shapes[operand][dim], blocks[operand][dim]) for operand, dim in cuts)
    of_features, of_batch = groups_of(p)
    if of_features > 1 and isinstance(within[1], int) and within[1] and isinstance(inputs[0], int):
        divided = _part(within[0], within[1], "")
        if isinstance(divided, int) and inputs[0] % divided == 0:
            inputs = (inputs[0] // divided, inputs[1])

    def share(groups: int, one: tuple[Dim, Dim], other: tuple[Dim, Dim]) -> int:
        parts = [_part(whole, block, "") for whole, block in (one, other) if isinstance(block, int) and block]
        both = parts[0] if len(set(parts)) == 1 and isinstance(parts[0], int) else 1
        return max(1, groups // both)

    counts = {
        "feature_group_count": share(of_features, inputs, outputs),
        "batch_group_count": share(of_batch, batch, outputs),
    }
    return Parameters(tuple((dict(p) | counts).items()))


CONVOLUTION = (
    Primitive(
        "conv_general_dilated",
        ("x", "kernel"),
        product_linearity("x", "kernel"),
        _scheme,
        product_dtype,
        target="out_sharding",
        kernel=_convolution,
        accepts=NUMBERS + "b",
        joins=joins_on(b="max(x) | max(kernel)"),
        window="halo",
        sized=_shared,
    ),
)
