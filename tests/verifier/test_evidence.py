"""The programs of `proofs/differences`: one for each defect of the ledger, run on the release that they are about.
Where a program no longer finds its defect, JAX has repaired it, and its entry closes."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import jax
import pytest

from verifier.evidence import Outcome, reproduce, run
from verifier.ledger import CONVENTION, DEFECTS, FILES, ledger

RELEASE = "0.12.0.1"
SPOKEN_OF = [entry for entry in ledger() if RELEASE in entry.versions]
DEFECTIVE = [entry for entry in SPOKEN_OF if entry.file]
HERE = [entry for entry in ledger() if entry.file and entry.versions[0] == jax.__version__]
"""A program is written for the first release that its entry names."""

about = pytest.mark.skipif(jax.__version__ != RELEASE, reason=f"the programs are about JAX {RELEASE}")


def test_each_defect_has_a_program_and_each_program_a_defect() -> None:
    assert {entry.file for entry in ledger()} - {""} == {path.name for path in FILES.iterdir() if path.suffix == ".py"}
    assert [entry.number for entry in SPOKEN_OF if not entry.file and entry.kind != CONVENTION] == []
    for entry in [one for one in ledger() if one.file]:
        assert entry.file.startswith(f"{entry.number:02}_"), entry.file
        assert f'"""{entry.title}."""' == entry.path.read_text(encoding="utf-8").splitlines()[0]


def test_there_are_forty_of_distinct_causes_beside_what_is_refused() -> None:
    found = [entry for entry in DEFECTIVE if entry.defect != "sound refused"]
    assert len(found) >= 40
    assert {entry.defect for entry in DEFECTIVE} == set(DEFECTS)
    assert len({entry.file for entry in DEFECTIVE}) == len(DEFECTIVE)


@pytest.mark.parametrize("path", sorted(FILES.glob("*.py")), ids=lambda path: path.stem[:40])
def test_a_program_is_short_and_knows_neither_ledger_nor_checker(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 25
    imported = {
        name.name.partition(".")[0] if isinstance(node, ast.Import) else str(node.module).partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
    }
    assert imported <= {"jax", "numpy", "math", "io", "contextlib", "subprocess", "sys"}


@about
def test_what_is_at_fault_and_what_reaches_it_are_there() -> None:
    for entry in DEFECTIVE:
        module, _, name = entry.function.partition(":")
        assert hasattr(importlib.import_module(module), name), entry.function
        for reached in entry.reaches.split(", "):
            assert _leads_somewhere(reached), reached


def _leads_somewhere(name: str) -> bool:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)  # type: ignore[assignment]
        return found is not None
    return False


def test_every_defect_is_still_there() -> None:
    assert HERE
    found = reproduce(HERE)
    gone = {number: outcome for number, outcome in found.items() if not outcome.there}
    says = {"repaired": "JAX has repaired it, so that the entry closes", "broken": "mend the program"}
    assert not gone, "\n".join(
        f"entry {number}: {outcome.file} is {outcome.word}: {says[outcome.word]}\n{outcome.said}"
        for number, outcome in gone.items()
    )
    assert len(found) == len(HERE)


def test_a_repaired_a_broken_and_a_fatal_program_are_told_apart(tmp_path: Path) -> None:
    """The runner, on programs of which it is known how they end. After a fatal one the rest still run."""
    ends = {
        "a.py": "print('as ever'); raise SystemExit(0)",
        "b.py": "raise SystemExit(1)",
        "c.py": "import os; os.abort()",
        "d.py": "raise ValueError('an argument has another name')",
        "e.py": "",
        "f.py": "raise SystemExit(0)",
    }
    for name, text in ends.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = list(run([tmp_path / name for name in ends]))
    assert [outcome.word for outcome in found] == ["there", "repaired", "broken", "broken", "broken", "there"]
    assert found[0].said == "as ever"
    assert "ended with" in found[2].said
    assert "another name" in found[3].said
    assert isinstance(found[4], Outcome)
