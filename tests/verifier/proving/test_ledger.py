"""What the ledger claims is shown: of what JAX refuses every typing is proved, of what it accepts one is refuted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from verifier.backward import derive
from verifier.ledger import (
    CONVENTION,
    DEVICES,
    PAGE,
    RUN_WRONG,
    SEARCH,
    SOLVER,
    SOUND,
    UNSOUND,
    Counterexample,
    Entry,
    Proof,
    ledger,
)
from verifier.proving import quotients, refuting
from verifier.proving.ledger import Read, entries, obligations, of_entry
from verifier.proving.obligations import BOUNDED, DEFINITION, PROPERTIES, TESTED, Obligation, Outcome, discharge
from verifier.proving.refuting import Held, refutations, tried
from verifier.proving.suite import _row
from verifier.texts import check_text

PROVED = (DEFINITION, PROPERTIES, BOUNDED)
MESH = "# mesh: X=2\n"


@pytest.fixture(scope="module")
def shown() -> dict[int, list[Outcome]]:
    """Every entry's obligations, discharged."""
    return {entry.number: [discharge(one) for one in obligations(str(entry.number))] for entry in ledger()}


def test_everything_that_an_entry_claims_is_shown(shown: dict[int, list[Outcome]]) -> None:
    wrong = [f"{one.obligation.name}: {one.objection}" for found in shown.values() for one in found if not one.holds]
    assert not wrong, "\n".join(wrong)


def test_what_is_sound_is_proved_and_what_is_not_has_a_counterexample(shown: dict[int, list[Outcome]]) -> None:
    for entry in ledger():
        found = shown[entry.number]
        refuted = [one for one in found if one.obligation.name.startswith(f"ledger.{entry.number}.not.")]
        if entry.kind == SOUND:
            assert any(one.status in PROVED for one in found), entry.title
            assert not refuted
        elif entry.kind == UNSOUND:
            assert entry.counterexample is not None
            by = entry.counterexample.by
            status = {SOLVER: {DEFINITION}, SEARCH: {TESTED}, DEVICES: set()}[by]
            assert {one.status for one in refuted} == status, entry.title
            if by == DEVICES:
                assert any(one.status in PROVED for one in found), entry.title
                assert entry.cause in RUN_WRONG
                assert entry.path.is_file()
        else:
            assert entry.kind in (CONVENTION, PAGE)
            assert not found


def test_what_the_solver_refutes_it_was_asked(shown: dict[int, list[Outcome]]) -> None:
    """Of these the whole kernel is arithmetic; the others round, or loop over bits, and are searched for."""
    by_solver = [one.number for one in ledger() if one.counterexample and one.counterexample.by == SOLVER]
    assert {*by_solver} >= {1, 2, 4, 5, 7, 8, 9, 11, 14, 56, 57}
    for number in by_solver:
        refuted = [one for one in shown[number] if f"ledger.{number}.not." in one.obligation.name]
        assert all(len(one.answers) == 1 for one in refuted), number


def test_names_are_given_once(shown: dict[int, list[Outcome]]) -> None:
    names = [one.obligation.name for found in shown.values() for one in found]
    assert len(names) == len(set(names))
    assert all(name.startswith(f"ledger.{number}.") for number in shown for name in names if f".{number}." in name[:11])


def test_the_checker_says_the_same_of_every_program() -> None:
    for entry in ledger():
        said = entry.counterexample
        if said is not None and said.by != DEVICES and not (said.without or said.tangents or said.gradient):
            report = check_text(said.program, [], entry.title)
            assert report.refusals or report.assumed, entry.title
        if entry.proof is not None:
            assert not check_text(entry.proof.program, [], entry.title).refusals, entry.title


BY_HAND: dict[int, Callable[..., Any]] = {
    2: lambda x, p: np.concatenate([x, [p]]),
    7: lambda x: x.sum(),
    8: lambda x, y: x + y,
    9: lambda g, w: g @ w.T,
    14: lambda x: x**3,
}


@pytest.mark.parametrize("number", BY_HAND)
def test_a_counterexample_is_one(number: int) -> None:
    """Its blocks, read back, computed and read back here, by another formula and in no library of ours."""
    counterexample = ledger()[number - 1].counterexample
    assert counterexample is not None
    (claim,) = Read(counterexample.program).claims(direct=True)
    found = refuting._asked(claim)[1]
    assert found is not None
    merge = {"U": np.add, "Umax": np.maximum}
    for state, held in zip(claim.given, found.operands, strict=True):
        one, other = held.blocks
        assert np.array_equal(held.value, merge[str(state)](one, other) if state in merge else one)
        assert state in merge or np.array_equal(one, other)
    of, at = BY_HAND[number], list(zip(*(held.blocks for held in found.operands), strict=True))
    first, second = (of(*blocks) for blocks in at)
    value = of(*(held.value for held in found.operands))
    if claim.result == "N":
        assert not np.array_equal(first, second)
    else:
        assert not np.array_equal(merge[str(claim.result)](first, second), value)


def entry(proof: Proof | None = None, counterexample: Counterexample | None = None) -> Entry:
    return replace(ledger()[0], number=999, proof=proof, counterexample=counterexample)


def proved(program: str, backward: bool = False, rests: tuple[str, ...] = ()) -> list[Outcome]:
    return [discharge(one) for one in of_entry(entry(Proof(MESH + program, backward, (), rests)))]


@pytest.mark.parametrize(
    ("found", "objection"),
    [
        (
            proved("{ lambda ; a:f32[8]{U:X}. let b:f32[8]{U:X} = exp a in (b,) }"),
            "exp of (unreduced) along X reads back wrong",
        ),
        (proved("{ lambda ; a:f32[8]. let b:f32[8] = exp a in (b,) }"), "no type in it says where anything lies"),
        (proved("{ lambda ; a:f32[8@X]. let b:f32[8@X] = exp a in (b,) }", rests=("hope",)), "nothing is called hope"),
        (proved("{ lambda ; a:f32[8]{U_max:X}. let b:f32[8]{U_max:X} = exp a in (b,) }", True), "has no cotangent"),
    ],
)
def test_a_proof_that_is_none(found: list[Outcome], objection: str) -> None:
    (wrong,) = (one for one in found if not one.holds)
    assert objection in wrong.objection


def test_a_typing_that_is_wrong_has_no_judgment_whatever_the_checker_says() -> None:
    text = """{ lambda ; a:f32[8]{U:X} b:f32[8] c:f32[8@X]. let
      d:f32[8]{U:X} = mul a b
      e:f32[8]{U:X} = exp a
      f:f32[8]{U:X} = add a b
      g:f32[8]{R:X} = neg c
    in (d,) }"""
    said = {str(claim): str(claim.judgment) for claim in Read(MESH + text).claims()}
    assert said == {
        "mul (U f32[8], N f32[8]) → U along X": "unreduced_copy.unreduced",  # Local; that it is one-way Q says
        "exp (U f32[8]) → U along X": "None",
        "add (U f32[8], N f32[8]) → U along X": "None",
        "neg (cut0 f32[8]) → R along X": "cut0.cut0",  # and gathered
    }


@pytest.mark.parametrize(
    ("equation", "judgments"),
    [
        ("a:f32[8]{R:X} b:f32[8@X]. let c:f32[8@X] = mul a b", ["cut0_cut0.cut0"]),  # the copy is sliced
        ("a:f32[8]{U:X}. let c:f32[8]{U:X} = add a 0.0:f32[]", ["unreduced_unreduced.unreduced"]),  # zero is of zeros
        ("a:f32[8]{U:X}. let c:f32[8]{U:X} = mul a 2.0:f32[]", ["unreduced_copy.unreduced"]),
        ("a:f32[8@X,4]. let c:f32[4] = reduce_sum[axes=(0,) out_sharding=None] a", ["cut0.unreduced, moved"]),
        ("a:f32[4@X,6]. let c:f32[24@X] = reshape[dimensions=None new_sizes=(24,) sharding=None] a", ["cut0.cut0"]),
        ("a:f32[8]{U_max:X}. let c:f32[8]{U_min:X} = neg a", ["max.min"]),
    ],
)
def test_what_an_equation_claims(equation: str, judgments: list[str]) -> None:
    claims = Read(f"{MESH}{{ lambda ; {equation} in (c,) }}").claims()
    assert [f"{claim.judgment}{', moved' if claim.moved else ''}" for claim in claims] == judgments


def test_axes_are_asked_one_at_a_time() -> None:
    text = "# mesh: X=2, Y=2\n{ lambda ; a:f32[8@Y]{U:X} b:f32[8@Y]{R:X}. let c:f32[8@Y]{U:X} = mul a b in (c,) }"
    said = {claim.axis: str(claim.judgment) for claim in Read(text).claims()}
    assert said == {"X": "unreduced_copy.unreduced", "Y": "cut0_cut0.cut0"}


def _refuted(program: str) -> Iterator[Obligation]:
    return refutations(entry(counterexample=Counterexample(SOLVER, MESH + program)))


def test_what_is_sound_has_no_counterexample() -> None:
    (found,) = map(discharge, _refuted("{ lambda ; a:f32[8]{U:X}. let b:f32[8]{U:X} = neg a in (b,) }"))
    assert "each typing in it is" in found.objection


def test_blocks_that_read_back_right_are_none() -> None:
    (claim,) = Read(MESH + "{ lambda ; a:f32[2]{U:X}. let b:f32[2]{U:X} = exp a in (b,) }").claims()
    zero, one = np.zeros(2, np.float32), np.ones(2, np.float32)
    wrong = tried(claim, [Held((zero, one), one)])
    assert wrong is not None
    assert wrong.lines[1] == "device X=1 holds [1.,1.] and computes [2.7183,2.7183]"
    (linear,) = Read(MESH + "{ lambda ; a:f32[2]{U:X}. let b:f32[2]{U:X} = neg a in (b,) }").claims()
    assert tried(linear, [Held((zero, one), one)]) is None


def test_a_wrong_derivative_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    text = MESH + "{ lambda ; a:f32[4@X]. let b:f32[4@X] = mul a a in (b,) }"
    assert quotients.apart(text, ()) == ""
    right = derive
    monkeypatch.setattr(quotients, "derive", lambda said, *rest: right(said.replace("mul", "add"), *rest))
    assert "the cotangents say" in quotients.apart(text, ())


def test_what_is_printed_of_an_entry(shown: dict[int, list[Outcome]]) -> None:
    rows = [_row(one) for number in (2, 18, 23) for one in shown[number]]
    lines = [str(one) for one in entries(["2", "18", "23"], rows)]
    assert [line.partition(" (")[0] for line in lines] == ["ledger.2", "ledger.18", "ledger.23"]
    assert "device X=0 holds" in lines[0]
    assert "refuted" not in lines[0].splitlines()[0]
    assert "proved from definition" in lines[2]
    assert {TESTED, DEFINITION} >= set(entries(["23"], rows)[0].statuses)


def test_what_devices_alone_show_is_printed_with_what_they_hold() -> None:
    (one,) = entries(["147"], [])
    assert "with x: f32[8@(X,Y)] on a mesh X=4, Y=2" in str(one)
    assert "on devices: x = [0,1,2,3,4,5,6,7]: eight CPU devices read back [0,1,0,0,2,3,0,22]" in str(one)
