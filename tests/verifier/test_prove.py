"""`shardproof prove`: what it prints, what it keeps, and how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from verifier.cli import main


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def prove(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["prove", "--jobs", "1", *arguments])


def obligations(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(prove("--json", *arguments).output)["obligations"]
    return found


def test_one_primitive() -> None:
    found = prove("soundness.neg")
    assert found.exit_code == 0
    assert "soundness: " in found.output
    assert "100.0 % proved from definition" in found.output


def test_data_names_status_domain_and_time() -> None:
    rows = {row["name"]: row for row in obligations("soundness.mul-f.unreduced_copy.unreduced")}
    assert list(rows) == ["soundness.mul-f.unreduced_copy.unreduced"]
    (row,) = rows.values()
    assert (row["status"], row["domain"]) == ("proved from definition", "reals")
    assert row["milliseconds"] > 0
    assert row["queries"] == 1


def test_what_has_not_changed_is_not_proved_twice(tmp_path: Path) -> None:
    first = obligations("soundness.neg")
    (kept,) = (tmp_path / "cache" / "shardproof" / "proofs").rglob("soundness.neg.json")
    said = json.loads(kept.read_text())
    said[0][6] = 123456.0
    kept.write_text(json.dumps(said))
    assert {row["milliseconds"] for row in obligations("soundness.neg")} != {row["milliseconds"] for row in first}
    assert 123456.0 not in {row["milliseconds"] for row in obligations("soundness.neg", "--fresh")}
    kept.write_text("{ half")
    assert [row["name"] for row in obligations("soundness.neg")] == [row["name"] for row in first]


def test_a_hypothesis_left_out_shows_what_it_is_for() -> None:
    found = prove("lemma.in-range", "--without", "an element of its block")
    assert found.exit_code == 0
    assert "is refuted" in found.output
    assert "    m = " in found.output


def test_a_hypothesis_that_is_none() -> None:
    found = prove("lemma.in-range", "--without", "good weather")
    assert found.exit_code == 2
    assert "good weather" in found.output
    assert "an element of its block" in found.output


def test_an_unknown_name() -> None:
    found = prove("soundness.multiply")
    assert found.exit_code == 2
    assert "soundness.multiply" in found.output


def test_every_theorem_is_listed_with_its_page() -> None:
    said = json.loads(prove("--list", "--json").output)
    assert {"soundness", "maximality", "relation", "communication", "fan_out"} < {one["name"] for one in said}
    root = Path(__file__).resolve().parents[2]
    for theorem in said:
        assert theorem["words"]
        assert theorem["symbols"]
        assert (root / theorem["page"].partition("#")[0]).exists(), theorem["page"]


def test_scripts_are_smt_lib_and_the_second_solver_answers_them(tmp_path: Path) -> None:
    pytest.importorskip("cvc5", reason="the second solver is an extra")
    found = prove("soundness.neg", "lemma.in-range", "--smtlib", str(tmp_path / "out"), "--solver", "both")
    assert found.exit_code == 0, found.output
    assert "agrees" in found.output
    assert "contradiction" not in found.output
    scripts = sorted((tmp_path / "out").glob("*.smt2"))
    assert len(scripts) > 10
    assert all("(check-sat)" in one.read_text() for one in scripts)


def test_help_loads_no_solver() -> None:
    said = "import sys; from verifier.cli import main; main(['prove', '--help'], standalone_mode=False); "
    run = subprocess.run(
        [sys.executable, "-c", said + "sys.exit('z3' in sys.modules)"], capture_output=True, check=False, text=True
    )
    assert run.returncode == 0, run.stderr
