"""The executor can be shown to fail: what is wrong in a judgment, a declaration or a claim, a run finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import calculus.communication
import calculus.implied
import verifier.execution.forms
from calculus.communication import Collective
from calculus.primitives import TABLE
from grammar.meshes import parse_meshes
from verifier.execution.machine import ENDLESS
from verifier.execution.texts import Ran, run_text

REDUCED = """{ lambda ; a:f32[4,2]{U:X}. let
    b:f32[4,2] = reshard a
    c:f32[4,2] = neg b
  in (c,) }"""

SUMMED = """{ lambda ; a:f32[4@X,2]. let
    b:f32[2] = reduce_sum[axes=(0,) out_sharding=None] a
  in (b,) }"""

GATHERED = """{ lambda ; a:f32[4@X,2]. let
    b:f32[4,2] = reshard a
  in (b,) }"""


def ran(text: str, mesh: str = "X=2") -> Ran:
    return run_text(text, parse_meshes(mesh), "the text")


def messages(text: str, mesh: str = "X=2") -> str:
    found = ran(text, mesh)
    assert found.verdict == "different"
    assert found.outcome is not None
    return " · ".join(one.message for one in found.outcome.problems)


@pytest.mark.parametrize("text", [REDUCED, SUMMED, GATHERED])
def test_equal_as_it_is(text: str) -> None:
    assert ran(text).verdict == "equal"


@pytest.mark.parametrize("text", [REDUCED, SUMMED, GATHERED])
def test_a_collective_that_is_not_derived_is_missed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the collective no device has what the type says it has."""
    for module in (calculus.communication, calculus.implied):
        monkeypatch.setattr(module, "over", lambda *args: ())
    assert "nothing that is derived takes" in messages(text)


@pytest.mark.parametrize(("text", "size"), [(REDUCED, 32), (SUMMED, 8), (GATHERED, 32)])
def test_a_wrong_price_is_found(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = calculus.communication.over

    def dearer(*args: Any) -> tuple[Collective, ...]:
        return tuple(one._replace(payload=(one.payload or 0) + 4) for one in real(*args))

    for module in (calculus.communication, calculus.implied):
        monkeypatch.setattr(module, "over", dearer)
    assert f"derived {size + 4} bytes, moved {size}" in messages(text)


def test_a_collective_that_is_derived_and_not_needed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exact collective over an axis along which nothing is pending."""
    monkeypatch.setattr("calculus.resharding._moved", lambda *args: (Collective("all-reduce", ("X",), 16, 2).of(0),))
    text = "{ lambda ; a:f32[4@X,2]. let b:f32[4@X,2]{R:Y} = reshard a in (b,) }"
    assert "is not pending along X" in messages(text, "X=2,Y=2")


@pytest.mark.parametrize("claim", ["x", "x y"])
def test_a_claim_of_linearity_that_is_false_is_found(claim: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The square of a sum is not the sum of squares; a product is not jointly linear."""
    name = "square" if claim == "x" else "mul"
    monkeypatch.setitem(TABLE, name, replace(TABLE[name], linearity=claim, joins=""))
    operands = " ".join("a" for _ in claim.split())
    text = f"{{ lambda ; a:f32[4]{{U:X}}. let b:f32[4]{{U:X}} = {name} {operands} in (b,) }}"
    assert "whole" in messages(text)
    assert "on devices" in messages(text)


def test_a_scheme_that_is_false_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cumulative sum whose scheme does not say that it looks along its dim."""
    from calculus.primitives.elementwise import aligned

    monkeypatch.setitem(TABLE, "cumsum", replace(TABLE["cumsum"], scheme=aligned))
    text = "{ lambda ; a:f32[4@X]. let b:f32[4@X] = cumsum[axis=0 reverse=False] a in (b,) }"
    assert "on devices" in messages(text)


def test_a_claim_of_a_boundary_that_is_false_is_found() -> None:
    """With check_vma=False, out_specs claim what no type backs: here that two devices hold one array."""
    text = """{ lambda ; a:f32[4@X]. let
    b:f32[2] = shard_map[
      check_vma=False
      in_specs=(P('X',),)
      jaxpr={ lambda ; c:f32[2]. let d:f32[2] = neg c in (d,) }
      mesh=Mesh('X': 2, axis_types=(Explicit,))
      newly_manual_axes=frozenset({'X'})
      out_specs=(P(None,),)
    ] a
  in (b,) }"""
    assert "hold different copies of f32[2], which the out_specs claim" in messages(text)


def test_what_cannot_be_run_is_said() -> None:
    found = run_text("{ lambda ; a:f32[2@X]. let b:f32[2@X] = neg a in (b,) }", [], "the text")
    assert found.verdict == "not run"
    assert found.status == 1


MAPPED = """{ lambda ; a:f32[4@X]. let
    b:f32[4@X] = shard_map[
      check_vma=False in_specs=(P('X',),) out_specs=(P('X',),)
      jaxpr={ lambda ; c:f32[2]. let
          d:i32[] = axis_index[axis_name=X]
          BODY
        in (g,) }
      mesh=AbstractMesh('X': 2, 'Y': 2, axis_types=(Explicit, Explicit))
      newly_manual_axes=frozenset({'X', 'Y'})
    ] a
  in (b,) }"""
SUM = "{ lambda ; i:f32[2]. let j:f32[2] = psum[axes=('AXIS',) axis_index_groups=None] i in (j,) }"
DOUBLED = "{ lambda ; h:f32[2]. let k:f32[2] = mul h 2.0:f32[] in (k,) }"
CHOICE = f"g:f32[2] = cond[branches=({DOUBLED} {SUM})] d c"
BOTH = f"g:f32[2] = cond[branches=({SUM} {SUM})] d c"
TURNS = """e:i32[] g:f32[2] = while[
    body_jaxpr={ lambda ; f:i32[] l:f32[2]. let
        h:i32[] = add f 1:i32[]
        i:f32[2] = BODY l
      in (h, i) }
    body_nconsts=0
    cond_jaxpr={ lambda ; j:i32[] k:f32[2]. let
        l:i32[] = axis_index[axis_name=X]
        COND
        n:bool[] = lt m l
      in (n,) }
    cond_nconsts=0
  ] 0:i32[] c"""
SUMS = TURNS.replace("BODY", "psum[axes=('AXIS',) axis_index_groups=None]").replace("COND", "m:i32[] = copy j")
ASKS = TURNS.replace("BODY", "neg").replace("COND", "m:i32[] = psum[axes=('AXIS',) axis_index_groups=None] j")


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        (CHOICE, "device 2 enters branch 1 and waits in psum over X for device 0, which does not"),
        (BOTH, "device 0 enters branch 0 and waits in psum over X for device 2, which does not"),
        (SUMS, "device 2 enters iteration 0 of the loop and waits in psum over X for device 0, which does not"),
        (ASKS, "device 2 enters the condition before iteration 1 of the loop and waits in psum over X for device 0"),
    ],
)
def test_devices_that_wait_for_others_which_never_come(body: str, waits: str) -> None:
    """With check_vma=False types do not say that devices decide apart. Devices 0 and 1 have X=0, 2 and 3 X=1: over Y
    those that decide alike meet."""
    assert waits in messages(MAPPED.replace("BODY", body.replace("AXIS", "X")), "X=2,Y=2")
    assert ran(MAPPED.replace("BODY", body.replace("AXIS", "Y")), "X=2,Y=2").verdict == "equal"


@pytest.mark.parametrize(("step", "ends"), [("1", True), ("0", False)])
def test_a_loop_ends_as_it_does_whatever_of_it_is_used(monkeypatch: pytest.MonkeyPatch, step: str, ends: bool) -> None:
    """The result that is used is what the loop begins with: when it ends, a carry says that nothing uses."""
    text = f"""{{ lambda ; a:f32[2]. let
    _:i32[] b:f32[2] = while[
      body_jaxpr={{ lambda ; c:i32[] d:f32[2]. let e:i32[] = add c {step}:i32[] in (e, d) }}
      body_nconsts=0
      cond_jaxpr={{ lambda ; f:i32[] g:f32[2]. let h:bool[] = lt f 3:i32[] in (h,) }}
      cond_nconsts=0
    ] 0:i32[] a
  in (b,) }}"""
    monkeypatch.setattr(verifier.execution.forms, "MOST_ITERATIONS", 20)
    found = ran(text)
    assert found.outcome is not None
    assert found.verdict == ("equal" if ends else "not run")
    assert any(ENDLESS in one.message for one in found.outcome.problems) is not ends


@pytest.mark.parametrize("body", [CHOICE, BOTH, SUMS, ASKS])
def test_that_devices_may_decide_apart_around_a_collective_is_noted(body: str) -> None:
    """Where what decides is made from a device's number along its axes, and not from what is summed over them."""
    summed = body.replace("d c", "s c").replace("lt m l", "lt m s").replace("0:i32[] s c", "0:i32[] c")
    sum = "s:i32[] = psum[axes=('X',) axis_index_groups=None] "
    once = f"{sum}l" if "while" in body else f"{sum}d\n          "
    same = summed.replace("n:bool", f"{once}\n        n:bool") if "while" in body else once + summed
    for text, axis, noted in ((body, "X", True), (body, "Y", False), (same, "X", False)):
        found = ran(MAPPED.replace("BODY", text.replace("AXIS", axis)), "X=2,Y=2")
        assert any("devices along X may decide apart" in one for one in found.report.notes) == noted
