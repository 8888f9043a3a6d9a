"""The type rule of the table: one rule, for every declared primitive.

From the declaration come the scheme and the signature; from those the shape, the dtype, each dim's list of axes, the
state along every axis, and what remains to communicate. Seeds A15, A20, A22, A25, B23, B25 to B28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from calculus.communication import ALL_TO_ALL, Collective, move
from calculus.implied import bound, entangled, finished, implied
from calculus.judgments import rule
from calculus.meshes import AxisMode, Mesh
from calculus.parameters import Spec, spec
from calculus.placement import conflict, derived_lists, factored, placed, recut, repeated
from calculus.primitives.declaration import EVERYTHING, INEXACT, Primitive, Site
from calculus.programs import Literal, Parameters
from calculus.refusals import Place, refuse
from calculus.schemes import Scheme, Shape
from calculus.states import state_of_result
from calculus.types import ArrayType, Axes, Type, array_type, same
from calculus.uses import Operand, Use, literal_fits


class Typing(NamedTuple):
    """What a judgment concludes: the result types, and the collectives of the equation."""

    types: tuple[Type, ...]
    collectives: tuple[Collective, ...] = ()


@rule
def has_type(
    primitive: Primitive,
    parameters: Parameters,
    operands: Sequence[Operand],
    printed: tuple[Type | None, ...],
    mesh: Mesh,
) -> Typing:
    """
        the shapes fit the scheme      the dtypes fit      one memory
        dims that travel together are cut alike, or not at all (then sliced, free)
        along each axis: the states are in Q of scheme and signature; or all vary
        ──────────────────────────────────────────────────────────────────────────── table
        Γ ⊢ p x₁ … xₙ : τ ▷ what the scheme leaves to finish

    Where the primitive takes a target, the target's dims replace the derived ones, and finishing is what it costs.
    """
    arrays, types, shapes, given, memory, plain, quiet = _gathered(primitive, operands)
    site = Site(parameters, shapes, given, printed)
    if len(operands) != len(primitive.operands):
        _arity(primitive, len(operands))
    scheme = primitive.scheme(site)
    if len(scheme.results) != len(printed):
        raise refuse(
            "arity",
            f"{primitive.name} has {len(scheme.results)} results, and {len(printed)} are bound",
            because="every result has a name",
            place=Place("binder", min(len(printed), len(scheme.results))),
        )
    dtypes = primitive.dtypes(site)
    if primitive.accepts != EVERYTHING:
        _accepted(primitive, types)
    found: list[Type] = []
    collectives: tuple[Collective, ...] = ()
    for number, dtype in enumerate(dtypes):
        said = printed[number]
        placed_here = primitive.target and number == len(dtypes) - 1
        target, hidden = _target(primitive, parameters) if placed_here else (None, False)
        if plain and not _asks(target) and (said is None or not isinstance(said, ArrayType) or said.plain):
            # nothing is cut, pending or varying: a short way to the same conclusion
            result = array_type(dtype, scheme.shape(scheme.results[number]), memory=memory)
            found.append(agreeing(result, said, number))
            continue
        if quiet and not placed_here and (alike := _alike(scheme, arrays)) is not None:
            # element by element, on arrays that are all cut alike: so is what comes of them
            found.append(agreeing(array_type(dtype, alike.shape, alike.axes, memory=memory), said, number))
            continue
        hidden = hidden and isinstance(said, ArrayType)
        use = Use(primitive, site, scheme, tuple(operands), arrays, mesh, number, hidden or target is not None)
        result, effect = _result(use, dtype, memory, target, quiet)
        found.append(result)
        if effect:
            collectives += effect
    return Typing(tuple(found), collectives)


def _result(
    use: Use, dtype: str, memory: str, target: Spec | None, quiet: bool
) -> tuple[ArrayType, tuple[Collective, ...]]:
    number, scheme, mesh, printed = use.number, use.scheme, use.mesh, use.site.printed[use.number]
    indices = scheme.results[number]
    shape = scheme.shape(indices)
    said = printed if isinstance(printed, ArrayType) else None
    if said is not None and said.shape != shape:
        raise _disagrees("shape", printed, array_type(dtype, shape), number, "the scheme determines every size")
    place, disputes = placed(use)
    derived = None if disputes else derived_lists(scheme, indices, place, mesh)
    if target is not None:
        lists = tuple((target.dims[dim] or ()) if dim < len(target.dims) else () for dim in range(len(shape)))
        pending, reduced = _unsaid(use.arrays, mesh)
        unreduced, reduced = (mesh.in_order({*each}) for each in (target.unreduced + pending, target.reduced + reduced))
        asked = array_type(dtype, shape, lists, (), unreduced, reduced, target.kind, memory)
        _asked_as_printed(asked, said, number)
        said = said or asked
    elif use.targeted and said is not None:
        lists = said.axes  # the printed type is the target
    elif derived is not None:
        lists = derived
        if not (said is not None and said.axes == lists):  # a printed type is known to be well formed
            repeated(use, lists, dtype)
    else:
        raise conflict(use, None)
    for dispute in disputes:
        # Along a marked axis nothing may move, so there the operands' own cuts must agree.
        cut = {axis for axes in dispute.lists for axis in axes}
        if any(cut & {*type.unreduced, *type.reduced} for type in (said, *use.arrays) if type is not None):
            raise conflict(use, dispute)
    if quiet and said is not None and not said.marked:
        result = said if _is(said, dtype, lists, memory) else array_type(dtype, shape, lists, memory=memory)
    else:
        unreduced, reduced, kind = state_of_result(use, place, lists, said)
        varying = _variation(use.arrays, mesh)
        result = array_type(dtype, shape, lists, varying, unreduced, reduced, kind, memory)
    agreeing(result, printed, number)
    if not (place or disputes or (scheme.along and result.sharded)) or (
        derived == lists and scheme.roles.keys().isdisjoint(place)
    ):
        return result, ()  # nothing is cut, or everything stays as it is cut
    window = use.primitive.window
    # Measured: where windows are slid, no window is reduced in part.
    slid = (
        window
        and len(use.arrays) == 1
        and any(
            scheme.roles.get(factor, "whole") != "whole" and not set(axes) <= set(result.unreduced)
            for factor, axes in place.items()
        )
    )
    if scheme.grouped:
        if len(use.arrays) == 1 and not window:
            return result, _regrouped(use.arrays, derived, result, mesh)
        parts = factored(scheme, use.arrays, result, mesh)
        moved = implied(*parts, mesh, window) if parts else ()
        if parts is None or slid or (moved and entangled(scheme)):
            return result, bound(use.arrays, mesh)
        return result, moved
    if slid:
        return result, bound(use.arrays, mesh)
    reducing = scheme.roles and "whole" not in scheme.roles.values()
    if reducing and derived is not None and len(use.arrays) == 1 and use.arrays[0] is not None:
        return result, finished(scheme, use.arrays[0], derived, result, mesh)
    return result, implied(scheme, use.arrays, result, mesh, window)


def _alike(scheme: Scheme, arrays: Sequence[ArrayType | None]) -> ArrayType | None:
    """Of arrays that meet element by element, scalars aside, one; `None` where they are not all cut alike."""
    found: ArrayType | None = None
    for type in arrays:
        if type is None or not type.rank:
            continue
        if found is None:
            found = type
        elif type.axes != found.axes or type.shape != found.shape:
            return None
    if found is None or not scheme.elementwise or scheme.shape(scheme.results[0]) != found.shape:
        return None
    return found


def _is(type: ArrayType, dtype: str, lists: Sequence[Axes], memory: str) -> bool:
    """Whether a type of the right shape is the unmarked one with these lists."""
    return type.dtype == dtype and type.axes == lists and type.memory == memory and not (type.varying or type.weak)


def _regrouped(
    arrays: Sequence[ArrayType | None], derived: tuple[Axes, ...] | None, result: ArrayType, mesh: Mesh
) -> tuple[Collective, ...]:
    """A reshape to a target: reshape as derived, then move; where no list is derived, the operand is gathered. What is
    pending or varying stays so: only dims move. Whether an axis then goes from dim to dim, or the array is gathered
    and cut anew, a partitioner decides."""
    operand = arrays[0]
    if operand is None or derived == result.axes:
        return ()
    if derived is None:
        bare = recut(operand, ((),) * operand.rank)
        return tuple(collective.estimated().of(0) for collective in move(operand, bare, mesh))
    moves = move(recut(result, derived), result, mesh)
    return tuple(one.estimated() for one in moves) if any(one.kind == ALL_TO_ALL for one in moves) else moves


class _Gathered(NamedTuple):
    """The operands, once over: the types of arrays (`None` for a literal), of all (`None` where a literal prints none),
    shapes, dtypes, the memory they share, whether no array is cut, pending or varying, and whether none is pending or
    varying."""

    arrays: tuple[ArrayType | None, ...]
    types: tuple[ArrayType | None, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[str | None, ...]
    memory: str
    plain: bool
    quiet: bool


def _gathered(primitive: Primitive, operands: Sequence[Operand]) -> _Gathered:
    arrays: list[ArrayType | None] = []
    types: list[ArrayType | None] = []
    shapes: list[Shape] = []
    dtypes: list[str | None] = []
    memory: str | None = None
    plain = quiet = True
    for index, operand in enumerate(operands):
        literal = isinstance(operand, Literal)
        if isinstance(operand, Literal):
            literal_fits(operand, Place("operand", index))
            type = operand.type
        else:
            type = operand
        arrays.append(None if literal or not isinstance(type, ArrayType) else type)
        if isinstance(type, ArrayType):
            types.append(type)
            shapes.append(type.shape)
            dtypes.append(type.dtype)
            if type.rank or type.memory:
                if memory is not None and memory != type.memory:
                    raise _two_memories(index, memory, type)
                memory = type.memory
            if not (literal or type.plain):
                plain = False
                quiet = quiet and not (type.marked or type.varying)
        elif type is None:
            types.append(None)
            shapes.append(())
            dtypes.append(None)
        else:
            raise refuse(
                "dtype",
                f"operand {index} of {primitive.name} is {type}, which is not an array",
                because="a primitive of the table computes on arrays",
                place=Place("operand", index),
            )
    return _Gathered(tuple(arrays), tuple(types), tuple(shapes), tuple(dtypes), memory or "", plain, quiet)


def _two_memories(index: int, memory: str, type: ArrayType) -> Exception:
    return refuse(
        "memory",
        f"operand {index} is in {type.memory or 'device'} memory, an operand before it in {memory or 'device'}",
        because="a device computes on arrays in one memory",
        help="insert a device_put",
        place=Place("operand", index),
    )


def _arity(primitive: Primitive, count: int) -> None:
    names = primitive.operands
    several = names[-1:] and names[-1].endswith("...")
    if count == len(names) or (several and count >= max(1, len(names) - 1)):
        return
    raise refuse(
        "arity",
        f"{primitive.name} takes {len(names)} operands ({', '.join(names) or 'none'}), not {count}",
        because="a primitive takes the operands that it is declared with",
        help="leave out what is too many" if count > len(names) else f"add {', '.join(names[count:])}",
        place=Place("operand", min(count, len(names))) if count > len(names) else Place(),
    )


def _accepted(primitive: Primitive, types: Sequence[ArrayType | None]) -> None:
    if not types:
        return
    first = next((type for type in types if type is not None), None)
    if primitive.accepts == "o" if first is None else first.dtype_class not in primitive.accepts:
        raise refuse(
            "dtype",
            f"{primitive.name} does not compute on {'numbers' if first is None else first.dtype}",
            because="the function is not defined on that dtype",
            help="insert a convert_element_type",
            place=Place("operand", 0),
        )


def _target(primitive: Primitive, parameters: Parameters) -> tuple[Spec | None, bool]:
    """The sharding that a parameter asks for, and whether the printed type asks, where JAX prints no parameter."""
    for name in ("out_sharding", "sharding"):
        if name in parameters:
            return spec(parameters[name], name), False
    return None, primitive.target == "printed"


def _asked_as_printed(asked: ArrayType, printed: ArrayType | None, number: int) -> None:
    """A target that a parameter says and the printed type must be one. Where a target says nothing of reduced axes, a
    result is reduced as its operands are: JAX lets no reduction be asked for that."""
    if printed is None:
        return
    if set(asked.unreduced) != set(printed.unreduced) or not set(asked.reduced) <= set(printed.reduced):
        raise _disagrees("result-state", printed, asked, number, "the parameter that asks for a sharding says so")


def _unsaid(arrays: Sequence[ArrayType | None], mesh: Mesh) -> tuple[Axes, Axes]:
    """The manual axes along which an operand is pending, and those along which all are reduced: no target speaks of
    them, and the result is so too."""
    manual = [axis.name for axis in mesh.axes if axis.mode is AxisMode.MANUAL]
    known = [type for type in arrays if type is not None]
    return (
        tuple(axis for axis in manual if any(axis in type.unreduced for type in known)),
        tuple(axis for axis in manual if known and all(axis in type.reduced for type in known)),
    )


def _asks(target: Spec | None) -> bool:
    return target is not None and any((*target.dims, target.unreduced, target.reduced))


def _variation(arrays: Sequence[ArrayType | None], mesh: Mesh) -> Axes:
    """In manual mode V is pointwise: along an axis, all operands vary or none does. Seeds A42, A47."""
    if not any(type is not None and type.varying for type in arrays):
        return ()
    union: dict[str, int] = {}
    for index, type in enumerate(arrays):
        if type is not None:
            for axis in type.varying:
                union.setdefault(axis, index)
    for axis, witness in union.items():
        for index, type in enumerate(arrays):
            if type is None or axis in type.varying:
                continue
            state = type.state(axis)
            if state == "N":
                moving = type.dtype_class in INEXACT
                raise refuse(
                    "mixed-variation",
                    f"operand {witness} varies over {axis} and operand {index}, {type}, does not",
                    because=f"the transpose would have to sum operand {index}'s cotangent over {axis}, unasked"
                    if moving
                    else "what is made of both varies, and along an axis all operands vary, or none does",
                    help=f"cast operand {index} with pvary over {axis}: free here, "
                    + ("a psum in the backward pass" if moving else "and it has no cotangent"),
                    place=Place("operand", index),
                )
            cast = f"reduced_vary_cast over {axis}, free both ways" if state == "R" else f"unreduced_psum over {axis}"
            raise refuse(
                "state",
                f"operand {witness} varies over {axis} and operand {index}, {type}, is {_WORDS[state]}",
                because="devices hold unrelated values along a varying axis, so nothing sums or agrees there",
                help=f"cast operand {index} first: {cast}",
                place=Place("operand", index),
            )
    return mesh.in_order(union)


_WORDS: Mapping[str, str] = {"R": "reduced along it", "U": "unreduced along it", "S": "sharded on it", "V": "varying"}


def agreeing(result: ArrayType, printed: Type | None, number: int) -> ArrayType:
    """Compare an inferred type with the printed one. Raises `Refused` with the first difference."""
    if printed is None or same(result, printed):
        return result
    if not isinstance(printed, ArrayType):
        raise _disagrees("inconsistent-type", printed, result, number, "the primitive makes an array")
    for code, differs, because in (
        ("shape", printed.shape != result.shape, "the scheme determines every size"),
        ("dtype", printed.dtype != result.dtype, "the operands' dtypes determine the result's"),
        ("memory", printed.memory != result.memory, "the operands' memory is the result's"),
        ("sharding", printed.axes != result.axes, "dims keep the axes of the operand dims they come from"),
    ):
        if differs:
            raise _disagrees(code, printed, result, number, because)
    raise _disagrees("result-state", printed, result, number, "the operands' states determine the result's")


def _disagrees(code: str, printed: Type | None, inferred: ArrayType, number: int, because: str) -> Exception:
    shown = f"shape {list(inferred.shape)}" if code == "shape" else str(inferred)
    return refuse(
        code,
        f"the result is printed as {printed}; the operands make it {shown}",
        because=because,
        help=f"bind it at {inferred}" if code != "shape" else "correct the size, or the operands",
        place=Place("binder", number),
    )
