"""Regions in which an axis is auto, within a program in which it is explicit: `jax.sharding.auto_axes`, and what draws
random numbers for a sharded result.

There the compiler chooses where blocks lie, and may move them. It has nothing to choose where only copies go in, each
element is computed from elements in its place, and at most one thing comes out of what hangs together: each device
computes of it what it keeps. Measured in `agree --communication`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from calculus.checking import Checked, Checker, Scope
from calculus.meshes import AxisMode
from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Atom, Equation, Literal, Program
from calculus.refusals import Refused
from calculus.resharding import sides
from calculus.types import ArrayType, Type, held

_CALLS: Final = frozenset({"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2"})
"""What hands its operands to one body, and gives the results of that."""


def leaves_nothing_open(checker: Checker, axis: str) -> bool:
    """Whether nothing is left to the compiler along an axis that is explicit in the mesh in context, and auto in other
    meshes of the program: every region in which it is auto computes in place, from copies. That nothing cut goes in is
    not looked at: a price that is `chosen by the compiler` says so."""
    if checker.scope.mesh.mode(axis) is not AxisMode.EXPLICIT:
        return False
    found = [_in_body(body, scope, axis) for body, scope in checker.bodies()]
    return any(one is not None for one in found) and all(one is not False for one in found)


def _in_body(checked: Checked, scope: Scope, axis: str) -> bool | None:
    """Of the regions of one body, whether they compute in place; `None` where it has none."""
    program = checked.program
    begins, ends = _borders(program, scope, axis)
    if not begins and not ends:
        return None
    makers = {binder: at for at, one in enumerate(program.equations) for binder in one.binders}
    inside: set[int] = set()  # the equations from which what leaves is computed
    for end in ends:
        waiting, those = [*program.equations[end].inputs], set[int]()
        while waiting:
            atom = waiting.pop()
            if isinstance(atom, Literal):
                continue
            at = makers.get(atom)
            if at is None or at in inside:
                return False  # from outside, without a border; or it leaves in two ways
            if at in those or program.equations[at].primitive == "reshard":
                continue
            if not _in_place(checked, at):
                return False
            those.add(at)
            waiting += program.equations[at].inputs
        inside |= those
    held = {binder for at in (*begins, *inside) for binder in program.equations[at].binders if binder != "_"}
    users = (one for at, one in enumerate(program.equations) if at not in inside and at not in ends)
    return held.isdisjoint(program.outputs) and all(held.isdisjoint(one.inputs) for one in users)


def _borders(program: Program, scope: Scope, axis: str) -> tuple[list[int], list[int]]:
    """Where regions begin in a body, and where they end: the places of reshards."""
    begins: list[int] = []
    ends: list[int] = []
    for at, one in enumerate(program.equations):
        if one.primitive == "reshard":
            modes = [None if side is None else side.mode(axis) for side in sides(one, scope)]
            if (modes[0] is AxisMode.AUTO) != (modes[1] is AxisMode.AUTO):
                (ends if modes[0] is AxisMode.AUTO else begins).append(at)
    return begins, ends


def _in_place(checked: Checked, at: int) -> bool:
    """Whether an equation computes each element from elements in its place."""
    equation = checked.program.equations[at]
    inner = [one.body for effect in checked.effects if effect.at == at for one in effect.inner]
    if equation.primitive in _CALLS:
        return all(_in_place(body, place) for body in inner for place in range(len(body.program.equations)))
    return not inner and _passes_all(equation, _types(checked))


def _passes_all(equation: Equation, types: dict[Atom, Type | None]) -> bool:
    """Whether all dims of an equation's operands are dims of its result, by its scheme. What makes new ones, a
    generator of random numbers too, makes of them what each device keeps."""
    declared = TABLE.get(equation.primitive)
    if declared is None or declared.window:
        return False
    arrays = [held(atom.type if isinstance(atom, Literal) else types.get(atom)) for atom in equation.inputs]
    shapes = tuple(one.shape if isinstance(one, ArrayType) else () for one in arrays)
    dtypes = tuple(one.dtype if isinstance(one, ArrayType) else None for one in arrays)
    try:
        scheme = declared.scheme(Site(equation.parameters, shapes, dtypes, equation.types))
    except Refused:
        return False
    looked_along = {
        factor for indices in scheme.operands for dim in indices for factor in dim if factor in scheme.roles
    }
    return not looked_along and not scheme.grouped


def _types(checked: Checked) -> dict[Atom, Type | None]:
    program = checked.program
    names: Iterable[Atom] = (*program.constants, *program.inputs)
    found = dict(zip(names, (*program.constant_types, *program.input_types), strict=True))
    for one in program.equations:
        found.update(zip(one.binders, one.types, strict=True))
    return found
