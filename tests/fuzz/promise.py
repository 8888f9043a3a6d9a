"""The promise that every fuzz test holds the command to: anything at all on standard input ends in exit 0, 1 or 2, with
messages that point into the text."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from click.testing import CliRunner

from verifier.cli import main

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
"""How long `make fuzz` runs; 0 in the tests, which run their fixed examples."""

STATUS = {"ok": 0, "refused": 1, "malformed": 2}
FAMILIES = {"malformed", "unsound", "one-way", "ambiguous", "unmodelled"}

#: a mesh that many of the texts mention
MESH = ("--mesh", "X=4,Y=2")


def examples(few: int) -> int:
    """How many examples a test tries: few in the tests, more under `make fuzz`, in proportion to its seconds."""
    return max(few, int(few * SECONDS / 20))


def answer(data: bytes | str, *arguments: str) -> dict[str, Any]:
    """What `shardproof check - --json` says about these bytes, held to the promise."""
    data = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    result = CliRunner().invoke(main, ["check", "-", "--json", *arguments], input=data)
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
