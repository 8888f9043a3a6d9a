"""Runs: a program of a section on given inputs, and what it leaves on devices, one fact a line.

a = [[0, 1], [2, 3]]              an input of the program; those that are not given are drawn
c is [[6, 7], [26, 31]]           the value of an input, or of what an equation of the program binds
c on 0 is [[0, 0], [8, 10]]       what device 0 holds of it
15 x all-reduce X 64 bytes        a collective that was executed, how often, and the bytes it moved each time
different: copies of f32[1]       the two runs do not agree, and what is said of it contains this
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from grammar.meshes import parse_meshes
from tests.spec.document import Block
from verifier.execution.texts import Ran, run_text

GIVEN: Final = re.compile(r"(\w+) = (.+)")
_VALUE: Final = re.compile(r"(\w+)(?: on (\d+))? is (.+)")
_EXECUTED: Final = re.compile(r"(\d+) x ([\w-]+) ([\w,]+) (\d+) bytes")
NEAR: Final = 1e-5
"""How near, relatively, floats are to what is written of them in decimals."""


def run_lines(block: Block, program: Block, need: Callable[[bool, int, str], None]) -> None:
    """Run a program, and hold what it leaves against the lines of a block."""
    given: dict[str, Any] = {}
    facts: list[tuple[int, str]] = []
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        said = GIVEN.fullmatch(line.strip())
        if said is not None:
            given[said[1]] = json.loads(said[2])
        elif line.strip():
            facts.append((number, line.strip()))
    mesh = program.options.get("mesh")
    ran = run_text(program.text, parse_meshes(mesh) if mesh else [], program.options["file"], given=given)
    if ran.outcome is None:
        need(False, 0, f"the program is not run: {[refusal.message for refusal in ran.report.refusals]}")
        return
    wrong = [problem.message for problem in ran.outcome.problems]
    expected = [text.removeprefix("different: ") for _, text in facts if text.startswith("different: ")]
    if not expected:
        need(not wrong, 0, f"the runs differ: {wrong}")
    need(bool(facts), 0, "a run says nothing of what it leaves")
    for number, text in facts:
        value, executed = _VALUE.fullmatch(text), _EXECUTED.fullmatch(text)
        if text.startswith("different: "):
            need(any(text.removeprefix("different: ") in one for one in wrong), number, f"nothing says so: {wrong}")
        elif value is not None:
            found = _held(ran, value[1], None if value[2] is None else int(value[2]))
            need(_equal(found, json.loads(value[3])), number, f"it is {found if found is None else found.tolist()}")
        elif executed is not None:
            lines = [
                f"{one.executed} x {one.collective.kind} {','.join(one.collective.axes)} {one.moved} bytes"
                for one in ran.outcome.lines
            ]
            need(text in lines, number, f"executed are {lines}")
        else:
            need(False, number, f"this does not read: {text!r}")


def _held(ran: Ran, name: str, device: int | None) -> Any:
    assert ran.outcome is not None
    shown = ran.outcome.values.get(name)
    if shown is None:
        return None
    return shown.value if device is None else shown.blocks[device] if device < len(shown.blocks) else None


def _equal(found: Any, wanted: Any) -> bool:
    if found is None:
        return False
    expected = np.asarray(wanted, found.dtype if found.dtype.kind != "V" else np.float32)
    return found.shape == expected.shape and bool(np.allclose(found, expected, rtol=NEAR, atol=0))
