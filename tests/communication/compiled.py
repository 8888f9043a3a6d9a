"""The collectives of a compiled program: what XLA's partitioner makes of it for CPU devices, before anything is
combined, hoisted or folded."""

from __future__ import annotations

import itertools
import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

Moved: TypeAlias = tuple[str, tuple[str, ...], int]
"""Kind, mesh axes (`("?",)` for groups that are none), payload bytes per device: of the result for an all-gather, else
of the operands."""

_KINDS: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_BYTES: Final = {"f64": 8, "s64": 8, "u64": 8, "c64": 8, "c128": 16, "f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2,
                 "s16": 2, "u16": 2, "s8": 1, "u8": 1, "pred": 1}  # fmt: skip
_RAW: Final = "*.spmd-cleanup.after_pipeline-start.before_*.txt"
_DUMP: Final = {"xla_dump_hlo_pass_re": ".*spmd.*|pipeline-start", "xla_dump_hlo_as_text": True,
                "xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # fmt: skip

_LINE: Final = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.+?) ([a-z][\w\-]*)\((.*)$")
_SHAPE: Final = re.compile(r"(\w+)\[([\d,]*)\]")
_CALLED: Final = re.compile(r"(?:to_apply|calls|body|condition|true_computation|false_computation)=%?([\w.\-]+)")


def collectives(lowered: Any, mesh: Mapping[str, int]) -> Counter[Moved]:
    """How often each collective runs, loops counted. mesh: the axes of the devices, major first."""
    with tempfile.TemporaryDirectory() as folder:
        lowered.compile(compiler_options={"xla_dump_to": folder, **_DUMP})
        files = sorted(Path(folder).glob(_RAW))
        if math.prod(mesh.values()) == 1:
            return Counter()  # there is nothing to partition
        assert len(files) == 1, [path.name for path in Path(folder).iterdir()]
        return read(files[0].read_text(encoding="utf-8"), mesh)


def read(text: str, mesh: Mapping[str, int]) -> Counter[Moved]:
    """The collectives of a module's text."""
    bodies, entry = _bodies(text)
    found: Counter[Moved] = Counter()
    _walk(bodies, entry, 1, mesh, found)
    return found


def _bodies(text: str) -> tuple[dict[str, list[str]], str]:
    bodies: dict[str, list[str]] = {}
    entry = name = ""
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith((" ", "HloModule")):
            name = line.removeprefix("ENTRY ").split()[0].lstrip("%")
            bodies[name] = []
            entry = name if line.startswith("ENTRY ") else entry
        elif line.startswith("}"):
            name = ""
        elif name:
            bodies[name].append(line)
    assert entry
    return bodies, entry


def _walk(
    bodies: Mapping[str, list[str]], name: str, times: int, mesh: Mapping[str, int], found: Counter[Moved]
) -> None:
    shapes: dict[str, str] = {}
    for line in bodies[name]:
        matched = _LINE.match(line)
        if matched is None:
            continue
        value, shape, operation, rest = matched.groups()
        shapes[value] = shape
        if operation in _KINDS:
            operands = re.findall(r"%?([\w.\-#]+)", rest.split(")")[0])
            size = _size(shape) if operation == "all-gather" else sum(_size(_shape(one, shapes)) for one in operands)
            found[operation, _axes(operation, line, mesh), size] += times
        elif operation == "while":
            loops = re.search(r"condition=%?([\w.\-]+)", line), re.search(r"body=%?([\w.\-]+)", line)
            assert loops[0] is not None
            assert loops[1] is not None
            _walk(bodies, loops[1][1], times * _count(bodies[loops[0][1]]), mesh, found)
        elif operation == "conditional":
            branches = re.search(r"branch_computations=\{([^}]*)\}", line)
            names = branches[1].split(",") if branches else _CALLED.findall(line)
            for branch in names:
                _walk(bodies, branch.strip().lstrip("%"), times, mesh, found)
        elif operation == "call":
            for called in _CALLED.findall(line):
                _walk(bodies, called, times, mesh, found)


def _shape(name: str, shapes: Mapping[str, str]) -> str:
    """Of an operand; `param#1` is a part of a tuple."""
    whole, _, part = name.partition("#")
    return re.findall(r"\w+\[[\d,]*\]", shapes[whole])[int(part)] if part else shapes[whole]


def _size(shape: str) -> int:
    return sum(
        _BYTES[dtype] * math.prod(int(one) for one in dims.split(",") if one) for dtype, dims in _SHAPE.findall(shape)
    )


def _count(condition: Sequence[str]) -> int:
    """How often a loop that counts from 0 runs."""
    found = [int(one) for line in condition for one in re.findall(r"= s32\[\] constant\((\d+)\)", line)]
    assert len(found) == 1, condition
    return found[0]


def _axes(operation: str, line: str, mesh: Mapping[str, int]) -> tuple[str, ...]:
    places = np.arange(math.prod(mesh.values())).reshape(tuple(mesh.values()))
    if operation == "collective-permute":
        text = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
        assert text is not None
        pairs = [tuple(map(int, pair.split(","))) for pair in re.findall(r"\{?(\d+,\d+)", text[1])]
        turned: set[str] = set()
        for one, other in pairs:
            here, there = (np.unravel_index(place, places.shape) for place in (one, other))
            turned.update(name for name, a, b in zip(mesh, here, there, strict=True) if a != b)
        return tuple(sorted(turned))
    groups = {frozenset(group) for group in _groups(line, mesh)}
    for count in range(1, len(mesh) + 1):
        for chosen in itertools.combinations(range(len(mesh)), count):
            rest = [dim for dim in range(len(mesh)) if dim not in chosen]
            rows = np.transpose(places, (*rest, *chosen)).reshape(-1, math.prod(places.shape[dim] for dim in chosen))
            if {frozenset(row) for row in rows.tolist()} == groups:
                return tuple(sorted(list(mesh)[dim] for dim in chosen))
    return ("?",)


def _groups(line: str, mesh: Mapping[str, int]) -> Iterator[list[int]]:
    listed = re.search(r"replica_groups=\{(\{[\d,{}]*\})\}", line)
    if listed is not None:
        yield from ([int(one) for one in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed[1]))
        return
    tiled = re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line)
    if tiled is not None:
        shape, before = ([int(one) for one in tiled[index].split(",")] for index in (1, 2))
        numbers = np.arange(math.prod(before)).reshape(before)
        if tiled[3]:
            numbers = np.transpose(numbers, [int(one) for one in tiled[3].split(",")])
        yield from numbers.reshape(shape).tolist()
        return
    named = re.search(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}", line)
    assert named is not None, line
    sizes = {name: int(size) for name, size in re.findall(r"'([\w]+)'=(\d+)", named[1])}
    chosen = re.findall(r"'([\w]+)'(?!:)", named[2])
    if ":" in named[2]:
        yield [0]
        return
    numbers = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    dims = [list(sizes).index(name) for name in chosen]
    rest = [dim for dim in range(len(sizes)) if dim not in dims]
    yield from np.transpose(numbers, (*rest, *dims)).reshape(-1, math.prod(sizes[name] for name in chosen)).tolist()


SCATTERED: Final = "reduced, then sliced"
"""For CPU devices XLA makes no reduce-scatter of an explicit sharding: it reduces everything and keeps a block."""

ONCE: Final = "moved once for several uses"
"""XLA moves a value once, where several equations, or iterations that do not change it, move it to one place."""


def explained(typed: Counter[Moved], found: Counter[Moved]) -> tuple[set[str], Counter[Moved], Counter[Moved]]:
    """How what the types say differs from what is found: by which classes, and what is left that no class explains."""
    classes: set[str] = set()
    ours, theirs = typed - found, found - typed
    for kind, axes, size in list(ours):
        reduced = "all-reduce", axes, size
        count = min(ours[kind, axes, size], theirs[reduced]) if kind == "reduce-scatter" else 0
        if count:
            classes.add(SCATTERED)
            ours[kind, axes, size] -= count
            theirs[reduced] -= count
    for move in list(+ours):
        if found[move] or (move[0] == "reduce-scatter" and found["all-reduce", *move[1:]]):
            classes.add(ONCE)
            del ours[move]
    return classes, +ours, +theirs
