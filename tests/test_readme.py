"""The README shows real output: its commands are run, and what they print is what stands there.

`make readme` writes the output into the README.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import jax
import pytest
from click.testing import CliRunner

from verifier.cli import main
from verifier.factories import is_target

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"

#: a command in an indented block, and the indented lines under it
_SHOWN = re.compile(r"^    \$ shardproof (.*)\n((?:    .*\n|\n(?=    ))*)", re.MULTILINE)


def _printed(command: re.Match[str]) -> str:
    result = CliRunner().invoke(main, shlex.split(command[1]))
    lines = [f"$ shardproof {command[1]}", *result.output.splitlines()]
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)


def filled(text: str, functions: bool = True) -> str:
    """The text with what each command prints under it; those that check functions only if asked for."""

    def printed(command: re.Match[str]) -> str:
        return _printed(command) if functions or not any(map(is_target, shlex.split(command[1]))) else command[0]

    return _SHOWN.sub(printed, text)


def test_the_output_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = README.read_text(encoding="utf-8")
    assert len(_SHOWN.findall(text)) == 8
    newest = jax.__version_info__ >= (0, 12)  # an older one traces the same function to other equations
    assert filled(text, functions=newest) == text, "run `make readme`"


def test_the_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of Python print a report on the step, and on the gradient, that they name."""
    monkeypatch.chdir(ROOT)
    blocks = re.findall(
        r"^    import verifier\n(?:    .*\n|\n(?=    ))*", README.read_text(encoding="utf-8"), re.MULTILINE
    )
    for block, said in zip(blocks, ["step: well typed · ", "loss (gradient): well typed · "], strict=True):
        exec(textwrap.dedent(block), {})
        assert capsys.readouterr().out.startswith(said)


def test_the_two_commands_come_first() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["make", "demo"], ["make", "test"]]


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
