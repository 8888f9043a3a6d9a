"""Windows that are reduced (pooling), and their derivatives, which choose the greatest or least element of a window.

A dim that windows do not reach along passes through; where they lie side by side, a stretch is a factor; every other
dim is needed whole. What windows along a dim are: calculus/primitives/sliding.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from calculus.parameters import bad, required, sizes
from calculus.primitives.declaration import NUMBERS, Primitive, Site, like_operands, same_dtype
from calculus.primitives.reducers import computed, held, reducer
from calculus.primitives.sliding import Slide, factors, places, printed_size, reached, slides, spread
from calculus.programs import Parameters
from calculus.refusals import Place, refuse
from calculus.schemes import Factor, Indices, Scheme, Shape
from calculus.types import Dim

_REDUCED: Final = ("window_strides", "base_dilation", "window_dilation")
_CHOSEN: Final = ("window_strides", "", "")


def slides_of(site: Site, shape: Shape, names: Sequence[str] = _REDUCED) -> list[Slide]:
    """The windows along each dim of an array of this shape. None is empty."""
    windows = sizes(site.parameters, "window_dimensions")
    if len(windows) != len(shape) or 0 in windows:
        raise bad("window_dimensions", str(list(windows)), f"a positive number for each of {len(shape)} dims")
    return slides(site, shape, windows, names)


Said: TypeAlias = Callable[[int], "Dim | None"]


class _Windows:
    """What windows make of the dims of an array: the index lists of the `base`, and of the `result`, which has an
    element for each place of the window. role: how a window is gathered up, `whole` where that is no monoid. said: how
    a dim of the result is spelled, where it is."""

    def __init__(self, each: Sequence[Slide], role: str, said: Said) -> None:
        self.sizes: list[Dim] = []
        self.roles: dict[Factor, str] = {}
        self.along: dict[Factor, int] = {}
        base, result = [], []
        self.shape = tuple([places(slide, said(dim)) for dim, slide in enumerate(each)])
        for dim, (slide, found) in enumerate(zip(each, self.shape, strict=True)):
            part = factors(slide, found, self._add, role, operand=False)
            base.append(part.base)
            result.append(part.result)
            if part.looked is not None:
                self.along |= dict.fromkeys((part.looked, *part.result), dim)
        self.base, self.result = tuple(base), tuple(result)

    def _add(self, size: Dim, role: str) -> Factor:
        self.sizes.append(size)
        if role:
            self.roles[len(self.sizes) - 1] = role
        return len(self.sizes) - 1

    def scheme(self, operands: Sequence[Indices], results: Sequence[Indices]) -> Scheme:
        return Scheme(tuple(operands), tuple(results), self.sizes, self.roles, along=self.along)


def _pooled(role: str) -> Callable[[Site], Scheme]:
    def scheme(site: Site) -> Scheme:
        """`[(i j)] -> [i]`, j reduced."""
        windows = _Windows(slides_of(site, site.shapes[0]), role, lambda dim: printed_size(site, dim))
        return windows.scheme([windows.base], [windows.result])

    return scheme


def _gathered(site: Site) -> Scheme:
    """`([(i J)], [(i J)]) -> [i]`."""
    _which(site.parameters)
    first, second = site.shapes
    if first != second:
        raise refuse(
            "shape",
            f"tangents of shape {list(first)} for an operand of shape {list(second)}",
            because="each element has a tangent",
            place=Place("operand", 1),
        )
    windows = _Windows(slides_of(site, first), "whole", lambda dim: printed_size(site, dim))
    return windows.scheme([windows.base] * 2, [windows.result])


def _scattered(site: Site, source: Shape, operand: Shape) -> _Windows:
    """Windows of the operand, one for each element of the source."""
    windows = _Windows(
        slides_of(site, operand, _CHOSEN), "whole", lambda dim: source[dim] if dim < len(source) else None
    )
    if windows.shape != source:
        raise refuse(
            "shape",
            f"windows have {list(windows.shape)} places in {list(operand)}, and the source has shape {list(source)}",
            because="the source has an element for each window",
            place=Place("parameter", name="window_dimensions"),
        )
    return windows


def _scatter_added(site: Site) -> Scheme:
    """`([i], [(i J)]) -> [(i J)]`."""
    _which(site.parameters)
    windows = _scattered(site, *site.shapes)
    return windows.scheme([windows.result, windows.base], [windows.base])


def _which(parameters: Parameters) -> bool:
    """Whether the greatest element of a window is chosen (`ge`), or else the least (`le`)."""
    found = str(required(parameters, "select_prim"))
    if found not in ("ge", "le"):
        raise bad("select_prim", found, "ge or le")
    return found == "ge"


def _apart(parameters: Parameters) -> bool:
    """Whether no element is in two windows."""
    windows, strides = (sizes(parameters, name) for name in ("window_dimensions", "window_strides"))
    return all(
        isinstance(window, int) and isinstance(stride, int) and window <= stride
        for window, stride in zip(windows, strides, strict=True)
    )


def _scatter_joins(site: Site) -> str:
    """Where windows overlap there are sums, and of truth values disjunctions."""
    if _apart(site.parameters):
        return "source"
    return "max(source)" if site.dtypes[0] == "bool" else ""


def _seen(np: Any, p: Any, x: Any, fill: Any, names: Sequence[str] = _REDUCED) -> list[Any]:
    """The elements of windows, in order: of each, an array over all places."""
    each = slides_of(Site(p, (x.shape,), (None,), ()), x.shape, names)
    found = [places(slide, None) for slide in each]
    padded = spread(np, x, each, fill)
    return [padded[reached(each, found, at)] for at in np.ndindex(*sizes(p, "window_dimensions"))]


def _end(np: Any, dtype: Any, greatest: bool) -> Any:
    """The greatest or the least element of a dtype."""
    if dtype.kind == "b":
        return greatest
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if greatest else np.iinfo(dtype).min
    return np.inf if greatest else -np.inf


def _any_pooled(site: Site) -> Scheme:
    """`([(i J)], [], ...) -> [i], ...`: arrays, and as many numbers that a window is reduced from."""
    count = len(site.shapes) // 2
    arrays, starts = site.shapes[:count], site.shapes[count:]
    if not count or len(starts) != count or any(starts) or len(set(arrays)) > 1:
        raise refuse(
            "shape",
            f"operands of shapes {', '.join(str(list(shape)) for shape in site.shapes)}",
            because="arrays of one shape come first, and then as many numbers",
            help="give each array the number that its windows are reduced from",
        )
    dtypes = site.dtypes[:count]
    reducer(site.parameters, "jaxpr", "consts", dtypes * 2, dtypes)
    windows = _Windows(slides_of(site, arrays[0]), "whole", lambda dim: printed_size(site, dim))
    return windows.scheme([*[windows.base] * count, *[()] * count], [windows.result] * count)


def _each_dtype(site: Site) -> tuple[str, ...]:
    """The dtypes of the arrays, each of which its number has too."""
    count = len(site.dtypes) // 2
    pairs = zip(site.dtypes[:count], site.dtypes[count:], strict=True)
    return tuple(like_operands(0)(site._replace(dtypes=pair))[0] for pair in pairs)


def _any_scattered(site: Site) -> Scheme:
    """`([(i J)], [i], []) -> [(i J)]`."""
    operand, source, start = site.shapes
    dtype = next((dtype for dtype in site.dtypes if dtype is not None), None)
    reducer(site.parameters, "select_jaxpr", "select_consts", (dtype,) * 2, ("bool",))
    reducer(site.parameters, "scatter_jaxpr", "scatter_consts", (dtype,) * 2, (dtype,))
    if start:
        raise refuse("shape", f"a start of shape {list(start)}", because="it is a number", place=Place("operand", 2))
    windows = _scattered(site, source, operand)
    return windows.scheme([windows.base, windows.result, ()], [windows.base])


def _reduce_any(np: Any, p: Any, *arrays: Any) -> list[Any]:
    """Elements are taken in order, from the start on."""
    count = len(arrays) // 2
    starts = arrays[count:]
    seen = [_seen(np, p, array, start) for array, start in zip(arrays[:count], starts, strict=True)]
    found = [np.full_like(elements[0], start) for elements, start in zip(seen, starts, strict=True)]
    for elements in zip(*seen, strict=True):
        found = computed(np, held(p, "jaxpr"), *found, *elements)
    return found


def _scatter_any(np: Any, p: Any, x: Any, source: Any, start: Any) -> Any:
    def scatter(found: Any, where: Any, values: Any) -> None:
        for at, one in zip(where, values, strict=True):
            (found[at],) = computed(np, held(p, "scatter_jaxpr"), found[at], one)

    return _chosen(
        np, p, source, x, lambda one, other: computed(np, held(p, "select_jaxpr"), one, other)[0], start, scatter
    )


def _sum(np: Any, p: Any, x: Any) -> Any:
    first, *others = _seen(np, p, x, 0)
    return sum(others, first)


def _max(np: Any, p: Any, x: Any) -> Any:
    return np.maximum.reduce(_seen(np, p, x, _end(np, x.dtype, greatest=False)))


def _min(np: Any, p: Any, x: Any) -> Any:
    return np.minimum.reduce(_seen(np, p, x, _end(np, x.dtype, greatest=True)))


def _gather_chosen(np: Any, p: Any, tangents: Any, x: Any) -> Any:
    """Of two equal elements the first is chosen; the padding is before all."""
    greatest = _which(p)
    fill = _end(np, x.dtype, not greatest)
    elements = zip(_seen(np, p, x, fill), _seen(np, p, tangents, 0), strict=True)
    best = found = None
    for element, tangent in elements:
        if best is None:
            best, found = np.full_like(element, fill), np.zeros_like(tangent)
        kept = best >= element if greatest else best <= element
        best, found = np.where(kept, best, element), np.where(kept, found, tangent)
    return found


def _scatter_chosen(np: Any, p: Any, source: Any, x: Any) -> Any:
    """Of two equal elements the first is chosen; the padding never is."""
    greatest = _which(p)
    return _chosen(np, p, source, x, lambda one, other: one >= other if greatest else one <= other, 0, np.add.at)


def _chosen(np: Any, p: Any, source: Any, x: Any, select: Callable[..., Any], start: Any, scatter: Any) -> Any:
    """Each element of the source goes to the element of its window that `select` holds on to."""
    numbered = np.arange(x.size).reshape(x.shape)
    elements = zip(_seen(np, p, x, 0, _CHOSEN), _seen(np, p, numbered, -1, _CHOSEN), strict=True)
    best, where = np.zeros(source.shape, x.dtype), np.full(source.shape, -1)
    for element, number in elements:
        kept = (number < 0) | ((where >= 0) & select(best, element))
        best, where = np.where(kept, best, element), np.where(kept, where, number)
    found = np.full(x.size, start, x.dtype)
    inside = where >= 0
    scatter(found, where[inside], source[inside])
    return found.reshape(x.shape)


POOLING: Final = (
    Primitive(
        "reduce_window_sum",
        ("x",),
        "x",
        _pooled("sum"),
        same_dtype,
        kernel=_sum,
        accepts=NUMBERS,
        window="halo",
        sized="window_dimensions x",
    ),
    Primitive(
        "reduce_window_max",
        ("x",),
        "/ x",
        _pooled("max"),
        same_dtype,
        kernel=_max,
        accepts="fiub",
        joins="max(x)",
        window="halo",
        sized="window_dimensions x",
    ),
    Primitive(
        "reduce_window_min",
        ("x",),
        "/ x",
        _pooled("min"),
        same_dtype,
        kernel=_min,
        accepts="fiub",
        joins="min(x)",
        window="halo",
        sized="window_dimensions x",
    ),
    Primitive(
        "reduce_window",
        ("x...",),
        "/ x...",
        _any_pooled,
        _each_dtype,
        kernel=_reduce_any,
        accepts=NUMBERS + "b",
        window="halo",
    ),
    Primitive(
        "select_and_gather_add",
        ("tangents", "x"),
        "tangents ; x",
        _gathered,
        same_dtype,
        kernel=_gather_chosen,
        accepts="f",
        joins="tangents",
        window="halo",
    ),
    Primitive(
        "select_and_scatter_add",
        ("source", "x"),
        lambda site: "; source x" if site.dtypes[0] == "bool" else "source ; x",
        _scatter_added,
        same_dtype,
        kernel=_scatter_chosen,
        accepts="fiub",
        joins=_scatter_joins,
        window="halo",
    ),
    Primitive(
        "select_and_scatter",
        ("x", "source", "start"),
        "; x source start",
        _any_scattered,
        same_dtype,
        kernel=_scatter_any,
        accepts=NUMBERS + "b",
        window="halo",
    ),
)
