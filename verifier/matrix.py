"""The matrix: every sample call at every combination of operand states and targets, on several meshes, our verdict held
against JAX's. Where they differ, the ledger says why, or the cell is unexplained."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from calculus.collectives import COLLECTIVES
from calculus.forms import FORMS
from calculus.meshes import Axis, AxisMode, Mesh
from calculus.primitives import TABLE
from verifier.cells import Cell, Verdict, cells, our_verdict
from verifier.ledger import Entry, assign, ledger
from verifier.patterns import Difference, agree

MOST: Final = 800
"""The most cells of one call on a mesh of two axes. Where there are more, as many are drawn, with a fixed seed. Along
one axis all are compared, whatever their number."""

_BOTH: Final = (AxisMode.EXPLICIT, AxisMode.MANUAL)


def _mesh(mode: AxisMode, **sizes: int) -> Mesh:
    return Mesh(Axis(name, size, mode) for name, size in sizes.items())


MESHES: Final = (
    *(_mesh(mode, X=2) for mode in _BOTH),
    *(_mesh(mode, X=2, Y=2) for mode in _BOTH),
    _mesh(AxisMode.EXPLICIT, X=1, Y=2),
    Mesh((Axis("X", 2, AxisMode.MANUAL), Axis("Y", 2, AxisMode.EXPLICIT))),
)
"""One axis and two, explicit and manual; one axis of size 1, along which nothing may be different; and one of each."""


@dataclass
class Matrix:
    """What a run of the matrix finds.

    entries: those that speak of this release. named: whether any names it. cells: how many were compared. accepted: how
    many of them both accept, at one type. unmodelled: how many we have no verdict on. calls: the names of the
    primitives. crashes: refusals of JAX that are leaks, by exception class. covered: the differences of each entry, by
    number. unexplained: those of none. idle: entries that should cover cells, and cover none. seconds: how long it
    took.
    """

    version: str
    entries: Sequence[Entry] = ()
    named: bool = True
    cells: int = 0
    accepted: int = 0
    unmodelled: int = 0
    calls: set[str] = field(default_factory=set)
    differences: list[Difference] = field(default_factory=list)
    crashes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    covered: dict[int, list[Difference]] = field(default_factory=dict)
    unexplained: list[Difference] = field(default_factory=list)
    idle: list[Entry] = field(default_factory=list)

    @property
    def agreed(self) -> int:
        """How many cells agree."""
        return self.cells - self.unmodelled - len(self.differences)

    def explain(self, whole: bool) -> None:
        """Say of every difference which entry covers it. whole: whether all was asked, so that every entry that should
        cover a cell does."""
        self.covered, self.unexplained = assign(self.differences, self.entries)
        if whole:
            self.idle = [entry for entry in self.entries if entry.patterns and not self.covered[entry.number]]

    def add(self, part: Matrix) -> None:
        """Take in what was asked apart."""
        self.cells += part.cells
        self.accepted += part.accepted
        self.unmodelled += part.unmodelled
        self.calls |= part.calls
        self.differences += part.differences
        for name, number in part.crashes.items():
            self.crashes[name] = self.crashes.get(name, 0) + number


def modelled(name: str) -> bool:
    """Whether the calculus has a rule for a primitive. What has none has no verdict to compare."""
    return name in TABLE or name in FORMS or name in COLLECTIVES


class UnknownPrimitive(ValueError):
    """A name that no sample call has. known: those that have one."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(name)
        self.known = known


def compare(
    primitives: Sequence[str] = (),
    meshes: Sequence[Mesh] = MESHES,
    most: int = MOST,
    alone: int | None = None,
    entries: Sequence[Entry] | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> Matrix:
    """Compare. `primitives` narrows it to those named; then entries may cover nothing. `most` and `alone` limit the
    cells of one call on a mesh of two axes, and of one.

    Opens the door to JAX. Raises `BadLedger` if the ledger does not keep its own rules, `UnknownPrimitive` where a name
    is not that of a primitive with a rule and a sample call.
    """
    from verifier.with_jax import probe

    every = ledger() if entries is None else entries
    speaking = [entry for entry in every if probe.VERSION in entry.versions]
    found = Matrix(probe.VERSION, speaking or every, bool(speaking or not every))
    started = time.monotonic()
    calls = [call for call in probe.calls() if modelled(call.call.primitive)]
    unknown = set(primitives) - {call.call.primitive for call in calls}
    if unknown:
        raise UnknownPrimitive(min(unknown), sorted({call.call.primitive for call in calls}))
    for call in calls:
        name = call.call.primitive
        if primitives and name not in primitives:
            continue
        compare_call(call, meshes, found, progress, most, alone)
    found.explain(whole=not primitives)
    found.seconds = time.monotonic() - started
    return found


def compare_call(
    call: probe.Traced,  # type: ignore[name-defined] # noqa: F821
    meshes: Sequence[Mesh],
    found: Matrix,
    progress: Callable[[str], None],
    most: int = MOST,
    alone: int | None = None,
    both: Callable[[Mesh, Cell, Verdict, Verdict], None] = lambda mesh, cell, ours, theirs: None,
) -> None:
    """Compare one call. `both` is told our verdict and theirs on every cell that is modelled."""
    from verifier.with_jax import probe

    found.calls.add(call.call.primitive)
    for mesh in meshes:
        if applies(call.call.axes, call.call.asked, mesh) and probe.reaches(mesh):
            progress(f"{call.call.name} on {mesh}")
            _compare_on(call, mesh, most if len(mesh.axes) > 1 else alone, found, both)


def applies(axes: Sequence[str], asked: bool, mesh: Mesh) -> bool:
    """Whether a call makes sense on a mesh: what names manual axes, where it has them, of the size that it was traced
    with; what asks for a sharding, where there is one to ask for."""
    modes = {axis.mode for axis in mesh.axes}
    if axes:
        return modes == {AxisMode.MANUAL} and all(name in mesh for name in axes)
    return not asked or modes == {AxisMode.EXPLICIT}


def _compare_on(
    call: probe.Traced,  # type: ignore[name-defined] # noqa: F821
    mesh: Mesh,
    limit: int | None,
    found: Matrix,
    both: Callable[[Mesh, Cell, Verdict, Verdict], None],
) -> None:
    from verifier.with_jax import probe

    chosen = cells(call.call, mesh, probe.KINDS, limit)
    theirs = probe.evaluate(call, chosen, mesh)
    for cell, verdict, equation in zip(chosen, theirs, probe.equations(call, chosen, mesh), strict=True):
        ours = our_verdict(call.call, equation, cell, verdict, mesh)
        found.cells += 1
        if ours.refusal is not None and ours.refusal.code.startswith("unmodelled"):
            found.unmodelled += 1
            continue
        both(mesh, cell, ours, verdict)
        if verdict.refusal is not None and verdict.refusal.crash:
            found.crashes[verdict.refusal.code] = found.crashes.get(verdict.refusal.code, 0) + 1
        if agree(ours, verdict):
            found.accepted += ours.types is not None
        else:
            found.differences.append(Difference(call.call, mesh, cell, ours, verdict))
