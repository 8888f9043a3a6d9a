"""Programs run every way by one command: whole, per device and by JAX, forward and backward; those of the corpus that
are not, with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

from calculus.meshes import Axis, Mesh
from grammar.read import read
from verifier.cli import main
from verifier.ways import (
    BACKWARD,
    DIFFERENT,
    EQUAL,
    FORWARD,
    LEDGER,
    NONE,
    NOT_RUN,
    Job,
    Runs,
    Way,
    Ways,
    lines,
    run_all,
)
from verifier.workers import Lost

CORPUS = Path(__file__).parents[1] / "golden" / "corpus"
PRINTED = {path.name.partition(".")[0]: path for path in sorted(CORPUS.glob("*.jaxpr"))}

#: what the executor does not run, and JAX is not asked about, since a text does not say it
NOT_HERE = {
    "feat_ffi": ("what ffi_call computes is not described here", "a function that the text only names"),
    "feat_pallas": ("what pallas_call computes is not described here", "does not say where blocks begin"),
    "feat_rbg_keys": ("numpy knows no key<rbg>", "numpy knows no key<rbg>"),  # its numbers are the platform's own
}
#: what runs, and JAX is not asked about
NOT_ASKED = {"feat_check_p": "JAX runs only within checkify.checkify"}
#: what has no derivative
NO_DERIVATIVE = {
    "feat_cond_while_scan": "the derivative of a while loop, in reverse",
    "feat_float0": "no input is floating",
    "seed_dist_random": "no input is floating",
    "shmap_collectives": "the derivative of pmax",
}
#: of each kind of construct one; what is compared with JAX besides is for the command
SHORT = (
    "feat_compute_on", "feat_compute_on_memspace", "feat_cond_grad", "feat_cond_while_scan", "feat_consts",
    "feat_float0", "feat_symbolic_dims", "feat_symbolic_dims2", "linen_mlp_grad", "seed_dist_abstract_mesh_change",
    "seed_dist_explicit_axes", "seed_dist_random", "seed_dist_wsc", "seed_fanout_grad", "shmap_collectives",
)  # fmt: skip


def run(*words: str) -> tuple[int, Any]:
    index = ("--meshes", str(CORPUS / "index.json"), "--mesh", "X=4,Y=2")
    found = CliRunner().invoke(main, ["run", *words, *index, "--json"], prog_name="shardproof", catch_exceptions=False)
    return found.exit_code, json.loads(found.output)["programs"]


def captured() -> tuple[Any, tuple[Any, ...]]:
    """A function that has two arrays which are no arguments of it."""
    mesh = jax.sharding.AbstractMesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("X"))
    weights, shift = jnp.arange(4.0), np.arange(4, dtype=np.float32)
    return (lambda x: jnp.sin(x) * weights + shift), (jax.ShapeDtypeStruct((4,), "float32", sharding=place),)


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="the texts are those of the newer release")
def test_jax_agrees_forward_and_backward() -> None:
    names = (*SHORT, *NOT_HERE, *NOT_ASKED)
    function = "tests.examples.small:loss__loss_and_arguments"
    older = str(CORPUS / "jax-0.10.2" / "shmap_collectives.jaxpr")  # its maxima have no target
    captures = "tests.verifier.test_ways:captured"
    code, found = run(older, *(str(PRINTED[name]) for name in names), captures, function, "--backward", "--jax")
    assert code == 0
    example = found.pop()
    assert [found[0][FORWARD][who] for who in ("runs", "jax")] == [EQUAL, EQUAL]
    del found[0]
    assert [example[way][who] for way in (FORWARD, BACKWARD) for who in ("runs", "jax")] == [EQUAL] * 4
    assert example[FORWARD]["collectives"] > 0
    capturing = found.pop()
    assert [capturing[way][who] for way in (FORWARD, BACKWARD) for who in ("runs", "jax")] == [EQUAL] * 4
    for name, one in zip(names, found, strict=True):
        forward, backward = one[FORWARD], one[BACKWARD]
        ours, _ = NOT_HERE.get(name, ("", ""))
        assert (forward["runs"], backward["runs"] != DIFFERENT) == (NOT_RUN if ours else EQUAL, True), one
        assert ours in (forward["why"] or "")
        asked = NOT_HERE | {key: ("", says) for key, says in NOT_ASKED.items()}
        assert forward["jax"] == (NOT_RUN if name in asked else EQUAL), one
        assert asked.get(name, ("", ""))[1] in (forward["says"] or "")
        if name in NO_DERIVATIVE:
            assert (backward["runs"], backward["why"], backward["jax"]) == (NONE, NO_DERIVATIVE[name], NONE)
        elif name not in asked:
            assert (backward["runs"], backward["jax"]) == (EQUAL, EQUAL), one


def test_several_files_are_a_table_and_what_is_refused_is_said(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jaxpr"
    wrong.write_text("{ lambda ; a:f32[4]{U:X}. let b:f32[4]{U:X} = cos a in (b,) }")
    right = tmp_path / "right.jaxpr"
    right.write_text("{ lambda ; a:f32[4]{U:X}. let b:f32[4] = reshard a in (b,) }")
    found = CliRunner().invoke(main, ["run", str(wrong), str(right), "--mesh", "X=2"], prog_name="shardproof")
    assert found.exit_code == 1
    assert "2 programs, whole and per device, in" in found.output
    assert "  forward    1      1        0          0              0\n" in found.output
    assert "  1 collective executed as derived\n" in found.output
    assert f"    {wrong}: state: cos of (unreduced) along X reads back wrong" in found.output
    assert CliRunner().invoke(main, ["run", str(right), "--mesh", "X=2", "--backward"]).exit_code == 0


def test_what_differs_is_said() -> None:
    ways = [Way(FORWARD, EQUAL, jax=DIFFERENT, says="at [0] 1.0 ours"), Way(BACKWARD, EQUAL, jax=LEDGER, entry=27)]
    found = Runs("0.12.0.1", [Ways("a", ways), Ways("b", [Way(FORWARD, DIFFERENT, "line 3")])])
    assert not found.clean
    text = "\n".join(lines(found))
    assert "    b, forward: line 3" in text
    assert "    a, forward: at [0] 1.0 ours" in text
    assert "    a, backward: entry 27: " in text


def test_an_index_that_is_none_is_refused(tmp_path: Path) -> None:
    index = tmp_path / "index.json"
    index.write_text('{"a": {"mesh": {"X": "many"}}}')
    for file, message in ((index, "is no index of meshes"), (tmp_path / "nothing", "cannot be read")):
        words = ["run", str(PRINTED["feat_consts"]), "--meshes", str(file), "--backward"]
        found = CliRunner().invoke(main, words, prog_name="shardproof")
        assert (found.exit_code, message in found.output) == (2, True), found.output


def test_a_death_of_jax_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for message, jax_says in (("Invalid binary instruction opcode copy", LEDGER), ("Segmentation fault", DIFFERENT)):
        worker = mock.Mock(version="0.12.0.1")
        worker.result.side_effect = Lost(f"exit status -6: {message}")
        monkeypatch.setattr("verifier.workers.Worker", lambda *given, worker=worker: worker)
        text = read("{ lambda ; a:f32[4]. let b:f32[4] = neg a in (b,) }")
        (found,) = run_all([Job("a", text.program, ())], with_jax=True).found
        assert [(way.ours, way.jax, message in way.says) for way in found.ways] == [(EQUAL, jax_says, True)]


def test_a_wrong_value_of_jax_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from verifier.with_jax import beside

    program = read("{ lambda ; a:f32[4]. let b:f32[4] = neg a in (b,) }").program
    job = Job("a", program, ())
    right = beside.Beside().ways(job, 0, True)
    monkeypatch.setattr(beside, "callable_of", lambda *given: lambda a: (a,))
    wrong = beside.Beside().ways(job, 0, True)
    assert [way.jax for way in right] == [EQUAL, EQUAL]
    assert [(way.ours, way.jax) for way in wrong] == [(EQUAL, DIFFERENT)] * 2
    assert "JAX's" in wrong[0].says


def test_jax_is_not_asked_where_we_cannot_hand_it_the_mesh() -> None:
    from verifier.with_jax.beside import Beside

    text = read("{ lambda ; a:f32[4]. let b:f32[4@X] = reshard a in (b,) }")
    (way,) = Beside().ways(Job("a", text.program, (Mesh((Axis("X", None),)),)), 0, backward=False)
    assert (way.ours, way.jax) == (NOT_RUN, NOT_RUN)
    assert way.says == "ours: the sizes of X are not known: give --mesh X=…"
