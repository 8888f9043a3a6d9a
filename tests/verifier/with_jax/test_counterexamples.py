"""The counterexamples of the ledger, run: what JAX types and reads back wrong. Where a release reads back right, the
entry is out of date."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from verifier.ledger import UNSOUND, ledger

#: how the entry's title begins -> the right value, by hand; for values that are typed as the same everywhere, of each
#: of the two devices
RIGHT: dict[str, list[Any]] = {
    "A choice looks": [20, 20],  # the predicate is true twice, and the second case is 10 + 10
    "A pad": [2, 2, 7],
    "A dynamic slice": [[3], [3]],  # of 0 to 7 at 1 + 2
    "A target of a creation": [0, 1, 2, 3],
    "Conversions": [1, 1],  # 0.5 + 0.5
    "Manual mode": [27, 27],  # 1 + 2, cubed
    "In manual mode, what stands": [1, 1, 3, 3],
    "A call": [8, 8],  # 2 + 2, doubled
}

#: of a result that is typed as the same everywhere and starts from each device's own number, no value is right
NEVER_RIGHT = "A reduction over windows"

#: what JAX reads back, in both releases
WRONG: dict[str, list[Any]] = {
    "A choice looks": [11, 11],
    "A pad": [2, 2, 14],
    "A dynamic slice": [[1], [2]],
    "A target of a creation": [0, 2, 4, 6],
    "Conversions": [0, 0],
    "Manual mode": [1, 8],
    "In manual mode, what stands": [2, 2, 3, 3],
    "A reduction over windows": [[2, 2], [3, 3]],
    "A call": [16, 16],
}


@pytest.fixture(scope="module")
def found() -> dict[str, list[Any]]:
    script = Path(__file__).with_name("counterexamples.py")
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    read: dict[str, list[Any]] = json.loads(run.stdout)
    return read


def test_every_program_is_of_the_ledger() -> None:
    unsound = [entry.title for entry in ledger() if entry.kind == UNSOUND]
    for beginning in WRONG:
        assert sum(title.startswith(beginning) for title in unsound) == 1, beginning


@pytest.mark.parametrize("beginning", WRONG)
def test_it_still_reads_back_wrong(beginning: str, found: dict[str, list[Any]]) -> None:
    assert found[beginning] == WRONG[beginning]
    if beginning == NEVER_RIGHT:
        first, second = found[beginning]
        assert first != second
    else:
        assert found[beginning] != RIGHT[beginning]
