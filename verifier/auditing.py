"""How the audit asks: calls, cells on devices, derivatives and evidence, spread over processes."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from calculus.meshes import Mesh
from verifier.audit import Asked, Audit, OnDevices
from verifier.backward_agreement import Agreement, Comparison, explain
from verifier.evidence import Outcome, programs_of
from verifier.ledger import Entry, ledger
from verifier.matrix import MESHES, Matrix, UnknownPrimitive
from verifier.patterns import Difference, agree
from verifier.spread import Pace, Task, alone, spread

JAX_DOOR: Final = "verifier.with_jax.auditing:Auditing"
EVIDENCE_DOOR: Final = "verifier.evidence:Reproducing"

CELLS: Final = 310_000
CALLS: Final = 230
PROGRAMS: Final = 2_250
"""About how many cells there are, sample calls, and derivatives: the forecast begins before they are counted."""
CELL: Final = 0.0005
RUN: Final = 3.0
DERIVATIVE: Final = 0.075
EVIDENCE: Final = 2.0
START: Final = 4.0
"""About how many seconds a cell, some cells of a call on devices, a derivative, the program of a defect, and the start
of a process take on one processor."""
MANY: Final = 80
"""About how many cells of a call run on devices."""
TOGETHER: Final = 20
"""How many derivatives are one task, or programs of defects."""
DEATHS: Final = 40
"""The most processes that are spent on finding cells that end them."""

Progress = Callable[[Pace, str], None]


def audit(
    primitives: Sequence[str] = (),
    run: bool = False,
    progress: Progress = lambda pace, what: None,
    meshes: Sequence[Mesh] = MESHES,
    processes: int | None = None,
) -> Audit:
    """Audit the installed JAX. `primitives` narrows it to those named, and then nothing is asked backward; `meshes` to
    these. processes: how many ask at once, by default as many as there are processors; 0 asks in this one, and then
    nothing is run.

    Opens the door to JAX, with CPU devices. An interrupt ends it: what was found until then is given back. Raises
    `BadLedger`, `UnknownPrimitive`, `ImportError` where there is no JAX, and `FileNotFoundError` where the programs to
    run are not there.
    """
    if importlib.util.find_spec("jax") is None:
        raise ImportError("no module named jax")
    count = (os.cpu_count() or 1) if processes is None else processes
    return _Asking(primitives, run and count > 0, progress, meshes, count).result()


class _Asking:
    """One audit as it goes."""

    def __init__(
        self, primitives: Sequence[str], run: bool, progress: Progress, meshes: Sequence[Mesh], processes: int
    ) -> None:
        self.primitives, self.run, self.meshes = primitives, run, list(meshes)
        self.progress, self.processes = progress, processes
        self.pace, self.started, self.deaths, self.doing = Pace(processes), time.monotonic(), 0, ""
        self.every = ledger()
        self.entries: Sequence[Entry] = self.every
        self.found = Matrix("")
        self.own = Asked()
        self.calls: list[str] = []
        self.outcomes: list[Outcome] = []
        self.backward = None if primitives else Agreement("")
        self.ran = OnDevices() if run else None

    def result(self) -> Audit:
        """Ask everything."""
        result = Audit(self.found, self.backward, self.own, ())
        tasks = [Task("named", (self.meshes,), START)]
        tasks += [] if self.primitives else [Task("programs", seconds=START)]
        if not self.primitives:
            later = CELLS * CELL + CALLS * self.run * RUN + PROGRAMS * DERIVATIVE
            later += EVIDENCE * len(self.every) if self.run else 0
            self.pace.expected = later + START * len(tasks)
            self.progress(self.pace, "JAX")
        try:
            if self.processes:
                spread(JAX_DOOR, tasks, self.pace, self._take, self._died, self._tick)
            else:
                alone(JAX_DOOR, tasks, self._take, self._tick)
            self._sort(result)
            if self.run:
                self._reproduce(result)
        except KeyboardInterrupt:
            result.share = min(self.pace.share, 0.99)
            if not result.entries:
                self._sort(result)
        result.seconds = time.monotonic() - self.started
        return result

    # --- what comes back ----------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.progress(self.pace, self.doing)

    def _instead(self, guessed: float, tasks: Sequence[Task]) -> Sequence[Task]:
        """Tasks in place of a guess."""
        if not self.primitives:
            self.pace.expected -= guessed
        self.pace.expected += sum(task.seconds for task in tasks)
        return tasks

    def _take(self, task: Task, found: Any) -> Sequence[Task]:
        return getattr(self, f"_{task.method}")(found, task)  # type: ignore[no-any-return]

    def _named(self, found: Any, task: Task) -> Sequence[Task]:
        version, named = found
        self.found.version = version
        speaking = [entry for entry in self.every if version in entry.versions]
        self.entries = self.found.entries = speaking or self.every
        self.found.named = bool(speaking or not self.every)
        unknown = set(self.primitives) - {one.primitive for one in named}
        if unknown:
            raise UnknownPrimitive(min(unknown), sorted({one.primitive for one in named}))
        chosen = [at for at, one in enumerate(named) if not self.primitives or one.primitive in self.primitives]
        self.calls = [one.name for one in named]
        tasks = [Task("asked", (at, self.meshes, self.run), 0.1 + CELL * named[at].cells) for at in chosen]
        return self._instead(CELLS * CELL, tasks)

    def _programs(self, names: list[str], task: Task) -> Sequence[Task]:
        parts = [names[at : at + TOGETHER] for at in range(0, len(names), TOGETHER)]
        return self._instead(
            PROGRAMS * DERIVATIVE, [Task("derived", (part,), DERIVATIVE * len(part)) for part in parts]
        )

    def _asked(self, part: Any, task: Task) -> Sequence[Task]:
        at = task.arguments[0]
        self.doing = self.calls[at]
        self.found.add(part.matrix)
        self.own = self.own.plus(part.asked)
        if self.ran is None:
            return ()
        self.ran.spared += part.spared
        tasks = [Task("ran", (at, mesh, cells), RUN * len(cells) / MANY) for mesh, cells in part.runnable]
        return self._instead(RUN, tasks)

    def _ran(self, found: Any, task: Task) -> Sequence[Task]:
        for one in found:
            self._count(one.difference, one.right, one.says, one.crashed)
        return ()

    def _derived(self, found: Any, task: Task) -> Sequence[Task]:
        assert self.backward is not None
        for name, answer in found:
            self.doing = f"the derivative of {name}"
            if isinstance(answer, Comparison):
                self.backward.compared.append(answer)
            else:
                kept, says = answer
                (self.backward.beside if kept else self.backward.untraced)[name] = says
        return ()

    def _reproduced(self, found: Any, task: Task) -> Sequence[Task]:
        self.outcomes += found
        return ()

    def _count(self, difference: Difference, right: bool, says: str, crashed: bool) -> None:
        """Count a cell that ran."""
        assert self.ran is not None
        self.ran.right += right
        self.ran.crashed += crashed
        self.ran.wrong += not right and not crashed
        if right:
            return
        alike = agree(difference.ours, difference.theirs)
        covering = (
            one for one in self.entries if (one.runs_wrong(difference, says) if alike else one.covers(difference))
        )
        entry = next(covering, None)
        if entry is not None:
            counts = self.ran.covered if alike else self.ran.confirmed
            counts[entry.number] = counts.get(entry.number, 0) + 1
        elif alike:  # a difference that no entry covers is new already
            self.ran.new.append((difference, says, crashed))

    def _died(self, task: Task, running: tuple[Any, ...] | None, message: str) -> Sequence[Task]:
        """Of cells that ended the process, find the one that did."""
        self.deaths += 1
        if task.method != "ran" or running is None or self.ran is None:
            raise RuntimeError(f"the process that did {task.method} {self.doing} ended: {message}")
        at, mesh, cells = task.arguments
        last = set(running[1])
        fatal = [one for one in cells if one[0] in last]
        others = [one for one in cells if one[0] not in last]
        parts = [others]
        if len(fatal) == 1 or self.deaths > DEATHS:
            ((cell, ours, theirs), *_) = fatal
            call = running[0]
            self._count(Difference(call, mesh, cell, ours, theirs), False, f"the process ends: {message}", True)
        else:
            parts += [fatal[: len(fatal) // 2], fatal[len(fatal) // 2 :]]
        return [Task("ran", (at, mesh, part), RUN * len(part) / MANY) for part in parts if part]

    # --- what becomes of it -------------------------------------------------------------------------------------------

    def _sort(self, result: Audit) -> None:
        """Say which entries cover what was found."""
        self.found.explain(whole=False)
        if self.backward is not None:
            self.backward.version, self.backward.entries = self.found.version, self.entries
            explain(self.backward)
        ran = self.ran
        met = {number for number, cells in self.found.covered.items() if cells}
        met |= {*ran.covered, *ran.confirmed} if ran is not None else set()
        result.asked, result.ran = self.own, ran
        result.entries = [entry for entry in self.entries if not self.primitives or entry.number in met]

    def _reproduce(self, result: Audit) -> None:
        """Run the programs of the defects."""
        self.doing = "the programs of the defects"
        having = [entry for entry in result.entries if entry.file]
        paths = programs_of(having)
        parts = [paths[at : at + TOGETHER] for at in range(0, len(paths), TOGETHER)]
        tasks = [Task("reproduced", (part,), EVIDENCE * len(part)) for part in parts]
        self._instead(EVIDENCE * len(self.every), tasks)
        try:
            spread(EVIDENCE_DOOR, tasks, self.pace, self._take, self._died, self._tick)
        finally:
            outcomes = {outcome.file: outcome for outcome in self.outcomes}
            result.outcomes = {one.number: outcomes[one.file] for one in having if one.file in outcomes}
