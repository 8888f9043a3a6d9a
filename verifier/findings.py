"""What a comparison of one program with JAX finds, as data that goes from one process to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from calculus.meshes import AxisMode, Mesh
from calculus.programs import Program, Programs, body
from calculus.types import ArrayType, Type
from verifier.patterns import Difference

VERDICT: Final = "verdict"
"""An equation is accepted by one side alone, or has another type."""
EXECUTOR: Final = "execution"
"""Our runs, whole and per device, disagree; or moved what was not derived."""
GRADIENT: Final = "gradient"
"""One side alone has a gradient, or it has another type."""
FAILS: Final = "failure"
"""JAX types the program, and does not lower, compile or run it."""
VALUES: Final = "values"
"""A device of JAX's holds something else than ours."""
DIES: Final = "death"
"""JAX's process ends."""
BREAKS: Final = "error"
"""The comparison itself ends in an error of ours, or nobody hears of it any more. No entry covers that."""


@dataclass
class Finding:
    """Something on which the two sides differ. shows: what kind of thing it is. message: what each says. program: that
    shows it. difference: of a verdict, the cell. entry: the number of the entry of the ledger that covers it, 0 where
    none does. seed: of the inputs."""

    shows: str
    message: str
    program: Program
    mesh: Mesh
    difference: Difference | None = None
    entry: int = 0
    seed: int = 0

    @property
    def primitives(self) -> frozenset[str]:
        """What the program uses, in bodies too."""
        return frozenset(uses(self.program))


@dataclass
class Compared:
    """One program, compared. seed: draws it. rules: how often each primitive and form is used, in bodies too. modes:
    the modes of the meshes around its bodies, as words. differentiated: whether both sides have its gradient. blocks:
    how many blocks of results were held against each other. moved: how many collectives were carried out as derived.
    unwritten: what is not written in Python, and hence not compared."""

    seed: int
    mesh: Mesh
    rules: Counter[str] = field(default_factory=Counter)
    modes: frozenset[str] = frozenset()
    findings: list[Finding] = field(default_factory=list)
    missed: str = ""
    differentiated: bool = False
    blocks: int = 0
    moved: int = 0
    unwritten: str = ""
    size_one: bool = False


def uses(program: Program) -> Iterator[str]:
    """The primitive of every equation, in bodies too."""
    for inner in within(program):
        for equation in inner.equations:
            yield equation.primitive


def within(program: Program) -> Iterator[Program]:
    """A program and every one inside it."""
    waiting = [program]
    while waiting:
        one = waiting.pop()
        yield one
        for equation in one.equations:
            for _, value in equation.parameters.items_in_order:
                for item in value.items if isinstance(value, Programs) else (value,):
                    inner = body(item)
                    if inner is not None:
                        waiting.append(inner)


def modes_of(mesh: Mesh) -> str:
    """`explicit`, `manual`, or `partly manual`."""
    found = {axis.mode for axis in mesh.axes}
    if AxisMode.MANUAL not in found:
        return "explicit"
    return "manual" if len(found) == 1 else "partly manual"


def arrays(types: Sequence[Type | None]) -> list[ArrayType]:
    """The types, of which each is an array's."""
    found = [type for type in types if isinstance(type, ArrayType)]
    assert len(found) == len(types)
    return found
