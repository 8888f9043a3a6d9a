"""The sign of life: on a terminal, after a while, and gone afterwards."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest


def on_a_terminal(seconds: float) -> str:
    """What appears on a terminal while a block takes so long and patience is a tenth of a second."""
    master, slave = pty.openpty()
    code = (
        "import time, verifier.progress as progress\n"
        "progress.PATIENCE = 0.1\n"
        f"with progress.sign_of_life('checking [a].jaxpr'): time.sleep({seconds})"
    )
    subprocess.run([sys.executable, "-c", code], stderr=slave, check=True, env={**os.environ, "TERM": "xterm"})
    os.write(slave, b"end")
    shown = b""
    while not shown.endswith(b"end"):
        shown += os.read(master, 4096)
    os.close(slave)
    os.close(master)
    return shown.decode().removesuffix("end")


@pytest.mark.parametrize(("seconds", "appears"), [(1.0, True), (0.0, False)])
def test_only_when_it_takes_long(seconds: float, appears: bool) -> None:
    shown = on_a_terminal(seconds)
    assert ("checking [a].jaxpr" in shown) == appears
    assert bool(shown) == appears
