"""What is refuted is shown as device blocks; what is sound has none."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from calculus.cotangents import State
from calculus.primitives import TABLE
from verifier.proving.blocks import of_judgment
from verifier.proving.held import held
from verifier.proving.judgments import Judgment
from verifier.proving.obligations import REFUTED, discharge
from verifier.proving.soundness import obligations
from verifier.samples import samples
from verifier.solver import Answer


@pytest.mark.parametrize(
    ("name", "given", "right", "wrong"),
    [
        ("mul", ("U", "C"), "U", "C"),
        ("mul", ("U", "U"), "", "U"),
        ("add", ("U", "C"), "", "U"),
        ("exp", ("Umax",), "Umax", "Umin"),
        ("exp", ("U",), "", "U"),
        ("reduce_max", (("S", 1),), ("S", 1), "Umax"),
        ("cumsum", (("S", 0),), ("S", 0), "C"),
        ("is_finite", ("Umax",), "", "Umax"),
    ],
)
def test_only_what_reads_back_wrong_has_blocks(name: str, given: tuple[State, ...], right: State, wrong: State) -> None:
    (sample,) = [one for one in samples(name) if (one.number, one.kind) == (0, "f")]
    found = of_judgment(TABLE[name], sample, 0, Judgment(given, wrong, 1))
    assert re.match("at .* the value is .*, and .* is read back|the devices' results are no", found[0])
    assert [line.partition(" holds ")[0] for line in found[1:]] == ["device X=0", "device X=1"]
    assert not right or of_judgment(TABLE[name], sample, 0, Judgment(given, right, 1)) == ()


def test_a_refuted_typing_of_a_wrong_declaration_is_shown_in_blocks() -> None:
    (sample,) = [one for one in samples("sub") if (one.number, one.kind) == (0, "f")]
    wrong = [discharge(one) for one in obligations(sample, replace(TABLE["sub"], linearity="x | y"))]
    refuted = [one for one in wrong if one.status == REFUTED]
    assert {one.obligation.name.rpartition("-f.")[2] for one in refuted} == {
        "unreduced_copy.unreduced",
        "copy_unreduced.unreduced",
    }
    for one in refuted:
        values = [float(word) for word in re.findall(r"(?:is|and) (-?[\d.]+)", one.blocks[0])]
        assert len(values) == 2
        assert values[0] != values[1]
    assert all(not one.blocks for one in wrong if one.status != REFUTED)


def test_a_model_is_read_device_by_device() -> None:
    model = (("n", "2"), ("s", "7"), ("x", "[else -> 1]"), ("c[0]", "3"), ("c[1]", "4"), ("c′[1]", "e!val!0"))
    answer = Answer("refuted", 0.0, model, families=(("x", ("5", "6", "1", "1")),))
    assert list(held(answer)) == [
        "device 0 holds x = 5, c = 3",
        "device 1 holds x = 6, c = 4, c′ = e 0",
        "device 2 holds x = 1",
        "n = 2",
        "s = 7",
    ]
