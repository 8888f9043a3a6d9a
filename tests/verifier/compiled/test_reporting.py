"""A run against compilers as it is told: one table of all targets, and what is unexplained."""

from __future__ import annotations

from dataclasses import replace

from calculus.meshes import Axis, Mesh
from verifier.compiled.agreement import Agreement, Compared
from verifier.compiled.derived import Said
from verifier.compiled.matching import matched
from verifier.compiled.reading import Moved
from verifier.compiled.reporting import as_data, lines
from verifier.compiled.targets import PARTITIONED, RUN, target

REDUCE = Said("all-reduce", ("X",), 64, 4, "exact", "dot_general", "f32", (5,), (("train.py", 3),), "train.py:3")
SCATTER = replace(REDUCE, kind="reduce-scatter", site=1)
SUM = Moved("all-reduce", ("X",), 64, 4, "f32", (5,), frames=(("train.py", 3),))


def run(name: str, *stages: str) -> Agreement:
    """One program is explained at every stage, the other has one that is not compiled; a third is refused."""
    mesh, sizes = Mesh((Axis("X", 4),)), {"X": 4}
    good = {one: matched([REDUCE, SCATTER], [SUM, replace(SUM, sliced=True)], sizes, one) for one in stages}
    bad = {one: matched([REDUCE], [], sizes, one) for one in stages}
    return Agreement(target(name), "0.12", [Compared("good", mesh, good), Compared("bad", mesh, bad, "no memory")],
                     {"none": "TypeError: no"}, 7.0)  # fmt: skip


def test_the_table_of_two_targets() -> None:
    text = list(lines([run("cpu", PARTITIONED), run("tpu:v5e:2x4", PARTITIONED, RUN)]))
    assert text[:2] == [
        "XLA for cpu, JAX 0.12: 2 programs in 7 seconds",
        "XLA for tpu:v5e:2x4, JAX 0.12: 2 programs in 7 seconds",
    ]
    assert len({len(line) for line in text[2:11]}) == 1
    assert [line.split() for line in text[2:4]] == [
        ["cpu", "tpu:v5e:2x4", "tpu:v5e:2x4"], ["partitioned", "partitioned", "final"],
    ]  # fmt: skip
    assert [line.rsplit(maxsplit=3) for line in text[4:11]] == [
        ["  programs", "2", "2", "2"], ["  collectives of the types", "3", "3", "3"], ["  equal", "1", "1", "1"],
        ["    by the equation's line", "1", "1", "1"], ["  reduced, then sliced", "1", "1", "1"],
        ["  unexplained", "1", "1", "1"], ["  refused by JAX, XLA or us", "1", "1", "1"],
    ]  # fmt: skip
    assert text[11:13] == [
        "  note: bad was partitioned for cpu, and not compiled: no memory",
        "  note: bad was partitioned for tpu:v5e:2x4, and not compiled: no memory",
    ]
    assert text[13:15] == ["", "bad on X=4, cpu, partitioned"]
    assert text[16].split() == ["all-reduce", "X", "64", "x5", "train.py:3", "-", "unexplained"]
    assert not any("good" in line for line in text)


def test_as_data() -> None:
    one = as_data([run("cpu", PARTITIONED)])
    assert one["stages"][PARTITIONED] == {
        "programs": 2, "equal": 1, "same_line": 1, "classes": {"reduced, then sliced": 1}, "estimates": 0,
        "unexplained": 1, "forms": {},
    }  # fmt: skip
    assert [each["target"] for each in as_data([run("cpu", PARTITIONED), run("tpu:v5e:2x4", RUN)])["targets"]] == [
        "cpu", "tpu:v5e:2x4",
    ]  # fmt: skip
