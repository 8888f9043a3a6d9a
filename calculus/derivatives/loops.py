"""Loops. The residuals of every iteration are stacked; what no iteration changes is computed before the loop, and is a
residual as it is. The backward loop runs the other way, and its carries are the cotangents: of the carries, and, added
up, of what the loop holds constant. They have the types that the cotangent map says: a weight that is reduced outside
gathers its gradient unreduced, and nothing is summed over devices inside (statements A30, A31, A34, A35)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.cotangents import cotangent
from calculus.derivatives.hoisting import parted
from calculus.derivatives.rules import (
    Form,
    closed,
    instantiated,
    linear_operands,
    results_of,
    settled,
    types_bound,
    types_in,
)
from calculus.linearization import Linearizer, Pushed, Tangent
from calculus.loops import scan_parts, slice_type, stacked
from calculus.programs import Atom, Equation, Parameters, Program, Value, Variable
from calculus.transposition import Transposer
from calculus.types import Type


def _scan(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    body, _ = closed(equation, "jaxpr")
    held, count = scan_parts(equation.parameters, len(primals), len(equation.binders))
    found, nonzero = settled(walk, body, [tangent is not None for tangent in tangents], held, count)
    length = equation.parameters["length"]
    types = types_in(found.forward)
    results = len(body.outputs)

    # The forward loop, what it does not change computed before it.
    names = found.forward.inputs
    before, inside, carried = parted(found.forward, names[:held], outermost=True)
    types.update(types_bound((*before, *inside)))
    values: dict[Variable, Atom] = dict(zip(names[:held], primals, strict=False))
    outside = Program((), (), names[:held], found.forward.input_types[:held], before, carried)
    hoisted = walk.known.inline(outside, primals[:held])
    values.update(zip(carried, hoisted, strict=True))
    types.update(zip(carried, map(walk.known.type_of, hoisted), strict=True))
    slices = dict(zip(names[held + count :], primals[held + count :], strict=True))
    added = [one for one in found.residuals if one not in values and one not in slices]
    added = [one for one in dict.fromkeys(added) if one not in found.forward.outputs[count:results]]
    outputs = (*found.forward.outputs[:results], *added)
    constants = [*names[:held], *carried]
    used = {atom for one in inside for atom in one.inputs} | set(outputs)
    constants = [name for name in constants if name in used]
    bound = (*constants, *names[held:])
    program = Program((), (), bound, tuple(types[name] for name in bound), inside, outputs)
    kept = walk.known.emit(
        "scan",
        [*(values[name] for name in constants), *primals[held:]],
        scan_rows(equation.parameters, program, len(constants), count, bool(equation.parameters.get("reverse"))),
        [*equation.types, *(stacked(types[name], length) for name in added)],
    )
    stacks: dict[Atom, Atom] = dict(zip((*outputs[count:], *slices), (*kept[count:], *slices.values()), strict=True))

    # The linear loop.
    linear = instantiated(walk, found, nonzero[held : held + count])
    given = iter(linear.inputs[len(found.residuals) :])
    flowing = {position: next(given) for position, flows in enumerate(nonzero) if flows}
    still = [residual for residual in found.residuals if residual in values]
    moving = [residual for residual in found.residuals if residual not in values]

    def of(first: int, last: int) -> list[int]:
        return [position for position in flowing if first <= position < last]

    parts = of(0, held), of(held, held + count), of(held + count, len(primals))
    bound = (
        *still, *(flowing[one] for one in (*parts[0], *parts[1])), *moving, *(flowing[one] for one in parts[2]),
    )  # fmt: skip
    ordered = _with_inputs(linear, bound)
    atoms = [
        *(values[one] for one in still),
        *(walk.instantiated(tangents[one], primals[one]) for one in (*parts[0], *parts[1])),
        *(stacks[one] for one in moving),
        *(walk.instantiated(tangents[one], primals[one]) for one in parts[2]),
    ]
    flows = [*nonzero[held : held + count], *found.nonzero[count:]]
    wanted = [walk.known.type_of(one) for one, does in zip(kept, flows, strict=False) if does]
    rows = scan_rows(
        equation.parameters,
        ordered,
        len(still) + len(parts[0]),
        len(parts[1]),
        bool(equation.parameters.get("reverse")),
    )
    pushed = iter(walk.linear.emit("scan", atoms, rows, wanted) if wanted else ())
    return kept[:results], [next(pushed) if does else None for does in flows]


def _with_inputs(program: Program, names: Sequence[Variable]) -> Program:
    """A program with its inputs in another order."""
    types = dict(zip(program.inputs, program.input_types, strict=True))
    return Program((), (), tuple(names), tuple(types[name] for name in names), program.equations, program.outputs)


def scan_rows(parameters: Parameters, body: Program, held: int, count: int, reverse: bool) -> Parameters:
    """The parameters of a derived loop, in the dialect of the one that it is derived from."""
    scanned, stacks = len(body.inputs) - held - count, len(body.outputs) - count

    def leaves(number: int) -> tuple[None, ...]:
        return (None,) * number

    rows: dict[str, Value] = {
        "jaxpr": body,
        "num_consts": held,
        "num_carry": count,
        "reverse": reverse,
        "linear": (False,) * len(body.inputs),
        "ft_in": (leaves(held), leaves(count), leaves(scanned)),
        "ft_out": (leaves(count), leaves(stacks)),
    }
    kept = tuple((name, rows.get(name, value)) for name, value in parameters.items_in_order)
    return Parameters(kept if "reverse" in parameters else (*kept, ("reverse", reverse)))


def _scan_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    body, _ = closed(equation, "jaxpr")
    held, count = scan_parts(equation.parameters, len(equation.inputs), len(equation.binders))
    linear = linear_operands(walk, equation)
    linear[held : held + count] = [True] * count
    length = equation.parameters["length"]
    inner = Transposer(walk.bench, walk.scope)
    builder = inner.builder
    builder.types.update(types_in(body))

    def chosen(first: int, last: int, which: bool) -> list[int]:
        return [position for position in range(first, last) if linear[position] is which]

    sums = chosen(0, held, True)
    carries = [*range(held, held + count)]
    starts = [builder.input(cotangent(builder.types[body.inputs[one]])) for one in (*sums, *carries)]
    flowing = [
        builder.input(cotangent(_type(slice_type(type)))) if ct is not None else None
        for ct, type in zip(cts[count:], equation.types[count:], strict=True)
    ]
    inner.cotangents.update((body.inputs[one], start) for one, start in zip(sums, starts, strict=False))
    depending = [name for name, one in zip(body.inputs, linear, strict=True) if one]
    inner.walk(body, depending, [*starts[len(sums) :], *flowing])
    gathered = [*sums, *carries, *chosen(held + count, len(linear), True)]
    ends = [inner.instantiated(inner.cotangents.get(body.inputs[one]), body.inputs[one]) for one in gathered]
    still, moving = chosen(0, held, False), chosen(held + count, len(linear), False)
    inputs = [
        *(body.inputs[one] for one in still), *starts, *(one for one in flowing if one is not None),
        *(body.inputs[one] for one in moving),
    ]  # fmt: skip
    program = builder.program(inputs, ends)
    atoms = [
        *(equation.inputs[one] for one in still),
        *(walk.instantiated(None, equation.inputs[one]) for one in sums),
        *(walk.instantiated(ct, one) for ct, one in zip(cts[:count], equation.binders, strict=False)),
        *(ct for ct in cts[count:] if ct is not None),
        *(equation.inputs[one] for one in moving),
    ]
    number = len(starts)
    types = results_of(program)
    results = walk.builder.emit(
        "scan",
        atoms,
        scan_rows(equation.parameters, program, len(still), number, not equation.parameters.get("reverse")),
        [*types[:number], *(stacked(type, length) for type in types[number:])],
    )
    for position, result in zip(gathered, results, strict=True):
        walk.add(equation.inputs[position], result)


def _type(type: Type | None) -> Type:
    assert type is not None
    return type


LOOPS: Final[dict[str, Form]] = {"scan": Form(_scan, _scan_back)}
