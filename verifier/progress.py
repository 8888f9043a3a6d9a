"""A sign of life on standard error for checks that take long. A door to rich, opened only then."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final

PATIENCE: Final = 2.0
"""Seconds of silence before the sign appears."""


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


def _show(said: list[str], finished: threading.Event) -> None:
    if finished.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(said[-1])) as status:
        while not finished.wait(0.2):
            status.update(escape(said[-1]))
