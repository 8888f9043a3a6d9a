"""A loss of one microbatch as the loss of many, whose gradients are added up."""

from __future__ import annotations

from collections.abc import Sequence

from calculus.building import fresh
from calculus.loops import stacked
from calculus.programs import Equation, Literal, Parameters, Program


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
