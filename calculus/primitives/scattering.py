"""Scatters: updates of windows of one array, at the places that an index array says (`x.at[indices].add(updates)`, the
gradient of a lookup). What windows are, and which dims travel to the result: `calculus.primitives.windows`.

Where updates are added up (or their maximum is taken), a place is reduced, and the array is what the reduction starts
from: of a place that is cut, each device has its own updates, so the result is pending, as the array must be for a
sum. Products are pending in no type, and of what is written only the last counts: there all places are needed.

Along a dim in which a window has one element, a device whose block of the array it is writes what falls inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from calculus.parameters import bad, flag, required
from calculus.primitives.declaration import NUMBERS, Primitive, Site, joins_on
from calculus.primitives.reducers import computed, held, reducer
from calculus.primitives.windows import Names, Numbers, begin, integer_places, mode, numbers, places_of, windows
from calculus.programs import Parameters, body
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, Shape
from calculus.types import Dim, dtype_class

NAMES: Final = Names(
    "ScatterDimensionNumbers",
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "scatter_indices_batching_dims",
)

_MONOIDS: Final = {"add": "sum", "sub": "sum", "max": "max", "min": "min"}


def _said(site: Site) -> Numbers:
    shape, where, update = site.shapes
    places = places_of(where)
    found = numbers(site.parameters, NAMES, len(shape), places)
    if len(update) != len(found.windowed) + places:
        raise refuse(
            "shape",
            f"updates of rank {len(update)} for {places} places and {len(found.windowed)} dims of a window",
            because="there is a window for each place",
            place=Place("operand", 2),
        )
    return found


def _window(shape: Shape, update: Shape, said: Numbers) -> list[Dim]:
    """The size of an update in each dim of the array: one element in a dim that it lacks, if there is one."""
    sizes = iter([update[dim] for dim in said.windowed])
    kept = said.kept(len(shape))
    return [next(sizes) if dim in kept else 0 if size == 0 else 1 for dim, size in enumerate(shape)]


def _scheme_of(combiner: str) -> Callable[[Site], Scheme]:
    def scheme(site: Site) -> Scheme:
        """`([V,d], [b,C], [b,d]) -> [V,d]`, V and C needed whole, b reduced from the first operand on or whole. A
        window of several elements may lie across two blocks of a dim; others go along it."""
        shape, where, update = site.shapes
        said = _said(site)
        mode(site.parameters)
        combines(site.parameters, combiner)
        window = _window(shape, update, said)
        found = windows(shape, where, window, said, Place("operand", 2))
        shown = [found.sizes[factor] for (factor,) in found.windows]
        if shown != list(update):
            raise refuse(
                "shape",
                f"updates of shape {list(update)} where places and windows make {shown}",
                because="there is a window for each place",
                place=Place("operand", 2),
            )
        monoid = _monoid(combiner, site)
        roles = found.roles | {place: monoid for place in range(len(where) - 1) if place not in said.batching.values()}
        along = {
            factor: dim
            for dim, ((factor,), part) in enumerate(zip(found.array, window, strict=True))
            if roles.get(factor) == "whole" and part in (0, 1)
        }
        return Scheme((found.array, found.indices, found.windows), (found.array,), found.sizes, roles, along, 0)

    return scheme


def _monoid(combiner: str, site: Site) -> str:
    """How the updates of several places are combined, where something can be pending by it: complex numbers have no
    order."""
    monoid = _MONOIDS.get(combiner, "whole")
    ordered = all(dtype is None or dtype_class(dtype) != "c" for dtype in site.dtypes)
    return monoid if ordered or monoid == "sum" else "whole"


def combines(parameters: Parameters, combiner: str) -> bool:
    """Whether the body that is printed, if any is, combines as the primitive's name says. A scatter may apply another
    function to what is in the array: then it does not. Others are refused."""
    value = required(parameters, "update_jaxpr")
    program = body(value)
    if program is None:
        if value is not None or combiner != "set":
            raise bad("update_jaxpr", str(value), "the program that combines an element with its update")
        return True
    if len(program.inputs) == 2 and len(program.outputs) == 1 and not program.constants:
        if combiner == "set":
            return not program.equations and program.outputs[0] is program.inputs[1]
        if len(program.equations) == 1:
            (equation,) = program.equations
            if equation.primitive == combiner and (*equation.inputs, *equation.binders) == (
                *program.inputs,
                *program.outputs,
            ):
                return True
    if combiner == "set":
        reducer(parameters, "update_jaxpr", "update_consts", (None, None), (None,))
        return False
    raise refuse(
        "bad-parameter",
        f"the body of scatter-{combiner} is not {combiner} of its two inputs",
        because="the primitive's name says how updates are combined",
        help=f"print update_jaxpr={{ lambda ; a:T b:T. let c:T = {combiner} a b in (c,) }}",
        place=Place("parameter", name="update_jaxpr"),
    )


def _set_linearity(site: Site) -> str:
    """A choice of elements, where each is written once. Where updates overlap, any of them may be the one that stays,
    and not the same on each device."""
    return "x u ; indices" if _chosen(site) else "/ x u ; indices"


def _chosen(site: Site) -> bool:
    return at_most_once(site) and combines(site.parameters, "set")


def at_most_once(site: Site) -> bool:
    """Whether no two updates meet: so it is promised, or there is one place."""
    said, where = _said(site), site.shapes[1]
    alone = all(size == 1 for dim, size in enumerate(where[:-1]) if dim not in said.batching.values())
    return flag(site.parameters, "unique_indices") or alone


def _joins(classes: str, once: str, otherwise: str) -> Callable[[Site], str]:
    """Joins on these classes of dtypes where no two updates meet, and elsewhere."""
    found = {True: joins_on(**{classes: once}), False: joins_on(**{classes: otherwise})}
    return lambda site: found[at_most_once(site)](site)


def _dtype(site: Site) -> tuple[str, ...]:
    integer_places(site)
    array, update = site.dtypes[0], site.dtypes[2]
    if array is not None and update is not None and array != update:
        raise refuse(
            "dtype",
            f"updates of {update} for an array of {array}",
            because="the operation is defined within one dtype",
            help="insert a convert_element_type",
            place=Place("operand", 2),
        )
    found = array or update
    if found is None:
        raise refuse("choose-type", "no operand says which dtype this is", place=Place("operand", 0))
    return (found,)


def _kernel(combiner: str) -> Callable[..., Any]:
    def kernel(np: Any, p: Any, x: Any, indices: Any, updates: Any) -> Any:
        """Place after place, which is one of the orders that there may be."""
        applied = None if combines(p, combiner) else held(p, "update_jaxpr")
        said = numbers(p, NAMES, x.ndim, indices.ndim - 1)
        window, drops = _window(x.shape, updates.shape, said), mode(p) != "CLIP"
        places = [dim for dim in range(updates.ndim) if dim not in said.windowed]
        each = np.moveaxis(updates, [*places, *said.windowed], range(updates.ndim))
        found = x.copy()
        for place in np.ndindex(*indices.shape[:-1]) if x.size else ():
            first, inside = begin(said, place, indices[place], x.shape, window)
            if drops and inside != first:
                continue
            at = tuple(slice(start, start + size) for start, size in zip(inside, window, strict=True))
            update = each[place].reshape(window)
            if applied is not None:
                (found[at],) = computed(np, applied, found[at], update)
            else:
                found[at] = update if combiner == "set" else _STEPS[combiner](np)(found[at], update)
        return found

    return kernel


_STEPS: Final[dict[str, Callable[[Any], Any]]] = {
    "add": lambda np: np.add,
    "sub": lambda np: np.subtract,
    "mul": lambda np: np.multiply,
    "max": lambda np: np.maximum,
    "min": lambda np: np.minimum,
}


def _row(
    name: str,
    combiner: str,
    linearity: str | Callable[[Site], str],
    accepts: str,
    joins: str | Callable[[Site], str] = "",
) -> Primitive:
    operands = ("x", "indices", "u")
    scheme, kernel = _scheme_of(combiner), _kernel(combiner)
    return Primitive(name, operands, linearity, scheme, _dtype, "", kernel, accepts, joins, window="own")


SCATTERING = (
    _row("scatter", "set", _set_linearity, "fiubco", lambda site: "x u" if _chosen(site) else ""),
    # elsewhere several finite updates may add up to an infinity
    _row("scatter-add", "add", "x u ; indices", NUMBERS, _joins("r", "x | u", "")),
    _row("scatter-sub", "sub", "x u ; indices", NUMBERS, _joins("r", "x | -u", "")),
    _row("scatter-mul", "mul", "x / u ; indices", NUMBERS),
    _row("scatter-max", "max", "/ x u ; indices", "fiubc", _joins("fiub", "max(x u) | x | u", "max(x u) | x")),
    _row("scatter-min", "min", "/ x u ; indices", "fiubc", _joins("fiub", "min(x u) | x | u", "min(x u) | x")),
)
