"""The evidence of the ledger, run: a program for each defect, which exits with 0 as long as the defect is there.

Many programs run in one process, so that JAX is imported once. Where one of them takes the process down, the rest run
in another. As a module this is that process: `python -m verifier.evidence FILE...` runs the files and says, one line of
JSON each, what became of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from verifier.ledger import Entry


class Outcome(NamedTuple):
    """What became of one program. there: whether the defect is. said: what the program printed, or how it ended when it
    ended otherwise than by saying so. seconds: how long it took."""

    file: str
    there: bool
    said: str
    broken: bool = False
    seconds: float = 0.0

    @property
    def word(self) -> str:
        """there, repaired, or broken: the program itself no longer runs."""
        return "there" if self.there else "broken" if self.broken else "repaired"


def programs_of(entries: Iterable[Entry]) -> list[Path]:
    """The evidence of entries. Raises `FileNotFoundError` where a program is missing."""
    paths = [entry.path for entry in entries if entry.file]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"there is no {path}; an installed package comes without the programs")
    return paths


def reproduce(entries: Iterable[Entry], progress: Callable[[str], None] = lambda name: None) -> dict[int, Outcome]:
    """Run the evidence of entries, by number. Those without a program are left out. Raises `FileNotFoundError` where a
    program is missing."""
    having = [entry for entry in entries if entry.file]
    outcomes = {outcome.file: outcome for outcome in run(programs_of(having), progress)}
    return {entry.number: outcomes[entry.file] for entry in having}


class Reproducing:
    """Runs evidence for a process of the audit. running: is told which program has ended."""

    version = ""

    def __init__(self, running: Callable[..., None] = lambda *what: None) -> None:
        self.running = running

    def reproduced(self, paths: Sequence[Path]) -> list[Outcome]:
        """Run these programs."""
        return list(run(paths, self.running))


def run(paths: Sequence[Path], progress: Callable[[str], None] = lambda name: None) -> Iterator[Outcome]:
    """Run programs, in order, in as few processes as they leave alive."""
    waiting = list(paths)
    while waiting:
        command = [sys.executable, "-m", "verifier.evidence", *map(str, waiting)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment()
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said = json.loads(line)
                progress(said["file"])
                waiting.pop(0)
                yield Outcome(**said)
            errors = process.stderr.read() if process.stderr is not None else ""
        if waiting:
            last = waiting.pop(0)
            yield Outcome(last.name, False, f"the process ended with {process.returncode}: {errors[-300:]}", True)


def _environment() -> dict[str, str]:
    here = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8", "PYTHONPATH": path}


def one(path: str) -> dict[str, Any]:
    """Run one program in this process."""
    said, started = io.StringIO(), time.monotonic()
    there = broken = False
    ending = "it ends without saying whether the defect is there"
    try:
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runpy.run_path(path, run_name="__main__")
        broken = True
    except SystemExit as error:
        there, broken = error.code in (0, None), error.code not in (0, 1, None)
        ending = f"exit status {error.code}"
    except BaseException as error:  # noqa: BLE001  # whatever it raises is what is said of it
        broken, ending = True, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    text = said.getvalue().strip() + (f" ({ending})" if broken else "")
    took = round(time.monotonic() - started, 2)
    return {"file": Path(path).name, "there": there, "said": text, "broken": broken, "seconds": took}


def main(paths: Sequence[str], out: IO[str]) -> None:
    """Run programs in this process, one line of JSON each."""
    for path in paths:
        out.write(json.dumps(one(path)) + "\n")
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1:], os.fdopen(os.dup(1), "w"))
