"""An equation of a program as a cell of the matrix: what patterns of the ledger fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calculus.meshes import AxisMode, Mesh
from calculus.programs import Equation, Literal, Program
from calculus.types import ArrayType, Type
from verifier.cells import Call, Cell, Verdict
from verifier.patterns import Difference


def cell_of(
    equation: Equation,
    types: Mapping[str, Type | None],
    mesh: Mesh,
    theirs: Verdict,
    ours: Verdict | None = None,
    program: Program | None = None,
) -> Difference:
    """An equation in its body as a cell. types: of the names of the body. ours: by default that of the types that are
    printed. program: the body."""
    operands = [types.get(atom) for atom in equation.inputs if not isinstance(atom, Literal)]
    given = tuple(type for type in operands if isinstance(type, ArrayType))
    asked = target(equation, types, mesh)
    call = Call(equation.primitive, "", equation, given)
    mine = ours or Verdict(tuple(type for type in equation.types if type is not None))
    return Difference(call, mesh, Cell(given, asked), mine, theirs, program)


def target(equation: Equation, types: Mapping[str, Type | None], mesh: Mesh) -> ArrayType | None:
    """The type that an equation asks its result to have; `None` where it asks for none."""
    result = equation.types[0] if equation.types else None
    if not isinstance(result, ArrayType):
        return None
    given = [types.get(atom) if not isinstance(atom, Literal) else atom.type for atom in equation.inputs]
    if equation.primitive == "broadcast_in_dim":
        return None if _lies(given[0], mesh) == _lies(result, mesh) else result
    if equation.primitive == "dot_general":
        numbers: Any = equation.parameters["dimension_numbers"]
        contracted, batch = numbers
        free: list[str] = []
        for at, type in enumerate(given):
            if isinstance(type, ArrayType):
                if any(type.axes[dim] for dim in contracted[at]):
                    return result
                beside = batch[at] if at else ()
                free += [axis for dim, axes in enumerate(type.axes) if dim not in beside for axis in axes]
        return result if len({*free}) < len(free) else None  # an axis on two dims: somebody has said which it is to be
    if equation.primitive == "reshard":
        return result
    asked = any(equation.parameters.get(name) is not None for name in ("out_sharding", "sharding"))
    return result if asked else None


def _lies(type: Type | None, mesh: Mesh) -> set[tuple[str, str]]:
    """The state of a type along each explicit axis along which it is not replicated."""
    explicit = [axis.name for axis in mesh.axes if axis.mode is AxisMode.EXPLICIT]
    return {(axis, type.state(axis)) for axis in explicit if isinstance(type, ArrayType)} - {(a, "N") for a in explicit}
