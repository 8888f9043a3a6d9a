"""The promise that every fuzz test holds the command to: anything at all on standard input ends in exit 0, 1 or 2, with
messages that point into the text."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from verifier.cli import main

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
"""About how long `make fuzz` runs in all, but not less than a minute: the fixed texts take that. Where something fails,
making the example small takes minutes more. 0 in the tests, which run their fixed examples."""

DRAWING = 6
"""How many tests draw examples as long as there is time: they share half of it. The other half is for the fixed texts,
which grow with it, and for the last examples."""

SHARE = SECONDS / 2 * min(1.0, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) / DRAWING)
"""The seconds of one of those tests."""

#: CPU seconds that one text may take, and one more for each 50,000 bytes of it
PATIENCE = 5.0

STATUS = {"ok": 0, "refused": 1, "malformed": 2}
FAMILIES = {"malformed", "unsound", "one-way", "ambiguous", "unmodelled"}

#: a mesh that many of the texts mention
MESH = ("--mesh", "X=4,Y=2")


def drawn(few: int, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """A test of drawn examples: few and always the same in the tests; under `make fuzz` new ones, as many as fit into
    its share of the time."""

    def decorate(test: Callable[..., None]) -> Callable[[], None]:
        tried = settings(
            max_examples=few if not SECONDS else 25,
            derandomize=not SECONDS,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )(given(*strategies)(test))

        def rounds() -> None:
            end = time.monotonic() + SHARE
            tried()
            while time.monotonic() < end:
                tried()

        rounds.__doc__ = test.__doc__
        return rounds

    return decorate


def answer(data: bytes | str, *arguments: str) -> dict[str, Any]:
    """What `shardproof check - --json` says about these bytes, held to the promise."""
    data = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    start = time.process_time()
    result = CliRunner().invoke(main, ["check", "-", "--json", *arguments], input=data)
    assert time.process_time() - start < PATIENCE + len(data) / 50_000
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    report: dict[str, Any]
    (report,) = json.loads(result.stdout)
    assert STATUS[report["verdict"]] == result.exit_code
    assert bool(report["refusals"]) == bool(result.exit_code)
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").decode("utf-8", "replace").split("\n")
    for refusal in report["refusals"]:
        assert refusal["message"].strip(), refusal
        assert refusal["family"] in FAMILIES, refusal
        if any(line.strip() for line in lines):
            assert 1 <= refusal["line"] <= len(lines), refusal
            assert 1 <= refusal["column"] <= len(lines[refusal["line"] - 1]) + 1, refusal
    return report


def shown(text: str, *arguments: str) -> int:
    """The exit status for this text, as people see it: the report as text, not JSON."""
    result = CliRunner().invoke(main, ["check", "-", *arguments], input=text.encode())
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in (0, 1, 2)
    assert result.stdout.strip()
    return result.exit_code


def seconds(text: str, *arguments: str) -> float:
    """CPU seconds that the command takes for this text."""
    start = time.process_time()
    shown(text, *arguments)
    return time.process_time() - start
