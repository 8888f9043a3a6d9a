"""What of a module's text some result needs, through its loops: a loop's carry is needed where its result is, where
the condition reads it, or where the next value of one that is needed does. XLA removes all else after it has
partitioned."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeAlias

from verifier.compiled.module import Computation, Instruction, Module

#: all of a result
ALL: Final = frozenset({-1})

#: an instruction by its name, with the part of its tuple; -1 for all of it
_Wanted: TypeAlias = "tuple[str, int]"


class Needed(NamedTuple):
    """names: the instructions. parts: of each loop among them, the parts that are; -1 among them for all.
    reads: the parts of its first parameter that are read; -1 among them for all."""

    names: AbstractSet[str]
    parts: dict[str, AbstractSet[int]]
    reads: AbstractSet[int]


class Liveness:
    """What is needed in the computations of one module, each found once for what is wanted of it."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._found: dict[tuple[str, frozenset[int]], Needed] = {}

    def of(self, computation: Computation, wanted: AbstractSet[int] = ALL) -> Needed:
        """What these parts of a computation's result need, and what is there for what it does."""
        key = (computation.name, frozenset(wanted))
        if key not in self._found:
            self._found[key] = self._needed(computation, wanted)
        return self._found[key]

    def _needed(self, computation: Computation, wanted: AbstractSet[int]) -> Needed:
        names, parts, reads = set[str](), dict[str, AbstractSet[int]](), set[int]()
        waiting: list[_Wanted] = []
        for one in computation.instructions:
            if one.root:
                names.add(one.name)
                waiting += [(one.name, part) for part in wanted]
            elif one.name in computation.kept:
                waiting.append((one.name, -1 if one.operation != "while" else -2))  # it runs, whatever is read of it
        seen: set[_Wanted] = set()
        for want in waiting:  # grows while it is read
            made = computation.by_name.get(want[0])
            if made is None or want in seen:
                continue
            seen.add(want)
            names.add(made.name)
            if made.operation == "parameter":
                reads.add(want[1])
            elif made.operation == "while":
                before = parts.get(made.name, frozenset())
                parts[made.name] = self.carried(made, {*before, want[1]} - {-2})
                waiting += [(made.operands[0], part) for part in parts[made.name]]
            elif made.operation == "tuple" and 0 <= want[1] < len(made.operands):
                waiting.append(_operand(made.operands[want[1]]))
            elif made.operation == "get-tuple-element":
                waiting.append((_operand(made.operands[0])[0], _index(made)))
            else:
                waiting += map(_operand, made.operands)
        return Needed(names, parts, reads)

    def carried(self, loop: Instruction, wanted: AbstractSet[int]) -> AbstractSet[int]:
        """The parts of what a loop carries that are needed where these are wanted of its result."""
        computations = self._module.computations
        condition, body = (computations.get(loop.said(key)) for key in ("condition", "body"))
        if condition is None or body is None:
            return ALL
        grown = {*wanted, *self.of(condition).reads}
        found: set[int] = set()
        while found != grown and -1 not in grown:
            found = grown
            grown = {*found, *self.of(body, found).reads}
        return ALL if -1 in grown else grown


def _operand(written: str) -> _Wanted:
    name, _, part = written.partition("#")
    return name, int(part) if part else -1


def _index(made: Instruction) -> int:
    """Which part it takes."""
    written = _operand(made.operands[0])[1]
    said = made.said("index")
    return int(said) if said else written
