"""What the types say is moved, against what XLA moves: programs of JAX 0.12.0.1, compiled for eight CPU devices.

`measured.jsonl` has one program a line: its text, its mesh, and the collectives of the partitioner's own output
(`spmd_raw`: before anything is combined, hoisted or folded) and of the final program. `class` says how a first, simple
predictor compared with the final program; here it only says where to look for a difference.

Bytes are per device: of the operand, and of the result for an all-gather. For CPU devices XLA never makes a
reduce-scatter of an explicit sharding: it reduces everything and keeps a slice, at the same operand bytes.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from grammar.meshes import parse_meshes
from verifier.report import Report
from verifier.texts import check_text

FILE: Final = Path(__file__).parents[1] / "golden" / "communication" / "measured.jsonl"
RECORDS: Final[list[dict[str, Any]]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
PROGRAMS: Final = {record["name"]: record for record in RECORDS if record.get("jaxpr")}

KINDS: Final = {
    "AR": "all-reduce",
    "AG": "all-gather",
    "RS": "reduce-scatter",
    "A2A": "all-to-all",
    "CP": "collective-permute",
}


class Difference(NamedTuple):
    """A program for which the types say something else than what is measured. exactness: what our rows say of
    themselves. because: what XLA does."""

    exactness: str
    because: str
    more: bool = False  #: XLA sends more than the types say


_AUTO: Final = "its axes are automatic between the reshards, which is not printed, and it finds cheaper ways"

DIFFERENCES: Final = {
    "r2 X,Y -> Y,X": Difference(
        "estimate", "two dims move at once: it exchanges over half an axis and renumbers the devices"
    ),
    "pad along sharded dim (8@X -> 12@X)": Difference(
        "estimate", "it sends the parts of blocks that are missing, to as many neighbours as it takes"
    ),
    "chain rep -> {U:X} -> rep": Difference(
        "exact", "it sees that the pieces were masked from one value just before, and keeps that value"
    ),
    "take vocab@X idx@Y": Difference("exact", _AUTO),
    "take feature@X rep idx": Difference("exact", _AUTO),
    "jnp.take vocab@X idx@X batch": Difference("exact", _AUTO),
    "grad take rep table idx@X": Difference(
        "exact", "its axes are automatic between the reshards, and it adds up 32 rows where 8 could be gathered", True
    ),
}

#: equal to what is measured, and yet no more than an estimate: the blocks of the result are not contiguous
LUCKY: Final = {"reshape merge 4,8@X -> 32@X"}

Move: TypeAlias = tuple[str, tuple[str, ...], int | None, int | None]
"""Kind, mesh axes (`()` for groups that are no axes of the mesh), payload bytes, how often."""


def mesh_of(record: dict[str, Any]) -> str:
    return ", ".join(f"{name}={size}" for name, size in ast.literal_eval(record["mesh"]).items())


def checked(record: dict[str, Any]) -> Report:
    return check_text(record["jaxpr"], parse_meshes(mesh_of(record)), record["name"])


def measured(record: dict[str, Any]) -> Counter[Move]:
    found: Counter[Move] = Counter()
    for one in record["spmd_raw"]:
        axes = () if any(name.startswith("sub:") for name in one["axes"]) else tuple(sorted(one["axes"]))
        payload = one["rbytes"] if one["kind"] == "AG" else one["obytes"]
        found[KINDS[one["kind"]], axes, payload, one["mult"]] += 1
    return found


def typed(report: Report, like: Iterable[Move], sliced: bool) -> Counter[Move]:
    """The rows of a report. `sliced`: with every reduce-scatter as the all-reduce that it is on CPU devices. Where a
    measured group is no axis of the mesh, the axes of our rows with its kind, bytes and count are not compared."""
    blurred = {(kind, payload, times) for kind, axes, payload, times in like if not axes}
    found: Counter[Move] = Counter()
    for row in report.communication:
        kind = "all-reduce" if sliced and row.kind == "reduce-scatter" else row.kind
        axes = () if (kind, row.bytes, row.times) in blurred else tuple(sorted(row.axes))
        found[kind, axes, row.bytes, row.times] += 1
    return found


def payload(moves: Counter[Move]) -> int:
    return sum((size or 0) * (times or 0) * count for (_, _, size, times), count in moves.items())


def test_the_file_is_whole() -> None:
    assert len(RECORDS) == 153
    assert len(PROGRAMS) == 146
    assert Counter(record["class"] for record in PROGRAMS.values()) == {
        "AGREES": 120,
        "DIFFERENT": 15,
        "LESS": 10,
        "MORE": 1,
    }
    assert {*DIFFERENCES, *LUCKY} <= set(PROGRAMS)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in DIFFERENCES])
def test_what_is_measured_is_what_the_types_say(name: str) -> None:
    record = PROGRAMS[name]
    report = checked(record)
    assert [refusal.message for refusal in report.refusals] == []
    want = measured(record)
    assert typed(report, want, sliced=record["disagreement"] == "rs") == want
    exactness = {row.exactness for row in report.communication}
    assert exactness <= ({"estimate"} if name in LUCKY else {"exact"})


@pytest.mark.parametrize("name", [name for name, one in PROGRAMS.items() if one["disagreement"] == "rs"])
def test_a_reduce_scatter_is_typed_as_one(name: str) -> None:
    """It is only the CPU's partitioner that makes an all-reduce of it."""
    kinds = {row.kind for row in checked(PROGRAMS[name]).communication}
    assert "reduce-scatter" in kinds
    assert "RS" not in {one["kind"] for one in PROGRAMS[name]["spmd_raw"]}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_still_one_and_no_less_than_what_is_measured(name: str) -> None:
    """Or, where XLA does worse than the types say, less."""
    record = PROGRAMS[name]
    report = checked(record)
    assert [refusal.message for refusal in report.refusals] == []
    want = measured(record)
    ours = typed(report, want, sliced=False)
    assert ours != want, "XLA and the types agree now: take it off the list"
    assert (payload(ours) < payload(want)) is DIFFERENCES[name].more
    assert {row.exactness for row in report.communication} == {DIFFERENCES[name].exactness}


def test_every_program_that_the_first_predictor_got_right_is_one_that_the_types_get_right() -> None:
    agreeing = {name for name, record in PROGRAMS.items() if record["class"] == "AGREES"}
    assert agreeing & {*DIFFERENCES, *LUCKY} == set()
