"""`shardproof diff`: what changed between two programs, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.calculus.test_gradients import FANOUT
from verifier.cli import main

CORPUS = Path(__file__).parents[2] / "golden" / "corpus"


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, arguments)], input=stdin, prog_name="shardproof")


def data(*arguments: str, stdin: str = "") -> dict[str, Any]:
    read: dict[str, Any] = json.loads(run(*arguments, "--json", stdin=stdin).stdout)
    return read


def corpus(name: str) -> str:
    return str(CORPUS / f"{name}.jaxpr")


def test_the_two_microbatch_steps() -> None:
    """Seeds A34, A35: what JAX's page changes by hand. Types begin to differ where weights come in, where gradients are
    made, and with the zeros."""
    found = data(corpus("seed_microbatch_replicated"), corpus("seed_microbatch"), "--mesh", "X=2")
    assert found["signature"] == [{"name": "a", "old": "f32[3,4,4]", "new": "f32[3,4,4]{R:X}"}]
    first = [(one["primitive"], one["new"]) for one in found["types"] if one["first"]]
    assert first == [("broadcast_in_dim", "f32[3,4,4]{R:X}"), ("dot_general", "f32[4,4]{U:X}")]
    assert [one["primitive"] for one in found["added"]] == ["reshard"] * 3
    assert [(one["kind"], one["bytes"], one["times"]) for one in found["appeared"]] == [("all-reduce", 192, 1)]
    assert [(one["kind"], one["bytes"], one["times"]) for one in found["went"]] == [("all-reduce", 64, 15)]
    assert found["wire_bytes"] == {"old": 960, "new": 192}


@pytest.mark.parametrize("name", ["seed_microbatch", "seed_microbatch_replicated", "seed_loss_grad"])
def test_one_function_as_two_releases_print_it(name: str) -> None:
    """JAX 0.10.2 and 0.12 print other primitives here and there; types and communication are the same."""
    found = run(str(CORPUS / "jax-0.10.2" / f"{name}.jaxpr"), corpus(name), "--mesh", "X=2")
    assert (found.exit_code, "the same types and communication" in found.stdout) == (0, True), found.output


STEP = """{ lambda ; a:f32[4]{R:X} b:f32[8@X,4]. let
    c:f32[4]{U:X} = reduce_sum[axes=(0,) out_sharding=P(None, unreduced={'X'})] b
    d:f32[4] = reshard a
    e:f32[4] = reshard c
    f:f32[4] = sub d e
  in (f,) }
"""
LATE = """{ lambda ; a:f32[4]{R:X} b:f32[8@X,4]. let
    c:f32[4]{U:X} = reduce_sum[axes=(0,) out_sharding=P(None, unreduced={'X'})] b
    d:f32[4]{U:X} = reshard a
    f:f32[4]{U:X} = sub d c
  in (f,) }
"""


def test_a_step_whose_result_is_not_free_to_go_into_the_next(tmp_path: Path) -> None:
    """Seed A33: replicated weights are reduced again for free; pending ones need an all-reduce, of 4 * 4 bytes."""
    before, after = tmp_path / "before.jaxpr", tmp_path / "after.jaxpr"
    before.write_text(STEP)
    after.write_text(LATE)
    found = run(str(before), str(after), "--mesh", "X=2")
    assert found.exit_code == 1
    wanted = (
        "f is f32[4]{U:X}, and a, which it replaces, f32[4]{R:X}: all-reduce over X of 16 bytes to cast it back (new)"
    )
    assert wanted in found.stdout
    assert data(str(after), str(before), "--mesh", "X=2")["not_free_to_go_into_the_next_step"] == []


def test_gradients_are_compared(tmp_path: Path) -> None:
    """Seed A29: with the cast one all-reduce of the fan-out, without it one for each use."""
    cast, plain = tmp_path / "cast.jaxpr", tmp_path / "plain.jaxpr"
    cast.write_text(FANOUT)
    plain.write_text(FANOUT.replace("{R:X}", ""))
    found = data(str(plain), str(cast), "--mesh", "X=2", "--backward")
    assert (len(found["went"]), len(found["appeared"])) == (2, 1)


def test_paths_say_what_a_result_replaces(tmp_path: Path) -> None:
    module = tmp_path / "steps.py"
    module.write_text(
        "import jax, jax.numpy as jnp\n"
        "from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P\n"
        "MESH = AbstractMesh((2,), ('X',), axis_types=(AxisType.Explicit,))\n"
        "def whole():\n"
        "    w = jax.ShapeDtypeStruct((4,), jnp.float32, sharding=NamedSharding(MESH, P('X')))\n"
        "    return lambda params, x: (x.sum(), {'w': params['w'] * 2}), ({'w': w}, w)\n"
        "def gathered():\n"
        "    _, given = whole()\n"
        "    return lambda params, x: (x.sum(), {'w': jax.sharding.reshard(params['w'] * 2, P(None))}), given\n"
        "def pending():\n"
        "    _, given = whole()\n"
        "    late = P(unreduced={'X'})\n"
        "    return lambda params, x: (x.sum(), {'w': jax.sharding.reshard(params['w'] * 2, late)}), given\n"
    )
    assert data(f"{module}:whole", f"{module}:gathered")["not_free_to_go_into_the_next_step"] == []  # a slice
    (found,) = data(f"{module}:whole", f"{module}:pending")["not_free_to_go_into_the_next_step"]
    assert (found["result"], found["input"], found["new"]) == ("result[1]['w']", "params['w']", True)
    assert found["price"].startswith("reduce-scatter over X")


@pytest.mark.parametrize(
    ("old", "new", "status", "words"),
    [
        (STEP, STEP, 0, "the same types and communication"),
        (STEP, STEP.replace("sub d e", "sub d c"), 1, "unsound"),
        (STEP, "nonsense", 2, "malformed"),
        ("-", "-", 2, "standard input"),
    ],
)
def test_the_exit_status(old: str, new: str, status: int, words: str, tmp_path: Path) -> None:
    names = []
    for name, text in (("old", old), ("new", new)):
        (tmp_path / name).write_text(text)
        names.append(text if text == "-" else str(tmp_path / name))
    found = run(*names, "--mesh", "X=2")
    assert found.exit_code == status
    assert words in found.output
