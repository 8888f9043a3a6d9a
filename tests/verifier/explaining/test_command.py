"""`shardproof explain`: what it prints, as text and as data, seconds, what a compiler confirms, and misuse. Numbers are
those of the page on explicit sharding: fifteen all-reduces of 64 bytes against one of 192."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import verifier
from examples import microbatches
from verifier.cli import main
from verifier.explaining.hardware import BadProfile, hardware, steps

ROOT = Path(__file__).resolve().parents[3]
SEEDS = ROOT / "examples" / "seeds"
LOSS = str(ROOT / "examples" / "loss.jaxpr")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments], prog_name="shardproof")


def data(*arguments: str) -> Any:
    found = run(*arguments, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.mark.parametrize(
    ("name", "row"),
    [("summed_each_time", ("backward", 64, 15, "replicated")), ("accumulated", ("update", 192, 1, "cast"))],
)
def test_the_two_steps_of_the_page(name: str, row: tuple[str, int, int, str]) -> None:
    """4,096 chips that are not there; the weights are named, and the type of theirs that decides."""
    step, arguments = getattr(microbatches, name)()
    (entry,) = verifier.explain(step, *arguments).entries
    assert entry.fact is not None
    assert (entry.direction, entry.row.bytes, entry.row.times, entry.fact.state) == row
    assert (entry.row.value, entry.fact.value) == ("gradient of weights", "weights")


def test_the_text_of_a_step() -> None:
    """The seeds' texts have their gradient in them, which only the reader knows."""
    every = [data(str(SEEDS / f"seed_microbatch{end}.jaxpr"), "--step") for end in ("_replicated", "")]
    assert [[(one["bytes"], one["times"]) for one in found["communication"]] for found in every] == [
        [(64, 15)],
        [(192, 1)],
    ]


def test_seconds_are_the_ring_s(tmp_path: Path) -> None:
    profile = tmp_path / "chip.toml"
    profile.write_text("[axes.X]\nbandwidth = 45e9\nlatency = 1e-6\n")
    step, arguments = microbatches.summed_each_time()
    found = verifier.check(step, *arguments).explain(hardware=str(profile))
    n, payload, times = 4096, 64, 15
    by_hand = times * (2 * (n - 1) / n * payload / 45e9 + 2 * (n - 1) * 1e-6)
    assert found.seconds(found.entries) == pytest.approx(by_hand)
    assert "123 ms" in str(found)
    assert "seconds = wire bytes / bandwidth" in str(found)
    assert [steps(kind, 8) for kind in ("all-reduce", "all-gather", "all-to-all", "collective-permute")] == [
        14,
        7,
        7,
        1,
    ]


@pytest.mark.parametrize(
    "said",
    [{}, {"axes": {}}, {"axes": {"X": {}}}, {"axes": {"X": {"bandwidth": 0}}}, {"axes": {"X": {"bandwidth": "fast"}}},
     {"axes": {"X": {"bandwidth": 1, "speed": 2}}}, {"axes": {"X": {"bandwidth": 1}}, "more": 1}],
)  # fmt: skip
def test_a_profile_that_says_something_else_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(BadProfile):
        hardware(said)


def test_an_axis_that_the_profile_lacks_is_said(tmp_path: Path) -> None:
    profile = tmp_path / "chip.toml"
    profile.write_text("[axes.model]\nbandwidth = 45e9\n")
    found = run(LOSS, "--hardware", str(profile))
    assert found.exit_code == 2
    assert "the profile has no [axes.X]" in found.stderr
    assert run(LOSS, "--hardware", str(tmp_path / "none.toml")).exit_code == 2


def test_each_row_is_confirmed_by_the_compiler() -> None:
    """XLA for two CPU devices moves both, and nothing else."""
    found = data(LOSS, "--confirm", "cpu")
    told = [(one["direction"], one["bytes"], one["confirmed"]) for one in found["communication"]]
    assert told == [("backward", 32, "confirmed"), ("forward", 4, "confirmed")]
    assert not any("moves besides" in note for note in found["notes"])


def test_the_author_s_lines_and_what_stands_on_them() -> None:
    found = run(LOSS)
    assert found.stdout.splitlines()[2:4] == [
        f"{LOSS}:3  d:f32[4,2]{{R:X}} = reshard a",
        "  backward  all-reduce over X  gradient of a  32 bytes",
    ]


def test_sizes_of_axes_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "loss.jaxpr"
    path.write_text(Path(LOSS).read_text().split("\n", 1)[1])
    found = data(str(path))
    assert [(one["bytes"], one["formula"], one["wire_formula"]) for one in found["communication"]] == [
        (32, "32", "2·(X - 1)/X · 32"),
        (4, "4", "2·(X - 1)/X · 4"),
    ]


def test_what_is_refused_is_said_with_its_place() -> None:
    found = run(str(ROOT / "examples" / "refused.jaxpr"))
    assert found.exit_code == 1
    assert "refused.jaxpr:3:27: unsound: cos of (unreduced) along X" in found.stdout


@pytest.mark.parametrize("options", [("--wrt", "nobody"), ("--confirm", "abacus")])
def test_misuse_is_said(options: tuple[str, str]) -> None:
    assert run(LOSS, *options).exit_code == 2


def test_a_notebook_shows_the_same_and_escapes_it() -> None:
    step, arguments = microbatches.accumulated()
    html = verifier.explain(step, *arguments)._repr_html_()
    assert "weights is used as reduced along X" in html
    assert "<script" not in html
    assert "jax.reshard(gradients(used, start, batches), P())" in html
