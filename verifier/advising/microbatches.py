"""A loss of one microbatch as the loss of many, whose gradients are added up."""

from __future__ import annotations

from collections.abc import Sequence

from calculus.building import fresh
from calculus.loops import slice_type, stacked
from calculus.programs import Equation, Literal, Parameters, Program
from calculus.types import Type


def repeated(program: Program, count: int, wrt: Sequence[int]) -> Program:
    """A loop that runs a program so often: its results are stacked. The inputs that are differentiated are the same
    each time, and have the sum of all the gradients; of the others (constants aside) each run takes a slice. program:
    with all its types printed, and no number among its results."""
    held = len(program.constants)
    kept = [index for index, atom in enumerate(program.outputs) if not isinstance(atom, Literal)]
    same = [index for index in range(len(program.inputs)) if index in wrt]
    taken = [index for index in range(len(program.inputs)) if index not in wrt]
    order = [*range(held), *(held + index for index in (*same, *taken))]
    names = (*program.constants, *program.inputs)
    types = (*program.constant_types, *program.input_types)
    body = Program(
        (), (), tuple(names[at] for at in order), tuple(types[at] for at in order), program.equations,
        tuple(program.outputs[index] for index in kept), None, program.line,
    )  # fmt: skip
    outer = tuple(
        stacked(type, count) if index in taken else type for index, type in enumerate(program.input_types)
    )  # fmt: skip
    inputs = tuple(names[at] for at in order)
    known = dict(zip(names, types, strict=True))
    for equation in program.equations:
        known.update(zip(equation.binders, equation.types, strict=True))
    rows = Parameters((
        ("jaxpr", body), ("length", count), ("num_carry", 0), ("num_consts", held + len(same)), ("reverse", False),
        ("unroll", 1),
    ))  # fmt: skip
    binders = tuple(fresh() for _ in kept)
    results = tuple(stacked(known[str(atom)], count) for atom in body.outputs)
    loop = Equation("scan", rows, inputs, binders, results, program.line)
    return Program(
        program.constants, program.constant_types, program.inputs, outer, (loop,), binders, None,
        program.line,
    )  # fmt: skip


def fewer(program: Program, count: int, less: int, wrt: Sequence[int]) -> Program:
    """A program that was repeated, with less rounds; itself where more than the loop, and casts around it, depend on
    how many there are. That it computes the same as another does not depend on that."""
    long = {name for index, name in enumerate(program.inputs) if index not in wrt}
    equations: list[Equation] = []
    for one in program.equations:
        if long.isdisjoint(one.inputs):
            equations.append(one)
            continue
        rows, types = one.parameters, one.types
        if one.primitive == "scan" and rows.get("length") == count:
            carried = rows["num_carry"]
            assert isinstance(carried, int)
            rows = Parameters(tuple((name, less if name == "length" else value) for name, value in rows.items_in_order))
            types = (*types[:carried], *(_of(type, less) for type in types[carried:]))
            long.update(one.binders[carried:])
        elif one.primitive == "reshard":
            types = tuple(_of(type, less) for type in types)
            long.update(one.binders)
        else:
            return program
        equations.append(Equation(one.primitive, rows, one.inputs, one.binders, types, one.line, one.comment, one.cell))
    inputs = tuple(
        _of(type, less) if name in long else type
        for name, type in zip(program.inputs, program.input_types, strict=True)
    )
    return Program(
        program.constants, program.constant_types, program.inputs, inputs, tuple(equations), program.outputs,
        program.effects, program.line,
    )  # fmt: skip


def _of(type: Type | None, count: int) -> Type | None:
    return stacked(slice_type(type), count)
