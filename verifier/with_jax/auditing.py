"""What one process of the audit does: the cells of one call, what JAX's own checkers say of them, some of them on
devices; and the derivatives of some programs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from calculus.meshes import Mesh
from verifier.audit import Asked
from verifier.backward_agreement import Comparison, answered
from verifier.cells import Cell, Verdict, how_many
from verifier.ledger import ledger
from verifier.matrix import MOST, Matrix, applies, compare_call, modelled
from verifier.patterns import Difference, agree
from verifier.with_jax import on_devices, own_checkers, probe
from verifier.with_jax.backward_programs import chosen

ALONE: Final = 60
BESIDE: Final = 24
"""The most cells of one call that run on devices, on a mesh of one axis, and of two."""
DIFFERENT: Final = 4
"""How many of them at least are such that JAX types and we do not type so, where there are."""


class Named(NamedTuple):
    """A sample call: the primitive, what it is called in reports, and how many cells it has on some meshes."""

    primitive: str
    name: str
    cells: int


@dataclass
class Part:
    """What is found of one call. runnable: by mesh, the cells to be run on devices, with our verdict and JAX's. spared:
    how many are not among them because an entry of the ledger says that they end the process."""

    matrix: Matrix
    asked: Asked
    runnable: list[tuple[Mesh, list[tuple[Cell, Verdict, Verdict]]]] = field(default_factory=list)
    spared: int = 0


class OneRan(NamedTuple):
    """How one cell ran on devices."""

    difference: Difference
    right: bool
    says: str
    crashed: bool = False


class Auditing:
    """Asks JAX. running: is told what is given to the compiler."""

    def __init__(self, running: Callable[..., None] = lambda *what: None) -> None:
        self.version = probe.VERSION
        self.running = running
        every = ledger()
        self.entries = [entry for entry in every if self.version in entry.versions] or every
        self.calls = [call for call in probe.calls() if modelled(call.call.primitive)]

    def named(self, meshes: Sequence[Mesh]) -> tuple[str, list[Named]]:
        """The release, and its sample calls, in order."""
        return self.version, [
            Named(call.call.primitive, call.call.name, sum(self._cells(call, mesh) for mesh in meshes))
            for call in self.calls
        ]

    @staticmethod
    def _cells(call: probe.Traced, mesh: Mesh) -> int:
        if not (applies(call.call.axes, call.call.asked, mesh) and probe.reaches(mesh)):
            return 0
        return how_many(call.call, mesh, probe.KINDS, MOST if len(mesh.axes) > 1 else None)

    def programs(self) -> list[str]:
        """The names of the programs that are differentiated."""
        return [name for name, _ in chosen(())]

    def asked(self, index: int, meshes: Sequence[Mesh], run: bool) -> Part:
        """Ask everything that needs no device of one call."""
        call = self.calls[index]
        found = Matrix(self.version)
        accepted: dict[Mesh, list[tuple[Cell, Verdict, Verdict]]] = {}

        def both(mesh: Mesh, cell: Cell, ours: Verdict, theirs: Verdict) -> None:
            if run and theirs.types is not None:
                accepted.setdefault(mesh, []).append((cell, ours, theirs))

        compare_call(call, meshes, found, self.running, both=both)
        part = Part(found, own_checkers.ask(found, (), self.running, [call]))
        for mesh, cells in accepted.items():
            if len({axis.mode for axis in mesh.axes}) > 1 or call.call.handed:
                continue  # those do not run (`on_devices`)
            kept = [one for one in cells if not self._ends(Difference(call.call, mesh, *one))]
            part.spared += len(cells) - len(kept)
            part.runnable.append((mesh, _some(kept, f"{call.call.name} on {mesh}", len(mesh.axes))))
        return part

    def _ends(self, difference: Difference) -> bool:
        """Whether, by the ledger, the process ends where this runs."""
        return any(entry.ends(difference) for entry in self.entries)

    def ran(self, index: int, mesh: Mesh, cells: Sequence[tuple[Cell, Verdict, Verdict]]) -> list[OneRan]:
        """Run cells on devices."""
        call = self.calls[index]
        of = {cell: (ours, theirs) for cell, ours, theirs in cells}
        if not on_devices.enough(mesh):
            return []
        found = on_devices.run(
            call,
            list(of),
            [theirs for _, theirs in of.values()],
            mesh,
            running=lambda some: self.running(call.call, some),
        )
        return [
            OneRan(Difference(call.call, mesh, one.cell, *of[one.cell]), one.right, one.says, one.crashed)
            for one in found
        ]

    def derived(self, names: Sequence[str]) -> list[tuple[str, Comparison | tuple[bool, str]]]:
        """Our derivatives beside JAX's, without the programs."""
        wanted = set(names)
        found: list[tuple[str, Comparison | tuple[bool, str]]] = []
        for name, make in chosen(()):
            if name in wanted:
                self.running(name)
                answer = answered(name, make)
                if isinstance(answer, Comparison):
                    ours, theirs = answer.ours._replace(program=None), answer.theirs._replace(program=None)
                    answer = answer._replace(ours=ours, theirs=theirs)
                found.append((name, answer))
        return found


def _some(cells: list[Any], seed: str, axes: int) -> list[Any]:
    """Some of the cells that JAX accepts, drawn with a fixed seed: some on which the two differ, then those where
    something is pending or reduced, then the others."""
    most = ALONE if axes == 1 else BESIDE
    drawn = random.Random(seed).sample(cells, len(cells))
    different = [one for one in drawn if not agree(one[1], one[2])]
    alike = [one for one in drawn if agree(one[1], one[2])]
    alike.sort(key=lambda one: not any(type.unreduced or type.reduced for type in one[0].operands))
    room = max(DIFFERENT, most - len(alike))
    return [*different[:room], *alike[: most - min(room, len(different))]]
