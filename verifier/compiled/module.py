"""The text of a module of XLA's: its computations, their instructions, and where in people's files those come from.

The text is what XLA dumps and what `compiled.as_text()` gives. Shapes are those of one device's block once a program
is partitioned.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

Frame: TypeAlias = "tuple[str, int]"
"""A file and a line of it, from 1."""

BITS: Final[Mapping[str, int]] = {
    "pred": 8, "s2": 2, "s4": 4, "s8": 8, "s16": 16, "s32": 32, "s64": 64, "u2": 2, "u4": 4, "u8": 8, "u16": 16,
    "u32": 32, "u64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128, "f4e2m1fn": 4,
    "f8e3m4": 8, "f8e4m3": 8, "f8e4m3b11fnuz": 8, "f8e4m3fn": 8, "f8e4m3fnuz": 8, "f8e5m2": 8, "f8e5m2fnuz": 8,
    "f8e8m0fnu": 8, "token": 0,
}  # fmt: skip

_LINE: Final = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.+?) ([a-z][\w\-]*)\((.*)$")
_SHAPE: Final = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\]")
_EFFECTS: Final = frozenset({"custom-call", "infeed", "outfeed", "send", "send-done", "recv", "recv-done", "while"})
_ONE: Final = re.compile(r"(?:condition|body|to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES: Final = re.compile(r"(?:branch_computations|called_computations)=\{([^}]*)\}")
_OPERAND: Final = re.compile(r"%([\w.\-]+)(#\d+)?")
_BARE: Final = re.compile(r"(?:^|[,\s])([A-Za-z_][\w.\-]*)(?=,|$)")
_TABLE: Final = re.compile(r"^(\d+) (?:\"(.*)\"|\{(.*)\})$")
_FIELD: Final = re.compile(r"(\w+)=(\d+)")


class BadModule(ValueError):
    """A text that is no module of XLA's, or says something that this reader does not know. The message says what."""


class Shape(NamedTuple):
    """One array of a value."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Of one device's block."""
        if self.dtype not in BITS:
            raise BadModule(f"there is no size of an element of {self.dtype}")
        return (math.prod(self.dims) * BITS[self.dtype] + 7) // 8


@dataclass(eq=False)
class Instruction:
    """One instruction. text: what stands behind the operands."""

    name: str
    operation: str
    shape: str
    operands: tuple[str, ...]
    text: str
    root: bool

    @functools.cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The arrays of its result, in order; of a tuple, of all its parts."""
        return tuple(
            Shape(dtype, tuple(int(one.lstrip("<=")) for one in dims.split(",") if one))
            for dtype, dims in _SHAPE.findall(self.shape)
        )

    @functools.cached_property
    def called(self) -> tuple[str, ...]:
        """The computations that it calls, the condition of a loop among them."""
        if self.operation in ("while", "conditional", "call", "fusion", "async-start", "map", "custom-call"):
            found = _ONE.findall(self.text)
            for names in _BRANCHES.findall(self.text):
                found += [name.strip().lstrip("%") for name in names.split(",")]
            return tuple(dict.fromkeys(found))
        return ()

    def said(self, key: str) -> str:
        """The name behind `key=`; empty where there is none."""
        found = re.search(rf"\b{key}=%?([\w.\-]+)", self.text)
        return "" if found is None else found[1]

    @property
    def place(self) -> str:
        """The path of calls and loops in which JAX made it (`jit(step)/while/body/reshard`); empty where unknown."""
        found = re.search(r'op_name="([^"]*)"', self.text)
        return "" if found is None else found[1]


@dataclass(eq=False)
class Computation:
    """A list of instructions in order, the root among them."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)

    @functools.cached_property
    def by_name(self) -> Mapping[str, Instruction]:
        """Every instruction, by its name."""
        return {one.name: one for one in self.instructions}

    @functools.cached_property
    def kept(self) -> frozenset[str]:
        """The names of the instructions that are there for what they do."""
        return frozenset(
            one.name for one in self.instructions if one.operation in _EFFECTS or (one.shape == "()" and one.called)
        )

    @functools.cached_property
    def alive(self) -> frozenset[str]:
        """The names of the instructions that the result needs, or that are there for what they do."""
        waiting = [one for one in self.instructions if one.root or one.name in self.kept]
        found = {one.name for one in waiting}
        for one in waiting:  # grows while it is read
            for operand in one.operands:
                name = operand.partition("#")[0]
                if name not in found and name in self.by_name:
                    found.add(name)
                    waiting.append(self.by_name[name])
        return frozenset(found)

    @functools.cached_property
    def users(self) -> Mapping[str, list[Instruction]]:
        """The instructions that read each."""
        found: dict[str, list[Instruction]] = {}
        for one in self.instructions:
            for operand in dict.fromkeys(name.partition("#")[0] for name in one.operands):
                found.setdefault(operand, []).append(one)
        return found


class Module:
    """A module. Raises `BadModule` for a text that is none."""

    def __init__(self, text: str) -> None:
        self.computations: dict[str, Computation] = {}
        self._tables: dict[str, dict[int, str]] = {}
        self.entry = ""
        self._read(text)
        if not self.entry:
            raise BadModule("the text has no ENTRY computation: it is no module of XLA's")

    def _read(self, text: str) -> None:
        current: Computation | None = None
        table: dict[int, str] | None = None
        for line in text.splitlines():
            if current is not None:
                if line.startswith("}"):
                    current = None
                elif (found := instruction(line)) is not None:
                    current.instructions.append(found)
            elif line.endswith("{") and not line.startswith((" ", "HloModule")):
                name = line.removeprefix("ENTRY ").split()[0].lstrip("%")
                current = self.computations[name] = Computation(name)
                self.entry = name if line.startswith("ENTRY ") else self.entry
            elif line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
                table = self._tables[line] = {}
            elif table is not None and (row := _TABLE.match(line)) is not None:
                table[int(row[1])] = row[2] if row[2] is not None else row[3]
            elif not line:
                table = None

    def frames(self, one: Instruction) -> tuple[Frame, ...]:
        """The lines that an instruction comes from, the innermost first; none where the text does not say."""
        written = re.search(r'source_file="([^"]*)"(?: source_line=(\d+))?', one.text)
        if written is not None and written[2]:
            return ((written[1], int(written[2])),)
        numbered = re.search(r"stack_frame_id=(\d+)", one.text)
        return () if numbered is None else self._stack(int(numbered[1]))

    @functools.lru_cache(maxsize=4096)  # noqa: B019  # a module is read once and dropped
    def _stack(self, number: int) -> tuple[Frame, ...]:
        frames, places = self._tables.get("StackFrames", {}), self._tables.get("FileLocations", {})
        files = self._tables.get("FileNames", {})
        found: list[Frame] = []
        while number in frames:
            frame = dict(_FIELD.findall(frames[number]))
            place = dict(_FIELD.findall(places.get(int(frame["file_location_id"]), "")))
            if place:
                found.append((files.get(int(place["file_name_id"]), ""), int(place["line"])))
            number = min(int(frame.get("parent_frame_id", 0)) - 1, number - 1)  # 1 is written for a frame without one
        return tuple(found)

    def walk(self) -> Iterator[Instruction]:
        """Every instruction."""
        for computation in self.computations.values():
            yield from computation.instructions


def instruction(line: str) -> Instruction | None:
    """One line of a computation; `None` for what is none."""
    matched = _LINE.match(line)
    if matched is None:
        return None
    root, name, shape, operation, rest = matched.groups()
    inside, text = _bracketed(rest)
    if operation in ("constant", "parameter"):
        return Instruction(name, operation, shape, (), rest, bool(root))
    named = _OPERAND.findall(inside)
    operands = tuple("".join(one) for one in named) if named else tuple(_BARE.findall(inside))
    return Instruction(name, operation, shape, operands, text, bool(root))


def _bracketed(text: str) -> tuple[str, str]:
    """What stands before the parenthesis that closes the operands, and behind it."""
    depth = 1
    for found in re.finditer(r"[()]", text):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return text[: found.start()], text[found.end() :]
    return text, ""
