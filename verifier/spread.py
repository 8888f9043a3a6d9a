"""Tasks that ask JAX, spread over processes. Each process is one that JAX may end: what it was doing is done again, but
for what ended it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final, NamedTuple

from verifier.workers import PATIENCE, Broken, Lost, Worker

TRUSTED: Final = 10
"""A tenth of the work says how fast the rest goes."""
TICK: Final = 1.0
"""Seconds after which it is looked at how long the processes have been silent."""


class Task(NamedTuple):
    """What one process is to do: a method of the door, its arguments, and about how many seconds that takes."""

    method: str
    arguments: tuple[Any, ...] = ()
    seconds: float = 1.0


class Pace:
    """How far the work is, and how long the rest takes: at first what was guessed, then at the pace until now.

    expected: seconds of work in all, on one processor, as guessed.
    """

    def __init__(self, processes: int) -> None:
        self.expected = self.done = 0.0
        self.processes = max(processes, 1)
        self.started = time.monotonic()

    @property
    def share(self) -> float:
        """How much of the work is done, from 0 to 1."""
        return min(self.done / self.expected, 1.0) if self.expected else 0.0

    @property
    def left(self) -> float:
        """About how many seconds the rest takes."""
        guessed, passed = self.expected / self.processes, time.monotonic() - self.started
        measured = passed / self.share if self.share else guessed
        trust = min(TRUSTED * self.share, 1.0)
        return (guessed * (1 - trust) + measured * trust) * (1 - self.share)


Take = Callable[[Task, Any], "Sequence[Task]"]
Running = tuple[Any, ...] | None
"""What a process had given to the compiler last."""
Ended = Callable[[Task, Running, str], "Sequence[Task]"]


def spread(
    door: str, tasks: Sequence[Task], pace: Pace, take: Take, died: Ended,
    progress: Callable[[], None] = lambda: None, broke: Ended | None = None,
    ready: Callable[[str], None] = lambda version: None, platform: str = "cpu",
) -> None:  # fmt: skip
    """Do tasks, the longest first, in as many processes as the pace has. take: is given each result, and says what else
    there is to do. died: is told of a task whose process ended, what it had given to the compiler last, and the
    compiler's last words, and says what is to be done in its place. broke: likewise of a task that fails by an error of
    ours. ready: is told which release of JAX the processes have. door, platform: as in `verifier.program_worker`.

    What is taken until an interrupt is whole. Without `broke`, raises `RuntimeError` where a task fails by an error of
    ours.
    """
    waiting = list(tasks)
    workers: dict[Connection, tuple[Worker, Task]] = {}
    idle: list[Worker] = []

    def give() -> None:
        waiting.sort(key=lambda task: -task.seconds)
        while waiting and (idle or len(workers) < pace.processes):
            worker, task = idle.pop() if idle else Worker(door, platform=platform), waiting.pop(0)
            worker.ask(task.method, *task.arguments)
            workers[worker.connection] = worker, task

    try:
        give()
        while workers:
            for connection in wait(list(workers), timeout=TICK) or list(workers):
                assert isinstance(connection, Connection)
                worker, task = workers[connection]
                try:
                    found = worker.answer() if connection.poll() else None
                    _patient(worker)
                except Lost as lost:
                    del workers[connection]
                    waiting += died(task, worker.running, str(lost))
                    worker.end()
                    continue
                except Broken as broken:
                    if broke is None:
                        raise
                    del workers[connection]
                    idle.append(worker)
                    pace.done += task.seconds
                    waiting += broke(task, worker.running, str(broken))
                    continue
                if worker.version:
                    ready(worker.version)
                if found is not None:
                    del workers[connection]
                    idle.append(worker)
                    pace.done += task.seconds
                    waiting += take(task, found)
            give()
            progress()
    finally:
        for worker in [*idle, *(worker for worker, _ in workers.values())]:
            worker.end()


def alone(door: str, tasks: Sequence[Task], take: Take, progress: Callable[[], None] = lambda: None) -> None:
    """Do tasks in this process, in order. `KeyboardInterrupt` comes between or within them."""
    module, _, name = door.partition(":")
    doing = getattr(importlib.import_module(module), name)()
    waiting = list(tasks)
    while waiting:
        task = waiting.pop(0)
        waiting += take(task, getattr(doing, task.method)(*task.arguments))
        progress()


def _patient(worker: Worker) -> None:
    """End a process that has said nothing for too long: raises `Lost`."""
    if time.monotonic() - worker.since > PATIENCE:
        worker.process.kill()
        worker.process.join()
        raise Lost(f"nothing happened for {PATIENCE:.0f} seconds")
