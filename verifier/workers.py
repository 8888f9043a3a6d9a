"""Processes that ask JAX, which may end them: one task at a time, and what the compiler was given last is known.

Their end of the door to JAX is `verifier.program_worker`.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from verifier.program_worker import work

DEVICES: Final = 8
"""Of JAX, in each process: those of the largest mesh that programs are drawn on."""
PATIENCE: Final = 300.0
"""Seconds after which a process that says nothing is ended."""
_FATAL: Final = re.compile(r"Check failed|ERROR|^F\d{4} ")
"""In the line with which a compiler ends its process."""


class Lost(Exception):
    """A process ended. The message says what the compiler printed last."""


class Broken(RuntimeError):
    """A task ended in an error of ours. The message is its traceback."""


class Worker:
    """A process that does tasks. engine: what does them, `module:class`. devices: how many JAX has there, of which
    platform."""

    def __init__(self, engine: str, devices: int = DEVICES, platform: str = "cpu") -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._errors = tempfile.NamedTemporaryFile(suffix=".err", delete=False)  # noqa: SIM115  # lives as long
        arguments = theirs, self._errors.name, devices, engine, platform
        self.process = context.Process(target=work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.running: tuple[Any, ...] | None = None
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
