"""Functions of single elements that a parameter holds: what a reduction combines by, or a scatter applies.

Where such a function closes over other values, or has effects, the operands do not say all that a primitive depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calculus.parameters import bad, required
from calculus.programs import Literal, Parameters, Program, Variable, body
from calculus.refusals import Place, refuse
from calculus.types import DTYPES, ArrayType


def function(parameters: Parameters, name: str, inputs: int, outputs: int) -> Program:
    """The function that a parameter holds. Refuses `bad-parameter` where it has other numbers of inputs and outputs,
    `unmodelled-construct` where it depends on more."""
    program = body(required(parameters, name))
    if program is None or (len(program.inputs), len(program.outputs)) != (inputs, outputs):
        raise bad(name, "another", f"a program of {inputs} inputs and {outputs} outputs")
    if program.constants or program.effects:
        raise refuse(
            "unmodelled-construct",
            f"the function in {name} depends on other values, or has effects",
            because="what it closes over is no operand, so where that lies is not known",
            help="reduce, or write, what is computed before",
            place=Place("parameter", name=name),
        )
    return program


def run(np: Any, program: Program, values: Sequence[Any]) -> list[Any]:
    """For kernels: a function of elements, on arrays of them. Refuses `unmodelled-primitive` where a step of it has no
    kernel."""
    from calculus.primitives import TABLE  # which holds the primitives whose kernels run this

    held: dict[Variable, Any] = dict(zip(program.inputs, values, strict=True))

    def value(atom: Variable | Literal) -> Any:
        if not isinstance(atom, Literal):
            return held[atom]
        dtype = np.dtype(DTYPES[atom.type.dtype][0] if isinstance(atom.type, ArrayType) else "float32")
        if dtype.kind in "biu":
            return np.asarray(atom.text == "True" if dtype.kind == "b" else int(atom.text)).astype(dtype)
        return np.asarray(complex(atom.text) if dtype.kind == "c" else float(atom.text)).astype(dtype)

    with np.errstate(all="ignore"):
        for equation in program.equations:
            primitive = TABLE.get(equation.primitive)
            if primitive is None or primitive.kernel is None:
                raise refuse("unmodelled-primitive", f"{equation.primitive} has no kernel")
            found = primitive.kernel(np, equation.parameters, *map(value, equation.inputs))
            results = found if isinstance(found, list) else [found]
            held.update(zip(equation.binders, results, strict=True))
    return [value(atom) for atom in program.outputs]
