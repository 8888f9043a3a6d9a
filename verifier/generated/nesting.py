"""Moves that put a body inside a body: calls, rematerialized ones among them, loops, choices, and per-device code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from calculus.building import partition_spec
from calculus.meshes import AxisMode, Mesh
from calculus.programs import Atom, Braces, Call, Pair, Program, Programs, Value, Variable, Word
from calculus.types import ArrayType, Axes, array_type
from verifier.generated.growing import Grower, like, sizes

LENGTH: Final = 5
"""How many proposals a body inside sees."""


def _operands(grower: Grower, most: int = 3) -> list[Variable]:
    floating = [one for one in grower.values if grower.type(one).dtype == "f32"]
    return grower.some(floating[-8:], 1, most)


def _body(inner: Grower, types: Sequence[ArrayType]) -> list[Variable]:
    """A body grown on inputs of these types: the inputs."""
    inputs = [inner.builder.input(type) for type in types]
    inner.grow(inputs, LENGTH)
    return inputs


def _closed(inner: Grower, inputs: Sequence[Variable], outputs: Sequence[Atom]) -> Program:
    return inner.builder.program(inputs, outputs)


def _of_type(inner: Grower, type: ArrayType, start: Variable | None = None) -> Atom:
    """A value of this type: one that is there, the younger the likelier; else a start scaled, or zeros."""
    fitting = [one for one in inner.values if inner.type(one) == type and one != start]
    if fitting and inner.random.random() < 0.9:
        return fitting[-1]
    if start is not None:
        return inner.builder.one("mul", (start, inner.builder.literal(0.5, "f32")))
    return inner.builder.full(0, type)


def _called(grower: Grower) -> None:
    operands, inner = _operands(grower), grower.inner()
    inputs = _body(inner, [grower.type(one) for one in operands])
    outputs = inner.ends()
    program, types = _closed(inner, inputs, outputs), [inner.type(one) for one in outputs]
    rows: dict[str, Value]
    kind = grower.random.random()
    if kind < 0.5:
        grower.propose("jit", operands, {"name": Word("f"), "jaxpr": program}, types)
    elif kind < 0.65:  # a text prints no rule; it is taken to be that of the body
        rows = {"name": Word("f"), "call_jaxpr": program, "jvp": Word("jvp"), "symbolic_zeros": False}
        grower.propose("custom_jvp_call", operands, rows, types)
    else:
        rows = {"differentiated": False, "jaxpr": program, "policy": None, "prevent_cse": True}
        grower.propose("checkpoint", operands, rows, types)


def _looped(grower: Grower) -> None:
    held, carries = _operands(grower, 2), _operands(grower, 2)
    length = 4
    scanned = [one for one in grower.values if (t := grower.type(one)).shape[:1] == (length,) and not t.axes[0]]
    scanned = grower.some([one for one in scanned if grower.type(one).dtype == "f32"], 0, 1)
    slices = [like(type, sizes(type)[1:], type.axes[1:]) for type in map(grower.type, scanned)]
    inner = grower.inner()
    kept = [grower.type(one) for one in (*held, *carries)]
    inputs = _body(inner, [*kept, *slices])
    starts = inputs[len(held) : len(held) + len(carries)]
    ends = [_of_type(inner, grower.type(one), start) for one, start in zip(carries, starts, strict=True)]
    ys = inner.ends()[:1] if grower.random.random() < 0.7 else ()
    program = _closed(inner, inputs, (*ends, *ys))

    def leaves(number: int) -> tuple[None, ...]:
        return (None,) * number

    rows: dict[str, Value] = {
        "ft_in": (leaves(len(held)), leaves(len(carries)), leaves(len(scanned))),
        "ft_out": (leaves(len(carries)), leaves(len(ys))),
        "jaxpr": program,
        "length": length,
        "reverse": grower.random.random() < 0.3,
        "unroll": 1,
    }
    stacks = [like(type, (length, *sizes(type)), ((), *type.axes)) for type in map(inner.type, ys)]
    grower.propose("scan", (*held, *carries, *scanned), rows, [*map(grower.type, carries), *stacks])


def _repeated(grower: Grower) -> None:
    """A while that counts: it has no reverse derivative."""
    held, carries = _operands(grower, 2), _operands(grower, 2)
    inner = grower.inner()
    whole = array_type("i32")
    inputs = _body(inner, [*map(grower.type, held), whole, *map(grower.type, carries)])
    counter, starts = inputs[len(held)], inputs[len(held) + 1 :]
    ends = [_of_type(inner, grower.type(one), start) for one, start in zip(carries, starts, strict=True)]
    next_one = inner.builder.one("add", (counter, inner.builder.literal(1, "i32")))
    each = _closed(inner, inputs, (next_one, *ends))
    until = grower.inner()
    seen = [until.builder.input(type) for type in (whole, *map(grower.type, carries))]
    limit = until.builder.literal(grower.random.randint(0, 3), "i32")
    rows: dict[str, Value] = {
        "body_jaxpr": each,
        "body_nconsts": len(held),
        "cond_jaxpr": _closed(until, seen, (until.builder.one("lt", (seen[0], limit)),)),
        "cond_nconsts": 0,
    }
    zero = grower.builder.literal(0, "i32")
    grower.propose("while", (*held, zero, *carries), rows, [whole, *map(grower.type, carries)])


def _branched(grower: Grower) -> None:
    which = grower.pick(lambda type: not type.shape and type.plain, "i32")
    index: Atom = which or grower.builder.literal(grower.random.randint(0, 1), "i32")
    operands = _operands(grower)
    types = [grower.type(one) for one in operands]
    first, second = grower.inner(), grower.inner()
    inputs = _body(first, types)
    outputs = first.ends()
    wanted = [first.type(one) for one in outputs]
    others = _body(second, types)
    programs = (
        _closed(first, inputs, outputs),
        _closed(second, others, [_of_type(second, type) for type in wanted]),
    )
    grower.propose("cond", (index, *operands), {"branches": Programs(programs)}, wanted)


def _mapped(grower: Grower) -> None:
    """A shard_map over one of the explicit axes, or all."""
    if not grower.explicit:
        return
    chosen = grower.mesh.in_order(grower.some(grower.explicit, 1, 2))
    mesh = grower.mesh.with_modes(dict.fromkeys(chosen, AxisMode.MANUAL), True)
    inner = grower.inner(grower.bench.checker.scope_on(mesh, grower.scope))
    operands = _operands(grower)
    types = [grower.type(one) for one in operands]
    inputs = _body(inner, [inside(type, chosen, grower.mesh) for type in types])
    outs: list[tuple[Variable, Value, ArrayType]] = []
    for one in inner.ends():
        found = _outside(inner.type(one), chosen, grower)
        if found is not None:
            outs.append((one, *found))
    if not outs:
        return
    pairs = tuple(Pair(axis.name, axis.size) for axis in grower.mesh.axes)
    modes = tuple(Word(axis.mode.value.capitalize()) for axis in grower.mesh.axes)
    rows: dict[str, Value] = {
        "check_vma": True,
        "in_specs": tuple(specified(type, chosen) for type in types),
        "jaxpr": _closed(inner, inputs, [one for one, _, _ in outs]),
        "mesh": Call("AbstractMesh", pairs, (("axis_types", modes),)),
        "newly_manual_axes": Call("frozenset", (Braces(chosen),), ()),
        "out_specs": tuple(spec for _, spec, _ in outs),
    }
    grower.propose("shard_map", operands, rows, [type for _, _, type in outs])


def _of(axes: Axes, chosen: Axes, inside: bool = True) -> Axes:
    return tuple(axis for axis in axes if (axis in chosen) is inside)


def specified(type: ArrayType, chosen: Axes) -> Value:
    """The spec by which a value of this type enters or leaves."""
    lists = [_of(axes, chosen) for axes in type.axes]
    return partition_spec(lists, _of(type.unreduced, chosen), _of(type.reduced, chosen))


def inside(type: ArrayType, chosen: Axes, mesh: Mesh) -> ArrayType:
    """The type of a value within: cut dims are smaller, and vary."""
    shape = [size // (mesh.size(_of(axes, chosen)) or 1) for size, axes in zip(sizes(type), type.axes, strict=True)]
    varying = {axis for axes in type.axes for axis in _of(axes, chosen)}
    axes = tuple(_of(one, chosen, inside=False) for one in type.axes)
    along = tuple(axis for axis in chosen if axis in varying)
    return array_type(type.dtype, tuple(shape), axes, (*type.varying, *along), type.unreduced, type.reduced)


def _outside(type: ArrayType, chosen: Axes, grower: Grower) -> tuple[Value, ArrayType] | None:
    """The spec by which a value leaves, and its type outside: what varies is put together on a dim."""
    lists: list[Axes] = [() for _ in type.shape]
    shape = list(sizes(type))
    varying = _of(type.varying, chosen)
    if varying:
        whole = [dim for dim, axes in enumerate(type.axes) if not axes]
        if not whole:
            return None
        at = grower.random.choice(whole)
        lists[at] = varying
        shape[at] *= grower.mesh.size(varying) or 1
    spec = partition_spec(lists, _of(type.unreduced, chosen), _of(type.reduced, chosen))
    axes = tuple((*new, *old) for new, old in zip(lists, type.axes, strict=True))
    rest = _of(type.varying, chosen, inside=False)
    return spec, array_type(type.dtype, tuple(shape), axes, rest, type.unreduced, type.reduced)


NESTING: Final[tuple[Callable[[Grower], None], ...]] = (_called, _looped, _looped, _branched, _mapped, _mapped)
ENDLESS: Final[tuple[Callable[[Grower], None], ...]] = (_repeated,)
"""What has no way back: for comparisons of programs, not of gradients."""
