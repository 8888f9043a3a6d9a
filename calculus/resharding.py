"""Resharding: the cast between placements, asked for and never inserted. Seeds A19, A24, A27, A33, B10, B13, B34,
B35."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calculus.bodies import Result, unchanged
from calculus.communication import COMPILER, UNKNOWN, Collective, entirely, move, over
from calculus.concrete import type_of
from calculus.judgments import need, rule
from calculus.meshes import AxisMode, Mesh, as_given
from calculus.parameters import Spec, mesh, required, sequence, spec
from calculus.programs import Call, Equation, Parameters, Value
from calculus.refusals import Place, refuse
from calculus.rules import Typing, agreeing
from calculus.types import ArrayType, Type, array_type
from calculus.uses import Operand, operand_type

if TYPE_CHECKING:
    from calculus.checking import Checker, Scope
    from calculus.effects import Inner


@rule
def reshard(
    checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope
) -> tuple[Typing, tuple[Inner, ...], bool]:
    """
        Γ ⊢ x : τ      σ has the shape, dtype, memory and varying axes of τ
        ─────────────────────────────────────────────────────────────────── reshard
        Γ ⊢ reshard x : σ ▷ move(τ, σ)

    The target is not printed, so the printed type says it. The value is kept: pending sums that σ does not have are
    finished, casts down the chain R ≼ S ≼ U are free, and dims move. Where the axes of a region change to auto or back,
    what moves along them is the compiler's choice.
    """
    _single(equation, operands, "reshard")
    target = equation.types[0]
    source = _operand_type(operands[0], target)
    if target is None:
        raise refuse(
            "choose-type",
            "reshard does not print its target, and the result has no type",
            because="a reshard may lead to any placement",
            help="write the result's type after its name",
            place=Place("binder", 0),
        )
    if not isinstance(target, ArrayType) or source is None:
        raise refuse("dtype", f"reshard of {source} to {target}", place=Place("binder", 0))
    for code, differs in (
        ("shape", source.shape != target.shape),
        ("dtype", source.dtype != target.dtype),
        ("memory", source.memory != target.memory),
    ):
        need(
            not differs,
            code,
            lambda: f"reshard takes {source} to {target}",
            because="a reshard changes where an array lies, and nothing else",
            help=f"keep {source.dtype}{list(source.shape)} and change its axes only",
            place=Place("binder", 0),
        )
    need(
        set(source.varying) == set(target.varying),
        "no-cast",
        lambda: f"reshard takes {source} to {target}",
        because="a reshard moves along explicit axes; along manual ones a value is moved by casts and collectives",
        help="use pvary, psum or the like inside the shard_map",
        place=Place("binder", 0),
    )
    meshes = scope.mesh_of(source), scope.mesh_of(target)
    for type in (source, target):
        _only_explicit(type, source, target, scope)
    counts = [mesh.size(mesh.by_name) for mesh in meshes]
    need(
        None in counts or counts[0] == counts[1] or source.plain or target.plain,
        "mixed-meshes",
        lambda: f"reshard from the mesh ({meshes[0]}) to ({meshes[1]})",
        because=f"the devices stay the same: there are {counts[0]} of them, not {counts[1]}",
        help="name a mesh over as many devices",
        place=Place("binder", 0),
    )
    ends = changing(equation, scope)
    if ends:
        chosen = _chosen(source, ends, scope.mesh)
        source, shown = (array.without(ends) for array in (source, target))
        moved = () if source.plain else _moved(source, shown, scope)
        return Typing((target,), (*moved, *chosen)), (), True
    if source.plain:
        return Typing((target,)), (), True
    return Typing((target,), _moved(source, target, scope)), (), True


def changing(equation: Equation, scope: Scope) -> tuple[str, ...]:
    """The axes that are auto on one side of a reshard only: a region in which the compiler chooses begins or ends.
    Seeds B29, B32, B36."""
    before, after = sides(equation, scope)
    if before is None or after is None:
        return ()
    modes = ((axis.name, axis.mode, after.mode(axis.name)) for axis in before.axes if axis.name in after)
    return tuple(name for name, old, new in modes if (old is AxisMode.AUTO) != (new is AxisMode.AUTO))


def sides(equation: Equation, scope: Scope) -> tuple[Mesh | None, Mesh | None]:
    """The meshes of a reshard's operand and result; JAX prints neither, so they are known of its objects only, and of
    what lies on a mesh."""
    before, after = (mesh(equation.parameters.get(name), name) for name in ("source_mesh", "target_mesh"))
    where = scope.meshes
    return (
        None if before is None else as_given(before, where, "target_mesh"),
        None if after is None else as_given(after, where, "target_mesh"),
    )


def _chosen(source: ArrayType, changing: Sequence[str], mesh: Mesh) -> tuple[Collective, ...]:
    """What the compiler may have to move where a region begins or ends: what is cut or pending along an axis that is
    its own from here on. What is a copy may stay one, and be sliced where the region ends, free."""
    axes = [axis for axis in changing if source.state(axis) in ("S", "U")]
    return tuple(one.of(0) for one in over(UNKNOWN, axes, None, mesh, COMPILER))


def _moved(
    source: ArrayType, target: ArrayType, scope: Scope, index: int = 0, asked: Mesh | None = None
) -> tuple[Collective, ...]:
    """What a move of an operand costs. asked: the mesh that the target is on, where the text says so.

    A type names axes, not meshes. Where two meshes have the axes of one of the types at different places in the order
    of the devices, blocks may stay or all change places, so the price is the bound on both.
    """
    meshes = scope.mesh_of(source), asked or scope.mesh_of(target)
    moved = move(source, target, meshes[0], None if target.plain else meshes[1])
    if not (source.plain or target.plain) and (
        _anywhere(source, scope.mesh_of(source), scope) or (asked is None and _anywhere(target, meshes[1], scope))
    ):
        bound = entirely(source, meshes[0])
        moved = bound or tuple(step.estimated() for step in moved)
    return tuple(step.of(index) for step in moved)


def _anywhere(type: ArrayType, found: Mesh, scope: Scope) -> bool:
    """Whether another mesh over as many devices has the axes of a type at other places."""
    devices = found.size(found.by_name)
    return any(
        mesh.size(mesh.by_name) == devices
        and all(axis in mesh for axis in type.mentioned)
        and any(_stride(mesh, axis) != _stride(found, axis) for axis in type.mentioned)
        for mesh in (scope.mesh, *scope.others)
        if mesh is not found
    )


def _stride(mesh: Mesh, axis: str) -> int | None:
    """How many devices apart neighbours along an axis are."""
    names = [one.name for one in mesh.axes]
    return mesh.size(names[names.index(axis) + 1 :])


_MEMORIES: Final = {"device": "", "Device": "", "pinned_host": "host", "Host": "host"}


@rule
def device_put(
    checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope
) -> tuple[Typing, tuple[Inner, ...], bool]:
    """
        Γ ⊢ xᵢ : τᵢ      σᵢ is τᵢ, placed and in the memory as devices[i] says
        ────────────────────────────────────────────────────────────────────── device-put
        Γ ⊢ device_put[devices] x₁ … xₙ : σ₁ … σₙ ▷ Σ move(τᵢ, σᵢ)

    Where devices[i] names a sharding, this is `reshard` to it; a change of memory stays on each device. Seed B13.
    """
    asked = sequence(required(equation.parameters, "devices"), "devices")
    need(
        len(asked) == len(operands) == len(equation.types),
        "arity",
        lambda: f"device_put has {len(operands)} operands, {len(equation.types)} results and {len(asked)} devices",
        because="each array has its own target",
    )
    return _put_each(equation, operands, asked, scope)


@rule
def memory_constraint(
    checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope
) -> tuple[Typing, tuple[Inner, ...], bool]:
    """
        Γ ⊢ x : τ      σ is τ in the memory that memory_space names
        ──────────────────────────────────────────────────────────── memory-constraint
        Γ ⊢ with_memory_space_constraint x : σ

    This is the `device_put` that changes a memory: it stays on each device.
    """
    _single(equation, operands, equation.primitive)
    return _put_each(equation, operands, [required(equation.parameters, "memory_space")], scope)


def handed_out(results: Sequence[Result], parameters: Parameters) -> tuple[Result, ...]:
    """A body's results in the memories that a call hands them out in (`out_memory_spaces`); where it says none, as they
    are."""
    asked = parameters.get("out_memory_spaces")
    if not isinstance(asked, (tuple, list)):
        return tuple(results)
    need(
        len(asked) == len(results),
        "arity",
        lambda: f"the body has {len(results)} results, and out_memory_spaces names {len(asked)} memories",
        because="each result lies in one memory",
    )
    return tuple(
        _put_in(one, str(target)) if isinstance(one, ArrayType) else one
        for one, target in zip(results, asked, strict=True)
    )


def _put_in(type: ArrayType, kind: str) -> ArrayType:
    memory = _MEMORIES.get(kind.rpartition(".")[2], type.memory)
    states = type.varying, type.unreduced, type.reduced, type.kind
    return array_type(type.dtype, type.shape, type.axes, *states, memory)


def _put_each(
    equation: Equation, operands: Sequence[Operand], asked: Sequence[Value], scope: Scope
) -> tuple[Typing, tuple[Inner, ...], bool]:
    found: list[Type] = []
    moved: tuple[Collective, ...] = ()
    for index, (operand, target, printed) in enumerate(zip(operands, asked, equation.types, strict=True)):
        source = _operand_type(operand)
        if source is None:
            raise refuse(
                "dtype", f"operand {index} of {equation.primitive} is not an array", place=Place("operand", index)
            )
        where = mesh(target.keyword("mesh"), "devices") if isinstance(target, Call) else None
        result = agreeing(_put(source, target, where, scope), printed, index)
        found.append(result)
        moved += _moved(source, result, scope, index, where)
    return Typing(tuple(found), moved), (), True


def _put(source: ArrayType, target: Value, where: Mesh | None, scope: Scope) -> ArrayType:
    """A type where a device_put takes it: to a sharding, to a memory, or nowhere."""
    if target is None:
        return source
    kind = target.keyword("memory_kind") if isinstance(target, Call) else str(target).rpartition(".")[2]
    memory = _MEMORIES.get(str(kind), source.memory)
    asked = spec(target, "devices") if isinstance(target, Call) else None
    if asked is None:
        return _put_in(source, str(kind))
    need(
        len(asked.dims) <= source.rank,
        "shape",
        lambda: f"the target names {len(asked.dims)} dims of {source}",
        because="a sharding says of each dim how it is cut",
        place=Place("parameter", name="devices"),
    )
    lists = tuple((asked.dims[dim] or ()) if dim < len(asked.dims) else () for dim in range(source.rank))
    stored = array_type(
        source.dtype, source.shape, lists, source.varying, asked.unreduced, asked.reduced, asked.kind, memory
    )
    return type_of(stored, where or scope.mesh)


def _only_explicit(type: ArrayType, source: ArrayType, target: ArrayType, scope: Scope) -> None:
    """Along a manual axis the R/U state changes by a cast or collective of its own, never by a reshard."""
    mesh = scope.mesh_of(type)
    for axis in (*type.unreduced, *type.reduced):
        if mesh.mode(axis) is AxisMode.MANUAL and source.state(axis) != target.state(axis):
            raise refuse(
                "no-cast",
                f"reshard takes {source} to {target} along {axis}, which is manual here",
                because="along manual axes a value is moved by casts and collectives, never by a reshard",
                help="use preduced, unreduced_psum or the like",
                place=Place("binder", 0),
            )


@rule
def sharding_constraint(
    checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope
) -> tuple[Typing, tuple[Inner, ...], bool]:
    """
    Γ ⊢ x : τ      on explicit axes, the constraint is what τ says
    ────────────────────────────────────────────────────────────── sharding-constraint
    Γ ⊢ sharding_constraint x : τ ▷ on auto axes, whatever the compiler chooses
    """
    _single(equation, operands, "sharding_constraint")
    source = _operand_type(operands[0])
    if source is None:
        raise refuse("dtype", "sharding_constraint takes an array", place=Place("operand", 0))
    sharding = required(equation.parameters, "sharding")
    asked = spec(sharding, "sharding")
    where = (mesh(sharding.keyword("mesh"), "sharding") if isinstance(sharding, Call) else None) or scope.mesh
    hints: list[str] = []
    if asked is not None:
        need(
            len(asked.dims) <= source.rank,
            "shape",
            lambda: f"the constraint names {len(asked.dims)} dims of {source}",
            place=Place("parameter", name="sharding"),
        )
        kinds = source.kind == asked.kind or not source.unreduced
        for have, wanted in ((source.unreduced, asked.unreduced), (source.reduced, asked.reduced)):
            need(
                kinds and set(have) == {axis for axis in wanted if where.mode(axis) is not AxisMode.AUTO},
                "sharding",
                lambda: f"the constraint asserts another state than that of the operand, {source}",
                because="on explicit axes a constraint asserts what the type says; it moves nothing",
                help="reshard instead, or correct the constraint",
                place=Place("parameter", name="sharding"),
            )
        hints = _asserted(source, asked, where)
    unchanged(equation, source, "a constraint does not change the type")
    return Typing((source,), over(UNKNOWN, hints, None, where, COMPILER)), (), True


def _asserted(source: ArrayType, asked: Spec, where: Mesh) -> list[str]:
    """Hold a type against a constraint, and return the auto axes that the constraint hints at. Where every axis is
    explicit the two must agree entirely, on the dims that the constraint leaves out too; beside auto axes, a dim on
    which the constraint mentions no explicit axis is left as it is. Refuses `sharding`. Seeds B34, B35."""
    entire = all(axis.mode is AxisMode.EXPLICIT for axis in where.axes)
    hints: list[str] = []
    for dim, have in enumerate(source.axes):
        wanted = asked.dims[dim] if dim < len(asked.dims) else ()
        if wanted is None:
            continue
        hints += [axis for axis in wanted if where.mode(axis) is AxisMode.AUTO]
        asserted = tuple(axis for axis in wanted if where.mode(axis) is not AxisMode.AUTO)
        if asserted != have and (entire or asserted):
            raise _not_so(f"dim {dim} is sharded on ({','.join(asserted)})", source)
    for name, want, has in (
        ("unreduced", asked.unreduced, source.unreduced),
        ("reduced", asked.reduced, source.reduced),
    ):
        if set(want) != set(has) and (entire or want):
            raise _not_so(f"it is {name} along ({','.join(want)})", source)
    return hints


def _not_so(claim: str, source: ArrayType) -> Exception:
    return refuse(
        "sharding",
        f"the constraint asserts that {claim}, and the operand is {source}",
        because="on explicit axes a constraint asserts what the type says; it moves nothing",
        help="reshard instead, or correct the constraint",
        place=Place("parameter", name="sharding"),
    )


def _single(equation: Equation, operands: Sequence[Operand], what: str) -> None:
    need(
        len(operands) == 1 and len(equation.types) == 1,
        "arity",
        lambda: f"{what} has one operand and one result, not {len(operands)} and {len(equation.types)}",
        because="a placement is changed one array at a time",
    )


def _operand_type(operand: Operand, wanted: Type | None = None) -> ArrayType | None:
    type = operand_type(operand, wanted)
    return type if isinstance(type, ArrayType) else None
