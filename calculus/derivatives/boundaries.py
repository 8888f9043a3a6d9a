"""The boundary of a shard_map: specs obey the cotangent map, for states cross it (statements A43, A46, A48).

What varies leaves a body only on a dim: a residual that varies is stacked along the axes over which it does, on its
first dim, and a lone number gets a dim for it. All else of a state is in the spec.

With `check_vma=False` no type tells what varies, so every residual is stacked along all axes. As a map between the
values of all devices together, the body is linear, and its collectives are transposed as such: a psum, which gives
every device the sum, is its own transpose. An input whose spec leaves an axis out is copied along it, so what comes
back is summed; of a result whose spec does, the devices' values are claimed to be equal, which makes the result their
mean, and each is due its part of the cotangent. A pending sum enters, or leaves, as pieces: each piece's cotangent is
the whole one, the same on every device; and of what is reduced, each device's is a piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.boundaries import frame
from calculus.building import Builder, partition_spec
from calculus.checking import Scope
from calculus.cotangents import cotangent
from calculus.derivatives.rules import Form, closed, linear_operands, placed, types_in
from calculus.linearization import Linearizer, Pushed, Tangent, linearize
from calculus.parameters import names, sequence, spec
from calculus.programs import Atom, Equation, Parameters, Program, Value, Variable
from calculus.refusals import Place, refuse
from calculus.transposition import Transposer, transpose
from calculus.types import ArrayType, Axes, Type, array_type


def _shard_map(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    body, _ = closed(equation, "jaxpr")
    scope, manual, tracked = _inside(walk.scope, walk.known, equation)
    nonzero = [tangent is not None for tangent in tangents]
    found = linearize(walk.bench, scope, body, nonzero)
    ins, outs = (sequence(equation.parameters[name], name) for name in ("in_specs", "out_specs"))
    count = len(body.outputs)
    sources = placed(found)
    added = [residual for residual, source in sources.items() if source is None]

    # Residuals leave on a dim; a lone number that varies is given one, and loses it where it comes in again.
    types = types_in(found.forward)
    going, coming = Builder(walk.bench, scope), Builder(walk.bench, scope)
    going.types.update(types)
    leaving: dict[Variable, Atom] = {}
    entering: dict[Variable, Variable] = {residual: residual for residual in sources}
    for residual in added:
        type = _array(types[residual])
        leaving[residual] = residual
        if not type.shape and (type.varying or not tracked):
            stacked = array_type(type.dtype, (1,), None, type.varying, type.unreduced, type.reduced)
            leaving[residual] = going.one("broadcast_in_dim", (residual,), None, stacked)
            entering[residual] = coming.input(stacked)
            coming.one("squeeze", (entering[residual],), {"dimensions": (0,)})
            coming.equations[-1].binders = (residual,)
    specs = {residual: _spec(_array(types[residual]), manual, tracked) for residual in added}
    forward = Program(
        (), (), found.forward.inputs, found.forward.input_types, (*found.forward.equations, *going.equations),
        (*found.forward.outputs[:count], *(leaving[residual] for residual in added)),
    )  # fmt: skip
    rows = _rows(equation.parameters, forward, ins, (*outs, *(specs[residual] for residual in added)))
    results = walk.known.emit("shard_map", primals, rows, [*equation.types, *(None for _ in added)])
    extra = dict(zip(added, results[count:], strict=True))

    residuals: list[Atom] = []
    wanted: list[Value] = []
    for residual, source in sources.items():
        if source is None:
            residuals.append(extra[residual])
            wanted.append(specs[residual])
        else:
            residuals.append(primals[source] if source >= 0 else results[-1 - source])
            wanted.append(ins[source] if source >= 0 else outs[-1 - source])
    linear = found.linear
    inputs = (*(entering[residual] for residual in sources), *linear.inputs[len(sources) :])
    bound = tuple(coming.types.get(name) or type for name, type in zip(inputs, linear.input_types, strict=True))
    program = Program((), (), inputs, bound, (*coming.equations, *linear.equations), linear.outputs)
    flowing = [position for position, tangent in enumerate(tangents) if tangent is not None]
    given = [tangent for tangent in tangents if tangent is not None]
    kept = [position for position, flows in enumerate(found.nonzero) if flows]
    rows = _rows(equation.parameters, program, (*wanted, *(ins[one] for one in flowing)), [outs[one] for one in kept])
    goals = [walk.known.type_of(results[one]) for one in kept]
    pushed = iter(walk.linear.emit("shard_map", (*residuals, *given), rows, goals) if kept else ())
    return results[:count], [next(pushed) if flows else None for flows in found.nonzero]


def _shard_map_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    body, _ = closed(equation, "jaxpr")
    scope, manual, tracked = _inside(walk.scope, walk.builder, equation)
    linear = linear_operands(walk, equation)
    found = transpose(walk.bench, scope, body, linear, [ct is not None for ct in cts])
    ins, outs = (sequence(equation.parameters[name], name) for name in ("in_specs", "out_specs"))
    known = [position for position, one in enumerate(linear) if not one]
    flowing = [position for position, ct in enumerate(cts) if ct is not None]
    came = iter(found.nonzero)
    reached = [position for position, one in enumerate(linear) if one and next(came)]
    program = found.program
    if not tracked:
        cts = [ct if ct is None else _part(walk.builder, ct, _unmentioned(outs[k], manual)) for k, ct in enumerate(cts)]
        over = [_unmentioned(ins[k], manual) for k in reached]
        program = _copies_summed(Builder(walk.bench, scope), program, over, equation.line)
    rows = _rows(
        equation.parameters, program,
        (*(ins[one] for one in known), *(_turned(outs[one]) for one in flowing)),
        [_turned(ins[one]) for one in reached],
    )  # fmt: skip
    atoms = (*(equation.inputs[one] for one in known), *(ct for ct in cts if ct is not None))
    goals = [cotangent(walk.builder.type_of(equation.inputs[one])) for one in reached]
    for position, result in zip(reached, walk.builder.emit("shard_map", atoms, rows, goals), strict=True):
        walk.add(equation.inputs[position], result)


def _unmentioned(value: Value, manual: Axes) -> Axes:
    """The axes that become manual and that a spec says nothing of."""
    asked = spec(value, "in_specs")
    named = set() if asked is None else {*asked.unreduced, *asked.reduced}.union(*(axes or () for axes in asked.dims))
    return tuple(axis for axis in manual if axis not in named)


def _part(builder: Builder, ct: Atom, axes: Axes) -> Atom:
    """The part of a cotangent that is due to each of the devices along these axes."""
    count = builder.mesh.size(axes)
    if count is None:
        raise refuse("bad-mesh", f"the size of {', '.join(axes)} is not known", help="give the mesh")
    if count == 1:
        return ct
    return builder.one("div", (ct, builder.literal(count, _array(builder.type_of(ct)).dtype)))


def _copies_summed(builder: Builder, program: Program, axes: Sequence[Axes], line: int) -> Program:
    """A body whose results are summed over the devices along these axes, where the whole stands, on this line."""
    inputs = [builder.input(type) for type in program.input_types if type is not None]
    results = builder.inline(program, inputs)
    builder.line = line
    ends = [
        builder.one("psum", (one,), {"axes": over, "axis_index_groups": None}) if over else one
        for one, over in zip(results, axes, strict=True)
    ]
    return builder.program(inputs, ends)


def _inside(scope: Scope, builder: Builder, equation: Equation) -> tuple[Scope, Axes, bool]:
    """The scope of the body, the axes that become manual, and whether types in it tell what varies. Refuses bodies in
    each other that are read in two ways."""
    _, manual, around, mesh = frame(equation, scope)
    if around and scope.mesh.tracked is not mesh.tracked:
        raise refuse(
            "unmodelled-construct",
            "the derivative of a shard_map in a shard_map, where one has check_vma=False and the other has not",
            because="of what is the same on all devices the cotangent is whole in the one, in parts in the other",
            help="give both the same check_vma",
            place=Place("parameter", name="check_vma"),
        )
    return builder.checker.scope_on(mesh, scope), manual, mesh.tracked


def _spec(type: ArrayType, manual: Axes, tracked: bool) -> Value:
    """The spec by which a value with this type inside leaves."""
    if not tracked:
        return partition_spec([manual] if manual else [])
    unreduced, reduced = (tuple(axis for axis in axes if axis in manual) for axes in (type.unreduced, type.reduced))
    varying = tuple(axis for axis in type.varying if axis in manual)
    return partition_spec([varying] if varying else [], unreduced, reduced)


def crossing(equation: Equation, type: Type) -> Value | None:
    """The spec by which a value with this type inside leaves, and comes in again; `None` where it cannot."""
    manual = names(equation.parameters["newly_manual_axes"], "newly_manual_axes")
    stays = not isinstance(type, ArrayType) or (not type.shape and type.varying)
    return None if stays or equation.parameters.get("check_vma") is False else _spec(_array(type), manual, tracked=True)


def _turned(value: Value) -> Value:
    """The spec of the cotangent: reduced and unreduced change places."""
    asked = spec(value, "in_specs")
    if asked is None or not (asked.unreduced or asked.reduced):
        return value
    return partition_spec([axes or () for axes in asked.dims], asked.reduced, asked.unreduced)


def _rows(parameters: Parameters, body: Program, ins: Sequence[Value], outs: Sequence[Value]) -> Parameters:
    rows: dict[str, Value] = {"jaxpr": body, "in_specs": tuple(ins), "out_specs": tuple(outs)}
    return Parameters(tuple((name, rows.get(name, value)) for name, value in parameters.items_in_order))


def _array(type: Type) -> ArrayType:
    if not isinstance(type, ArrayType):
        raise refuse("unmodelled-construct", f"a residual of type {type} that leaves a shard_map")
    return type


BOUNDARIES: Final[dict[str, Form]] = {"shard_map": Form(_shard_map, _shard_map_back)}
