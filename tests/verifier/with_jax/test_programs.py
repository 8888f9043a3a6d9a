"""Drawn programs through every engine: on either release every difference is in the ledger; and a difference is seen,
made small, and printed as a file that shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from calculus.meshes import Axis, Mesh
from calculus.types import array_type
from grammar.meshes import parse_meshes
from grammar.read import read
from verifier import program_agreement
from verifier.cli import main
from verifier.execution.run import Outcome, Shown
from verifier.findings import VALUES, VERDICT, modes_of, uses, within
from verifier.generated.guests import guests
from verifier.ledger import ledger
from verifier.program_agreement import DOOR, Programs, compare, file_of, lines
from verifier.with_jax import programs as engine
from verifier.with_jax import running
from verifier.with_jax.blocks import difference
from verifier.with_jax.programs import Comparing, drawn_for
from verifier.with_jax.python import as_python
from verifier.workers import Lost, Worker

DRAWN = 250
"""How many programs are drawn to be counted."""
COMPARED = 10
"""How many of them are compared here; `shardproof agree --programs` compares as many as one likes."""


@cache
def found() -> Programs:
    return compare(COMPARED, seed=7, processes=2)


def test_every_difference_is_in_the_ledger() -> None:
    assert [(one.seed, one.shows, one.message) for one in found().unexplained] == []


def test_programs_are_run_and_differentiated() -> None:
    """Not refused, nor left out: both sides type, differentiate and run most."""
    assert sum(one.differentiated for one in found().compared) > COMPARED / 2
    assert sum(one.blocks > 0 for one in found().compared) > 0.8 * COMPARED
    assert sum(one.moved for one in found().compared) > 0
    assert sum(bool(one.unwritten) for one in found().compared) <= 2


def test_the_report() -> None:
    text = "\n".join(lines(found()))
    assert f"{COMPARED} programs of seed 7" in text
    assert "unexplained          0" in text


@cache
def grown() -> list[Any]:
    return [drawn_for(seed) for seed in range(DRAWN)]


def test_every_rule_is_drawn() -> None:
    """Each primitive that has a sample call on floats, and each form, cast and collective."""
    rules = Counter(name for one in grown() for name in uses(one.program))
    rare = {name for name in rules if rules[name] < 1}
    assert {one.primitive for one in guests()} <= set(rules) - rare
    forms = {"jit", "checkpoint", "scan", "while", "cond", "shard_map", "reshard"}
    moved = {"all_gather", "all_gather_invariant", "all_gather_reduced", "all_to_all", "ppermute", "psum_invariant",
             "reduce_scatter", "unreduced_psum", "unreduced_reduce_scatter"}  # fmt: skip
    casts = {"pvary", "preduced", "reduced_vary_cast", "vary_unreduced_cast"}
    assert min(rules[name] for name in forms) > DRAWN / 40
    assert min(rules[name] for name in moved | casts) >= 2


def test_the_share_of_programs_that_are_accepted() -> None:
    """Each is accepted, and has one near miss at most."""
    missed = sum(bool(one.tally.misses) for one in grown())
    assert DRAWN / 4 < missed <= DRAWN


def test_meshes_of_every_kind() -> None:
    axes = Counter(len(one.mesh.axes) for one in grown())
    assert axes[2] + axes[3] > DRAWN / 2
    assert min(axes[1], axes[3]) > DRAWN / 20
    assert sum(any(axis.size == 1 for axis in one.mesh.axes) for one in grown()) > DRAWN / 20
    modes = Counter(mode for one in grown() for mode in engine.modes(one.program, one.mesh))
    assert min(modes[mode] for mode in ("explicit", "manual", "partly manual")) > DRAWN / 20
    assert modes_of(grown()[0].mesh) == "explicit"
    assert sum(sum(1 for _ in within(one.program)) > 2 for one in grown()) > DRAWN / 4


PROGRAM = """
{ lambda ; a:f32[4@X,8] b:f32[8@X,2]. let
    c:f32[4@X,8] = sin a
    d:f32[4@X,8] = neg c
    e:f32[4,8@X] = reshard d
    f:f32[4,2]{U:X} = dot_general[
      dimension_numbers=(((1,), (0,)), ((), ()))
      preferred_element_type=float32
    ] e b
  in (f,) }
"""


def wrong(replaced: str, by: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The first finding of a program, if JAX were another."""

    def changed(*arguments: Any, **named: Any) -> Any:
        made = as_python(*arguments, **named)
        made.lines = [line.replace(replaced, by) for line in made.lines]
        return made

    monkeypatch.setattr(running, "as_python", changed)
    (mesh,) = parse_meshes("X=2")
    return Comparing().compared(read(PROGRAM).program, mesh).findings[0]


def test_a_wrong_value_is_seen_made_small_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = wrong("bind('neg', c)", "bind('copy', c)", monkeypatch)
    assert (finding.shows, finding.entry) == (VALUES, 0)
    assert [equation.primitive for equation in finding.program.equations] == ["neg"]
    text = "\n".join(file_of(finding))
    ran = subprocess.run([sys.executable, "-"], input=text, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("cpu:") == 2


def test_a_wrong_type_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = wrong("reshard(d, P(None, 'X'))", "reshard(d, P(None, None))", monkeypatch)
    assert (finding.shows, finding.entry) == (VERDICT, 0)
    assert "we say f32[4,8@X]; JAX says f32[4,8]" in finding.message


GROUPED = """
{ lambda ; a:f32[2@X,5,8] b:f32[1,2,12]. let
    c:f32[2@X,5,12] = conv_general_dilated[
      batch_group_count=1
      dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 2, 1), rhs_spec=(2, 1, 0), out_spec=(0, 2, 1))
      feature_group_count=4 lhs_dilation=(1,) out_sharding=None padding=((0, 0),) precision=None
      preferred_element_type=None rhs_dilation=(1,) window_strides=(1,)
    ] a b
  in (c,) }
"""


def test_a_gradient_that_an_entry_says_is_wrong_of_an_equation_is_that_entry() -> None:
    """The kernel's gradient comes out twice too large along a second axis; the same difference elsewhere is none."""
    (mesh,) = parse_meshes("X=2, Y=2")
    (finding,) = Comparing().compared(read(GROUPED).program, mesh).findings
    assert (finding.shows, ledger()[finding.entry - 1].file) == (VALUES, "76_grouped_convolution.py")
    (alone,) = parse_meshes("X=2")
    assert not Comparing().compared(read(GROUPED).program, alone).findings
    finding.entry, finding.program = 0, read(PROGRAM).program
    assert Comparing().entry(finding) == 0


def test_a_process_that_jax_ends_is_another_one() -> None:
    """A reshard from one pending axis to another does."""
    (mesh,) = parse_meshes("X=2, Y=2")
    program = read("{ lambda ; a:f32[4]{U:X}. let b:f32[4]{U:Y} = reshard a in (b,) }").program
    worker = Worker(DOOR)
    try:
        worker.ask("runs", program, mesh, 0)
        with pytest.raises(Lost, match="unreduced axes"):
            worker.result()
        assert worker.running == (program, mesh)
    finally:
        worker.end()
    (finding,) = Comparing().compared(program, mesh).findings
    assert ledger()[finding.entry - 1].title == "A pending sum moved to another axis kills the process"


def test_a_death_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    (mesh,) = parse_meshes("X=2, Y=2")
    monkeypatch.setattr(program_agreement, "TRIALS", 0)
    one = program_agreement._died(3, (read(PROGRAM).program, mesh), "exit status -6", ledger())
    assert [(finding.shows, finding.entry, finding.seed) for finding in one.findings] == [("death", 0, 3)]


def test_on_gpus() -> None:
    """Drawn programs agree there too; without one, the command says that it is skipped, and what JAX says of it."""
    result = CliRunner().invoke(main, ["agree", "--programs", "3", "--seed", "5", "--platform", "gpu", "--json"])
    said = json.loads(result.stdout)
    assert (result.exit_code, "skipped" in said or said["unexplained"] == []) == (0, True), said
    if "skipped" in said:
        assert "gpu" in said["skipped"].lower()


def test_a_mesh_that_is_larger_than_the_devices_are_many() -> None:
    """Of another platform there may be fewer."""
    mesh = Mesh((Axis("X", 1024),))
    found = Comparing().compared(read("{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }").program, mesh)
    assert found.unwritten.startswith("a mesh of 1024 devices, where JAX has ")


def test_what_is_too_small_for_a_normal_number_is_zero_to_the_compiler() -> None:
    (mesh,) = parse_meshes("X=2")

    def says(ours: float, theirs: float) -> str:
        blocks = [np.full(2, ours, np.float32)] * 2
        shown = Shown("a", array_type("f32", (2,)), blocks[0], blocks)
        return difference(shown, [np.full(2, theirs, np.float32)] * 2, Outcome(2, mesh), gradient=False)

    assert says(6e-40, 0.0) == ""
    assert says(6e-37, 0.0)
    assert says(float("inf"), 1.0)
