"""What the types guarantee of each mesh axis, beside what XLA moves along it: of drawn programs.

For each axis of a program's mesh the types say that nothing communicates along it, that something does, or that they do
not determine it (not guaranteed), which counts as refused. XLA's partitioner for CPU devices says what is moved. A free
axis along which something is moved is an error of ours; so is a refused one along which nothing is, unless what the
types derive there has gone in a way with a name: folded away, constant, hoisted, or along another axis of its size.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from verifier.compiled.classes import AT_ONCE, CONSTANT, FOLDED, HOISTED, RENUMBERED, SHARED
from verifier.compiled.derived import Said
from verifier.compiled.groups import NO_AXES
from verifier.compiled.matching import matched
from verifier.compiled.reading import Moved
from verifier.explaining.guarantees import Answer, Guarantee
from verifier.program_agreement import seeds
from verifier.report import count
from verifier.spread import Pace, Running, Task, spread

DOOR: Final = "verifier.with_jax.communicating:Communicating"
NAMED: Final = (FOLDED, CONSTANT, HOISTED, RENUMBERED, SHARED, AT_ONCE)
"""The ways in which what the types derive along an axis is not moved along it."""

AGREED: Final = "agreed"
ACCEPTED: Final = "accepted, and something is moved"
REFUSED: Final = "refused, and nothing is moved"
OPEN: Final = "not guaranteed"
MOST_OPEN: Final = 0.10
"""The part of the programs of which some axis may be left open."""


@dataclass
class Seen:
    """One axis of one program. ours: what the types say. moved: the kinds of collectives that XLA moves along it.
    outcome: how the two stand to each other. classes: what explains that nothing is moved."""

    axis: str
    ours: str
    moved: tuple[str, ...]
    outcome: str
    classes: tuple[str, ...] = ()


@dataclass
class Asked:
    """One program. left_out: why it was not compared, where it was not."""

    name: str
    seed: int = -1
    axes: list[Seen] = field(default_factory=list)
    left_out: str = ""
    collectives: int = 0

    @property
    def open(self) -> bool:
        """Whether some axis is not guaranteed."""
        return any(one.outcome == OPEN for one in self.axes)


def hold(
    name: str, answers: Sequence[Answer], said: Sequence[Said], moved: Sequence[Moved], sizes: Mapping[str, int],
) -> Asked:  # fmt: skip
    """One program: what is guaranteed of each axis beside what is moved along it. A group of devices that lies along no
    axes, or a part of one, counts for every axis; what moves a constant, which the compiler folds later, for none."""
    matching = matched(said, moved, sizes)
    found = Asked(name, collectives=len(moved))
    for answer in answers:
        there = [one for one in moved if answer.axis in one.axes or one.axes == NO_AXES]
        along = tuple(sorted({one.kind for one in there if not one.constant}))
        classes: tuple[str, ...] = (CONSTANT.name,) if there and not along else ()
        if answer.guarantee is Guarantee.OPEN:
            outcome = OPEN
        elif answer.guarantee is Guarantee.FREE:
            outcome = ACCEPTED if along else AGREED
        elif along:
            outcome = AGREED
        else:
            classes = classes or _gone(answer.axis, matching.pairs, matching.said)
            outcome = AGREED if classes else REFUSED
        found.axes.append(Seen(answer.axis, answer.guarantee.value, along, outcome, classes))
    return found


def _gone(axis: str, pairs: Sequence[Any], unexplained: Sequence[Said]) -> tuple[str, ...]:
    """The classes of all that the types derive along an axis; none where something there has no such class."""
    if any(axis in one.axes for one in unexplained):
        return ()
    found = [pair.class_ for pair in pairs if any(axis in one.axes for one in pair.said)]
    if not found or any(one not in NAMED for one in found):
        return ()
    return tuple(sorted({one.name for one in found}))


@dataclass
class Communication:
    """What a run finds. seed: of the run; that of each program follows from it."""

    seed: int
    asked: int
    version: str = ""
    programs: list[Asked] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def compared(self) -> list[Asked]:
        """Those that both sides take."""
        return [one for one in self.programs if not one.left_out]

    def axes(self, outcome: str) -> list[tuple[Asked, Seen]]:
        """The axes that came out so."""
        return [(one, axis) for one in self.compared for axis in one.axes if axis.outcome == outcome]

    @property
    def open(self) -> float:
        """The part of the programs of which an axis is not guaranteed, from 0 to 1."""
        return sum(one.open for one in self.compared) / max(1, len(self.compared))

    @property
    def clean(self) -> bool:
        """Whether nothing is accepted or refused wrongly, and little is left open."""
        return not self.axes(ACCEPTED) and not self.axes(REFUSED) and self.open <= MOST_OPEN


def compare(
    programs: int, seed: int, names: Sequence[tuple[str, str]] = (), processes: int = 2,
    progress: Callable[[str], None] = lambda what: None,
) -> Communication:  # fmt: skip
    """Compare so many drawn programs, or as many as there are until somebody interrupts. names: of more that are
    compared, `FILE.jaxpr` or `package.module:factory`, each with its mesh as text, empty for its own."""
    started = time.monotonic()
    tasks = [Task("named", one) for one in names] + [Task("asked", (one,)) for one in seeds(seed, programs)]
    found = Communication(seed, len(tasks))

    def take(task: Task, result: Asked) -> Sequence[Task]:
        found.programs.append(result)
        wrong = len(found.axes(ACCEPTED)) + len(found.axes(REFUSED))
        progress(f"{len(found.programs)} of {len(tasks)} programs, {wrong} axes wrong")
        return ()

    def ready(version: str) -> None:
        found.version = version

    def ended(task: Task, running: Running, message: str) -> Sequence[Task]:
        drawn = isinstance(task.arguments[0], int)
        name = f"seed {task.arguments[0]}" if drawn else task.arguments[0]
        last = message.strip().rpartition("\n")[2]
        return take(task, Asked(name, task.arguments[0] if drawn else -1, left_out=f"ended: {last}"[:300]))

    pace = Pace(max(1, min(processes, len(tasks) // 10)))
    with contextlib.suppress(KeyboardInterrupt):  # what was compared until then is reported
        spread(DOOR, tasks, pace, take, ended, broke=ended, ready=ready)
    found.programs.sort(key=lambda one: one.seed)
    found.seconds = time.monotonic() - started
    return found


def lines(found: Communication) -> Iterator[str]:
    """The report as text."""
    compared = found.compared
    every = [axis for one in compared for axis in one.axes]
    drawn = count(len(found.programs), "program")
    yield f"JAX {found.version}: {drawn} of seed {found.seed}, {found.seconds:.0f} seconds"
    moved = sum(one.collectives for one in compared)
    yield f"  compared                {len(compared):>6,}  with {moved:,} collectives"
    free = sum(axis.ours == Guarantee.FREE.value for axis in every)
    yield f"  axes                    {len(every):>6,}"
    yield f"    accepted              {free:>6,}  of which something is moved along {len(found.axes(ACCEPTED)):,}"
    refused = sum(axis.ours == Guarantee.COMMUNICATES.value for axis in every)
    yield f"    refused               {refused:>6,}  of which nothing is moved along {len(found.axes(REFUSED)):,}"
    for name, number in Counter(name for axis in every for name in axis.classes).most_common():
        yield f"      gone, with a name   {number:>6,}  {name}"
    yield f"    not guaranteed        {len(found.axes(OPEN)):>6,}  in {found.open:.1%} of the programs"
    for what, number in Counter(one.left_out for one in found.programs if one.left_out).most_common(12):
        yield f"  not compared: {count(number, 'program')}: {what}"
    for one, axis in (*found.axes(ACCEPTED), *found.axes(REFUSED)):
        kinds = ", ".join(axis.moved) or "nothing"
        yield f"  WRONG  {one.name}, axis {axis.axis}: the types say {axis.ours}, XLA moves {kinds}"


def as_data(found: Communication) -> dict[str, Any]:
    """The report as plain data for `--json`."""
    return {
        "jax": found.version,
        "seed": found.seed,
        "asked": found.asked,
        "compared": len(found.compared),
        "not_guaranteed": round(found.open, 4),
        "accepted_and_moved": len(found.axes(ACCEPTED)),
        "refused_and_not_moved": len(found.axes(REFUSED)),
        "seconds": round(found.seconds, 1),
        "programs": [
            {
                "name": one.name,
                "left_out": one.left_out,
                "axes": [
                    {"axis": axis.axis, "types": axis.ours, "moved": list(axis.moved), "outcome": axis.outcome,
                     "classes": list(axis.classes)}
                    for axis in one.axes
                ],
            }
            for one in found.programs
        ],
    }  # fmt: skip
