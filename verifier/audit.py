"""The audit of an installed JAX: its defects, and what it accepts that is unsound and that nobody has written down.

The matrix is asked forward, the family of derivatives backward. What JAX accepts and we refuse is asked of JAX's own
checkers besides: of `check_jaxpr`, whether it objects to the program, and of `no_collectives`, whether it objects to
what must communicate. On request the programs that reproduce the defects are run, and so are cells along one axis and
two, on devices, with data that cannot come out right by chance. `verifier.auditing` asks.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from verifier.backward_agreement import Agreement
from verifier.ledger import CONVENTION, DEFECTS, SOUND, Entry
from verifier.matrix import Matrix
from verifier.patterns import Difference
from verifier.report import count

if TYPE_CHECKING:
    from verifier.evidence import Outcome

MOST_SHOWN: Final = 20
"""The most new cells that text shows; `--json` lists all."""


class Asked(NamedTuple):
    """What JAX's own checkers say: how many cells were asked about, and how many of them were accepted or refused.

    unsound: cells that JAX types and we do not type so. communicating: cells that both type alike and that communicate.
    silent: those that do not. objections: what `check_jaxpr` says where it objects.
    """

    unsound: int = 0
    unsound_accepted: int = 0
    communicating: int = 0
    communicating_accepted: int = 0
    silent: int = 0
    silent_refused: int = 0
    objections: tuple[str, ...] = ()

    def plus(self, other: Asked) -> Asked:
        """Both together."""
        numbers = map(operator.add, self[:-1], other[:-1])
        return Asked(*numbers)._replace(objections=(*self.objections, *other.objections))


@dataclass
class OnDevices:
    """What ran. right, wrong: how many cells did so. crashed: how many did not compile, or ended the process. By entry,
    covered: how many cells went wrong that both sides type alike; confirmed: how many that it says are unsound. spared:
    how many were not run, since they are known to end the process. new: cells that both sides type alike, that did not
    run right, and that no entry covers; what happened; and whether that was an error."""

    right: int = 0
    wrong: int = 0
    crashed: int = 0
    covered: dict[int, int] = field(default_factory=dict)
    confirmed: dict[int, int] = field(default_factory=dict)
    spared: int = 0
    new: list[tuple[Difference, str, bool]] = field(default_factory=list)

    def wrong_of(self, entry: Entry) -> int:
        """How many cells of an entry went wrong."""
        return self.covered.get(entry.number, 0) + self.confirmed.get(entry.number, 0)


@dataclass
class Audit:
    """What an audit finds. asked: what JAX's own checkers say. outcomes: of the programs that reproduce the defects, by
    entry; none, where they were not run. share: how much was asked, from 0 to 1, where somebody interrupted."""

    matrix: Matrix
    backward: Agreement | None
    asked: Asked
    entries: Sequence[Entry]
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    ran: OnDevices | None = None
    seconds: float = 0.0
    share: float = 1.0

    @property
    def interrupted(self) -> bool:
        """Whether not all was asked."""
        return self.share < 1.0

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


def prepare_devices() -> None:
    """Ask for CPU devices, as long as JAX has not started."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")


def lines(found: Audit) -> Iterator[str]:
    """The report as text."""
    defects = found.defects
    beside = sum(entry.kind == SOUND and entry.defect == "sound refused" for entry in defects)
    if found.interrupted:
        yield f"interrupted: {found.share:.0%} was asked; what follows was found until then"
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
            + (f", {found.ran.spared:,} not run, which are known to end the process" if found.ran.spared else "")
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
    for typed, says, crashed in (found.ran.new if found.ran is not None else ())[:MOST_SHOWN]:
        yield ""
        how = "does not compile" if crashed else "reads back wrong"
        yield f"  new: {typed.call.name} {typed.cell} on {typed.mesh} is typed {typed.theirs}, and {how}"
        yield f"    {says}"
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
    said = [count(number, word) for number, word in parts if number]
    wrong = found.ran.wrong_of(entry) if found.ran is not None else 0
    said += [f"confirmed on devices by {count(wrong, 'cell')}"] if wrong else []
    if entry.number in found.outcomes:
        said.append("its program reproduces it")
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
        "asked": round(found.share, 3),
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
                "confirmed on devices": None if ran is None else ran.wrong_of(entry),
                "reproduced": found.outcomes[entry.number].there if entry.number in found.outcomes else None,
            }
            for entry in found.defects
        ],
        "conventions": [entry.number for entry in found.entries if entry.kind == CONVENTION],
        "repaired": [entry.number for entry in found.repaired],
        "own checkers": found.asked._asdict(),
        "on devices": None
        if ran is None
        else {"right": ran.right, "wrong": ran.wrong, "crashed": ran.crashed, "not run": ran.spared},
        "new": [
            *({"cell": str(one), "accepts": one.accepts} for one in found.new),
            *({"cell": str(one), "says": says} for one, says, _ in (ran.new if ran is not None else ())),
            *({"derivative": one.name} for one in (found.backward.unexplained if found.backward is not None else ())),
        ],
    }
