"""A counterexample in numbers: a call whose devices compute on their own blocks, and what is read back at a type that
is not right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Equation
from calculus.types import ArrayType, Type
from verifier.cells import Cell
from verifier.devices import NotAFamily, devices, numpy_dtype, part, place, read_back
from verifier.kernels import compute, on_blocks

TRIES: Final = 4


def counterexample(equation: Equation, cell: Cell, types: Sequence[Type], mesh: Mesh) -> str:
    """One element that reads back wrong, in a sentence; empty where none is found, or nothing is computed: a literal
    stands among the operands, a result is no array, a block does not fit."""
    primitive = TABLE.get(equation.primitive)
    if primitive is None or not all(isinstance(atom, str) for atom in equation.inputs):
        return ""
    results = [type for type in types if isinstance(type, ArrayType)]
    if len(results) != len(types) or any(type.varying for type in (*cell.operands, *results)):
        return ""
    shapes, dtypes = tuple(type.shape for type in cell.operands), tuple(type.dtype for type in cell.operands)
    site = Site(equation.parameters, shapes, dtypes, tuple(types))
    random = np.random.default_rng(0)
    for _ in range(TRIES):
        values = [_value(type, random) for type in cell.operands]
        try:
            said = _once(primitive, site, cell, results, values, mesh, random)
        except (ValueError, IndexError, TypeError, ArithmeticError):
            return ""  # what cannot be computed on blocks shows nothing
        if said:
            return said
    return ""


def _value(type: ArrayType, random: np.random.Generator) -> Any:
    dtype, shape = numpy_dtype(type.dtype), [int(size) for size in type.shape]
    if dtype.kind in "iub":
        return random.integers(0, 2 if dtype.kind == "b" else 6, shape).astype(dtype)
    return (random.integers(1, 25, shape) / 4).astype(dtype)


def _once(
    primitive: Any, site: Site, cell: Cell, results: Sequence[ArrayType], values: Sequence[Any], mesh: Mesh,
    random: np.random.Generator,
) -> str:  # fmt: skip
    families = [place(value, type, mesh, random) for value, type in zip(values, cell.operands, strict=True)]
    whole = compute(primitive, site, values)
    made: dict[Any, list[Any]] = {}
    for device in devices(mesh):
        blocks = [family[device] for family in families]
        shape = tuple(one.stop - one.start for one in part(results[0], mesh, device))
        made[device] = compute(primitive, on_blocks(primitive, site, blocks, shape), blocks)
    for number, (type, wanted) in enumerate(zip(results, whole, strict=True)):
        held = {device: made[device][number].astype(wanted.dtype) for device in made}
        try:
            value = read_back(held, type, mesh)
        except NotAFamily as error:
            return f"each device computes on its own block, and {error}"
        wrong = ~np.isclose(value, wanted, 1e-3, 1e-3, equal_nan=True)
        if wrong.any():
            at = tuple(int(one) for one in np.argwhere(wrong)[0])
            pieces = ", ".join(f"{block[at]}" for block in held.values() if block.shape == wanted.shape)
            shown = f", where the devices hold {pieces}" if pieces else ""
            return f"at {list(at)} the value is {wanted[at]}, and {value[at]} is read back{shown}"
    return ""
