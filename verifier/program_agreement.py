"""Drawn programs, through the checker, the reference executor and JAX: what a run over many of them finds.

Programs are compared in processes of their own, because JAX may end them: then the program that it was running is
known, and the others go on. The door to JAX is `verifier.program_worker`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final

from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.programs import Program
from verifier.findings import BREAKS, DIES, Compared, Finding
from verifier.ledger import KINDS, Entry, ledger
from verifier.program_worker import work
from verifier.report import count

MOST_SHOWN: Final = 10
"""The most unexplained differences that text shows; `--json` lists all."""
DEVICES: Final = 8
"""Of JAX, in each process: those of the largest mesh that programs are drawn on."""
PATIENCE: Final = 300.0
"""Seconds after which a process that says nothing is ended."""
TRIALS: Final = 12
"""The most processes that are spent on making a program smaller that ends them."""


_FATAL: Final = re.compile(r"Check failed|ERROR|^F\d{4} ")
"""In the line with which a compiler ends its process."""


class Lost(Exception):
    """A process ended. The message says what the compiler printed last."""


class Broken(RuntimeError):
    """A comparison ended in an error of ours. The message is its traceback."""


class Worker:
    """A process that compares programs. engine: what does, `module:class`. devices: how many JAX has there, of which
    platform."""

    def __init__(
        self, engine: str = "verifier.with_jax.programs:Comparing", devices: int = DEVICES, platform: str = "cpu"
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._errors = tempfile.NamedTemporaryFile(suffix=".err", delete=False)  # noqa: SIM115  # lives as long
        arguments = theirs, self._errors.name, devices, engine, platform
        self.process = context.Process(target=work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.running: tuple[Any, ...] | None = None
        self.seed = -1
        self.since = time.monotonic()
        self.version = ""

    def ask(self, name: str, *arguments: Any) -> None:
        """Send a task."""
        self.running, self.since = None, time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            self.connection.send((name, *arguments))

    def answer(self) -> Any:
        """What came, `None` if it is no result yet. Raises `Lost` where the process has ended."""
        try:
            kind, *said = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            raise Lost(self._last_words()) from None
        self.since = time.monotonic()
        if kind == "running":
            self.running = tuple(said)
        elif kind == "ready":
            self.version = said[0]
        elif kind == "failed":
            raise Broken(said[0])
        else:
            return said[0]
        return None

    def result(self) -> Any:
        """The result of the task. Raises `Lost`."""
        while True:
            found = self.answer()
            if found is not None:
                return found

    def _last_words(self) -> str:
        lines = Path(self._errors.name).read_text(encoding="utf-8", errors="replace").splitlines()
        said = next((line for line in lines if _FATAL.search(line)), lines[-1] if lines else "")
        return f"exit status {self.process.exitcode}: {said.strip()[:300]}"

    def end(self) -> None:
        """End the process."""
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()
        self.connection.close()
        Path(self._errors.name).unlink(missing_ok=True)


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
    waiting = seeds(seed, programs)
    found = Programs(seed, programs)
    workers: dict[Connection, Worker] = {}

    def start() -> None:
        worker = Worker(platform=platform)
        workers[worker.connection] = worker
        give(worker)

    def give(worker: Worker) -> None:
        if waiting:
            worker.seed = waiting.pop(0)
            worker.ask("drawn", worker.seed)
        else:
            del workers[worker.connection]
            worker.end()

    try:
        for _ in range(max(1, min(processes, programs // 10))):
            start()
        while workers:
            ready = wait(list(workers), timeout=1.0)
            for connection, worker in list(workers.items()):
                if connection not in ready:
                    if time.monotonic() - worker.since > PATIENCE:
                        worker.process.terminate()
                    continue
                try:
                    result = worker.answer()
                except Lost as lost:
                    del workers[connection]
                    found.compared.append(_died(worker, str(lost), _spoken_of(every, worker.version)))
                    worker.end()
                    if waiting:
                        start()
                    continue
                except Broken as broken:
                    result = _broken(worker, str(broken))
                if result is not None:
                    found.compared.append(result)
                    progress(f"{len(found.compared)} of {programs} programs, {len(found.unexplained)} unexplained")
                    found.version = worker.version
                    give(worker)
    except KeyboardInterrupt:  # what was compared until then is reported
        pass
    finally:
        for worker in workers.values():
            worker.end()
    found.entries = _spoken_of(every, found.version)
    found.compared.sort(key=lambda one: one.seed)
    found.seconds = time.monotonic() - started
    return found


class NoDevices(Exception):
    """JAX has no devices of a platform. The message is what it says."""


def _look_for(platform: str) -> None:
    """Raises `NoDevices` where there are none."""
    worker = Worker(platform=platform)
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


def _died(worker: Worker, message: str, entries: Sequence[Entry]) -> Compared:
    """A program that ended its process, and the smallest one that is found to do so."""
    if worker.running is None:
        return _broken(worker, f"the process ended before JAX ran anything: {message}")
    program, mesh = worker.running
    one = Compared(worker.seed, mesh)
    trials = 0

    def dies(smaller: Program) -> bool:
        nonlocal trials
        trials += 1
        if trials > TRIALS:
            return False
        fresh = Worker()
        fresh.ask("compared", smaller, mesh, worker.seed)
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

    finding = Finding(DIES, message, program, mesh, seed=worker.seed)
    if not any(entry.shows(finding, True) for entry in entries):
        finding.program = shrunk(program, dies, mesh)
    finding.entry = next((entry.number for entry in entries if entry.shows(finding)), 0)
    one.findings.append(finding)
    return one


def _broken(worker: Worker, message: str) -> Compared:
    """A program whose comparison ended in an error."""
    program, mesh = worker.running or (Program((), (), (), (), (), ()), Mesh(()))
    return Compared(worker.seed, mesh, findings=[Finding(BREAKS, message, program, mesh, seed=worker.seed)])


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
