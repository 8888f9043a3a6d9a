"""What the types guarantee of each mesh axis, beside what XLA moves along it: of drawn programs, texts and functions.

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

from verifier.compiled.classes import ALIKE, AT_ONCE, CONSTANT, FOLDED, HOISTED, RENUMBERED, SHARED
from verifier.compiled.derived import Said
from verifier.compiled.groups import NO_AXES
from verifier.compiled.matching import matched
from verifier.compiled.reading import Moved
from verifier.explaining.guarantees import Answer, Guarantee
from verifier.program_agreement import seeds
from verifier.report import count
from verifier.spread import Pace, Running, Task, spread

DOOR: Final = "verifier.with_jax.communicating:Communicating"
NAMED: Final = (FOLDED, ALIKE, CONSTANT, HOISTED, RENUMBERED, SHARED, AT_ONCE)
"""The ways in which what the types derive along an axis is not moved along it."""

AGREED: Final = "agreed"
ACCEPTED: Final = "accepted, and something is moved"
REFUSED: Final = "refused, and nothing is moved"
OPEN: Final = "not guaranteed"

DRAWN: Final = "drawn"
TEXTS: Final = "texts"
FUNCTIONS: Final = "functions"
MOST_OPEN: Final = {DRAWN: 0.10, TEXTS: 0.05}
"""The part of the programs of a kind of which some axis may be left open. Of functions there is no such bound: an axis
that their author leaves to the compiler is open."""


@dataclass
class Seen:
    """One axis of one program. ours: what the types say. moved: the kinds of collectives that XLA moves along it.
    outcome: how the two stand to each other. classes: what explains that nothing is moved. why: why it is open."""

    axis: str
    ours: str
    moved: tuple[str, ...]
    outcome: str
    classes: tuple[str, ...] = ()
    why: str = ""


@dataclass
class Asked:
    """One program. left_out: why it was not compared, where it was not."""

    name: str
    seed: int = -1
    axes: list[Seen] = field(default_factory=list)
    left_out: str = ""
    collectives: int = 0

    @property
    def kind(self) -> str:
        """Where it comes from."""
        return DRAWN if self.seed >= 0 else TEXTS if self.name.endswith(".jaxpr") else FUNCTIONS

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
        found.axes.append(Seen(answer.axis, answer.guarantee.value, along, outcome, classes, answer.why))
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
    """What a run finds. seed: of the run; that of each program follows from it. wanted: what somebody asked for by
    name, with the programs that it is, one or those of a folder."""

    seed: int
    asked: int
    version: str = ""
    programs: list[Asked] = field(default_factory=list)
    seconds: float = 0.0
    wanted: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def missed(self) -> list[str]:
        """What was asked for by name, and nothing of it was compared."""
        compared = {one.name for one in self.compared}
        return [name for name, programs in self.wanted.items() if compared.isdisjoint(programs)]

    @property
    def compared(self) -> list[Asked]:
        """Those that both sides take."""
        return [one for one in self.programs if not one.left_out]

    def axes(self, outcome: str) -> list[tuple[Asked, Seen]]:
        """The axes that came out so."""
        return [(one, axis) for one in self.compared for axis in one.axes if axis.outcome == outcome]

    def of(self, kind: str) -> list[Asked]:
        """The compared programs of a kind that have a mesh of several devices."""
        return [one for one in self.compared if one.kind == kind and one.axes]

    def open(self, kind: str) -> float:
        """The part of those programs of which an axis is not guaranteed, from 0 to 1."""
        return sum(one.open for one in self.of(kind)) / max(1, len(self.of(kind)))

    @property
    def too_open(self) -> list[str]:
        """The kinds of which more is left open than may be. Of a few programs, one may be: it says nothing of many."""
        return [
            kind
            for kind, most in MOST_OPEN.items()
            if self.open(kind) > most and sum(one.open for one in self.of(kind)) > 1
        ]

    @property
    def clean(self) -> bool:
        """Whether nothing is accepted or refused wrongly, little is left open, and what was named was compared."""
        return not (self.axes(ACCEPTED) or self.axes(REFUSED) or self.too_open or self.missed)


def compare(
    programs: int, seed: int, names: Sequence[tuple[str, str]] = (), processes: int = 2,
    progress: Callable[[str], None] = lambda what: None, wanted: Mapping[str, Sequence[str]] | None = None,
) -> Communication:  # fmt: skip
    """Compare so many drawn programs, or as many as there are until somebody interrupts. names: of more that are
    compared, `FILE.jaxpr` or `package.module:factory`, each with its mesh as text, empty for its own, of which as many
    devices are taken as there are. wanted: what of them somebody asked for by name."""
    started = time.monotonic()
    tasks = [Task("named", one) for one in names] + [Task("asked", (one,)) for one in seeds(seed, programs)]
    found = Communication(seed, len(tasks), wanted=wanted or {})

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
    """The report as text: a row for each kind of program, then what is wrong, and why axes are open."""
    seed = f", those that are drawn of seed {found.seed}" if found.of(DRAWN) else ""
    drawn = count(len(found.programs), "program")
    yield f"JAX {found.version}: {drawn}{seed}, {found.seconds:.0f} seconds"
    heads = (
        "",
        "compared",
        "with a mesh",
        "axes",
        "accepted",
        "moved",
        "refused",
        "not moved",
        "open",
        "programs open",
    )
    rows = [heads, *(_row(found, kind) for kind in (DRAWN, TEXTS, FUNCTIONS) if found.of(kind))]
    widths = [max(len(row[at]) for row in rows) for at in range(len(heads))]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join(["", first.ljust(widths[0]), *cells]).rstrip()
    every = [axis for one in found.compared for axis in one.axes]
    yield ""
    for name, number in Counter(name for axis in every for name in axis.classes).most_common():
        yield f"  refused, and {name}: {_axes(number)}"
    for why, number in Counter(axis.why for axis in every if axis.outcome == OPEN).most_common():
        yield f"  not guaranteed: {_axes(number)}: {why}"
    for what, number in Counter(one.left_out for one in found.programs if one.left_out).most_common(12):
        yield f"  not compared: {count(number, 'program')}: {what}"
    for one, axis in (*found.axes(ACCEPTED), *found.axes(REFUSED)):
        kinds = ", ".join(axis.moved) or "nothing"
        yield f"  WRONG  {one.name}, axis {axis.axis}: the types say {axis.ours}, XLA moves {kinds}"
    for kind in found.too_open:
        most = f"at most {MOST_OPEN[kind]:.0%}"
        yield f"  WRONG  {kind}: {found.open(kind):.1%} have an axis that is not guaranteed, {most} may"
    for name in found.missed:
        yield f"  NOT COMPARED  {name}"
    wrong = len(found.axes(ACCEPTED)) + len(found.axes(REFUSED))
    yield (
        f"  {_axes(wrong)} wrong: {len(found.axes(ACCEPTED))} accepted along which something is moved, "
        f"{len(found.axes(REFUSED))} refused along which nothing is"
    )


def _axes(number: int) -> str:
    return f"{number:,} {'axis' if number == 1 else 'axes'}"


def _row(found: Communication, kind: str) -> tuple[str, ...]:
    """One kind of programs: how many, and what was found of their axes."""
    those = found.of(kind)
    axes = [axis for one in those for axis in one.axes]
    said = Counter(axis.ours for axis in axes)
    wrong = Counter(axis.outcome for axis in axes)
    most = f" (at most {MOST_OPEN[kind]:.0%})" if kind in MOST_OPEN else ""
    numbers = (
        sum(one.kind == kind for one in found.compared), len(those), len(axes),
        said[Guarantee.FREE.value], wrong[ACCEPTED], said[Guarantee.COMMUNICATES.value], wrong[REFUSED], wrong[OPEN],
    )  # fmt: skip
    return kind, *(f"{number:,}" for number in numbers), f"{found.open(kind):.1%}{most}"


def as_data(found: Communication) -> dict[str, Any]:
    """The report as plain data for `--json`."""
    return {
        "jax": found.version,
        "seed": found.seed,
        "asked": found.asked,
        "compared": len(found.compared),
        "not_guaranteed": {kind: round(found.open(kind), 4) for kind in (DRAWN, TEXTS, FUNCTIONS) if found.of(kind)},
        "accepted_and_moved": len(found.axes(ACCEPTED)),
        "refused_and_not_moved": len(found.axes(REFUSED)),
        "not_compared": found.missed,
        "seconds": round(found.seconds, 1),
        "programs": [
            {
                "name": one.name,
                "kind": one.kind,
                "left_out": one.left_out,
                "axes": [
                    {"axis": axis.axis, "types": axis.ours, "moved": list(axis.moved), "outcome": axis.outcome,
                     "classes": list(axis.classes), "why": axis.why}
                    for axis in one.axes
                ],
            }
            for one in found.programs
        ],
    }  # fmt: skip
