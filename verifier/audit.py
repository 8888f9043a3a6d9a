"""The audit of an installed JAX: its defects, and what it accepts that is unsound and that nobody has written down.

The matrix is asked forward, the family of derivatives backward. What JAX accepts and we refuse is asked of JAX's own
checkers besides: of `check_jaxpr`, whether it objects to the program, and of `no_collectives`, whether it objects to
what must communicate. On request the programs that reproduce the defects are run, and so are all cells along one axis,
on devices, with data that cannot come out right by chance.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from calculus.meshes import Mesh
from verifier.backward_agreement import Agreement
from verifier.ledger import CONVENTION, DEFECTS, SOUND, Difference, Entry
from verifier.matrix import MESHES, Matrix, modelled
from verifier.report import count

if TYPE_CHECKING:
    from verifier.evidence import Outcome
    from verifier.with_jax.on_devices import Ran
    from verifier.with_jax.own_checkers import Asked

Progress = Callable[[str], None]

MOST_SHOWN: Final = 20
"""The most new cells that text shows; `--json` lists all."""

DEVICE_CELLS: Final = 60
"""The most cells of one call on one mesh that run on devices."""


@dataclass
class OnDevices:
    """What ran. right, wrong: how many cells did so. crashed: how many did not compile. new: cells that both sides type
    alike, that did not run right, and that no entry covers; covered: by entry, those that one does."""

    right: int = 0
    wrong: int = 0
    crashed: int = 0
    covered: dict[int, int] = field(default_factory=dict)
    new: list[tuple[str, Ran]] = field(default_factory=list)


@dataclass
class Audit:
    """What an audit finds. asked: what JAX's own checkers say. outcomes: of the programs that reproduce the defects, by
    entry; none, where they were not run."""

    matrix: Matrix
    backward: Agreement | None
    asked: Asked
    entries: Sequence[Entry]
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    ran: OnDevices | None = None
    seconds: float = 0.0

    @property
    def defects(self) -> list[Entry]:
        """The entries that are defects of this release, by how they show. An entry that covers cells and has been
        repaired is none; nor is one whose program no longer finds it."""
        gone = {number for number, outcome in self.outcomes.items() if not outcome.there}
        found = [entry for entry in self.entries if entry.file and entry.number not in gone]
        return sorted(found, key=lambda entry: (list(DEFECTS).index(entry.defect), entry.number))

    @property
    def new(self) -> list[Difference]:
        """What JAX accepts, we do not type so, and no entry covers."""
        return [one for one in self.matrix.unexplained if one.theirs.types is not None]

    @property
    def repaired(self) -> list[Entry]:
        """Entries whose program no longer finds the defect."""
        return [
            entry for entry in self.entries if entry.number in self.outcomes and not self.outcomes[entry.number].there
        ]

    @property
    def clean(self) -> bool:
        """Whether everything that was found stands in the ledger, and is there."""
        unknown = self.backward is not None and any(one.accepts != "ours" for one in self.backward.unexplained)
        return not (self.new or unknown or self.repaired or (self.ran is not None and self.ran.new))

    def cells(self, entry: Entry) -> int:
        """How many cells of the matrix an entry covers."""
        return len(self.matrix.covered.get(entry.number, ()))

    def programs(self, entry: Entry) -> int:
        """How many derivatives an entry covers."""
        return 0 if self.backward is None else len(self.backward.covered.get(entry.number, ()))


def audit(
    primitives: Sequence[str] = (),
    run: bool = False,
    progress: Progress = lambda what: None,
    meshes: Sequence[Mesh] = MESHES,
) -> Audit:
    """Audit the installed JAX. `primitives` narrows it to those named, and then nothing is asked backward; `meshes` to
    these.

    Opens the door to JAX; to run, with CPU devices, unless the environment says otherwise. Raises `BadLedger`,
    `UnknownPrimitive`, and `FileNotFoundError` where the programs to run are not there.
    """
    if run:
        prepare_devices()
    from verifier import backward_agreement, matrix
    from verifier.with_jax import own_checkers

    started = time.monotonic()
    found = matrix.compare(primitives, meshes, progress=progress)
    backward = None if primitives else backward_agreement.compare(progress=progress)
    asked = own_checkers.ask(found, primitives, progress)
    ran = on_devices(found, primitives, progress) if run else None
    met = {number for number, cells in found.covered.items() if cells} | set(ran.covered if ran is not None else ())
    entries = [entry for entry in found.entries if not primitives or entry.number in met]
    result = Audit(found, backward, asked, entries, ran=ran)
    if run:
        from verifier.evidence import reproduce

        result.outcomes = reproduce(entries, progress)
    result.seconds = time.monotonic() - started
    return result


def prepare_devices() -> None:
    """Ask for CPU devices, as long as JAX has not started."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")


def on_devices(found: Matrix, primitives: Sequence[str], progress: Progress) -> OnDevices:
    """Run the cells along one axis, explicit and manual."""
    from verifier.cells import cells, our_verdict
    from verifier.ledger import agree
    from verifier.matrix import applies
    from verifier.with_jax import on_devices, probe

    result = OnDevices()
    meshes = [mesh for mesh in MESHES if len(mesh.axes) == 1 and on_devices.enough(mesh)]
    for call in probe.calls():
        name = call.call.primitive
        if not modelled(name) or (primitives and name not in primitives):
            continue
        for mesh in meshes:
            if not applies(call.call.axes, call.call.asked, mesh):
                continue
            progress(f"{call.call.name} on {mesh}, on devices")
            chosen = cells(call.call, mesh, probe.KINDS, DEVICE_CELLS)
            verdicts = probe.evaluate(call, chosen, mesh)
            ran = on_devices.run(call, chosen, verdicts, mesh)
            equations = dict(zip(chosen, probe.equations(call, chosen, mesh), strict=True))
            for one in ran:
                result.right += one.right
                result.crashed += one.crashed
                result.wrong += not one.right and not one.crashed
                if one.right:
                    continue
                ours = our_verdict(call.call, equations[one.cell], one.cell, one.verdict, mesh)
                if not agree(ours, one.verdict):
                    continue  # a difference of the matrix: there it has its entry
                difference = Difference(call.call, mesh, one.cell, ours, one.verdict)
                entry = next((entry for entry in found.entries if entry.runs_wrong(difference, one.says)), None)
                if entry is None:
                    result.new.append((f"{call.call.name} {one.cell} on {mesh}", one))
                else:
                    result.covered[entry.number] = result.covered.get(entry.number, 0) + 1
    return result


def lines(found: Audit) -> Iterator[str]:
    """The report as text."""
    defects = found.defects
    beside = sum(entry.kind == SOUND and entry.defect == "sound refused" for entry in defects)
    yield (
        f"JAX {found.matrix.version}: {count(len(defects), 'defect')} with a program that reproduces each, "
        f"{beside} of them sound programs that it refuses"
    )
    yield (
        f"  asked {found.matrix.cells:,} cells of {count(len(found.matrix.calls), 'primitive')}, explicit and manual"
        + (f"; {count(len(found.backward.compared), 'derivative')}" if found.backward is not None else "")
    )
    yield from _own(found.asked)
    if found.ran is not None:
        yield (
            f"  on devices: {found.ran.right:,} cells right, {found.ran.wrong:,} wrong, "
            f"{found.ran.crashed:,} typed and not compiled"
        )
    if not found.outcomes:
        yield "  the programs were not run: --run does, and runs the cells on devices"
    for defect, meaning in DEFECTS.items():
        chosen = [entry for entry in defects if entry.defect == defect]
        if not chosen:
            continue
        yield ""
        yield f"  {defect}: {meaning}"
        for entry in chosen:
            yield f"    {entry.number:>3}  {entry.title}"
            yield f"         {entry.cause} · {entry.function} · {_covers(found, entry)}"
            yield f"         proofs/differences/{entry.file}"
    for entry in found.repaired:
        outcome = found.outcomes[entry.number]
        yield ""
        yield f"  entry {entry.number} is {outcome.word}: {entry.title}"
        yield f"    proofs/differences/{entry.file}: {outcome.said[-300:]}"
    for difference in found.new[:MOST_SHOWN]:
        yield ""
        yield f"  new: {difference.call.name} {difference.cell} on {difference.mesh}"
        yield f"    JAX accepts {difference.theirs}"
        yield f"    we say      {difference.ours}"
    for name, one in (found.ran.new if found.ran is not None else ())[:MOST_SHOWN]:
        yield ""
        yield f"  new: {name} is typed {one.verdict}, and {'does not compile' if one.crashed else 'reads back wrong'}"
        yield f"    {one.says}"
    if found.backward is not None:
        for compared in found.backward.unexplained[:MOST_SHOWN]:
            yield ""
            yield f"  new: the derivative of {compared.name}"


def _own(asked: Asked) -> Iterator[str]:
    yield (
        f"  JAX's check_jaxpr accepts {asked.unsound_accepted:,} of {asked.unsound:,} cells that are typed and unsound"
    )
    if asked.communicating:
        yield (
            f"  JAX's no_collectives accepts {asked.communicating_accepted:,} of {asked.communicating:,} cells that "
            f"communicate, and refuses {asked.silent_refused:,} of {asked.silent:,} that need not"
        )


def _covers(found: Audit, entry: Entry) -> str:
    parts = [(found.cells(entry), "cell"), (found.programs(entry), "derivative")]
    parts += [(found.ran.covered.get(entry.number, 0), "cell on devices")] if found.ran is not None else []
    said = [f"{number:,} {word}{'' if number == 1 else 's'}" for number, word in parts if number]
    if entry.number in found.outcomes:
        said.append("reproduced")
    return ", ".join(said) or "outside the matrix"


def as_data(found: Audit) -> dict[str, Any]:
    """The report as plain data for `--json`."""
    ran = found.ran
    return {
        "jax": found.matrix.version,
        "cells": found.matrix.cells,
        "primitives": sorted(found.matrix.calls),
        "derivatives": None if found.backward is None else len(found.backward.compared),
        "seconds": round(found.seconds, 1),
        "defects": [
            {
                "number": entry.number,
                "title": entry.title,
                "defect": entry.defect,
                "cause": entry.cause,
                "function": entry.function,
                "reaches": entry.reaches.split(", "),
                "file": f"proofs/differences/{entry.file}",
                "cells": found.cells(entry),
                "derivatives": found.programs(entry),
                "reproduced": found.outcomes[entry.number].there if entry.number in found.outcomes else None,
            }
            for entry in found.defects
        ],
        "conventions": [entry.number for entry in found.entries if entry.kind == CONVENTION],
        "repaired": [entry.number for entry in found.repaired],
        "own checkers": found.asked._asdict(),
        "on devices": None
        if ran is None
        else {"right": ran.right, "wrong": ran.wrong, "crashed": ran.crashed, "covered": ran.covered},
        "new": [
            *({"cell": str(one), "accepts": one.accepts} for one in found.new),
            *({"cell": name, "says": one.says} for name, one in (ran.new if ran is not None else ())),
            *({"derivative": one.name} for one in (found.backward.unexplained if found.backward is not None else ())),
        ],
    }
