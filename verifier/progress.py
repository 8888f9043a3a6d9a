"""A sign of life on standard error for checks that take long. A door to rich, opened only then."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Final

PATIENCE: Final = 2.0
"""Seconds of silence before the sign appears."""


@contextlib.contextmanager
def sign_of_life(message: str) -> Iterator[None]:
    """Show a message with a spinner on standard error if the block takes long and standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    finished = threading.Event()
    thread = threading.Thread(target=_show, args=(message, finished), daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _show(message: str, finished: threading.Event) -> None:
    if finished.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(message)):
        finished.wait()
