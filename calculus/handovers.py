"""The shardings that a call asks for its operands and results, `in_shardings` and `out_shardings`, beside their types.

On explicit axes a call has the types of its body, whatever it asks for. Where it asks for what a type says, nothing
happens. Where it asks for something else, the compiler moves the array there, and back where the type is wanted
(measured): the one is an estimate, the other what it costs at most, and what such operands meet inside the body is no
longer placed as the types say. On auto axes the compiler chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from calculus.communication import AT_MOST, COMPILER, UNKNOWN, Collective, move, over
from calculus.judgments import need
from calculus.meshes import AxisMode, Mesh
from calculus.parameters import mesh, spec
from calculus.programs import Call, Parameters, Value
from calculus.refusals import Place
from calculus.types import ArrayType, Axes, Type, array_type
from calculus.uses import Operand, operand_type
from calculus.wellformed import well_formed

if TYPE_CHECKING:
    from calculus.checking import Scope


class Handovers(NamedTuple):
    """What the shardings of a call cost. elsewhere: whether an operand is asked for where its type does not have it."""

    moves: tuple[Collective, ...] = ()
    elsewhere: bool = False


def handovers(
    parameters: Parameters, operands: Sequence[Operand], results: Sequence[Type | None], scope: Scope
) -> Handovers:
    """Hold the shardings that a call asks for against its types. An operand's moves have it as their subject, those of
    result i have -1 - i. Refuses `shape`, `bad-parameter`, what makes a type ill formed, and `sharding` for an operand
    that is pending along other axes than asked: its value would change (measured)."""
    moves: list[Collective] = []
    hints: list[str] = []
    elsewhere = False
    for name, values in (("in_shardings", operands), ("out_shardings", results)):
        asked = parameters.get(name)
        if not isinstance(asked, (tuple, list)):
            continue
        for index, (value, sharding) in enumerate(zip(values, asked, strict=False)):
            type = value if value is None else operand_type(value)
            if not isinstance(type, ArrayType) or not isinstance(sharding, Call) or sharding.name != "NamedSharding":
                continue
            inwards = values is operands
            where = _mesh(sharding, scope)
            target = _placed(type, sharding, where, scope, name, inwards)
            hints += _left_to_the_compiler(sharding, where, name)
            there = move(type, target, scope.mesh_of(type), where)
            back = move(target, type, where, scope.mesh_of(type))
            elsewhere |= inwards and target.axes != type.axes
            subject = index if inwards else -1 - index
            moves += [one.of(subject).estimated() for one in there]
            moves += [one._replace(subject=subject, goal=None, exactness=AT_MOST) for one in back]
    return Handovers((*moves, *over(UNKNOWN, dict.fromkeys(hints), None, scope.mesh, COMPILER)), elsewhere)


def _mesh(sharding: Call, scope: Scope) -> Mesh:
    """The mesh of a sharding: the one in context, which knows what is manual, unless its axes are others."""
    found = mesh(sharding.keyword("mesh"), "mesh")
    return scope.mesh if found is None or set(found.by_name) == set(scope.mesh.by_name) else found


def _placed(type: ArrayType, sharding: Value, where: Mesh, scope: Scope, name: str, inwards: bool) -> ArrayType:
    """A type with the explicit axes that a sharding says in place of its own."""
    asked = spec(sharding, name)
    if asked is None:
        return type
    place = Place("parameter", name=name)
    need(
        len(asked.dims) <= type.rank,
        "shape",
        lambda: f"{name} names {len(asked.dims)} dims of {type}",
        because="a sharding says of each dim how it is cut",
        place=place,
    )

    def explicit(axes: Axes) -> Axes:
        return tuple(axis for axis in axes if where.mode(axis) is AxisMode.EXPLICIT)

    manual = tuple(axis for axis in type.unreduced if scope.mesh.mode(axis) is not AxisMode.EXPLICIT)
    pending = (*manual, *(axis for axis in explicit(asked.unreduced) if axis in type.unreduced))
    need(
        not inwards or (set(pending) == set(type.unreduced) and (not pending or asked.kind == type.kind)),
        "sharding",
        lambda: f"{name} asks for another state than that of the operand, {type}",
        because="the body takes the operand for pending, so that what is finished before it would be reduced twice",
        help="reshard the operand before the call, or ask for the state that it has",
        place=place,
    )
    said = (*asked.dims, *((),) * (type.rank - len(asked.dims)))
    lists = tuple(have if axes is None else explicit(axes) for have, axes in zip(type.axes, said, strict=True))
    found = array_type(type.dtype, type.shape, lists, type.varying, pending, (), type.kind, type.memory)
    well_formed(found, where)
    return type if found.axes == type.axes and found.unreduced == type.unreduced else found


def _left_to_the_compiler(sharding: Value, where: Mesh, name: str) -> list[str]:
    """The auto axes that a sharding names."""
    asked = spec(sharding, name)
    named = () if asked is None else tuple(axis for axes in asked.dims for axis in axes or ())
    return [axis for axis in named if where.mode(axis) is AxisMode.AUTO]
