"""Branches: each is linearized in the same inputs, and leaves its own residuals; where another branch is taken there
are zeros in their place. Backward, the same index takes the transposes of the branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.adjoints import unwritten
from calculus.building import Builder
from calculus.cotangents import cotangent
from calculus.derivatives.rules import Form, linear_operands, placed, results_of, types_in
from calculus.derivatives.varying import at, cast, castable, varied
from calculus.linearization import Linearized, Linearizer, Pushed, Tangent, linearize
from calculus.programs import Atom, Equation, Parameters, Program, Programs, Value, Variable, body
from calculus.refusals import Refused
from calculus.transposition import Transposer, transpose
from calculus.types import ArrayType, Axes, Type


def _branches(equation: Equation) -> list[Program]:
    value = equation.parameters["branches"]
    items = value.items if isinstance(value, Programs) else (value,)
    found = [program for item in items if (program := body(item)) is not None]
    if any(program.constants for program in found):
        raise unwritten("cond (with constants in a branch)", "derivative")
    return found


def _rows(parameters: Parameters, branches: Sequence[Program]) -> Parameters:
    rows: dict[str, Value] = {"branches": Programs(tuple(branches))}
    return Parameters(tuple((name, rows.get(name, value)) for name, value in parameters.items_in_order))


def _cond(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    branches = _branches(equation)
    flowing = [tangent is not None for tangent in tangents[1:]]
    founds: Sequence[Linearized] = [linearize(walk.bench, walk.scope, branch, flowing) for branch in branches]
    given = [tangent for tangent in tangents[1:] if tangent is not None]
    founds, axes = _apart(walk, primals[0], founds, given)
    given = [cast(walk.linear, tangent, axes) for tangent in given]
    count = len(branches[0].outputs)
    nonzero = [any(found.nonzero[position] for found in founds) for position in range(count)]
    added = [[one for one, source in placed(found).items() if source is None or source < 0] for found in founds]
    slots = [
        (number, residual, types[residual])
        for number, (found, own) in enumerate(zip(founds, added, strict=True))
        for types in (types_in(found.forward),)
        for residual in own
    ]
    forward = [_with_slots(walk, found, number, count, slots, axes) for number, found in enumerate(founds)]
    types: list[Type | None] = [*equation.types, *(at(type, axes) for _, _, type in slots)]
    results = walk.known.emit("cond", primals, _rows(equation.parameters, forward), types)
    if not any(nonzero):
        return results[:count], [None] * count

    kept = {(number, residual): atom for (number, residual, _), atom in zip(slots, results[count:], strict=True)}
    operands: dict[Atom, None] = dict.fromkeys(kept.values())
    uses: list[list[Atom]] = []
    for number, found in enumerate(founds):
        own = [
            primals[1 + source] if source is not None and source >= 0 else kept[number, residual]
            for residual, source in placed(found).items()
        ]
        uses.append(own)
        operands.update(dict.fromkeys(own))
    linear = [_aligned(walk, found, own, [*operands], nonzero, count) for found, own in zip(founds, uses, strict=True)]
    goals = [walk.known.type_of(result) for result, flows in zip(results, nonzero, strict=False) if flows]
    pushed = iter(walk.linear.emit("cond", (primals[0], *operands, *given), _rows(equation.parameters, linear), goals))
    return results[:count], [next(pushed) if flows else None for flows in nonzero]


def _apart(
    walk: Linearizer, index: Atom, founds: Sequence[Linearized], given: Sequence[Atom]
) -> tuple[Sequence[Linearized], Axes]:
    """The branches at tangents and residuals that vary as the index does, and the axes over which they are cast so.

    Devices that choose differently keep different values and have different cotangents. So tangents are cast before the
    choice: then the sum over the devices, which all of them reach, is after the choice when it is transposed, and in no
    branch. What a branch leaves is cast where it leaves it."""
    type = walk.known.type_of(index)
    axes = type.varying if isinstance(type, ArrayType) else ()
    if not axes:
        return founds, ()
    flowing = [bool(castable(walk.linear.type_of(tangent), axes)) for tangent in given]
    made = []
    for found in founds:
        types, sources = types_in(found.forward), placed(found)
        leaving = [sources[one] is None and bool(castable(types[one], axes)) for one in found.residuals]
        try:
            linear = varied(walk.bench, walk.scope, found.linear, (*leaving, *flowing), axes)
        except Refused:  # as it stands it is judged, and refused
            return founds, ()
        made.append(found._replace(linear=linear))
    return made, axes


def _with_slots(
    walk: Linearizer, found: Linearized, number: int, count: int, slots: Sequence[tuple[int, Variable, Type]],
    axes: Axes,
) -> Program:  # fmt: skip
    """A branch that leaves its residuals, and zeros for those of the others, cast to vary over these axes."""
    builder = Builder(walk.bench, walk.scope)
    builder.types.update((residual, type) for _, residual, type in slots)
    extra = [
        cast(builder, residual, axes) if own == number else _zeros(builder, at(type, axes))
        for own, residual, type in slots
    ]
    program = found.forward
    return Program(
        (), (), program.inputs, program.input_types, (*program.equations, *builder.equations),
        (*program.outputs[:count], *extra),
    )  # fmt: skip


def _zeros(builder: Builder, type: Type) -> Atom:
    if not isinstance(type, ArrayType) or type.dtype_class == "o":
        raise unwritten(f"cond (a residual of type {type})", "derivative")
    return builder.full(0, type)


def _aligned(
    walk: Linearizer, found: Linearized, own: Sequence[Atom], every: Sequence[Atom], nonzero: Sequence[bool],
    count: int,
) -> Program:  # fmt: skip
    """A linear branch that takes the residuals of all branches, and has the results that any of them has."""
    builder = Builder(walk.bench, walk.scope)
    inputs = [builder.input(walk.known.type_of(atom)) for atom in every]
    place = dict(zip(every, inputs, strict=True))
    types = types_in(found.linear)
    flowing = [builder.input(types[name]) for name in found.linear.inputs[len(own) :]]
    results = iter(builder.inline(found.linear, [*(place[atom] for atom in own), *flowing]))
    forward = results_of(found.forward)
    outputs = [
        next(results) if found.nonzero[position] else _zeros(builder, forward[position])
        for position in range(count)
        if nonzero[position]
    ]
    return builder.program([*inputs, *flowing], outputs)


def _cond_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    linear = linear_operands(walk, equation)
    if linear[0]:
        raise unwritten("cond (of its index)", "transpose")
    flowing = [ct is not None for ct in cts]
    turned = [
        transpose(walk.bench, walk.scope, branch, linear[1:], flowing, instantiate=True).program
        for branch in _branches(equation)
    ]
    known = [atom for atom, one in zip(equation.inputs, linear, strict=True) if not one]
    goals = [atom for atom, one in zip(equation.inputs, linear, strict=True) if one]
    types = [cotangent(walk.builder.type_of(atom)) for atom in goals]
    atoms = (*known, *(ct for ct in cts if ct is not None))
    for atom, ct in zip(
        goals, walk.builder.emit("cond", atoms, _rows(equation.parameters, turned), types), strict=True
    ):
        walk.add(atom, ct)


BRANCHES: Final[dict[str, Form]] = {"cond": Form(_cond, _cond_back)}
