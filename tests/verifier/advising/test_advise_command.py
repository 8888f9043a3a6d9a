"""`shardproof advise`: what it prints, as text and as data, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from verifier.cli import main

CORPUS = Path(__file__).parents[2] / "golden" / "corpus"
STEP = str(CORPUS / "seed_microbatch_replicated.jaxpr")
ONCE = """{ lambda ; a:f32[8@X,4] b:f32[4,4]. let
    c:f32[8@X,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] a b
    d:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] c
  in (d,) }
"""


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["advise", *arguments], input=stdin, prog_name="shardproof")


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    found = run(STEP, "--mesh", "X=2", "--json", "--any-jax")
    assert found.exit_code == 0
    read: dict[str, Any] = json.loads(found.stdout)
    return read


def test_the_first_advice_is_a_spec_for_each_input(said: dict[str, Any]) -> None:
    assert said["inputs"] == {"a": "P(reduced={'X'})"}
    assert (said["before"]["collectives"], said["after"]["collectives"]) == (15, 1)
    assert (said["before"]["bytes"], said["after"]["bytes"]) == (960, 192)


def test_then_what_an_accumulator_begins_as(said: dict[str, Any]) -> None:
    begun = [cast for cast in said["casts"] if cast["accumulator"]]
    assert [(cast["value"], cast["spec"], cast["price"]) for cast in begun] == [("c", "P(unreduced={'X'})", "free")]


def test_a_proposal_is_run_beside_the_program(said: dict[str, Any]) -> None:
    assert said["checks"]["equal"] == "equal in value, run by the reference executor on (X=2)"


def test_the_program_alone_can_be_checked() -> None:
    found = run(STEP, "--mesh", "X=2", "--any-jax", "--program")
    checked = CliRunner().invoke(main, ["check", "-", "--mesh", "X=2", "--json"], input=found.stdout)
    (report,) = json.loads(checked.stdout)
    assert [(row["kind"], row["times"], row["bytes"]) for row in report["communication"]] == [("all-reduce", 1, 192)]


def test_microbatches_make_a_loss_worth_advice() -> None:
    """One product with one weight: nothing to save once, and three of four all-reduces in four microbatches."""
    alone = run("-", "--mesh", "X=2", "--any-jax", stdin=ONCE)
    assert "nothing cheaper found" in alone.stdout
    many = run("-", "--mesh", "X=2", "--wrt", "b", "--microbatches", "4", "--any-jax", stdin=ONCE)
    assert "{'b': P(reduced={'X'})}" in many.stdout
    assert "in each of the 4 microbatches: 1 collective, 4 bytes" in many.stdout  # the loss itself


@pytest.mark.parametrize(
    ("arguments", "text", "status", "words"),
    [
        (("-",), ONCE, 2, "the sizes of the mesh are not known"),
        (("-", "--mesh", "X=2", "--wrt", "z"), ONCE, 2, "z is no input of the program"),
        (("-", "--mesh", "X=2", "--axes", "Y"), ONCE, 2, "has no axis Y"),
        (("-", "--mesh", "X=2"), ONCE.replace("d:f32[] =", "d:f32[4] ="), 1, "unsound"),
        (("-", "--mesh", "X=2"), "nonsense", 2, "malformed"),
        (
            (str(CORPUS / "feat_cond_while_scan.jaxpr"), "--wrt", "a"),
            "",
            1,
            "the derivative of a while loop, in reverse",
        ),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], text: str, status: int, words: str) -> None:
    found = run(*arguments, stdin=text)
    assert found.exit_code == status
    assert words in " ".join(found.output.split())
    assert "Traceback" not in found.output
