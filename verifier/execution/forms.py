"""Forms on the machine: calls, loops, branches, what passes a value on, and the way between placements. The boundary of
a shard_map is in `verifier.execution.boundaries`, cells in `verifier.execution.cells`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from calculus.collectives import COLLECTIVES
from calculus.communication import COMPILER, on_one_mesh
from calculus.effects import EFFECTFUL, Inner, wanted_of
from calculus.exchanges import AWAITED
from calculus.forms import FORMS, context
from calculus.forms import call as call_rule
from calculus.forms import identity as identity_rule
from calculus.loops import scan_parts
from calculus.parameters import dim, integer, names
from calculus.parameters import mesh as mesh_of
from calculus.programs import Call
from calculus.types import ArrayType
from calculus.uses import operand_type
from verifier.execution import boundaries, cells, manual
from verifier.execution.account import Place
from verifier.execution.arithmetic import CannotRun, dtype_of
from verifier.execution.grid import Blocks, local_shape
from verifier.execution.machine import ENDLESS, MOST_ITERATIONS, Cell, Frame, Handler, Machine, Step, Value
from verifier.execution.moves import lying, settled


def form(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    """What a form computes. Raises `CannotRun` where it cannot be run here."""
    name = step.equation.primitive
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(machine, step, operands, frame)
    if name in COLLECTIVES:
        given = [machine.blocks(value, step) for value in operands]
        return list(manual.carried_out(step.equation, given, frame.grid, step.typing.collectives, machine.account))
    if name in EFFECTFUL and not step.equation.binders:
        return []
    raise CannotRun(f"what {name} computes is not described here")


def inside(machine: Machine, step: Step, inner: Inner, frame: Frame) -> frozenset[int]:
    """The results of a body that are used."""
    return wanted_of(machine.pricing, inner, step.equation.inputs, step.equation.binders, frame.needed)


def given_to(inner: Inner, operands: Sequence[Value]) -> list[Value]:
    """The inputs of a body, constants first."""
    program = inner.body.program
    if len(operands) == len(program.constants) + len(program.inputs):
        return list(operands)
    raise CannotRun(f"{inner.label} carries constants along that the text does not show")


def _call(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    (inner,) = step.inner
    scope = machine.checker.scope_on(context(step.equation, frame.scope), frame.scope)
    for place, collective in machine.slots(step):  # what in_shardings ask for: estimates, where they differ from types
        machine.account.skipped(place, collective)
    found = machine.run(inner.body, scope, given_to(inner, operands), inside(machine, step, inner, frame))
    return _typed(step, inner, found, frame)


def _typed(step: Step, inner: Inner, found: list[Value], frame: Frame) -> list[Value]:
    return found


def _passed_on(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    return list(operands)


def _zeros(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    return [[np.zeros_like(block) for block in machine.blocks(value, step)] for value in operands]


def _one_of(index: int, machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    return [operands[index]]


def _nothing(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    return [None] * len(step.equation.binders)


def _size(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    type = operand_type(step.given[0])
    (result,) = step.typing.types
    assert isinstance(type, ArrayType)
    assert isinstance(result, ArrayType)
    size = type.shape[integer(step.equation.parameters["dimension"], "dimension")]
    return [[np.asarray(size).astype(dtype_of(result.dtype))] * frame.grid.count]


def _first_platform(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    return [[np.asarray(0, np.int32)] * frame.grid.count]


# --- loops and branches -----------------------------------------------------------------------------------------------


def _scan(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    equation, (inner,) = step.equation, step.inner
    length = dim(equation.parameters["length"], "length")
    if not isinstance(length, int):
        raise CannotRun(f"the length {length} of a scan is symbolic")
    constants, carries = scan_parts(equation.parameters, len(operands), len(equation.binders))
    held = constants + carries
    used = inside(machine, step, inner, frame)
    carry = list(operands[constants:held])
    order = range(length)[:: -1 if equation.parameters.get("reverse") is True else 1]
    kept: dict[int, list[Value]] = {}
    for index in order:
        slices = [
            None if value is None else [block[index] for block in machine.blocks(value, step)]
            for value in operands[held:]
        ]
        given = given_to(inner, [*operands[:constants], *carry, *slices])
        found = machine.run(inner.body, frame.scope, given, used)
        carry = [
            after if number in used else before
            for number, (before, after) in enumerate(zip(carry, found, strict=False))
        ]
        kept[index] = found[carries:]
    stacks: list[Value] = []
    for number, type in enumerate(step.typing.types[carries:]):
        if carries + number not in used or not isinstance(type, ArrayType):
            stacks.append(None)
            continue
        shown, grid = machine.seen(type, frame.scope.mesh), machine.grid_of(type, frame.scope)
        made = np.empty if length else np.zeros
        blocks: Blocks = [made(local_shape(shown, grid.mesh), dtype_of(type.dtype)) for _ in range(grid.count)]
        for index, each in kept.items():
            part = each[number]
            for block, own in zip(blocks, machine.blocks(part, step), strict=True):
                block[index] = own
        stacks.append(blocks)
    return [*carry, *stacks]


def _while(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    condition, body = step.inner
    counts = [integer(step.equation.parameters[name], name) for name in ("cond_nconsts", "body_nconsts")]
    first, second = operands[: counts[0]], operands[counts[0] : sum(counts)]
    carry = list(operands[sum(counts) :])
    used = inside(machine, step, body, frame)
    going = machine.partings.present(frame.grid.count)
    for iteration in range(MOST_ITERATIONS):
        given = given_to(condition, [*first, *carry])
        with machine.partings.entering(going, f"the condition before iteration {iteration} of the loop"):
            (again,) = machine.run(condition.body, frame.scope, given, frozenset((0,)))
        going = tuple(one and bool(block) for one, block in zip(going, machine.blocks(again, step), strict=True))
        if not any(going):
            return carry
        if len({*going}) > 1 and any(isinstance(value, Cell) for value in operands):
            raise CannotRun("devices that decide differently write cells")
        with machine.partings.entering(going, f"iteration {iteration} of the loop"):
            after = machine.run(body.body, frame.scope, given_to(body, [*second, *carry]), used)
        carry = [
            _chosen([old, new], [int(go) for go in going]) if number in used else old
            for number, (old, new) in enumerate(zip(carry, after, strict=True))
        ]
    raise CannotRun(f"{ENDLESS} after {MOST_ITERATIONS} iterations")


def _chosen(values: Sequence[Value], which: Sequence[int]) -> Value:
    """For each device, the block of the value that it chose."""
    if len({*which}) == 1:
        return values[which[0]]
    if any(not isinstance(values[one], list) for one in which):
        raise CannotRun("devices that decide differently choose between values that are no arrays")
    return [values[one][number] for number, one in enumerate(which)]  # type: ignore[index]


def _cond(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    most = len(step.inner) - 1
    which = [min(max(int(block), 0), most) for block in machine.blocks(operands[0], step)]
    here = machine.partings.present(len(which))
    if any(here):  # what the others would choose is of no matter
        which = [one if now else which[here.index(True)] for one, now in zip(which, here, strict=True)]
    if len({*which}) > 1 and any(isinstance(value, Cell) for value in operands):
        raise CannotRun("devices that decide differently write cells")
    found: dict[int, list[Value]] = {}
    for index in sorted({*which}):
        inner = step.inner[index]
        used = inside(machine, step, inner, frame)
        with machine.partings.entering([one == index for one in which], f"branch {index}"):
            found[index] = machine.run(inner.body, frame.scope, given_to(inner, operands[1:]), used)
    each = [found.get(index) for index in range(most + 1)]
    return [
        _chosen([None if one is None else one[number] for one in each], which)
        for number in range(len(step.equation.binders))
    ]


# --- between placements -----------------------------------------------------------------------------------------------


def _reshard(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    return [_put(machine, step, machine.blocks(operands[0], step), 0, frame)]


def _device_put(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    return [_put(machine, step, machine.blocks(value, step), index, frame) for index, value in enumerate(operands)]


def _put(machine: Machine, step: Step, blocks: Blocks, index: int, frame: Frame) -> Blocks:
    """An array where a type says, by the collectives that were derived."""
    target, source = step.typing.types[index], operand_type(step.given[index], step.typing.types[index])
    if machine.whole or not isinstance(source, ArrayType) or not isinstance(target, ArrayType):
        return blocks
    scope = frame.scope
    asked = _asked(step, index)
    meshes = scope.mesh_of(source), asked or scope.mesh_of(target)
    steps = [(place, one) for place, one in machine.slots(step) if one.subject == index]
    chosen = [one for _, one in steps if one.exactness == COMPILER]
    if chosen:
        axes = ", ".join(axis for one in chosen for axis in one.axes)
        raise CannotRun(f"beyond this reshard {axes} is automatic, and what moves along it is the compiler's choice")
    here, there = machine.grid(meshes[0]), machine.grid(meshes[1])
    found = on_one_mesh(source, target, *meshes) if not source.plain and not target.plain else None
    if found is not None:
        source, goal, mesh = found
        here = machine.grid(mesh)
    else:
        goal = source if source.plain or here is not there else target
    value = (
        machine.moved(step, index, lying(blocks, source, here), steps, frame, goal)
        if steps
        else lying(blocks, source, here)
    )
    end = settled(value, goal, here) if found is not None else settled(value, target, there)
    return end.blocks


def _asked(step: Step, index: int):  # type: ignore[no-untyped-def]
    devices = step.equation.parameters.get("devices")
    one = devices[index] if isinstance(devices, (tuple, list)) and index < len(devices) else None
    return mesh_of(one.keyword("mesh"), "devices") if isinstance(one, Call) else None


def _broadcast_from(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    axes = names(step.equation.parameters["axis_name"], "axis_name")
    blocks, sources = (machine.blocks(value, step) for value in operands)
    for slot, collective in enumerate(step.typing.collectives):
        machine.account.ran(Place(step.equation, slot), collective, blocks[0].nbytes)
    return [manual.broadcast_from(blocks, sources, frame.grid, axes)]


def _send(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    """The token is what is on its way."""
    blocks = machine.blocks(operands[0], step)
    for place, collective in machine.slots(step):
        machine.account.ran(place, collective, blocks[0].nbytes)
    return [manual.sent(step.equation.parameters, blocks, frame.grid)]


def _receive(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    for place, collective in machine.slots(step):
        machine.account.ran(place, collective, 0)
    return [machine.blocks(operands[0], step)]


def _ragged(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    axes = names(step.equation.parameters["axis_name"], "axis_name")
    found, size = manual.ragged([machine.blocks(value, step) for value in operands], frame.grid, axes)
    for place, collective in machine.slots(step):
        machine.account.ran(place, collective, size)
    return [found]


_HANDLERS: Final[dict[str, Handler]] = {
    **{name: _call for name, rule in FORMS.items() if rule is call_rule},
    **{name: _passed_on for name, rule in FORMS.items() if rule is identity_rule},
    "zeros_like": _zeros,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "shard_map": boundaries.shard_map,
    "reshard": _reshard,
    "device_put": _device_put,
    **dict.fromkeys(
        ("sharding_constraint", "with_memory_space_constraint", "layout_constraint", "relayout"), _passed_on
    ),
    **dict.fromkeys(("pin", "unpin"), _passed_on),
    **dict.fromkeys(AWAITED, _passed_on),
    "tie": partial(_one_of, 1),
    "add_dependency": partial(_one_of, 0),
    **dict.fromkeys(("check", "shape_assertion", "inspect_sharding", "dce_sink"), _nothing),
    **dict.fromkeys(("create_token", "after_all"), _nothing),
    "dimension_size": _size,
    "platform_index": _first_platform,
    "pbroadcast_dynamic": _broadcast_from,
    "psend": _send,
    "precv": _receive,
    "ragged_all_to_all": _ragged,
    **cells.HANDLERS,
}
