"""Changes of placement: linear, each taking a value to itself. Its transpose goes back, between the cotangents' types:
there the chain of free casts runs the other way (statements A24, A27, A47)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.adjoints import unwritten
from calculus.building import Builder
from calculus.collectives import COLLECTIVES
from calculus.communication import ALL_REDUCE
from calculus.cotangents import cotangent
from calculus.derivatives.rules import Form, linear
from calculus.linearization import Linearizer, Pushed, Tangent
from calculus.parameters import integer, names, sequence
from calculus.passing import KEPT
from calculus.programs import Atom, Equation, Literal, Parameters, Value
from calculus.refusals import Place, refuse
from calculus.transposition import Transposer
from calculus.types import ArrayType, Axes, array_type


def _reshard_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """To the cotangent type of what was resharded; between the same meshes, where a region begins or ends."""
    (operand,), (ct,) = equation.inputs, cts
    if ct is not None:
        target = cotangent(walk.builder.type_of(operand))
        sides = {"source_mesh": "target_mesh", "target_mesh": "source_mesh"}
        back = {sides[name]: value for name, value in equation.parameters.items_in_order if name in sides}
        walk.add(operand, walk.builder.one("reshard", (ct,), back, target))


def _through(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """An assertion about dims: it holds of the cotangent too. What it asserts of pending sums is about the primal."""
    for operand, ct in zip(equation.inputs, cts, strict=True):
        type = equation.types[0]
        if ct is not None and operand in walk.linear:
            pending = isinstance(type, ArrayType) and type.marked
            walk.add(operand, ct if pending else walk.builder.one(equation.primitive, (ct,), equation.parameters))


def _barrier(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """What there is of tangents is held back together."""
    results = walk.known.emit(equation.primitive, primals, equation.parameters, equation.types)
    return results, _beside(walk.linear, equation.primitive, tangents)


def _barrier_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    for operand, ct in zip(equation.inputs, _beside(walk.builder, equation.primitive, cts), strict=True):
        walk.add(operand, ct)


def _beside(builder: Builder, primitive: str, atoms: Sequence[Atom | None]) -> list[Atom | None]:
    """The values that there are, each given back by one equation."""
    given = [atom for atom in atoms if atom is not None]
    found = iter(builder.emit(primitive, given, None, [None] * len(given)) if given else ())
    return [None if atom is None else next(found) for atom in atoms]


def _put(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """Each array goes its own way, and its tangent goes with it."""
    results = walk.known.emit(equation.primitive, primals, equation.parameters, equation.types)
    flowing = [position for position, tangent in enumerate(tangents) if tangent is not None]
    rows = {
        name: tuple(value[one] for one in flowing) if isinstance(value, (tuple, list)) else value
        for name, value in equation.parameters.items_in_order
    }
    given = [tangent for tangent in tangents if tangent is not None]
    wanted = [walk.known.type_of(results[one]) for one in flowing]
    pushed = iter(walk.linear.emit(equation.primitive, given, rows, wanted))
    return results, [None if tangent is None else next(pushed) for tangent in tangents]


def _put_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """To the memory and to the place that the cotangent of what was moved has."""
    for operand, ct in zip(equation.inputs, cts, strict=True):
        walk.add(operand, ct)


def _past(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """An identity: each cotangent is that of the operand."""
    for operand, ct in zip(equation.inputs, cts, strict=True):
        walk.add(operand, ct)


def _named(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """A name is for the value; its tangent has none."""
    return walk.known.emit(equation.primitive, primals, equation.parameters, equation.types), tangents


def _kept_beside(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """The result is one of the operands, and so is its tangent."""
    results = walk.known.emit(equation.primitive, primals, equation.parameters, equation.types)
    return results, (tangents[KEPT[equation.primitive]],)


def _watched(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """Who looks at values looks at no tangents."""
    return walk.known.emit(equation.primitive, primals, equation.parameters, equation.types), ()


def _never(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    raise unwritten(equation.primitive, "transpose")


def _greatest(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    raise refuse(
        "unmodelled-construct",
        f"the derivative of {equation.primitive}",
        because="which device had the extreme value is not in it, and its cotangent belongs to those devices alone",
        help="all_gather the values, and take the maximum or minimum of them; or stop the gradient before it",
        place=Place("primitive"),
    )


def _outside(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    raise refuse(
        "unmodelled-construct",
        f"the derivative of {equation.primitive}",
        because="what it computes is code from elsewhere, and of that nothing is printed",
        help="wrap it in a custom_jvp or a custom_vjp, or stop the gradient before it",
        place=Place("primitive"),
    )


def _slice_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """Of all_gather_invariant: each device takes the part that it gave; the cotangent is the same on all of them."""
    builder = walk.builder
    if not builder.mesh.tracked:
        _collective_back(walk, equation, cts)
        return
    axes = names(equation.parameters["axis_name"], "axis_name")
    for operand, ct in zip(equation.inputs, cts, strict=True):
        if ct is None or operand not in walk.linear:
            continue
        dim = integer(equation.parameters["all_gather_dimension"], "all_gather_dimension")
        target = cotangent(builder.type_of(operand))
        whole = builder.type_of(ct)
        assert isinstance(target, ArrayType)
        assert isinstance(whole, ArrayType)
        shape = target.shape if equation.parameters["tiled"] else (*target.shape[:dim], 1, *target.shape[dim:])
        number = _coordinate(builder, equation, axes, whole)
        start: Atom = builder.one("mul", (number, Literal(str(shape[dim]), array_type("i32"))))
        zero = Literal("0", array_type("i32"))
        ct = builder.one("pvary", (ct,), {"axes": axes})
        part = builder.one(
            "dynamic_slice",
            (ct, *(start if place == dim else zero for place in range(whole.rank))),
            {"slice_sizes": shape},
        )
        walk.add(
            operand, part if equation.parameters["tiled"] else builder.one("squeeze", (part,), {"dimensions": (dim,)})
        )


def _broadcast_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """Of pbroadcast: all that the devices were given came from one of them, and it all goes back there."""
    builder = walk.builder
    axes = names(equation.parameters["axis_name"], "axis_name")
    source = integer(equation.parameters["source"], "source")
    for operand, ct in zip(equation.inputs, cts, strict=True):
        if ct is None or operand not in walk.linear:
            continue
        total = builder.one("psum_invariant" if builder.mesh.tracked else "psum", (ct,), {"axes": axes})
        if builder.mesh.tracked:
            total = builder.one("pvary", (total,), {"axes": axes})
        type = builder.type_of(ct)
        assert isinstance(type, ArrayType)
        number = _coordinate(builder, equation, axes, type)
        there = builder.one("eq", (number, Literal(str(source), array_type("i32"))))
        walk.add(
            operand,
            builder.one("select_n", (there, builder.full(0, type), total)),
        )


def _coordinate(builder: Builder, equation: Equation, axes: Axes, beside: ArrayType) -> Atom:
    """A device's place along the axes of a collective, varying as what it stands beside does along the others."""
    found = builder.one("axis_index", (), {"axis_name": equation.parameters["axis_name"]})
    others = tuple(axis for axis in beside.varying if axis not in axes)
    return builder.one("pvary", (found,), {"axes": others}) if others else found


def _collective_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """By the row's transpose, with the parameters that it takes."""
    name = COLLECTIVES[equation.primitive].transpose if walk.builder.mesh.tracked else _untracked(equation.primitive)
    parameters = _turned(equation, name)
    for operand, ct in zip(equation.inputs, cts, strict=True):
        if ct is not None and operand in walk.linear:
            target = cotangent(walk.builder.type_of(operand))
            walk.add(operand, walk.builder.one(name, (ct,), parameters, target))


def _untracked(primitive: str) -> str:
    """The transpose of a collective as a map between the values of all devices together."""
    row = COLLECTIVES[primitive]
    if row.kind == ALL_REDUCE:
        return "psum"
    found = {"gather": "reduce_scatter", "scatter": "all_gather"}.get(row.move, row.transpose)
    if not row.kind:
        raise refuse(
            "unmodelled-construct",
            f"the derivative of {primitive} where types do not tell what varies",
            because="it changes what a type says, and here no type says it",
            help="leave it out, or leave check_vma on",
            place=Place("primitive"),
        )
    return found


def _turned(equation: Equation, name: str) -> Parameters:
    """The parameters of the transpose of a collective: axes under its own names, dims and permutations turned round."""
    row, goal = COLLECTIVES[equation.primitive], COLLECTIVES[name]
    rows: dict[str, Value] = dict(equation.parameters.items_in_order)
    axes = rows.pop(row.axes)
    if row.axes == goal.axes == "axes":
        return Parameters((("axes", axes),))
    rows[goal.axes] = axes
    for one, other in (("all_gather_dimension", "scatter_dimension"), ("split_axis", "concat_axis")):
        here, there = rows.pop(one, None), rows.pop(other, None)
        rows |= {name: value for name, value in ((one, there), (other, here)) if value is not None}
    if "perm" in rows:
        pairs = [sequence(pair, "perm") for pair in sequence(rows["perm"], "perm")]
        rows["perm"] = tuple((integer(after, "perm"), integer(before, "perm")) for before, after in pairs)
    return Parameters(tuple(sorted(rows.items())))


_LINEAR: Final = Form(linear, _past)
_PUT: Final = Form(_put, _put_back)
_OUTSIDE: Final = Form(_outside, _never)

PLACING: Final[dict[str, Form]] = {
    "reshard": Form(linear, _reshard_back),
    "sharding_constraint": Form(linear, _through),
    "layout_constraint": Form(linear, _through),
    "relayout": _LINEAR,
    "device_put": _PUT,
    "with_memory_space_constraint": _PUT,
    "optimization_barrier": Form(_barrier, _barrier_back),
    "name": Form(_named, _past),
    **dict.fromkeys(("stage", "xla_metadata_value"), _LINEAR),
    **dict.fromkeys(("tie", "add_dependency"), Form(_kept_beside, _never)),
    **dict.fromkeys(
        ("debug_callback", "debug_print", "check", "shape_assertion", "inspect_sharding", "dce_sink"),
        Form(_watched, _never),
    ),
    **dict.fromkeys(("pure_callback", "io_callback", "ffi_call", "pallas_call"), _OUTSIDE),
    **{name: Form(linear, _collective_back) for name, row in COLLECTIVES.items() if row.transpose},
    "all_gather_invariant": Form(linear, _slice_back),
    "pbroadcast": Form(linear, _broadcast_back),
    **{name: Form(_greatest, _never) for name, row in COLLECTIVES.items() if row.joined != "sum"},
}
