"""Programs run every way: whole and per device, forward and backward, and by JAX; and what a run over many says.

The door to JAX is `verifier.with_jax.beside`, in a process of its own, which JAX may end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.gradients import vjp
from calculus.linearization import floating
from calculus.meshes import Mesh
from calculus.naming import tidy
from calculus.programs import Program
from calculus.refusals import Refused
from calculus.typed import typed
from grammar.read import read
from verifier.execution.arithmetic import CannotRun
from verifier.execution.instances import instance
from verifier.execution.machine import ENDLESS
from verifier.execution.run import Outcome, on_one_line, run
from verifier.report import count
from verifier.texts import meshes_of

if TYPE_CHECKING:
    from verifier.execution.tracked import Twin

FORWARD, BACKWARD = "forward", "backward"
EQUAL: Final = "equal"
"""The two runs agree; JAX's devices hold what ours hold."""
DIFFERENT: Final = "different"
NOT_RUN: Final = "not run"
"""It cannot be run here; JAX cannot be asked."""
NONE: Final = "none"
"""There is no derivative."""
LEDGER: Final = "in the ledger"
"""JAX does otherwise, and an entry of the ledger says why."""
MOST_SEEDS: Final = 4
"""How many seeds are tried for inputs on which every loop ends."""


@dataclass
class Way:
    """One program, one way. ours: what became of our two runs, and `why`, where that is not `EQUAL`. jax: likewise,
    empty where JAX was not asked, and `says`; entry: of the ledger. collectives: how many were executed as derived."""

    way: str
    ours: str
    why: str = ""
    jax: str = ""
    says: str = ""
    entry: int = 0
    devices: int = 0
    collectives: int = 0
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing differs that is not explained."""
        return DIFFERENT not in (self.ours, self.jax)


@dataclass
class Ways:
    """What became of one program. refused: why it was not let run, by its check, whose verdict is not `ok`; then there
    are no ways."""

    name: str
    ways: list[Way] = field(default_factory=list)
    refused: str = ""
    verdict: str = "ok"


def job_of(file: str, meshes: list[Mesh], otherwise: list[Mesh] | None = None) -> Job | Ways:
    """The program of a text or of a factory's function, checked; what its check says, where it does not let it run.
    otherwise: the meshes of a text that `meshes` and itself leave open."""
    from verifier.answers import file_report, function_report
    from verifier.factories import is_target
    from verifier.functions import FunctionReport

    if not meshes and otherwise and not is_target(file) and _open(file):
        meshes = otherwise
    report, text = function_report(file, meshes) if is_target(file) else file_report(file, meshes)
    if report.verdict != "ok":
        first = report.refusals[0]
        return Ways(file, refused=f"{first.code}: {first.message}", verdict=report.verdict)
    if isinstance(report, FunctionReport):
        assert report.source is not None
        return Job(file, None, report.source.meshes)
    document = read(text)
    try:
        program, _ = instance(document.program)
    except CannotRun:  # the run will say so
        program = document.program
    return Job(file, program, tuple(meshes or meshes_of(document)))


def _open(file: str) -> bool:
    """Whether a text does not say its mesh; what is no text is refused elsewhere."""
    from verifier.sources import text_of

    try:
        said = meshes_of(read(text_of(file)))
    except (Refused, RecursionError):
        return False
    return any(axis.size is None for mesh in said for axis in mesh.axes)


class Job(NamedTuple):
    """A program to run; of a function, `None`, for what it is called with is traced where it is run: its name is that
    of a factory."""

    name: str
    program: Program | None
    meshes: tuple[Mesh, ...]


class Made(NamedTuple):
    """A program that is to be run one way. refusal: why there is none. entry: of the ledger, by which JAX refuses the
    function that it is of. refused: whether it does, by that or not. twin: what makes the same with check_vma=True,
    where JAX differentiates without."""

    way: str
    program: Program | None
    wrt: tuple[int, ...] = ()
    refusal: str = ""
    entry: int = 0
    refused: bool = False
    twin: Callable[[], Twin | None] | None = None


def opened(program: Program) -> Program:
    """The program with its constants as inputs."""
    names, types = (*program.constants, *program.inputs), (*program.constant_types, *program.input_types)
    return Program((), (), names, types, program.equations, program.outputs)


def made(job: Job, backward: bool) -> tuple[Checker, list[Made]]:
    """The program of a job, constants first, as it is to be run each way; the backward one is the vjp with respect to
    all that is floating. With the checker of the door that it came in by. Raises `BadFactory`."""
    checker = Checker(job.meshes)
    program, entry, refused, twin = job.program, 0, False, None
    if program is None:
        from verifier.factories import report_on

        source = report_on(job.name).source
        assert source is not None
        program, checker, entry, refused = source.program, source.checker, source.entry, source.refused
        twin = source.twin
    return checker, [
        one._replace(entry=entry, refused=refused, twin=twin if one.way == FORWARD else None)
        for one in each_way(program, checker, backward)
    ]


def each_way(program: Program, checker: Checker, backward: bool) -> Iterator[Made]:
    """A well-typed program as it is run: forward, and its vjp with respect to all that is floating."""
    program = opened(typed(checker.check(program)))
    yield Made(FORWARD, program)
    if not backward:
        return
    wrt = floating(program.input_types)
    if not wrt:
        yield Made(BACKWARD, None, (), "no input is floating")
        return
    try:
        yield Made(BACKWARD, tidy(vjp(program, Workbench(checker), wrt)).program, wrt)
    except Refused as refused:
        yield Made(BACKWARD, None, wrt, refused.refusal.message)


def executed(
    one: Made, meshes: Sequence[Mesh], seed: int, checker: Checker | None = None, scale: float = 1.0
) -> tuple[Way, Outcome | None]:
    """A program, run whole and per device, on inputs on which its loops end, if one of a few seeds draws such."""
    if one.program is None:
        return Way(one.way, NONE, one.refusal), None
    started = time.monotonic()
    for again in range(MOST_SEEDS):
        outcome = run(one.program, meshes, seed + again, checker=checker if one.way == FORWARD else None, scale=scale)
        if not any(ENDLESS in problem.message for problem in outcome.problems):
            break
    twin = one.twin() if one.twin is not None else None
    if twin is not None:
        from verifier.execution.tracked import compared

        compared(one.program, outcome, twin, seed)
    way = Way(one.way, EQUAL, devices=outcome.devices, seconds=time.monotonic() - started)
    if outcome.equal:
        way.collectives = sum(line.executed for line in outcome.lines)
        return way, outcome
    way.ours = NOT_RUN if all(problem.unrunnable for problem in outcome.problems) else DIFFERENT
    first, *others = outcome.problems
    shown = [first, *(problem for problem in others if problem.held)]
    way.why = "; ".join(problem.message + on_one_line(problem) for problem in shown)
    return way, None


@dataclass
class Runs:
    """What a run over many programs finds. version: of the JAX that was asked, empty where none was."""

    version: str = ""
    found: list[Ways] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing is refused, and nothing differs that is not explained."""
        return all(not one.refused and all(way.clean for way in one.ways) for one in self.found)

    def counted(self, way: str, **said: str) -> int:
        """How many programs have this way, with these words."""
        return sum(
            one.way == way and all(getattr(one, key) == word for key, word in said.items())
            for each in self.found
            for one in each.ways
        )


def run_all(
    jobs: Sequence[Job | Ways], seed: int = 0, backward: bool = False, with_jax: bool = False,
    progress: Callable[[str], None] = lambda what: None,
) -> Runs:  # fmt: skip
    """Run all programs; those that were refused already are passed on. Raises `BadLedger`, and `ImportError` where JAX
    is asked and there is none."""
    from verifier.workers import Lost, Worker

    started = time.monotonic()
    found = Runs()
    worker: Worker | None = None
    try:
        for at, job in enumerate(jobs):
            progress(f"{at + 1} of {len(jobs)}, {job.name}")
            if isinstance(job, Ways):
                found.found.append(job)
            elif with_jax:
                worker = worker or Worker("verifier.with_jax.beside:Beside", max(map(_devices, jobs)))
                worker.ask("ways", job, seed, backward)
                try:
                    ways = worker.result()
                except Lost as lost:
                    ways, version = _alone(job, seed, backward), worker.version
                    worker, found.version = None, version
                    _died(ways, job, version, str(lost))
                found.found.append(Ways(job.name, ways))
                found.version = worker.version if worker is not None else found.version
            else:
                found.found.append(Ways(job.name, _alone(job, seed, backward)))
    finally:
        if worker is not None:
            worker.end()
    found.seconds = time.monotonic() - started
    return found


def _died(ways: Sequence[Way], job: Job, version: str, message: str) -> None:
    """JAX has ended its process, by an entry of the ledger or not."""
    from verifier.findings import DIES, Finding
    from verifier.ledger import ledger

    program = job.program or Program((), (), (), (), (), ())
    finding = Finding(DIES, message, program, job.meshes[0] if job.meshes else Mesh(()))
    entries = (entry for entry in ledger() if version in entry.versions)
    entry = next((entry.number for entry in entries if entry.shows(finding)), 0)
    for way in ways:
        way.jax, way.entry, way.says = LEDGER if entry else DIFFERENT, entry, f"its process ends: {message}"


def _alone(job: Job, seed: int, backward: bool) -> list[Way]:
    checker, each = made(job, backward)
    return [executed(one, job.meshes, seed, checker)[0] for one in each]


def _devices(job: Job | Ways) -> int:
    if isinstance(job, Ways):
        return 1
    return max((mesh.size(mesh.by_name) or 1 for mesh in job.meshes), default=1)


# --- as text, and as data ---------------------------------------------------------------------------------------------


def lines(found: Runs) -> Iterator[str]:
    """The report as text."""
    beside = f", and by JAX {found.version}" if found.version else ""
    yield f"{count(len(found.found), 'program')}, whole and per device{beside}, in {found.seconds:.0f} seconds"
    ways = [way for way in (FORWARD, BACKWARD) if found.counted(way)]
    heads = ["", "run", "equal", "not run", "different", "no derivative"]
    heads += ["JAX equal", "in the ledger", "not asked", "different"] if found.version else []
    rows = [heads]
    for way in ways:
        row = [f"  {way}", str(found.counted(way) - found.counted(way, ours=NONE))]
        row += [str(found.counted(way, ours=word)) for word in (EQUAL, NOT_RUN, DIFFERENT, NONE)]
        if found.version:
            row += [str(found.counted(way, jax=word)) for word in (EQUAL, LEDGER, NOT_RUN, DIFFERENT)]
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
    moved = sum(way.collectives for one in found.found for way in one.ways)
    yield f"  {count(moved, 'collective')} executed as derived" if moved else "  nothing communicates"
    for title, said in _reasons(found):
        yield ""
        yield f"  {title}"
        yield from (f"    {words}" for words in said)


def _reasons(found: Runs) -> Iterator[tuple[str, list[str]]]:
    refused = [f"{one.name}: {one.refused}" for one in found.found if one.refused]
    if refused:
        yield "refused:", refused
    every = [(one.name, way) for one in found.found for way in one.ways]
    for title, word in (("different:", DIFFERENT), ("not run:", NOT_RUN), ("no derivative:", NONE)):
        said = [f"{name}, {way.way}: {way.why}" for name, way in every if way.ours == word]
        if said:
            yield title, said
    for title, word in (
        ("JAX differs:", DIFFERENT), ("JAX differs, by the ledger:", LEDGER), ("JAX is not asked:", NOT_RUN),
    ):  # fmt: skip
        said = [
            f"{name}, {way.way}: {f'entry {way.entry}: ' if way.entry else ''}{way.says}"
            for name, way in every
            if way.jax == word
        ]
        if said:
            yield title, said


def as_data(found: Runs) -> dict[str, Any]:
    """The report as plain data for `--json`."""
    return {
        "jax": found.version or None,
        "seconds": round(found.seconds, 1),
        "programs": [
            {
                "program": one.name,
                "refused": one.refused or None,
                **{
                    way.way: {
                        "runs": way.ours,
                        "why": way.why or None,
                        "jax": way.jax or None,
                        "says": way.says or None,
                        "entry": way.entry or None,
                        "devices": way.devices,
                        "collectives": way.collectives,
                        "seconds": round(way.seconds, 2),
                    }
                    for way in one.ways
                },
            }
            for one in found.found
        ],
    }
