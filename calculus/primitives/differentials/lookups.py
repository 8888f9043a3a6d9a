"""Rows of lookups, and of updates where an index says.

What is looked up is added up where it came from, and what is added is looked up where it went. Where updates may meet,
the one that is written last, or is greatest, is told by numbers that are scattered beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from calculus.formulas import combining, spelled
from calculus.parameters import integer, required, whole_numbers
from calculus.primitives.declaration import Site, Unfold
from calculus.primitives.scattering import at_most_once
from calculus.programs import Atom, Call, Word, body
from calculus.types import ArrayType, array_type, dtype_class

if TYPE_CHECKING:
    from calculus.unfolding import Dual, Unfolding


_PLACES: Final = {
    "offset_dims": "update_window_dims",
    "collapsed_slice_dims": "inserted_window_dims",
    "start_index_map": "scatter_dims_to_operand_dims",
    "operand_batching_dims": "operand_batching_dims",
    "start_indices_batching_dims": "scatter_indices_batching_dims",
}
"""The dims of a gather, and the same dims of a scatter."""

_FLAGS: Final = ("indices_are_sorted", "unique_indices")


def looked_up(site: Site, position: int) -> str:
    """Of a lookup: what comes to each place is added up there."""
    numbers = required(site.parameters, "dimension_numbers")
    if not isinstance(numbers, Call):
        return ""
    renamed = ", ".join(
        f"{there}={whole_numbers(found, there)}"
        for here, there in _PLACES.items()
        if (found := numbers.keyword(here)) is not None
    )
    rows = _rows(site, ("mode", *_FLAGS))
    batched = (numbers.keyword(name) or () for name in ("operand_batching_dims", "start_indices_batching_dims"))
    shared = tuple(zip(*(whole_numbers(dims, "dimension_numbers") for dims in batched), strict=True))
    return (
        f"x: scatter_add(zeros(x, indices, {shared}), indices, g, "
        f"dimension_numbers=ScatterDimensionNumbers({renamed}), {rows}, update_consts=(), "
        f"update_jaxpr=sum_of({site.dtypes[0]}))"
    )


def _rows(site: Site, names: Sequence[str]) -> str:
    """Some of the equation's parameters, as a formula has them."""
    return ", ".join(f"{name}={spelled(site.parameters.get(name, False))}" for name in names)


def gathered(site: Site, array: str, fill: str = "0", flags: bool = False) -> str:
    """Of a scatter: a lookup of what its updates met; `fill` stands for those that met nothing."""
    fill = fill if str(site.parameters["mode"]).endswith("FILL_OR_DROP") else "None"
    numbers = required(site.parameters, "dimension_numbers")
    assert isinstance(numbers, Call)
    said = {here: numbers.keyword(there) for here, there in _PLACES.items()}
    renamed = ", ".join(f"{here}={whole_numbers(found, here)}" for here, found in said.items() if found is not None)
    shape, _, update = site.shapes
    lone = {
        *whole_numbers(said["collapsed_slice_dims"] or (), ""),
        *whole_numbers(said["operand_batching_dims"] or (), ""),
    }
    windowed = iter(whole_numbers(said["offset_dims"] or (), "update_window_dims"))
    taken = tuple(1 if dim in lone else update[next(windowed)] for dim in range(len(shape)))
    rows = _rows(site, _FLAGS) if flags else ", ".join(f"{name}=False" for name in _FLAGS)
    return (
        f"gather({array}, indices, dimension_numbers=GatherDimensionNumbers({renamed}), fill_value={fill}, "
        f"{_rows(site, ('mode',))}, slice_sizes={taken}, {rows})"
    )


def scattered(site: Site, combiner: str, array: str, updates: str) -> str:
    """A scatter to the same places."""
    rows = _rows(site, ("dimension_numbers", *_FLAGS, "mode"))
    how = "None" if combiner == "scatter" else f"sum_of({site.dtypes[0]})"
    return f"{combiner}({array}, indices, {updates}, {rows}, update_consts=(), update_jaxpr={how})"


def added_up(site: Site, position: int) -> str:
    """Of updates that are added: the array's own is passed on, that of an update is looked up where it went."""
    return f"x: g; u: {gathered(site, 'g')}"


def subtracted(site: Site, position: int) -> str:
    """Of updates that are subtracted."""
    return f"x: g; u: -{gathered(site, 'g')}"


def written(site: Site, position: int) -> str:
    """Of updates that are written, each to a place of its own: there the array's own is nothing."""
    if body(site.parameters["update_jaxpr"]) is not None:
        return ""
    once = site.parameters["unique_indices"]
    alone = scattered(site, "scatter", "g", "zeros(u)").replace(f"unique_indices={once}", "unique_indices=True")
    return f"x: {alone}; u: {gathered(site, 'g')}"


def multiplied(site: Site) -> str:
    """Of an update that is multiplied, if it alone goes where it goes: what is there beside it."""
    if not at_most_once(site):
        return ""
    (result,) = site.printed
    if isinstance(result, ArrayType) and result.unreduced:  # the updates are copies: what they meet is pending
        return f"u: {scattered(site, 'scatter_add', 'full(0, x)', 'g * ' + gathered(site, 'x'))}"
    return f"u: x * {scattered(site, 'scatter_add', 'full(0, x)', 'g')}"


def multiplied_back(site: Site, position: int) -> str:
    """Of what is multiplied by updates: itself, multiplied by them."""
    rows = _rows(site, ("dimension_numbers", *_FLAGS, "mode"))
    return f"x: scatter_mul(g, indices, u, {rows}, update_consts=(), update_jaxpr=product_of({site.dtypes[0]}))"


def greatest(u: Unfolding) -> Sequence[Dual] | None:
    """Of the greatest, or the least: where several are it, their mean, as for other maxima."""
    x, indices, updates = u.operands
    site, primitive = u.use.site, u.use.primitive.name
    if dtype_class(site.dtypes[0] or "f32") not in "fc":
        return None
    result = u.all(primitive, (u.known(x), indices, u.known(updates)), (u.result(0),), **dict(u.parameters))[0]

    def met(array: str) -> str:
        return gathered(site, array, "nan", flags=True)

    def counted(what: str) -> str:
        return met(scattered(site, "scatter_add", "full(0, x)", what))

    lets = (
        f"was = {met('x')}; made = {met('result')}; chosen = u == made; kept = was == made; "
        f"met = {counted('select_n(chosen, full(0, u), full(1, u))')}; meeting = {counted('full(1, u)')}; "
        "share = select_n(kept, 1 / met, 1 / (met + 1)); "
    )
    terms = []
    if x.tangent is not None:
        terms.append(f"{met('gx')} * ((-1 + select_n(kept, full(0, met), 1 / (met + 1))) / meeting)")
    if updates.tangent is not None:
        terms.append("gu * select_n(chosen, full(0, u), share)")
    into = "full(0, x)" if x.tangent is None else "gx"
    names = {"x": x, "u": updates, "indices": indices, "result": result}
    for name, each in (("gx", x), ("gu", updates)):
        if each.tangent is not None:
            names[name] = type(x)(each.tangent)
    tangent = u.formula(f"{lets}{scattered(site, 'scatter_add', into, ' + '.join(terms))}", **names)
    return [type(x)(result.value, tangent)]


def last_written(u: Unfolding) -> Sequence[Dual] | None:
    """Of updates that may meet: numbers are written like them, and tell which of them stay. Those are added up."""
    x, indices, updates = u.operands
    site = u.use.site
    once = at_most_once(site)
    shape, update = site.shapes[0], site.shapes[2]
    if (
        once
        or body(u.parameters["update_jaxpr"]) is not None
        or any(isinstance(size, str) for size in (*shape, *update))
    ):
        return None
    numbers = required(u.parameters, "dimension_numbers")
    assert isinstance(numbers, Call)
    windowed = whole_numbers(numbers.keyword("update_window_dims"), "update_window_dims")
    sizes = tuple(1 if dim in windowed else size for dim, size in enumerate(update))
    count = prod(size for size in sizes if isinstance(size, int))
    number = u.one("iota", dtype=Word("uint32"), shape=(count,), dimension=0, sharding=None)
    number = u.one("reshape", number, dimensions=None, new_sizes=sizes, sharding=None)
    number = u.one("add", number, u.full(1, array_type("u32", update, u.type(updates).axes)))
    nothing = u.full(0, array_type("u32", shape, u.type(x).axes))
    names = {"x": nothing, "u": number, "indices": indices}
    ids = u.formula(scattered(site, "scatter", "x", "u"), **names)
    names["x"] = type(x)(ids)
    untouched, stays = u.formula("x == full(0, x)", **names), u.formula(f"u == {gathered(site, 'x')}", **names)
    kept, added = (
        u.one("select_n", type(x)(which), u.full(0, u.type(one)), one)
        for which, one in ((untouched, x), (stays, updates))
    )
    rows = dict(u.parameters) | {"update_jaxpr": combining("add", site.dtypes[0] or "f32")}
    return [u.one("scatter-add", kept, indices, added, to=u.result(0), **rows)]


def ordered(u: Unfolding) -> Sequence[Dual]:
    """Of what is put in order: where each element stood before is put in order with it, and tangents are looked up
    there."""
    first, along = u.operands[0], integer(required(u.parameters, "dimension"), "dimension")
    places = type(first)(u.walk.known.places(along, u.type(first), "u32"))
    known = [u.known(one) for one in u.operands]
    *found, stood = u.all("sort", (*known, places), (None,) * (len(known) + 1), **dict(u.parameters))
    at = u.one("expand_dims", stood, dimensions=(u.type(first).rank,))
    return [
        one._replace(tangent=_picked(u, given, at, along)) for one, given in zip(found, u.operands, strict=True)
    ]  # fmt: skip


def picked(axis: str) -> Unfold:
    """Of the first few in order: they say where they stood, and tangents are looked up there."""

    def unfold(u: Unfolding) -> Sequence[Dual]:
        (x,) = u.operands
        rank = u.type(x).rank
        found, stood = u.all(u.use.primitive.name, (u.known(x),), (u.result(0), u.result(1)), **dict(u.parameters))
        at = u.one("expand_dims", stood, dimensions=(rank,))
        along = integer(required(u.parameters, axis), axis) % rank
        return [found._replace(tangent=_picked(u, x, at, along)), stood]

    return unfold


def _picked(u: Unfolding, given: Dual, at: Dual, along: int) -> Atom | None:
    """The elements of a tangent that stood there, along one dim."""
    if given.tangent is None:
        return None
    rank = u.type(given).rank
    rest = tuple(dim for dim in range(rank) if dim != along)
    numbers = (
        f"offset_dims=(), collapsed_slice_dims=({along},), start_index_map=({along},), operand_batching_dims={rest}, "
        f"start_indices_batching_dims={rest}"
    )
    return u.formula(
        f"gather(g, at, dimension_numbers=GatherDimensionNumbers({numbers}), fill_value=None, "
        f"indices_are_sorted=False, mode='GatherScatterMode.PROMISE_IN_BOUNDS', slice_sizes={(1,) * rank}, "
        "unique_indices=False)",
        g=given._replace(value=given.tangent), at=at,
    )  # fmt: skip


DERIVATIVES: Final[Mapping[str, str | Callable[[Site], str]]] = {
    "scatter-mul": multiplied,
}

ADJOINTS: Final[Mapping[str, str | Callable[[Site, int], str]]] = {
    "gather": looked_up,
    "scatter": written,
    "scatter-add": added_up,
    "scatter-sub": subtracted,
    "scatter-mul": multiplied_back,
}

UNFOLDED: Final[Mapping[str, Unfold]] = {
    "sort": ordered,
    "top_k": picked("axis"),
    "approx_top_k": picked("reduction_dimension"),
    "scatter": last_written,
    "scatter-max": greatest,
    "scatter-min": greatest,
}
