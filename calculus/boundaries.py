"""The boundary of a shard_map: specs carry states across. Seeds A43 to A46, B38.

outside                     spec                        inside
sharded on dim d @X         P(..., 'X', ...)            varying {V:X}, the dim divided
replicated                  no mention                  the same on every device
unreduced {U:X}             P(unreduced={'X'})          unreduced {U:X}
reduced {R:X}               P(reduced={'X'})            reduced {R:X}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from calculus.bodies import Result, Several, agree, counted, program_of, settle, undetermined
from calculus.communication import move
from calculus.cotangents import cotangent
from calculus.effects import Inner
from calculus.judgments import rule
from calculus.kinds import kind_of
from calculus.meshes import AxisMode, Mesh, as_given
from calculus.parameters import Spec, flag, mesh, names, required, sequence, spec
from calculus.programs import Equation, Literal, body
from calculus.refusals import Place, Refused, refuse
from calculus.repairs import priced
from calculus.rules import Typing
from calculus.types import ArrayType, Axes, Dim, RefType, Type, array_type, same
from calculus.uses import Operand, operand_type
from calculus.wellformed import well_formed

if TYPE_CHECKING:
    from calculus.checking import Checker, Scope


@rule
def shard_map(
    checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope
) -> tuple[Typing, tuple[Inner, ...], bool]:
    """
        in_specs take the operands' types to the inputs of the body      x ⊢ body : τ ▷ κ, its axes manual
        where a result varies, its out_spec says on which dim
        ────────────────────────────────────────────────────────────────────────────────────────────────── shard-map
        Γ ⊢ shard_map[in_specs, body, out_specs] x : out_specs(τ) ▷ κ

    With check_vma=False the body's types say nothing along the manual axes; what the out_specs claim is assumed. So is
    that what the body makes of a pending sum does not depend on how it is cut into pieces, and that cotangents sum up
    to that of what is reduced; and, where one shard_map stands in another and one of the two does not track, what the
    types between them say of the axes that are manual in both.
    """
    parameters = equation.parameters
    outer, manual, around, inner_mesh = frame(equation, scope)
    program, tracked = program_of(equation, "jaxpr"), inner_mesh.tracked
    ins = _specs(parameters, "in_specs", len(operands))
    outs = _specs(parameters, "out_specs", len(program.outputs))
    kind = kind_of([*ins, *outs], tracked)
    if kind != "sum":
        program = checker.read_at(program, kind, manual)
    wanted = (*program.constant_types, *program.input_types)
    if len(wanted) != len(operands):
        raise refuse(
            "arity",
            f"the body of the shard_map takes {len(wanted)} inputs and is given {len(operands)}",
            because="every input of a body is one operand, and what a device holds of it follows from its spec",
            help="pass what the body closes over as an argument, with an in_spec of its own",
        )
    inside: list[Type | None] = []
    for index, (operand, asked, type) in enumerate(zip(operands, ins, wanted, strict=True)):
        found = _inward(operand_type(operand, type), asked, index, outer, manual, tracked)
        if type is not None and found is not None and not same(found, type):
            raise refuse(
                "inconsistent-type",
                f"in_specs take operand {index} to {found}; the body's input is {type}",
                because="a device's block and its state follow from the type outside and the spec",
                help=f"print the body's input as {found}",
                place=Place("operand", index),
            )
        if tracked and not scope.mesh.tracked:
            checker.assumptions += _silent(found, around)
        inside.append(found)
        if not tracked:  # of what the body writes, or makes of pieces that it sees apart, and of cotangents
            cell = isinstance(found, RefType)
            checker.assumptions += _claims(asked, manual) if cell else len(asked.unreduced) + len(asked.reduced)
    if None in wanted:
        program = checker.at(program, inside)
    checked = checker.body(program, checker.scope_on(inner_mesh, scope))
    counted(checked.types, equation, "the body of the shard_map")
    results: list[Type | None] = []
    for index, (given, asked, printed) in enumerate(zip(checked.types, outs, equation.types, strict=True)):
        outward = partial(_outward, asked=asked, index=index, outer=outer, manual=manual, tracked=tracked)
        result = outward(_settled(checker, given, printed, outward))
        if result is None and printed is None and isinstance(given, Literal):
            raise undetermined(given, index, "the shard_map")
        if not agree(result, printed):
            raise refuse(
                "inconsistent-type",
                f"out_specs take result {index} to {result}, and it is printed as {printed}",
                because="the type outside follows from the block and the spec",
                help=f"bind it at {result}",
                place=Place("binder", index),
            )
        if not tracked:
            checker.assumptions += _claims(asked, manual)
        if scope.mesh.tracked and not tracked:
            checker.assumptions += _silent(result, around)
        results.append(printed if result is None else result)
    label = "shard_map" if tracked else "shard_map (check_vma=False)"
    return Typing(tuple(results)), (Inner(checked, 1, label),), False  # type: ignore[arg-type]


def frame(equation: Equation, scope: Scope) -> tuple[Mesh, Axes, list[str], Mesh]:
    """The mesh of a shard_map, the axes that it makes manual, those that are so already, and the mesh inside."""
    parameters = equation.parameters
    outer = mesh(required(parameters, "mesh"), "mesh")
    if outer is None or body(required(parameters, "jaxpr")) is None:
        raise refuse("bad-parameter", "a shard_map has a mesh and a body", place=Place("parameter", name="mesh"))
    as_given(outer, scope.meshes, "mesh")
    manual = outer.in_order(names(required(parameters, "newly_manual_axes"), "newly_manual_axes"))
    for axis in manual:
        if axis not in outer:
            raise refuse(
                "unknown-axis",
                f"newly_manual_axes names {axis}, and the mesh is ({outer})",
                place=Place("parameter", name="newly_manual_axes"),
            )
        if scope.mesh.mode(axis) is AxisMode.MANUAL:
            raise taken(axis, f"is manual over {axis} already")
    tracked = flag(parameters, "check_vma")
    around = [axis.name for axis in scope.mesh.axes if axis.mode is AxisMode.MANUAL and axis.name in outer]
    return outer, manual, around, outer.with_modes(dict.fromkeys((*around, *manual), AxisMode.MANUAL), tracked)


def taken(axis: str, how: str) -> Refused:
    """The refusal of a shard_map over an axis along which the code around has one coordinate already, and how so."""
    return refuse(
        "boundary-spec",
        f"newly_manual_axes names {axis}, and the code around {how}",
        because=f"a device has one coordinate along {axis}, and the values here are those of one coordinate",
        help=f"leave {axis} out of the inner shard_map",
        place=Place("parameter", name="newly_manual_axes"),
    )


def _settled(
    checker: Checker, inside: Result, printed: Type | None, outward: Callable[[Type | None], ArrayType | None]
) -> Type | None:
    """The type of a result of the body: of several values called `_`, the newest that crosses to what is printed."""
    if not isinstance(inside, Several):
        return settle(checker, inside, array_type(printed.dtype) if isinstance(printed, ArrayType) else None)
    checker.assume("_")
    for type in reversed(inside.types):
        with suppress(Refused):
            if agree(outward(type), printed):
                return type
    return inside.types[-1]


def _specs(parameters, name: str, count: int) -> list[Spec]:  # type: ignore[no-untyped-def]
    items = sequence(required(parameters, name), name)
    if len(items) != count:
        raise refuse(
            "arity",
            f"{name} has {len(items)} specs for {count} values",
            because="each value that crosses the boundary has its spec",
            place=Place("parameter", name=name),
        )
    return [spec(item, name) or Spec(()) for item in items]


def _inward(type: Type | None, asked: Spec, index: int, outer: Mesh, manual: Axes, tracked: bool) -> Type | None:
    """The type inside of a value outside. A cell's is the cell of what a device has of the value that it holds."""
    place = Place("operand", index)
    if type is None:
        return None
    if isinstance(type, RefType):
        inner = _inward(type.inner, asked, index, outer, manual, tracked)
        return None if inner is None else RefType(inner, type.space)
    if not isinstance(type, ArrayType):
        raise _not_array(type, place)
    _crossing(type, asked, f"in_specs[{index}]", place, outer, manual)
    shape: list[Dim] = []
    lists: list[Axes] = []
    varying: list[str] = [*type.varying]
    for dim, (size, axes) in enumerate(zip(type.shape, type.axes, strict=True)):
        wanted = (asked.dims[dim] or ()) if dim < len(asked.dims) else ()
        visible = tuple(axis for axis in wanted if outer.mode(axis) is AxisMode.EXPLICIT)
        inside = tuple(axis for axis in axes if axis in manual)
        if visible != inside or axes[: len(inside)] != inside:
            raise refuse(
                "boundary-spec",
                f"in_specs[{index}] {_cuts(dim, wanted)}, and operand {index} is {type}",
                because="a shard_map moves nothing: its specs say how the operand is cut already",
                help=_reshard_first(type, asked, index, outer, manual) + _closed_over(type, asked),
                place=place,
            )
        shape.append(_divided(size, outer.size(wanted), type, dim, place))
        lists.append(axes[len(inside) :])
        varying += wanted
    _states_cross(type, asked, manual, f"in_specs[{index}]", place)
    pending, promised = type.unreduced, type.reduced
    if not tracked:  # types say nothing along the axes that become manual: no state of theirs either
        varying = [*type.varying]
        pending, promised = (tuple(axis for axis in axes if axis not in manual) for axes in (pending, promised))
    return array_type(
        type.dtype, tuple(shape), tuple(lists), outer.in_order(varying), pending, promised,
        type.kind if pending else "sum", type.memory,
    )  # fmt: skip


def _cuts(dim: int, wanted: Axes) -> str:
    return f"cuts dim {dim} by ({','.join(wanted)})" if wanted else f"leaves dim {dim} whole"


def _closed_over(type: ArrayType, asked: Spec) -> str:
    """What else helps where a spec says nothing at all, as that of an array that a body closes over."""
    if any(asked.dims) or asked.unreduced or asked.reduced:
        return ""
    own = ", ".join(repr(axes[0]) if len(axes) == 1 else repr(axes) if axes else "None" for axes in type.axes)
    return f"; what the body closes over enters by a spec that names no axis: pass it as an argument, with P({own})"


def _reshard_first(type: ArrayType, asked: Spec, index: int, outer: Mesh, manual: Axes) -> str:
    """The repair of an operand that lies otherwise than its spec says, with its price each time. Along axes that are
    not manual inside it stays as it is."""
    kept = type.without(manual)
    lists = [(*((asked.dims[dim] or ()) if dim < len(asked.dims) else ()), *kept.axes[dim]) for dim in range(type.rank)]
    pending, promised = (*asked.unreduced, *kept.unreduced), (*asked.reduced, *kept.reduced)
    kind = asked.kind if asked.unreduced else kept.kind
    wanted = array_type(
        type.dtype, type.shape, tuple(lists), type.varying, pending, promised, kind, type.memory
    )  # fmt: skip
    try:
        well_formed(wanted, outer)
        back, forth = cotangent(wanted), cotangent(type)
    except Refused:
        return "write the spec that its type says"
    backward = priced(move(back, forth, outer)) if isinstance(back, ArrayType) and isinstance(forth, ArrayType) else "-"
    return (
        f"reshard operand {index} to {wanted} first ({priced(move(type, wanted, outer))} forward, {backward} "
        "backward), or write the spec that its type says"
    )


def _outward(type: Type | None, asked: Spec, index: int, outer: Mesh, manual: Axes, tracked: bool) -> ArrayType | None:
    """The type outside of a value inside."""
    place = Place("parameter", name="out_specs")
    if type is None:
        return None
    if not isinstance(type, ArrayType):
        raise _not_array(type, place)
    _crossing(type, asked, f"out_specs[{index}]", place, outer, manual)
    mentioned = {axis for axes in asked.dims if axes for axis in axes}
    if tracked:
        spoken_of = mentioned.union(asked.unreduced, asked.reduced)  # by another state: refused as such below
        hidden = [axis for axis in type.varying if axis in manual and axis not in spoken_of]
        if hidden:
            raise refuse(
                "hidden-variation",
                f"result {index} of the shard_map is {type}, and out_specs[{index}] is silent on {', '.join(hidden)}",
                because=f"devices along {', '.join(hidden)} hold different values, and the spec says they hold one",
                help=f"name {', '.join(hidden)} on a dim of the spec, or psum (or pcast) over it in the body",
                place=place,
            )
        same_everywhere = [axis for axis in mentioned if axis not in type.varying]
        if same_everywhere:
            axis = outer.in_order(same_everywhere)[0]
            raise refuse(
                "mixed-variation",
                f"out_specs[{index}] stacks result {index}, {type}, along {axis}, over which it does not vary",
                because=f"the transpose would have to sum its cotangent over {axis}, unasked",
                help=f"cast it with pvary over {axis} in the body",
                place=place,
            )
    shape: list[Dim] = []
    lists: list[Axes] = []
    for dim, (size, axes) in enumerate(zip(type.shape, type.axes, strict=True)):
        wanted = (asked.dims[dim] or ()) if dim < len(asked.dims) else ()
        parts = outer.size(wanted)
        shape.append(size * parts if isinstance(size, int) and parts is not None else size)
        lists.append((*(axis for axis in wanted if outer.mode(axis) is AxisMode.EXPLICIT), *axes))
    _states_cross(type, asked, manual, f"out_specs[{index}]", place, tracked)
    unreduced = outer.in_order((*(a for a in type.unreduced if a not in manual), *asked.unreduced))
    reduced = outer.in_order((*(a for a in type.reduced if a not in manual), *asked.reduced))
    varying = tuple(axis for axis in type.varying if axis not in manual)
    kind = asked.kind if asked.unreduced else type.kind
    return array_type(type.dtype, tuple(shape), tuple(lists), varying, unreduced, reduced, kind, type.memory)


def _not_array(type: Type, place: Place) -> Exception:
    return refuse(
        "unmodelled-construct",
        f"{type} crosses the boundary of a shard_map",
        because="specs say how arrays are cut; what a device holds of anything else is not described",
        help="pass arrays in, and give back what cells hold",
        place=place,
    )


def _crossing(type: ArrayType, asked: Spec, what: str, place: Place, outer: Mesh, manual: Axes) -> None:
    mentioned = [axis for axes in (*asked.dims, asked.unreduced, asked.reduced) if axes for axis in axes]
    for axis in mentioned:
        if axis not in outer:
            raise refuse("unknown-axis", f"{what} names {axis}, and the mesh is ({outer})", place=place)
        if mentioned.count(axis) > 1:
            raise refuse("repeated-axis", f"{what} names {axis} more than once", place=place)
        if axis not in manual:
            raise refuse(
                "boundary-spec",
                f"{what} names {axis}, and the shard_map is manual over ({','.join(manual)})",
                because=f"how the value is cut along {axis} is not its business, and stays as it is",
                help=f"leave {axis} out of the spec, or name it in newly_manual_axes",
                place=place,
            )
    if len(asked.dims) > type.rank:
        raise refuse(
            "boundary-spec",
            f"{what} names {len(asked.dims)} dims, and the value is {type}",
            because="a spec names dims of the value",
            place=place,
        )


def _states_cross(type: ArrayType, asked: Spec, manual: Axes, what: str, place: Place, tracked: bool = True) -> None:
    """U and R along manual axes pass through as themselves."""
    pending = [axis for axis in type.unreduced if axis in manual or asked.unreduced]
    asks = asked.kind if asked.unreduced else "sum"
    waits = type.kind if pending else "sum"
    if asked.unreduced and pending and asks != waits:
        raise refuse(
            "boundary-spec",
            f"{what} is unreduced of kind {asks}, and the value is {type}",
            because=f"pieces that wait for their {waits} are not pieces of a {asks}",
            help=f"say unreduced_kind={waits} in the spec, or finish it first",
            place=place,
        )
    if not tracked:
        return
    for have, wanted, word in (
        (type.unreduced, asked.unreduced, "unreduced"),
        (type.reduced, asked.reduced, "reduced"),
    ):
        inside = {axis for axis in have if axis in manual}
        if inside != set(wanted):
            varying = [axis for axis in wanted if axis in type.varying]
            cast = f"{'vary_unreduced_cast' if word == 'unreduced' else 'psum and preduced'} over {', '.join(varying)}"
            raise refuse(
                "boundary-spec",
                f"{what} says {word}={{{', '.join(wanted)}}}, and the value is {type}",
                because="a pending sum, or a promise to sum cotangents, crosses the boundary as itself",
                help=f"in the body, first {cast}"
                if varying
                else f"say {word}={{{', '.join(sorted(inside))}}}, or cast the value first",
                place=place,
            )


def _divided(size: Dim, parts: int | None, type: ArrayType, dim: int, place: Place) -> Dim:
    if parts in (1, None):
        return size
    if not isinstance(size, int) or size % parts:
        raise refuse(
            "indivisible",
            f"dim {dim} of {type} does not divide into {parts} blocks",
            because="every device holds a block of the same shape",
            place=place,
        )
    return size // parts


def _claims(asked: Spec, manual: Axes) -> int:
    """How many axes an out_spec claims a state along: all that it does not stack blocks along."""
    stacked = {axis for axes in asked.dims if axes for axis in axes}
    return sum(axis not in stacked for axis in manual)


def _silent(type: Type | None, around: Sequence[str]) -> int:
    """How many axes that are manual around a shard_map a type claims a value to be the same along."""
    if isinstance(type, RefType):
        return _silent(type.inner, around)
    return 0 if not isinstance(type, ArrayType) else sum(type.state(axis) == "N" for axis in around)
