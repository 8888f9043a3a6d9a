"""The collectives of a module: kind, mesh axes, payload, how often, in which loops, from which lines.

What XLA writes in several ways is read as one: a collective of several values is one for each of them (`combined`), one
that is started and awaited, or goes on inside several fusions, stands once (`asynchronous`), and an all-reduce of which
a fusion keeps a block (`all-reduce-scatter`, TPU) is a reduce-scatter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from verifier.compiled.counting import Around, trips
from verifier.compiled.groups import group
from verifier.compiled.liveness import ALL, Liveness
from verifier.compiled.module import BadModule, Computation, Frame, Instruction, Module, Shape

KINDS: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
                "collective-broadcast")  # fmt: skip

COMBINED: Final = "combined"
ASYNCHRONOUS: Final = "asynchronous"
FUSED: Final = "fused"

_SAME: Final = frozenset({
    "copy", "reshape", "transpose", "bitcast", "convert", "get-tuple-element", "tuple", "opt-barrier", "copy-start",
    "copy-done",
})  # fmt: skip
"""What hands all of a value on."""

_FAR: Final = 256
"""How many instructions are followed on from one collective."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One collective of a compiled program.

    payload: bytes per device, of the result for an all-gather, else of the operands. group: how many devices take part
    in one instance. loops: how often each loop around it runs, outermost first, `None` where the data decide. forms:
    how XLA writes it, where in a particular way. frames: the lines it comes from, innermost first. place: the path of
    JAX's in which it was made. sliced: whether a block is cut out of what it gives. padded: whether its operand is a
    block among other values. uncut: whether what is gathered goes only into operations that XLA does not cut, which
    work along other dims. source: the computation and instruction that made what it moves. maybe: whether it stands
    in a branch. constant: whether no input of the program has a part in what it moves.
    """

    kind: str
    axes: tuple[str, ...]
    payload: int
    group: int
    dtype: str
    loops: tuple[int | None, ...] = ()
    forms: frozenset[str] = frozenset()
    frames: tuple[Frame, ...] = ()
    place: str = ""
    sliced: bool = False
    padded: bool = False
    source: tuple[str, str] = ("", "")
    maybe: bool = False
    uncut: bool = False
    constant: bool = False

    @property
    def times(self) -> int | None:
        """How often it runs; `None` where the data decide."""
        return product(self.loops)


def product(loops: tuple[int | None, ...]) -> int | None:
    """How often the inside of these loops runs."""
    count = 1
    for one in loops:
        if one is None:
            return None
        count *= one
    return count


def read(text: str, mesh: Mapping[str, int], early: bool = False) -> list[Moved]:
    """The collectives of a module's text, in its order, those aside whose results nothing uses. mesh: the axes of the
    devices with their sizes, major first. early: it is not compiled to its end; what a loop carries for itself alone is
    removed later, and left aside too.

    Raises `BadModule`.
    """
    module = Module(text)
    found: list[Moved] = []
    channels: set[str] = set()
    liveness = Liveness(module) if early else None
    for one, channel in _walk(module, module.computations[module.entry], mesh, (), None, False, liveness):
        if channel not in channels:
            found.append(one)
        channels |= {channel} if channel else set()
    return found


def _walk(
    module: Module, computation: Computation, mesh: Mapping[str, int], loops: tuple[int | None, ...],
    around: Around | None, maybe: bool, liveness: Liveness | None, wanted: AbstractSet[int] = ALL,
) -> Iterator[tuple[Moved, str]]:  # fmt: skip
    """The collectives of a computation; with the channel of one that goes on inside several fusions, each part of it
    with its own, which are one collective."""
    needed = None if liveness is None else liveness.of(computation, wanted)
    alive = computation.alive if needed is None else needed.names
    for one in computation.instructions:
        if one.name not in alive:
            continue
        kind, started = _kind(one.operation)
        if kind:
            channel = re.search(r"\bchannel_id=(\d+)", one.text)
            fused = channel is not None and around is not None and around.caller.operation == "fusion"
            parts = _moved(module, computation, one, kind, started, mesh, loops, around, maybe)
            for index, part in enumerate(parts):
                yield part, f"{channel[1]} {index}" if fused and channel is not None else ""
            continue
        rounds = trips(module, one, computation, around) if one.operation == "while" else 1
        condition = one.said("condition")
        for name in one.called:
            times = (
                rounds + 1 if name == condition and rounds is not None else rounds
            )  # it says in the end that it ends
            inner = loops if times == 1 else (*loops, times)
            called = module.computations.get(name)
            if called is None:
                raise BadModule(f"{one.name} calls {name}, which is not there")
            within = Around(one, computation, around)
            carried = ALL if needed is None or name == condition else needed.parts.get(one.name, ALL)
            perhaps = maybe or one.operation == "conditional"
            yield from _walk(module, called, mesh, inner, within, perhaps, liveness, carried)


def _kind(operation: str) -> tuple[str, bool]:
    """Which collective an operation is, and whether it only starts it; empty where it is none, or awaits one."""
    if operation.endswith("-start") and operation.removesuffix("-start") in KINDS:
        return operation.removesuffix("-start"), True
    return (operation, False) if operation in KINDS else ("", False)


def _moved(
    module: Module, computation: Computation, one: Instruction, kind: str, started: bool, mesh: Mapping[str, int],
    loops: tuple[int | None, ...], around: Around | None, maybe: bool,
) -> Iterator[Moved]:  # fmt: skip
    axes, size = group(one, mesh)
    if size == 1 or not axes:
        return  # nobody sends anything
    forms = set()
    if started or (around is not None and around.caller.operation == "async-start"):
        forms.add(ASYNCHRONOUS)
    shapes = _payload(one, kind, started, size)
    if kind == "all-to-all" and len(shapes) > 1 and len(set(shapes)) == 1 and len(shapes) == size:
        shapes = (Shape(shapes[0].dtype, (size, *shapes[0].dims)),)  # written as a tuple of what goes to each device
    if len(shapes) > 1:
        forms.add(COMBINED)
    source = one
    if around is not None and around.caller.operation == "fusion":
        if kind == "all-reduce" and computation.name.startswith("all-reduce-scatter"):
            kind = "reduce-scatter"
            forms.add(FUSED)
        else:
            forms.add(ASYNCHRONOUS)
        if not one.place:
            source = around.caller
    frames = module.frames(source)
    for index, shape in enumerate(shapes):
        part = index if len(shapes) > 1 else None
        sliced = kind == "all-reduce" and _cut(module, computation, one, around, part)
        operand = _origin(computation, one.operands[index] if index < len(one.operands) else "")
        made = computation.by_name.get(operand.partition("#")[0])
        if len(shapes) > 1:  # what is combined says the line of one of its parts
            frames = () if made is None else module.frames(made)
        padded = _padded(module, computation.by_name.get(operand))
        yield Moved(
            kind, axes, shape.bytes, size, shape.dtype, loops, frozenset(forms), frames, source.place, sliced, padded,
            (computation.name, operand), maybe, kind == "all-gather" and _is_uncut(computation, one),
            _is_constant(computation, (operand,), around),
        )  # fmt: skip


_OUTSIDE: Final = frozenset({"custom-call", "infeed", "recv", "rng", "while", "conditional"})
"""What may bring in something else than its operands, or bring it in another time."""


def _is_constant(computation: Computation, names: tuple[str, ...], around: Around | None) -> bool:
    """Whether these values of a computation depend on nothing that goes into the program."""
    waiting, seen = [name.partition("#")[0] for name in names], set[str]()
    outside: list[str] = []
    for name in waiting:  # grows while it is read
        one = computation.by_name.get(name)
        if name in seen:
            continue
        seen.add(name)
        if one is None or one.operation in _OUTSIDE or len(seen) > _FAR:
            return False
        if one.operation == "parameter":
            if around is None or around.caller.operation not in ("call", "fusion"):
                return False
            outside.append(around.caller.operands[int(one.text.partition(")")[0])])
        else:
            waiting += [operand.partition("#")[0] for operand in one.operands]
    return not outside or (
        around is not None and _is_constant(around.computation, tuple(outside), around.outer)
    )  # fmt: skip


_ALONG_THE_LAST: Final = frozenset({"topk"})
"""Operations along the last dim, which XLA's partitioner knows no way to cut along others."""


def _is_uncut(computation: Computation, gather: Instruction) -> bool:
    """Whether only such operations use a gather's result, and it is not along their dim."""
    users = computation.users.get(gather.name, ())
    dim = re.search(r"\bdimensions=\{(\d+)\}", gather.text)
    if not users or dim is None or any(user.operation not in _ALONG_THE_LAST for user in users):
        return False
    return int(dim[1]) != len(gather.shapes[0].dims) - 1


def _origin(computation: Computation, operand: str) -> str:
    """The name of what made a value that has only been handed on since; `name#1` for a part of a tuple."""
    while True:
        found = computation.by_name.get(operand)
        if found is None or found.operation not in _SAME or len(found.operands) != 1:
            return operand
        if found.operation == "get-tuple-element":
            index = re.search(r"\bindex=(\d+)", found.text)
            return f"{found.operands[0]}#{index[1]}" if index is not None else operand
        operand = found.operands[0]


def _padded(module: Module, made: Instruction | None) -> bool:
    """Whether a value is a block that was put among others."""
    if made is None:
        return False
    if made.operation == "fusion":
        inside = module.computations.get(made.said("calls"))
        root = next((one for one in inside.instructions if one.root), None) if inside is not None else None
        if root is None or inside is None:
            return False
        return _padded(module, inside.by_name.get(_origin(inside, root.name)))
    return made.operation in ("dynamic-update-slice", "pad")


def _payload(one: Instruction, kind: str, started: bool, size: int) -> tuple[Shape, ...]:
    """The arrays whose bytes are the payload: results, which for all kinds but a reduce-scatter are as large as the
    operands, or are what is counted."""
    shapes = tuple(shape for shape in one.shapes if shape.dtype != "token")
    if started and kind in ("all-gather", "collective-permute", "collective-broadcast", "all-to-all", "reduce-scatter"):
        arrays = [shape for shape in shapes if not (shape.dtype in ("u32", "s32") and not shape.dims)]
        shapes = tuple(arrays[len(arrays) // 2 :])
    if kind == "reduce-scatter":
        return tuple(Shape(shape.dtype, (size, *shape.dims)) for shape in shapes)
    return shapes


def _cut(module: Module, computation: Computation, one: Instruction, around: Around | None, part: int | None) -> bool:
    """Whether a block is cut out of a value, or of one part of it, that is only handed on before."""
    waiting: list[tuple[Computation, Instruction, Around | None]] = [(computation, one, around)]
    seen = {id(one)}
    for inside, value, outside in waiting:  # grows while it is read
        if len(waiting) > _FAR:
            return False
        users = [(inside, user, outside) for user in inside.users.get(value.name, ())]
        if value is one and part is not None:
            users = [user for user in users if _reads(user[1], one.name, part)]
        if value.root and outside is not None and outside.caller.operation == "call":
            users += [(outside.computation, outside.caller, outside.outer)]
        for place, user, beyond in users:
            if user.operation == "dynamic-slice" or (user.operation == "fusion" and _slices(module, user, value.name)):
                return True
            handed = user.operation in _SAME or (
                user.operation == "call" and user.name != value.name and place is not inside
            )
            if handed and id(user) not in seen:
                seen.add(id(user))
                waiting.append((place, user, beyond))
    return False


def _reads(user: Instruction, name: str, part: int) -> bool:
    """Whether an instruction reads this part of a tuple."""
    if f"{name}#{part}" in user.operands:
        return True
    return user.operation == "get-tuple-element" and re.search(rf"\bindex={part}\b", user.text) is not None


def _slices(module: Module, fusion: Instruction, name: str) -> bool:
    """Whether a fusion cuts a block out of an operand, which it only hands on before."""
    inside = module.computations.get(fusion.said("calls"))
    if inside is None:
        return False
    places = {str(index) for index, one in enumerate(fusion.operands) if one.partition("#")[0] == name}
    waiting = [
        one for one in inside.instructions if one.operation == "parameter" and one.text.partition(")")[0] in places
    ]
    for one in waiting:  # grows while it is read
        for user in inside.users.get(one.name, ()):
            if user.operation == "dynamic-slice" and user.operands[0].partition("#")[0] == one.name:
                return True
            if user.operation in _SAME and user not in waiting:
                waiting.append(user)
    return False
