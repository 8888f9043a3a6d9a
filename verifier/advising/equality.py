"""Whether a proposed program computes what the one does that was handed in: both run by the reference executor, on the
same inputs, whole and on modelled devices, together with their backward passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.gradients import vjp
from calculus.meshes import Axis, Mesh
from calculus.programs import Program, bodies
from calculus.refusals import Refused
from calculus.typed import typed
from calculus.types import ArrayType
from verifier.advising.microbatches import fewer
from verifier.advising.resizing import resized

if TYPE_CHECKING:
    from verifier.execution.run import Outcome

MOST_ELEMENTS: Final = 1 << 20
"""The largest array of a program that is run."""


FEW: Final = 2
"""So many microbatches are run."""
MOST_DEVICES: Final = 16
"""The most modelled devices, where the mesh cannot be made smaller."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How many collectives of a program are priced, and how many a compiler makes, loops counted. classes: how many of
    them differ in which way that has a name. unexplained: how many in none."""

    priced: int
    compiled: int
    classes: Mapping[str, int]
    unexplained: int

    @property
    def wrong(self) -> bool:
        """Whether the price is not what is compiled."""
        return bool(self.unexplained) or (self.compiled != self.priced and not self.classes)

    @property
    def differs(self) -> str:
        """The classes, in words, as they follow the number."""
        those = [f"{name} {number:,}" for name, number in sorted(self.classes.items())]
        those += [f"{self.unexplained:,} unexplained"] if self.unexplained else []
        return f" ({', '.join(those)})" if those else ""


class NotRun(Exception):
    """The programs cannot be run here. The message says why."""


class Original:
    """The program that was handed in, run once. axes: those along which it is to be compared: of the others there is
    one device, since no verdict depends on the size of an axis. microbatches: how often it was repeated; a few of them
    are run. compiled: what XLA makes of it, once that is known."""

    def __init__(
        self, program: Program, meshes: Sequence[Mesh], wrt: Sequence[int], axes: Iterable[str], seed: int = 0,
        microbatches: int = 1,
    ) -> None:  # fmt: skip
        self.program = program
        self.meshes = tuple(_few(mesh, set(axes)) for mesh in meshes)
        self._handed = tuple(meshes)
        self.wrt = tuple(wrt)
        self.seed = seed
        self.compiled: Counted | None = None
        self._microbatches = microbatches
        self._found: Outcome | None = None

    def difference(self, other: Program) -> str:
        """How the results of a proposed program, or of its vjp, differ from its own; nothing where they do not. Raises
        `NotRun`."""
        from verifier.execution.comparing import apart

        try:
            first, second = self._run(), self._ran(other, self._run())
        except Refused as refused:
            raise NotRun(f"on ({self.meshes[0]}), {refused.refusal.message}") from refused
        allowed = max(first.allowed, second.allowed)
        for number, (before, after) in enumerate(zip(first.results, second.results, strict=True)):
            found = apart(before.value, after.value, allowed)
            if found:
                return f"result {number}: {found}"
        return second.problems[0].message if second.problems else ""

    def _run(self) -> Outcome:
        if self._found is None:
            largest = max(map(_elements, _types(self.program)), default=0)
            if largest > MOST_ELEMENTS:
                raise NotRun(f"an array of {largest:,} elements is too large to be run here")
            try:
                self._found = self._ran(self.program, None)
            except Refused:  # a body of code for each device has its blocks' shapes written down
                if prod(axis.size or 1 for mesh in self._handed for axis in mesh.axes) > MOST_DEVICES:
                    raise
                self.meshes = self._handed
                self._found = self._ran(self.program, None)
        return self._found

    def _ran(self, program: Program, beside: Outcome | None) -> Outcome:
        from verifier.execution.run import run

        sizes = {axis.name: axis.size for mesh in self.meshes for axis in mesh.axes}
        if self._microbatches > FEW:
            program = fewer(program, self._microbatches, FEW, self.wrt)
        whole = _whole(resized(program, sizes), self.meshes, self.wrt)
        given = [] if beside is None else [shown.value for shown in beside.inputs]
        found = run(whole, self.meshes, self.seed, dict(zip((*whole.constants, *whole.inputs), given, strict=False)))
        if found.problems and found.problems[0].unrunnable:
            raise NotRun(found.problems[0].message)
        return found


def _few(mesh: Mesh, axes: set[str]) -> Mesh:
    """The mesh with two devices along these axes (more, where that does not divide what the axis has), one along each
    other."""

    def size(axis: Axis) -> int | None:
        return 1 if axis.name not in axes else 2 if (axis.size or 2) % 2 == 0 else axis.size

    return Mesh((Axis(axis.name, size(axis), axis.mode) for axis in mesh.axes), mesh.tracked)


def _whole(program: Program, meshes: Sequence[Mesh], wrt: Sequence[int]) -> Program:
    if not wrt:
        return program
    checker = Checker(meshes)
    return vjp(typed(checker.check(program)), Workbench(checker), wrt)


def _types(program: Program) -> list[object]:
    found: list[object] = [*program.constant_types, *program.input_types]
    for equation in program.equations:
        found += equation.types
        for _, inner in bodies(equation.parameters):
            found += _types(inner)
    return found


def _elements(type: object) -> int:
    return prod(size for size in type.shape if isinstance(size, int)) if isinstance(type, ArrayType) else 0
