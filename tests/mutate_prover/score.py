"""The score: how many wrong ones there are of each group, who saw them, and the table that says so."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Final, NamedTuple

from calculus.primitives import TABLE
from tests.mutate_prover import declarations, rows, transposes
from tests.mutate_prover.seen import LATE, LAW, NOBODY, READING, RUN, SOLVER, WAYS, Seen

SLICE: Final = 8
"""How many wrong declarations of a primitive one process is given at a time."""


class Task(NamedTuple):
    """Some mutants: of what, from which to which, and how many."""

    group: str
    name: str
    start: int = 0
    many: int = 1


DECLARATIONS, TRANSPOSES, ROWS = "declarations", "transposes", "rows"
GROUPS: Final[Mapping[str, str]] = {
    DECLARATIONS: "declarations: a linearity mark moved, a join dropped, turned, added, another role of a factor",
    TRANSPOSES: "the sign of a written transpose",
    ROWS: "rows of per-device code: reduced for replicated, a collective lost, added, another, another transpose; "
    "the cotangent map",
}
_HEAD: Final = (
    "| made wrong | how many | the solver | the prover's runs, bounded checks | contradict themselves | a law alone | "
    "over the bound | nothing |",
    "|---|---|---|---|---|---|---|---|",
)
_COLUMNS: Final = (SOLVER, RUN, READING, LAW, LATE, NOBODY)

Counts = Mapping[str, Mapping[str, int]]
"""Of each group, by who saw them, how many."""


def tasks(names: Sequence[str] = ()) -> list[Task]:
    """All there is to do; of these primitives and rows, where names are given."""
    found = [Task(ROWS, what) for what in rows.rules()]
    for name in TABLE:
        if not names or name in names:
            count = declarations.count(name)
            found += [Task(DECLARATIONS, name, at, min(SLICE, count - at)) for at in range(0, count, SLICE)]
    found += [Task(TRANSPOSES, name, 0, transposes.count(name)) for name in transposes.names()]
    return [one for one in found if not names or one.name.partition(":")[0] in names]


def totals(all_of: Sequence[Task]) -> dict[str, int]:
    """How many mutants there are, by group."""
    return {group: sum(one.many for one in all_of if one.group == group) for group in GROUPS}


_OF: Final[Mapping[str, Callable[[Task], list[Seen]]]] = {
    DECLARATIONS: lambda one: declarations.some(one.name, one.start, one.start + one.many),
    TRANSPOSES: lambda one: transposes.signs(one.name),
    ROWS: lambda one: [rows.rule(one.name)],
}


def _of(task: Task) -> list[Seen]:
    return _OF[task.group](task)


def everything(all_of: Sequence[Task], processes: int = 0) -> Iterator[tuple[Task, list[Seen]]]:
    """Of all tasks, those about rows in their order and first. A row that was changed stays so in its process, which
    ends with it."""
    processes = processes or os.cpu_count() or 1
    of_rows = [task for task in all_of if task.group == ROWS]
    others = [task for task in all_of if task.group != ROWS]
    context = get_context("forkserver")  # JAX has threads, which a fork of this process would lose
    context.set_forkserver_preload(["tests.mutate_prover.score"])
    if of_rows:
        with context.Pool(processes, maxtasksperchild=1) as alone:
            yield from zip(of_rows, alone.imap(_of, of_rows), strict=True)
    if others:
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            doing = {pool.submit(_of, task): task for task in others}
            for done in as_completed(doing):
                yield doing[done], done.result()


def page(counts: Counts) -> list[str]:
    """What proofs/README.md keeps of the score: the table, and what share the prover sees by itself."""
    lines = [*_HEAD]
    for group, says in GROUPS.items():
        of = counts[group]
        numbers = [sum(of.values()), *(of.get(way, 0) for way in _COLUMNS)]
        lines.append(f"| {says} | {' | '.join(f'{one:,}' for one in numbers)} |")
    shares = [f"{_percent(counts[group])} of the {group}" for group in (DECLARATIONS, TRANSPOSES, ROWS)]
    return [*lines, "", f"The prover by itself sees {shares[0]}, {shares[1]}, and {shares[2]} and maps."]


def read(text: str) -> dict[str, dict[str, int]]:
    """The counts that a page keeps."""
    found = {}
    for group, says in GROUPS.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| {says} |"))
        numbers = [int(cell.replace(",", "")) for cell in row.strip("| ").split("|")[1:]]
        found[group] = dict(zip(_COLUMNS, numbers[1:], strict=True))
        if sum(found[group].values()) != numbers[0]:
            raise ValueError(f"{says}: {numbers[0]} are not the sum of those that are told apart")
    return found


def _percent(of: Mapping[str, int]) -> str:
    total, prover = sum(of.values()), sum(of.get(way, 0) for way in (SOLVER, RUN, READING))
    return f"{math.floor(100 * prover / total) if total else 0} %"


def kind(what: str) -> str:
    """What kind of change it is, without names and numbers."""
    return re.sub(r"\d+", "k", re.sub(r"factor (\d+) of .*?: ", "factor: ", what.partition(": ")[2]))


def counted(found: Sequence[tuple[Task, Sequence[Seen]]]) -> dict[str, Counter[str]]:
    """By group, by who saw them."""
    counts: dict[str, Counter[str]] = {group: Counter(dict.fromkeys(WAYS, 0)) for group in GROUPS}
    for task, seen in found:
        counts[task.group].update(one.by for one in seen)
    return counts
