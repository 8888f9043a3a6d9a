"""`shardproof run`: what it prints, as the seed page prints it, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from verifier.cli import main

PENDING = """{ lambda ; a:f32[2,2@X] b:f32[2@X,2]. let
    c:f32[2,2]{U:X} = dot_general[
      dimension_numbers=(([1], [0]), ([], []))
      preferred_element_type=float32
    ] a b
    d:f32[2,2] = reshard c
  in (c, d) }
"""
GIVEN = ["--set", "a=[[0,1],[2,3]]", "--set", "b=[[4,5],[6,7]]"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("pending.jaxpr").write_text(PENDING, encoding="utf-8")
    return "pending.jaxpr"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["run", *words], prog_name="shardproof", catch_exceptions=False)


def test_the_blocks_of_the_page(file: str) -> None:
    """Seeds A16 to A19: the blocks of a and b, the partial sums, and their sum."""
    found = run(file, "--mesh", "X=2", *GIVEN)
    assert found.exit_code == 0
    assert (
        found.output
        == """pending.jaxpr: equal · whole and on 2 devices (X=2) · 1 collective as derived

  line  primitive  collective  over  derived   executed
     6  reshard    all-reduce  X     16 bytes  16 bytes

input a: f32[2,2@X]
device 0:
[[0.]
 [2.]]
device 1:
[[1.]
 [3.]]

input b: f32[2@X,2]
device 0:
[[4. 5.]]
device 1:
[[6. 7.]]

result c: f32[2,2]{U:X}
device 0:
[[ 0.  0.]
 [ 8. 10.]]
device 1:
[[ 6.  7.]
 [18. 21.]]

result d: f32[2,2]
each device:
[[ 6.  7.]
 [26. 31.]]
"""
    )


def test_drawn_inputs_are_those_of_the_seed(file: str) -> None:
    one, again, other = (run(file, "--mesh", "X=2", "--seed", seed).output for seed in ("1", "1", "2"))
    assert "inputs drawn with seed 1" in one
    assert one == again != other


def test_json(file: str) -> None:
    found = json.loads(run(file, "--mesh", "X=2", "--json", *GIVEN).output)
    assert found["verdict"] == "equal"
    assert found["devices"] == 2
    assert found["results"][0]["blocks"] == [[[0, 0], [8, 10]], [[6, 7], [18, 21]]]
    assert found["results"][1]["value"] == [[6, 7], [26, 31]]
    (line,) = found["executed"]
    assert (line["kind"], line["axes"], line["executed_times"], line["executed_bytes"]) == ("all-reduce", ["X"], 1, 16)


def test_what_is_different_exits_1_and_shows_the_line(file: str) -> None:
    Path("claim.jaxpr").write_text(
        """{ lambda ; a:f32[2@X]. let
    b:f32[1] = shard_map[
      check_vma=False
      in_specs=(P('X',),)
      jaxpr={ lambda ; c:f32[1]. let d:f32[1] = neg c in (d,) }
      mesh=Mesh('X': 2, axis_types=(Explicit,))
      newly_manual_axes=frozenset({'X'})
      out_specs=(P(None,),)
    ] a
  in (b,) }
""",
        encoding="utf-8",
    )
    found = run("claim.jaxpr")
    assert found.exit_code == 1
    assert "claim.jaxpr: different" in found.output
    assert "devices (0,) and (1,) hold different copies of f32[1], which the out_specs claim" in found.output
    assert "2 │ b:f32[1] = shard_map[" in found.output


@pytest.mark.parametrize(
    ("text", "words", "status", "said"),
    [
        ("{ lambda ; a:f32[2]{U:X}. let b:f32[2]{U:X} = cos a in (b,) }", ["--mesh", "X=2"], 1, "unsound: cos of"),
        ("{ lambda ; a:f32[2]. let", [], 2, "malformed"),
        ("{ lambda ; a:f32[2@X]. let b:f32[2@X] = neg a in (b,) }", [], 1, "the sizes of X are not known"),
        ("{ lambda ; a:f32[n]. let b:f32[n] = neg a in (b,) }", [], 0, "at n = 2"),
        ("{ lambda ; a:f32[2]. let b:f32[2] = neg a in (b,) }", ["--set", "c=1"], 2, "c is no input of the program"),
        ("{ lambda ; a:f32[2]. let b:f32[2] = neg a in (b,) }", ["--set", "a=[1]"], 2, "have the shape [1]"),
        ("{ lambda ; a:f32[2]. let b:f32[2] = neg a in (b,) }", ["--set", "a"], 2, "is no NAME=VALUES"),
        ("{ lambda ; a:f32[2]. let b:f32[2] = neg a in (b,) }", ["--set", 'a=["x"]'], 2, "no array of numbers"),
        ("{ lambda ; a:i32[2]. let b:i32[2] = neg a in (b,) }", ["--set", "a=1.5"], 2, "not all of its values are"),
        ("{ lambda ; a:i32[2]. let b:i32[2] = neg a in (b,) }", ["--set", "a=99999999999"], 2, "numbers of i32"),
        ("{ lambda ; a:f32[2]. let b:f32[2] = neg a in (b,) }", ["--seed", "-1"], 2, "not in the range"),
        ("{ lambda ; a:f32[4096@X]. let b:f32[4096] = reshard a in (b,) }", ["--mesh", "X=2048"], 1, "too many"),
    ],
)
def test_other_endings(file: str, text: str, words: list[str], status: int, said: str) -> None:
    Path("other.jaxpr").write_text(text, encoding="utf-8")
    found = run("other.jaxpr", *words)
    assert said in " ".join(found.output.split())
    assert found.exit_code == status


def test_a_function_is_run() -> None:
    """In its author's words; the number is x @ w, squared and summed, by hand."""
    found = CliRunner().invoke(
        main, ["run", "examples.loss:loss_and_arguments", "--set", "x=2", "--set", "params['w']=0.5"]
    )
    assert found.exit_code == 0, found.output
    assert "equal · whole and on 2 devices (X=2) · 1 collective as derived" in found.output
    assert "examples/loss.py:30  reduce_sum  all-reduce" in found.output
    assert "input params['w']: f32[4,2]" in found.output
    assert f"{8 * 2 * (4 * 2 * 0.5) ** 2:.0f}." in found.output  # 8 rows, 2 columns, each (4 x 2 x 0.5) squared


def test_a_function_that_is_none() -> None:
    found = CliRunner().invoke(main, ["run", "examples.loss:nothing"])
    assert found.exit_code == 2
    assert "malformed" in found.output
    found = CliRunner().invoke(main, ["run", "examples.loss:loss_and_arguments", "--set", "y=2"])
    assert (found.exit_code, "y is no input of the program" in found.output) == (2, True)


def test_the_help_teaches() -> None:
    found = run("--help")
    assert found.exit_code == 0
    for said in ("--set", "--seed", "--mesh", "shardproof run loss.jaxpr", "Exit status 0"):
        assert said in found.output
