"""Casts and collectives of manual mode: one row each. Seeds A42, A47.

Along the axes that it names, a primitive takes every operand from one state to another; along all others the state
stays. A row's transpose is the row that goes back between the cotangent states: pvary (N to V) and psum_invariant (V to
N), preduced (N to R) and unreduced_psum (U to N), vary_unreduced_cast (V to U) and reduced_vary_cast (R to V). It is
named, and a test holds it against the states; a maximum and a minimum have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from calculus.communication import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    PERMUTE,
    REDUCE_SCATTER,
    Collective,
    over,
)
from calculus.judgments import need, rule
from calculus.meshes import AxisMode, Mesh
from calculus.parameters import bad, flag, integer, names, required, sequence
from calculus.primitives.declaration import NUMBERS
from calculus.programs import Equation, Literal, Parameters
from calculus.refusals import Place, refuse
from calculus.rules import Typing, agreeing
from calculus.types import ArrayType, Axes, Dim, FutureType, Type, array_type, held
from calculus.uses import Operand, literal_fits
from calculus.volumes import volume


class Row(NamedTuple):
    """before, after: the state along the named axes (`""` for no operand). kind: the collective, `""` for a free cast.
    move: what happens to dims: `""` nothing, `gather`, `scatter` or `exchange`. axes: the parameter that names them.
    transpose: the row that goes back, `""` where there is none. joined: how pieces are joined, where it reduces: `sum`,
    `max` or `min`. future: whether the result is on its way, and another primitive waits for it."""

    before: str
    after: str
    kind: str = ""
    move: str = ""
    axes: str = "axes"
    transpose: str = ""
    joined: str = "sum"
    future: bool = False


# fmt: off
_AT_ONCE: Final[dict[str, Row]] = {
    # casts: free
    "pvary":                     Row("N", "V", transpose="psum_invariant"),
    "preduced":                  Row("N", "R", transpose="unreduced_psum"),
    "reduced_vary_cast":         Row("R", "V", transpose="vary_unreduced_cast"),
    "reduced_vary_cast_p":       Row("R", "V", transpose="vary_unreduced_cast"),
    "vary_unreduced_cast":       Row("V", "U", transpose="reduced_vary_cast"),
    "vary_unreduced_cast_p":     Row("V", "U", transpose="reduced_vary_cast"),
    # reductions
    "psum":                      Row("V", "N", ALL_REDUCE, transpose="pvary"),
    "psum_invariant":            Row("V", "N", ALL_REDUCE, transpose="pvary"),
    "pmax":                      Row("V", "N", ALL_REDUCE, joined="max"),
    "pmin":                      Row("V", "N", ALL_REDUCE, joined="min"),
    "unreduced_psum":            Row("U", "N", ALL_REDUCE, transpose="preduced"),
    "unreduced_pmax":            Row("U", "N", ALL_REDUCE, joined="max"),
    "unreduced_pmin":            Row("U", "N", ALL_REDUCE, joined="min"),
    "reduce_scatter":            Row("V", "V", REDUCE_SCATTER, "scatter", "axis_name", "all_gather"),
    "unreduced_reduce_scatter":  Row("U", "V", REDUCE_SCATTER, "scatter", "axis_name", "all_gather_reduced"),
    # moves
    "all_gather":                Row("V", "V", ALL_GATHER, "gather", "axis_name", "reduce_scatter"),
    "all_gather_invariant":      Row("V", "N", ALL_GATHER, "gather", "axis_name"),
    "all_gather_reduced":        Row("V", "R", ALL_GATHER, "gather", "axis_name", "unreduced_reduce_scatter"),
    "all_to_all":                Row("V", "V", ALL_TO_ALL, "exchange", "axis_name", "all_to_all"),
    "ppermute":                  Row("V", "V", PERMUTE, "", "axis_name", "ppermute"),
    "pbroadcast":                Row("V", "V", BROADCAST, "", "axis_name"),
    # a device's own coordinate
    "axis_index":                Row("", "V", "", "", "axis_name"),
}
# fmt: on

_STARTED: Final = {
    "psum_done": ("psum", "psum_invariant", "unreduced_psum"),
    "reduce_scatter_done": ("reduce_scatter", "unreduced_reduce_scatter"),
    "all_gather_done": ("all_gather", "all_gather_reduced"),
    "all_to_all_done": ("all_to_all",),
    "ppermute_done": ("ppermute",),
    "pbroadcast_done": ("pbroadcast",),
}
"""What waits for which of them."""

AWAITED_BY: Final = {f"{name}_start": done for done, names in _STARTED.items() for name in names}
"""What waits for what is started."""

COLLECTIVES: Final[dict[str, Row]] = {
    **_AT_ONCE,
    **{
        f"{name}_start": _AT_ONCE[name]._replace(transpose="", future=True)
        for names in _STARTED.values()
        for name in names
    },
}
"""The casts and collectives by name; those that are started here and waited for elsewhere (`calculus.exchanges`)
communicate where they start."""

PLACING: Final = frozenset({"reshard", "sharding_constraint"}).union(
    name
    for name, row in COLLECTIVES.items()
    if row.before and row.joined == "sum" and (row.before != row.after or row.move)
)
"""What says anew where a value lies, and computes nothing."""

_STATES: Final = {"N": "the same on every device", "R": "reduced", "U": "unreduced", "V": "varying", "S": "sharded"}


@rule
def collective(equation: Equation, operands: Sequence[Operand], mesh: Mesh) -> Typing:
    """
    X is manual      every operand is in state s along X      p : s → s′, of kind k
    ─────────────────────────────────────────────────────────────────────────────── collective
    Γ ⊢ p[axes=X] x : x's type with s′ along X ▷ k over X
    """
    name = equation.primitive
    row = COLLECTIVES[name]
    axes = names(required(equation.parameters, row.axes), row.axes)
    if len(set(axes)) != len(axes):
        raise bad(row.axes, f"({', '.join(axes)})", "each axis once")
    for axis in axes:
        in_manual(axis, row.axes, name, mesh)
    whole_axes(equation)
    if not row.before:
        need(
            not operands and len(equation.types) == 1,
            "arity",
            lambda: f"{name} has {len(operands)} operands and {len(equation.types)} results",
            because="it takes no operand and has one result",
        )
        varying = mesh.in_order(axes) if mesh.tracked else ()
        return Typing((agreeing(array_type("i32", varying=varying), equation.types[0], 0),))
    need(
        len(operands) == len(equation.types) and operands,
        "arity",
        lambda: f"{name} has {len(operands)} operands and {len(equation.types)} results",
        because="each operand has one result",
    )
    moves = row.kind != PERMUTE or permutes(equation.parameters, mesh.size(axes))
    if row.kind == BROADCAST:
        _from(equation.parameters, mesh.size(axes))
    results: list[Type] = []
    found: tuple[Collective, ...] = ()
    for index, operand in enumerate(operands):
        type = array_of(operand, name, index)
        if row.kind in (ALL_REDUCE, REDUCE_SCATTER) or "U" in (row.before, row.after):
            _reducible(type, row, name, index)
            _beside(type, axes, row, name, index)
        if mesh.tracked:  # a literal is the same on every device
            for axis in axes:
                _in_state(type, axis, row, name, index)
        shape, lists = _moved(type, row, equation.parameters, axes, mesh)
        result = _restated(type, shape, lists, axes, row.after, mesh)
        printed = equation.types[index]
        if not row.future:
            results.append(agreeing(result, printed, index))
        elif printed is None or isinstance(printed, FutureType):
            results.append(FutureType(agreeing(result, held(printed), index)))
        else:
            raise refuse(
                "inconsistent-type",
                f"{name} has a result that is on its way, and {printed} is not",
                because="what is started is waited for before it is read",
                help=f"bind it at {FutureType(result)}",
                place=Place("binder", index),
            )
        if row.kind and moves:
            found += over(row.kind, axes, volume(result if row.kind == ALL_GATHER else type), mesh)
    return Typing(tuple(results), found)


def in_manual(axis: str, parameter: str, name: str, mesh: Mesh) -> None:
    """Refuses `not-manual` and `unknown-axis`."""
    if axis in mesh and mesh.mode(axis) is AxisMode.MANUAL:
        return
    raise refuse(
        "not-manual" if axis in mesh else "unknown-axis",
        f"{name} names axis {axis}, and the mesh is ({mesh})",
        because="per-device code names axes of the shard_map that it runs in",
        help=f"put it inside a shard_map over {axis}",
        place=Place("parameter", name=parameter),
    )


def whole_axes(equation: Equation) -> None:
    """Refuses a collective over parts of an axis."""
    if equation.parameters.get("axis_index_groups") is not None:
        raise refuse(
            "unmodelled-construct",
            f"{equation.primitive} over axis_index_groups",
            because="part of an axis has no state of its own",
            help="split the axis into two mesh axes",
            place=Place("parameter", name="axis_index_groups"),
        )


def array_of(operand: Operand, name: str, index: int) -> ArrayType:
    """The array that an operand of a collective is. Refuses `dtype` where it is none."""
    if isinstance(operand, Literal):
        literal_fits(operand, Place("operand", index))
    type = operand.type if isinstance(operand, Literal) else operand
    if isinstance(type, ArrayType):
        return type
    raise refuse("dtype", f"operand {index} of {name} is {type}, not an array", place=Place("operand", index))


def _reducible(type: ArrayType, row: Row, name: str, index: int) -> None:
    if type.dtype_class not in (NUMBERS if row.joined == "sum" else "fiub"):
        raise refuse(
            "dtype",
            f"operand {index} of {name} is {type}",
            because=f"{type.dtype} has no {'sum' if row.joined == 'sum' else 'order'}",
            help="insert a convert_element_type",
            place=Place("operand", index),
        )


def _beside(type: ArrayType, axes: Axes, row: Row, name: str, index: int) -> None:
    """A reduction over X commutes with what is pending along other axes, if that is a reduction of its own kind."""
    kind = row.joined
    waiting = [axis for axis in type.unreduced if axis not in axes]
    if waiting and type.kind != kind:
        over = ", ".join(waiting)
        raise refuse(
            "state",
            f"operand {index} of {name} is {type}: along {over} a {type.kind} is pending",
            because=f"the {kind} of pieces, and then their {type.kind}, is not the {kind} of what they make together",
            help=f"finish the {type.kind} over {over} first",
            place=Place("operand", index),
        )


def _in_state(type: ArrayType, axis: str, row: Row, name: str, index: int) -> None:
    state = type.state(axis)
    if state == "U" and row.before == "U" and type.kind != row.joined:
        raise refuse(
            "state",
            f"operand {index} of {name} is {type}, and {name} is about a pending {row.joined}",
            because=f"pieces that wait for their {type.kind} are not pieces of a {row.joined}",
            help=f"finish it with {'unreduced_psum' if type.kind == 'sum' else f'unreduced_p{type.kind}'}",
            place=Place("operand", index),
        )
    if state == row.before:
        return
    ways = [
        f"{other} ({'free' if not found.kind else found.kind})"
        for other, found in COLLECTIVES.items()
        if found.before == state
        and found.after == row.before
        and not found.move
        and not other.endswith(("_p", "_start"))
    ]
    raise refuse(
        "no-cast",
        f"operand {index} of {name}, {type}, is {_STATES[state]} along {axis}",
        because=f"{name} takes what is {_STATES[row.before]} to what is {_STATES[row.after]}",
        help=f"first {' or '.join(ways)} over {axis}" if ways else f"use the operation for what is {_STATES[state]}",
        place=Place("operand", index),
    )


def _restated(
    type: ArrayType, shape: tuple[Dim, ...], lists: tuple[Axes, ...], axes: Axes, after: str, mesh: Mesh
) -> ArrayType:
    if not mesh.tracked:
        return array_type(type.dtype, shape, lists, type.varying, type.unreduced, type.reduced, type.kind, type.memory)
    varying, unreduced, reduced = (
        mesh.in_order((*(name for name in have if name not in axes), *(axes if after == letter else ())))
        for have, letter in ((type.varying, "V"), (type.unreduced, "U"), (type.reduced, "R"))
    )
    return array_type(type.dtype, shape, lists, varying, unreduced, reduced, type.kind, type.memory)


def _moved(
    type: ArrayType, row: Row, parameters: Parameters, axes: Axes, mesh: Mesh
) -> tuple[tuple[Dim, ...], tuple[Axes, ...]]:
    """The result's shape and lists. Tiled, a dim is multiplied or divided by the number of devices; untiled, a dim of
    that size appears or disappears. An exchange always does the former: JAX brings the dims along, and takes them away,
    in equations of their own."""
    if not row.move:
        return type.shape, type.axes
    count = mesh.size(axes)
    if "axis_size" in parameters:
        said = integer(parameters["axis_size"], "axis_size")
        if count is not None and said != count:
            raise bad("axis_size", str(said), f"{count}, the number of devices along {', '.join(axes)}")
        count = said
    if count is None:
        raise refuse("bad-mesh", f"the size of {', '.join(axes)} is not known", help="give the mesh")
    tiled = flag(parameters, "tiled") or row.move == "exchange"
    shape, lists = list(type.shape), list(type.axes)
    if row.move == "gather":
        dim = _dim(parameters, "all_gather_dimension", len(shape) - (1 if tiled else 0))
        _grow(shape, lists, dim, count, tiled, type)
    elif row.move == "scatter":
        _shrink(shape, lists, _dim(parameters, "scatter_dimension", len(shape) - 1), count, tiled, type)
    else:
        target = _dim(parameters, "concat_axis", len(shape) - 1)
        _shrink(shape, lists, _dim(parameters, "split_axis", len(shape) - 1), count, tiled, type)
        _grow(shape, lists, target, count, tiled, type)
    return tuple(shape), tuple(lists)


def _dim(parameters: Parameters, name: str, last: int) -> int:
    found = integer(required(parameters, name), name)
    if not 0 <= found <= last:
        raise bad(name, str(found), f"a dim, 0 to {last}")
    return found


def _grow(shape: list[Dim], lists: list[Axes], dim: int, count: int, tiled: bool, type: ArrayType) -> None:
    if not tiled:
        shape.insert(dim, count)
        lists.insert(dim, ())
        return
    _whole(type, lists, dim)
    size = shape[dim]
    shape[dim] = size * count if isinstance(size, int) else f"{count}*{size}"


def _shrink(shape: list[Dim], lists: list[Axes], dim: int, count: int, tiled: bool, type: ArrayType) -> None:
    _whole(type, lists, dim)
    size = shape[dim]
    if not isinstance(size, int) or (size % count if tiled else size != count):
        raise refuse(
            "shape",
            f"dim {dim} of {type} has size {size}, for {count} devices",
            because="every device takes an equal part of it" if tiled else "every device takes one slice of it",
            place=Place("operand", 0),
        )
    if tiled:
        shape[dim] = size // count
    else:
        del shape[dim], lists[dim]


def _whole(type: ArrayType, lists: list[Axes], dim: int) -> None:
    if dim < len(lists) and lists[dim]:
        raise refuse(
            "whole-dim-sharded",
            f"dim {dim} of {type} is sharded on an explicit axis, and the collective cuts or joins it",
            because="blocks along two axes would interleave",
            help="reshard that dim first",
            place=Place("operand", 0),
        )


def _from(parameters: Parameters, count: int | None) -> None:
    """Refuses `bad-parameter` unless `source` is one of the devices."""
    source = integer(required(parameters, "source"), "source")
    if source < 0 or (count is not None and source >= count):
        raise bad("source", str(source), "the coordinate of a device")


def permutes(parameters: Parameters, count: int | None) -> bool:
    """Whether `perm` moves anything. Refuses `bad-parameter` unless it pairs devices, each once on a side at most."""
    pairs = [
        tuple(integer(end, "perm") for end in sequence(pair, "perm"))
        for pair in sequence(required(parameters, "perm"), "perm")
    ]
    for side in (0, 1):
        ends = [pair[side] for pair in pairs if len(pair) == 2]
        if len(set(ends)) != len(pairs) or any(end < 0 or (count is not None and end >= count) for end in ends):
            raise bad("perm", str(pairs), "pairs of devices, each one at most once a source and once a destination")
    return any(source != destination for source, destination in pairs)
