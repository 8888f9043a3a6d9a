"""A sign of life on standard error for checks that take long. A door to rich, opened only then."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from verifier.spread import Pace

PATIENCE: Final = 2.0
"""Seconds of silence before the sign appears."""
BETWEEN: Final = 20.0
"""Seconds between two lines where standard error is no terminal."""


@contextlib.contextmanager
def sign_of_life(message: str) -> Iterator[Callable[[str], None]]:
    """Show a message with a spinner on standard error if the block takes long and standard error is a terminal. What
    the block is given changes the message."""
    said = [message]
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda message: None
        return
    finished = threading.Event()
    thread = threading.Thread(target=_show, args=(said, finished), daemon=True)
    thread.start()
    try:
        yield said.append
    finally:
        finished.set()
        thread.join()


@contextlib.contextmanager
def forecast(doing: str) -> Iterator[Callable[[Pace, str], None]]:
    """Say on standard error about how long the block takes, and then how far it is: in one line where standard error is
    a terminal, else now and then in another one."""
    last = 0.0
    with sign_of_life(doing) as show:

        def said(pace: Pace, what: str) -> None:
            nonlocal last
            now = time.monotonic()
            left = duration(pace.left)
            if not pace.done:
                text = f"{doing}: about {left} on {pace.processes} processor{'s' * (pace.processes > 1)}"
            else:
                text = f"{doing}: {pace.share:.0%}, about {left} left: {what}"
            show(text)
            if not last or now - last > BETWEEN:
                last = now
                _line(text)

        yield said


def duration(seconds: float) -> str:
    """`40 seconds`, `3 minutes`."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} second{'s' * (round(seconds) > 1)}"
    return f"{round(seconds / 60)} minutes"


def _line(text: str) -> None:
    if sys.stderr is not None and not sys.stderr.isatty():
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def _show(said: list[str], finished: threading.Event) -> None:
    if finished.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(said[-1])) as status:
        while not finished.wait(0.2):
            status.update(escape(said[-1]))
