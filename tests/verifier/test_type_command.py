"""`shardproof type`: what it prints, in text and JSON, and where in a type it points."""

from __future__ import annotations

import json
import time

import pytest
from click.testing import CliRunner, Result

from verifier.cli import main


def run(*arguments: str, stdin: bytes | str = b"") -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin, prog_name="shardproof")


def test_a_type() -> None:
    result = run("type", "f32[8@X,4]{U:Y}", "--mesh", "X=4,Y=2")
    assert result.exit_code == 0
    assert "cotangent  f32[8@X,4]{R:Y}" in result.output
    assert "f32[2,4] on each device, 32 bytes of 128" in result.output
    assert "a piece of [6:8, 0:4]" in result.output
    assert "│ 6+7 │" in result.output


def test_a_type_as_json() -> None:
    result = run("type", "f32[8@X,4@Y]", "--mesh", "X=4,Y=2", "--json")
    found = json.loads(result.output)
    assert found["type"] == found["cotangent"] == "f32[8@X,4@Y]"
    assert found["long"] == "float32[8@X,4@Y]"
    assert found["block"] == {"shape": [2, 2], "bytes": 16}
    assert found["bytes"] == 128
    assert found["grid"] == [[[0], [1]], [[2], [3]], [[4], [5]], [[6], [7]]]
    assert found["devices"][5] == {
        "device": 5, "place": {"X": 2, "Y": 1}, "block": [2, 1], "indices": [[4, 6], [2, 4]], "holds": "[4:6, 2:4]",
    }  # fmt: skip


def test_a_max_has_no_cotangent() -> None:
    result = run("type", "f32[8]{U_max:X}", "--mesh", "X=4")
    assert result.exit_code == 0
    assert "cotangent  none: " in result.output
    found = json.loads(run("type", "f32[8]{U_max:X}", "--mesh", "X=4", "--json").output)
    assert found["cotangent"] is None
    assert "has no cotangent" in found["why_no_cotangent"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("f32[8@Z]", "unknown-axis"),
        ("f32[7@X]", "indivisible"),
        ("f32[8@X,4@X]", "repeated-axis"),
        ("f32[8]{V:X}", "varying-outside-manual"),
        ("f32[8@A]", "hidden-axis"),
        ("f32[", "syntax"),
        ("", "syntax"),
        ("f32[8] f32[8]", "syntax"),
    ],
)
def test_a_type_that_is_none(text: str, code: str) -> None:
    result = run("type", text, "--mesh", "X=4,Y=2,A=2:auto")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"[{code}]" in result.stderr


@pytest.mark.parametrize(
    ("text", "column", "code"),
    [
        ("f32[4", 6, "syntax"),
        ("f32[8,7@X]", 7, "indivisible"),
        ("f32[8@(X,X)]", 10, "repeated-axis"),
        ("f32[8,8@Z]", 9, "unknown-axis"),
        ("f32[8]{U:(Y, A)}", 14, "hidden-axis"),
        ("f32[8@X]<V:Y>", 12, "varying-outside-manual"),
        ("f32[4]{U:X, U_max:Y}", 1, "two-kinds"),
    ],
)
def test_a_type_that_is_none_as_json(text: str, column: int, code: str) -> None:
    """The same fields as a refusal of a check, and the place in the type."""
    result = run("type", text, "--mesh", "X=4,Y=2,A=2:auto", "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert (found["type"], found["mesh"], found["verdict"]) == (text, "X=4, Y=2, A=2:auto", "malformed")
    (refusal,) = found["refusals"]
    (checked,) = json.loads(run("check", "-", "--json", stdin=b"").stdout)
    assert set(refusal) == set(checked["refusals"][0])
    assert (refusal["code"], refusal["line"], refusal["column"]) == (code, 1, column)
    assert (
        f"<type>:1:{column}: malformed: {refusal['message']}" in run("type", text, "--mesh", "X=4,Y=2,A=2:auto").stderr
    )


def test_an_axis_without_a_mesh() -> None:
    """The help says what to add to the command."""
    result = run("type", "f32[8@X,4@Y]")
    assert "mentions axis X, and no mesh is given" in result.stderr
    assert "--mesh X=...,Y=..." in result.stderr
    assert (
        "name one of Y, or give a mesh that has X: --mesh Y=2,X=..." in run("type", "f32[8@X]", "--mesh", "Y=2").stderr
    )


def test_a_large_mesh_is_summed_up() -> None:
    start = time.process_time()
    result = run("type", "f32[1000000@X]", "--mesh", "X=1000000")
    assert result.exit_code == 0
    assert "and 999,964 more devices: --json lists the first 4,096" in result.output
    assert len(result.output.splitlines()) < 50
    found = json.loads(run("type", "f32[1000000@X]", "--mesh", "X=1000000", "--json").output)
    assert (found["device_count"], len(found["devices"]), found["grid"]) == (1_000_000, 4096, None)
    assert time.process_time() - start < 5


def test_the_cotangents_of_a_signature() -> None:
    """Statement A2: reduced and unreduced change places, all else is kept. A weight that is reduced has an unreduced
    gradient; what is pending forward comes in reduced. No mesh is needed."""
    result = run("type", "--cotangent", "f32[8@X,4] f32[4]{R:X} -> f32[8@X] f32[]{U:X}")
    assert result.exit_code == 0
    assert result.output.splitlines()[-2:] == [
        "forward   f32[8@X,4], f32[4]{R:X} -> f32[8@X], f32[]{U:X}",
        "backward  f32[8@X], f32[]{R:X} -> f32[8@X,4], f32[4]{U:X}",
    ]
    assert [line.rpartition("  ")[2] for line in result.output.splitlines()[:5]] == [
        "along X", "sharded on dim 0", "reduced -> unreduced", "sharded on dim 0", "unreduced -> reduced",
    ]  # fmt: skip


def test_the_cotangents_of_several_types_as_json() -> None:
    """Words apart or together; a maximum has none, an integer nothing in it, what varies varies."""
    words = ["f32[4]{R:X, U:Y}, i32[3]", "f32[4]{U_max:Y}"]
    found = json.loads(run("type", "--cotangent", *words, "--json").output)
    assert found["verdict"] == "ok"
    assert [one["cotangent"] for one in found["types"]] == ["f32[4]{U:X, R:Y}", "float0[3]", None]
    assert found["types"][0]["along"] == {
        "X": {"primal": "reduced", "cotangent": "unreduced"}, "Y": {"primal": "unreduced", "cotangent": "reduced"},
    }  # fmt: skip
    assert "has no cotangent" in found["types"][2]["why_no_cotangent"]
    (manual,) = json.loads(run("type", "--cotangent", "f32[4]{V:X}", "--json").output)["types"]
    assert (manual["cotangent"], manual["along"]["X"]["primal"]) == ("f32[4]{V:X}", "varying")


@pytest.mark.parametrize(
    ("text", "mesh", "column", "code"),
    [
        ("f32[4]{R:X} -> f32[7@X]", "X=2", 20, "indivisible"),
        ("f32[4]{R:X} -> f32[4", "", 21, "syntax"),
        ("f32[4] f32[8@X,4@X]", "", 18, "repeated-axis"),
        ("f32[4] -> f32[4] -> f32[4]", "", 18, "syntax"),
        ("f32[4] f32[8@Y]", "X=2", 14, "unknown-axis"),
        ("", "", 1, "syntax"),
        ("f32[4]-> nonsense", "", 18, "syntax"),
    ],
)
def test_a_signature_that_is_none(text: str, mesh: str, column: int, code: str) -> None:
    result = run("type", "--cotangent", text, *(("--mesh", mesh) if mesh else ()), "--json")
    assert result.exit_code == 2
    (refusal,) = json.loads(result.stdout)["refusals"]
    assert (refusal["code"], refusal["line"], refusal["column"]) == (code, 1, column)


def test_several_types_need_the_option() -> None:
    result = run("type", "f32[8]", "f32[8]")
    assert (result.exit_code, "for the cotangents of several, add --cotangent" in result.stderr) == (2, True)
