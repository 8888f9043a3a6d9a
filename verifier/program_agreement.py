"""Drawn programs, through the checker, the reference executor and JAX: what a run over many of them finds.

Programs are compared in processes of their own, because JAX may end them: then the program that it was running is
known, and the others go on.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.programs import Program
from verifier.findings import BREAKS, DIES, Compared, Finding
from verifier.ledger import KINDS, Entry, ledger
from verifier.report import count
from verifier.spread import Pace, Running, Task, spread
from verifier.workers import Broken, Lost, Worker

DOOR: Final = "verifier.with_jax.programs:Comparing"
MOST_SHOWN: Final = 10
"""The most unexplained differences that text shows; `--json` lists all."""
TRIALS: Final = 12
"""The most processes that are spent on making a program smaller that ends them."""


@dataclass
class Programs:
    """What a run over drawn programs finds. seed: of the run; that of each program follows from it. asked: how many
    programs were to be compared; fewer are, where somebody interrupts."""

    seed: int
    asked: int = 0
    version: str = ""
    entries: Sequence[Entry] = ()
    compared: list[Compared] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def findings(self) -> list[Finding]:
        """All differences."""
        return [finding for one in self.compared for finding in one.findings]

    @property
    def unexplained(self) -> list[Finding]:
        """Those that no entry of the ledger covers."""
        return [finding for finding in self.findings if not finding.entry]

    @property
    def rules(self) -> Counter[str]:
        """How often each primitive and form was drawn."""
        total = Counter[str]()
        for one in self.compared:
            total += one.rules
        return total


def seeds(seed: int, programs: int) -> list[int]:
    """The seeds of the programs of a run."""
    return [seed * 1_000_003 + number for number in range(programs)]


def compare(
    programs: int, seed: int, processes: int = 2, progress: Callable[[str], None] = lambda what: None,
    platform: str = "cpu",
) -> Programs:  # fmt: skip
    """Compare so many drawn programs, or as many as there are until somebody interrupts. platform: of the devices.
    Raises `BadLedger`, `NoDevices` where there are none of the platform, and `ImportError` where there is no JAX."""
    if platform != "cpu":
        _look_for(platform)
    started = time.monotonic()
    every = ledger()
    found = Programs(seed, programs)

    def take(task: Task, result: Compared) -> Sequence[Task]:
        found.compared.append(result)
        progress(f"{len(found.compared)} of {programs} programs, {len(found.unexplained)} unexplained")
        return ()

    def ready(version: str) -> None:
        found.version = version

    def died(task: Task, running: Running, message: str) -> Sequence[Task]:
        return take(task, _died(task.arguments[0], running, message, _spoken_of(every, found.version)))

    def broke(task: Task, running: Running, message: str) -> Sequence[Task]:
        return take(task, _broken(task.arguments[0], running, message))

    tasks = [Task("drawn", (one,)) for one in seeds(seed, programs)]
    pace = Pace(max(1, min(processes, programs // 10)))
    with contextlib.suppress(KeyboardInterrupt):  # what was compared until then is reported
        spread(DOOR, tasks, pace, take, died, broke=broke, ready=ready, platform=platform)
    found.entries = _spoken_of(every, found.version)
    found.compared.sort(key=lambda one: one.seed)
    found.seconds = time.monotonic() - started
    return found


class NoDevices(Exception):
    """JAX has no devices of a platform. The message is what it says."""


def _look_for(platform: str) -> None:
    """Raises `NoDevices` where there are none."""
    worker = Worker(DOOR, platform=platform)
    try:
        worker.ask("devices_of", platform)
        said = worker.result()
    except Lost as lost:
        said = str(lost)
    finally:
        worker.end()
    if isinstance(said, str):
        raise NoDevices(said)


def _spoken_of(entries: Sequence[Entry], version: str) -> Sequence[Entry]:
    """The entries that are about a release; all of them where none is."""
    return [entry for entry in entries if version in entry.versions] or entries


def _died(seed: int, running: Running, message: str, entries: Sequence[Entry]) -> Compared:
    """A program that ended its process, and the smallest one that is found to do so. running: what JAX was given."""
    if running is None:
        return _broken(seed, running, f"the process ended before JAX ran anything: {message}")
    program, mesh = running
    one = Compared(seed, mesh)
    trials = 0

    def dies(smaller: Program) -> bool:
        nonlocal trials
        trials += 1
        if trials > TRIALS:
            return False
        fresh = Worker(DOOR)
        fresh.ask("compared", smaller, mesh, seed)
        try:
            fresh.result()
        except Lost:
            return True
        except Broken:
            return False
        finally:
            fresh.end()
        return False

    from verifier.generated.shrinking import shrunk

    finding = Finding(DIES, message, program, mesh, seed=seed)
    if not any(entry.shows(finding, True) for entry in entries):
        finding.program = shrunk(program, dies, mesh)
    finding.entry = next((entry.number for entry in entries if entry.shows(finding)), 0)
    one.findings.append(finding)
    return one


def _broken(seed: int, running: Running, message: str) -> Compared:
    """A program whose comparison ended in an error."""
    program, mesh = running or (Program((), (), (), (), (), ()), Mesh(()))
    return Compared(seed, mesh, findings=[Finding(BREAKS, message, program, mesh, seed=seed)])


# --- as text ----------------------------------------------------------------------------------------------------------


def lines(found: Programs) -> Iterator[str]:
    """The report as text."""
    findings = found.findings
    explained = len(findings) - len(found.unexplained)
    rules = found.rules
    differentiated = sum(one.differentiated for one in found.compared)
    blocks, moved = (sum(getattr(one, name) for one in found.compared) for name in ("blocks", "moved"))
    yield (
        f"JAX {found.version}: {count(len(found.compared), 'program')} of seed {found.seed} "
        f"in {found.seconds:.0f} seconds"
    )
    if len(found.compared) < found.asked:
        yield f"  interrupted: {found.asked - len(found.compared):,} of {found.asked:,} were not compared"
    yield f"  drawn         {sum(rules.values()):>8,}  equations of {sum(name in TABLE for name in rules)} primitives"
    yield f"  near misses   {sum(bool(one.missed) for one in found.compared):>8,}"
    yield f"  differentiated{differentiated:>8,}  by both sides, to gradients of the same types"
    yield f"  blocks        {blocks:>8,}  of results, what each device holds on either side"
    yield f"  collectives   {moved:>8,}  executed as derived"
    yield f"  in the ledger {explained:>8,}  differences"
    yield f"  unexplained   {len(found.unexplained):>8,}"
    unwritten = Counter(one.unwritten for one in found.compared if one.unwritten)
    for what, number in unwritten.most_common():
        yield f"  not compared: {count(number, 'program')}: {what}"
    covered = Counter(finding.entry for finding in findings if finding.entry)
    if covered:
        yield ""
        yield "  entry    times  kind                  difference"
    for entry in found.entries:
        if covered[entry.number]:
            yield f"  {entry.number:>5}  {covered[entry.number]:>7,}  {KINDS[entry.kind]:<20}  {entry.title}"
    for finding in found.unexplained[:MOST_SHOWN]:
        yield ""
        yield f"  unexplained {finding.shows}, seed {finding.seed}: {finding.message}"
        yield ""
        yield from (f"    {line}" for line in file_of(finding))
    if len(found.unexplained) > MOST_SHOWN:
        yield f"\n  {count(len(found.unexplained) - MOST_SHOWN, 'more unexplained difference')}: --json lists all"


def file_of(finding: Finding) -> list[str]:
    """A file that runs the program of a finding with JAX alone."""
    from verifier.with_jax.python_values import Unwritten
    from verifier.with_jax.script import file

    if finding.shows == BREAKS:
        return [f"# shardproof agree --programs, the program of seed {finding.seed}"]
    try:
        return "\n".join(file(finding.program, finding.mesh, finding.seed)).splitlines()
    except Unwritten as error:
        return [f"# {error} is not written as Python"]


def as_data(found: Programs) -> dict[str, Any]:
    """The report as plain data for `--json`."""
    covered = Counter(finding.entry for finding in found.findings if finding.entry)
    return {
        "jax": found.version,
        "seed": found.seed,
        "asked": found.asked,
        "programs": len(found.compared),
        "near_misses": sum(bool(one.missed) for one in found.compared),
        "differentiated": sum(one.differentiated for one in found.compared),
        "blocks": sum(one.blocks for one in found.compared),
        "collectives": sum(one.moved for one in found.compared),
        "rules": dict(sorted(found.rules.items())),
        "not_compared": {str(one.seed): one.unwritten for one in found.compared if one.unwritten},
        "seconds": round(found.seconds, 1),
        "entries": {str(number): times for number, times in sorted(covered.items())},
        "unexplained": [
            {
                "shows": finding.shows,
                "seed": finding.seed,
                "says": finding.message,
                "mesh": str(finding.mesh),
                "file": "\n".join(file_of(finding)),
            }
            for finding in found.unexplained
        ],
    }
