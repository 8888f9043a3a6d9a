"""Rows of windows that slide: convolutions, and what is reduced or chosen in a window.

A convolution is linear in its input and in its kernel. With windows that slide along the cotangent, gaps in it where
the strides were, the input's cotangent is a convolution with the kernel turned round; the kernel's is one of the input,
along which the cotangent goes as a window, features and batch in each other's place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from calculus.primitives import convolution, pooling
from calculus.primitives.declaration import Site, Unfold
from calculus.primitives.differentials.products import at_own, at_products, said
from calculus.primitives.differentials.reductions import MOST_FOLDED, in_turn
from calculus.primitives.sliding import Slide, extent, places, reached
from calculus.programs import Value
from calculus.types import ArrayType, Dim, array_type

if TYPE_CHECKING:
    from calculus.unfolding import Dual, Unfolding


def known(each: Sequence[Slide]) -> bool:
    """Whether all sizes along these dims are numbers."""
    return all(isinstance(size, int) for slide in each for size in (slide.size, slide.window, slide.low, slide.high))


def turned_round(slide: Slide) -> tuple[int, int]:
    """How the cotangent is padded at either end, so that windows that slide along it come to each element of the
    base."""
    size, window, _, low, _, dilation, stretch = slide
    assert isinstance(size, int)
    assert isinstance(window, int)
    assert isinstance(low, int)
    reach, whole, found = extent(window, stretch), extent(size, dilation), places(slide, None)
    assert isinstance(found, int)
    before = reach - low - 1
    return before, whole + reach - 1 - extent(found, slide.stride) - before


def convolved(site: Site, position: int) -> str:
    """Of a convolution: of the input, and of the kernel."""
    numbers = convolution.numbers_of(site.parameters, len(site.shapes[0]))
    each = convolution.slides_of(site, numbers)
    if not known(each) or any(isinstance(size, str) for shape in site.shapes for size in shape):
        return ""
    return _of_kernel(site, numbers, each) if position else _of_input(site, numbers, each)


def _of_input(site: Site, numbers: convolution.Numbers, each: Sequence[Slide]) -> str:
    of_features, of_batch = convolution.groups_of(site.parameters)
    groups = max(of_features, of_batch)
    outputs, inputs = numbers.kernel[:2]
    kernel, shape = "kernel", site.shapes[1]
    if groups > 1:  # (g o) and i become o and (g i)
        kernel, shape = _moved(kernel, shape, groups, outputs, inputs)
    kernel = f"rev({kernel}, dimensions={numbers.kernel[2:]})"
    found = _convolution(
        site, "g", at_products(site, kernel, 1), "x" if of_batch == 1 else "",
        lhs_spec=numbers.output, rhs_spec=(inputs, outputs, *numbers.kernel[2:]), out_spec=numbers.input,
        window_strides=tuple(slide.dilation for slide in each), padding=tuple(map(turned_round, each)),
        lhs_dilation=tuple(slide.stride for slide in each),
        rhs_dilation=tuple(slide.window_dilation for slide in each),
        feature_group_count=groups, batch_group_count=1,
    )  # fmt: skip
    found = at_own(site, found, 0)
    if of_batch > 1:
        batch, features = numbers.input[:2]
        whole = list(site.shapes[0])
        whole[batch] //= of_batch  # type: ignore[operator]
        whole[features] *= of_batch
        found, _ = _moved(found, tuple(whole), of_batch, features, batch)
    return f"x: {found}"


def _of_kernel(site: Site, numbers: convolution.Numbers, each: Sequence[Slide]) -> str:
    of_features, of_batch = convolution.groups_of(site.parameters)

    def turned(spec: tuple[int, ...]) -> tuple[int, ...]:
        return (spec[1], spec[0], *spec[2:])

    padding = []
    for slide in each:
        found = places(slide, None)
        before, _ = turned_round(slide)
        assert isinstance(found, int)
        assert isinstance(slide.size, int)
        assert isinstance(slide.low, int)
        padding.append((slide.low, extent(found, slide.stride) - extent(slide.size, slide.dilation) + before))
    found = _convolution(
        site, at_products(site, "x", 0), "g", "kernel",
        lhs_spec=turned(numbers.input), rhs_spec=turned(numbers.output), out_spec=turned(numbers.kernel),
        window_strides=tuple(slide.window_dilation for slide in each), padding=tuple(padding),
        lhs_dilation=tuple(slide.dilation for slide in each), rhs_dilation=tuple(slide.stride for slide in each),
        feature_group_count=of_batch, batch_group_count=of_features,
    )  # fmt: skip
    return f"kernel: {at_own(site, found, 1)}"


def _convolution(
    site: Site, left: str, right: str, like: str, lhs_spec: Value, rhs_spec: Value, out_spec: Value, **rest: Value
) -> str:
    numbers = said(lhs_spec=lhs_spec, rhs_spec=rhs_spec, out_spec=out_spec)
    kept = {name: site.parameters.get(name) for name in ("precision", "preferred_element_type")}
    target = f"sharding({like})" if like else "None"
    return (
        f"conv_general_dilated({left}, {right}, dimension_numbers=ConvDimensionNumbers({numbers}), "
        f"{said(**rest, **kept)}, out_sharding={target})"
    )


def _moved(array: str, shape: tuple[Dim, ...], groups: int, source: int, target: int) -> tuple[str, tuple[Dim, ...]]:
    """An array whose dim `source` is `(group within)`, the groups made the major part of another dim."""
    apart = list(shape)
    apart[source : source + 1] = [groups, apart[source] // groups]  # type: ignore[operator]
    order = [dim for dim in range(len(apart)) if dim != source]
    order.insert(target, source)
    together = [size for dim, size in enumerate(apart) if dim != source]
    together[target] *= groups
    array = f"reshape({array}, dimensions=None, new_sizes={tuple(apart)}, sharding=None)"
    whole = tuple(together)
    return f"reshape({array}, dimensions={tuple(order)}, new_sizes={whole}, sharding=None)", whole


def unpooled(site: Site, position: int) -> str:
    """Of sums of windows: sums of windows of the cotangent, as far apart as elements were."""
    each = pooling.slides_of(site, site.shapes[0])
    if not known(each):
        return ""
    ones = (1,) * len(each)
    config = tuple((*turned_round(slide), slide.stride - 1) for slide in each)
    rows = said(
        window_dimensions=tuple(slide.window for slide in each),
        window_strides=tuple(slide.dilation for slide in each), padding=((0, 0),) * len(each), base_dilation=ones,
        window_dilation=tuple(slide.window_dilation for slide in each),
    )  # fmt: skip
    return f"reduce_window_sum(pad(g, 0, padding_config={config}), {rows})"


def chosen(select: str) -> Callable[[Site], str]:
    """Of the greatest or least element of a window: its tangent."""
    names = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")

    def row(site: Site) -> str:
        rows = said(**{name: site.parameters[name] for name in names})
        return f"select_and_gather_add(g, x, select_prim={select}, {rows})"

    return row


def _kept(site: Site) -> str:
    return said(**{
        name: site.parameters[name] for name in ("select_prim", "window_dimensions", "window_strides", "padding")
    })  # fmt: skip


def put_back(site: Site, position: int) -> str:
    """Of what is chosen: added up where it stood. Gaps between elements are filled with what is never chosen."""
    shape, each = site.shapes[1], pooling.slides_of(site, site.shapes[1])
    if any(slide.window_dilation > 1 for slide in each) or not known(each):
        return ""  # nothing scatters to windows that have gaps
    if all(slide.dilation == 1 for slide in each):
        return f"tangents: select_and_scatter_add(g, x, {_kept(site)})"
    last = "-1e999" if str(site.parameters["select_prim"]) == "ge" else "1e999"
    spread = tuple(extent(size, slide.dilation) for size, slide in zip(shape, each, strict=True))  # type: ignore[arg-type]
    filled = f"pad(x, {last}, padding_config={tuple((0, 0, slide.dilation - 1) for slide in each)})"
    return (
        f"tangents: slice(select_and_scatter_add(g, {filled}, {_kept(site)}), start_indices={(0,) * len(each)}, "
        f"limit_indices={spread}, strides={tuple(slide.dilation for slide in each)})"
    )


def looked_at(site: Site, position: int) -> str:
    """Of what was added up at chosen places: what stands there."""
    ones = (1,) * len(site.shapes[1])
    rows = said(base_dilation=ones, window_dilation=ones)
    return f"source: select_and_gather_add(g, x, {_kept(site)}, {rows})"


def in_windows(u: Unfolding) -> Sequence[Dual] | None:
    """Of windows reduced by a function: it is applied to one element of the windows after the other."""
    count = len(u.operands) // 2
    each = pooling.slides_of(u.use.site, u.use.site.shapes[0])
    windows = [slide.window for slide in each if isinstance(slide.window, int)]
    if not known(each) or prod(windows) > MOST_FOLDED:
        return None
    moving = [dim for dim, slide in enumerate(each) if not slide.passes]
    cut = {axis for array in u.operands[:count] for dim in moving for axis in u.type(array).axes[dim]}
    config = tuple((slide.low, slide.high, slide.dilation - 1) for slide in each)
    starts = [u.one("reshard", start, to=unmarked(u.type(start), cut)) for start in u.operands[count:]]
    spread = [
        u.one("pad", u.whole(array, moving), start, padding_config=config)
        for array, start in zip(u.operands[:count], starts, strict=True)
    ]
    found = [places(slide, None) for slide in each]
    steps: list[list[Dual]] = []
    for at in product(*map(range, windows)):
        seen = reached(each, found, at)
        first, last, stride = (tuple(getattr(one, name) for one in seen) for name in ("start", "stop", "step"))
        steps.append(
            [u.one("slice", one, start_indices=first, limit_indices=last, strides=stride) for one in spread]
        )  # fmt: skip
    return in_turn(u, "jaxpr", steps, starts)


def unmarked(type: ArrayType, axes: Collection[str]) -> ArrayType:
    """A type that is not reduced along some axes."""
    reduced = tuple(axis for axis in type.reduced if axis not in axes)
    return array_type(
        type.dtype, type.shape, type.axes, type.varying, type.unreduced, reduced, type.kind, type.memory
    )  # fmt: skip


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    "reduce_window_max": chosen("ge"),
    "reduce_window_min": chosen("le"),
}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    "conv_general_dilated": convolved,
    "reduce_window_sum": unpooled,
    "select_and_gather_add": put_back,
    "select_and_scatter_add": looked_at,
}

UNFOLDED: Final[Mapping[str, Unfold]] = {
    "reduce_window": in_windows,
}
