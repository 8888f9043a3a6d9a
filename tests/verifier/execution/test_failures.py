"""The executor can be shown to fail: what is wrong in a judgment, a declaration or a claim, a run finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import calculus.communication
import calculus.implied
from calculus.communication import Collective
from calculus.primitives import TABLE
from grammar.meshes import parse_meshes
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
