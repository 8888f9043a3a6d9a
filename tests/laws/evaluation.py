"""What a program of the table computes, on one device, for laws about derived programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Atom, Equation, Literal, Program
from calculus.types import DTYPES, SHORT_NAMES, ArrayType
from verifier.devices import Array
from verifier.kernels import compute


def evaluate(program: Program, inputs: list[Any]) -> list[Array]:
    """The results of a program on these arrays."""
    env: dict[Atom, Any] = dict(zip((*program.constants, *program.inputs), inputs, strict=True))

    def read(atom: Atom) -> Array:
        if not isinstance(atom, Literal):
            return np.asarray(env[atom])
        assert isinstance(atom.type, ArrayType)
        dtype = np.dtype(DTYPES[atom.type.dtype][0])
        return np.asarray(complex(atom.text) if dtype.kind == "c" else float(atom.text), dtype)

    for equation in program.equations:
        env.update(zip(equation.binders, run(equation, [read(atom) for atom in equation.inputs]), strict=True))
    return [read(atom) for atom in program.outputs]


def run(equation: Equation, operands: list[Array]) -> list[Array]:
    """The results of one equation."""
    if equation.primitive == "reshard":
        return operands
    dtypes = tuple(SHORT_NAMES[one.dtype.name] if one.dtype != bool else "bool" for one in operands)
    site = Site(equation.parameters, tuple(one.shape for one in operands), dtypes, equation.types)
    return compute(TABLE[equation.primitive], site, operands)
