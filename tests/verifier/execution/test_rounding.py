"""Where terms cancel, two orders of one sum differ by roundings of the terms: that is no difference, and nothing more
is forgiven."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Parameters
from grammar.meshes import parse_meshes
from verifier.execution.arithmetic import applied
from verifier.execution.comparing import apart
from verifier.execution.rounding import Rounding
from verifier.execution.texts import Ran, run_text

SUM = "{ lambda ; a:f32[4@X]. let b:f32[] = reduce_sum[axes=(0,) out_sharding=None] a in (b,) }"
NEAR = """{ lambda ; a:f32[8@X] c:f32[]. let
    b:f32[] = reduce_sum[axes=(0,) out_sharding=None] a
    d:f32[] = sub b c
  in (d,) }"""
SOFTMAX = """{ lambda ; a:f32[4,8@X]. let
    m:f32[4] = reduce_max[axes=(1,) out_sharding=None] a
    n:f32[4,8] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(4, 8) sharding=None] m
    e:f32[4,8@X] = sub a n
    p:f32[4,8@X] = exp e
    s:f32[4] = reduce_sum[axes=(1,) out_sharding=None] p
    t:f32[4,8] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(4, 8) sharding=None] s
    q:f32[4,8@X] = div p t
    w:f32[4] = reduce_sum[axes=(1,) out_sharding=None] q
    z:f32[4,8] = broadcast_in_dim[broadcast_dimensions=(0,) shape=(4, 8) sharding=None] w
    g:f32[4,8@X] = mul q z
    d:f32[4,8@X] = sub q g
  in (d,) }"""
SKEW = """{ lambda ; a:f32[8@X,8]. let
    b:f32[8,8@X] = transpose[permutation=(1, 0)] a
    c:f32[8@X,8] = reshard b
    d:f32[8@X,8] = sub a c
    s:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] d
  in (s,) }"""


def ran(text: str, seed: int = 0, **given: Any) -> Ran:
    return run_text(text, parse_meshes("X=2"), "text", seed, given)


def test_a_sum_that_cancels() -> None:
    """In the order of the array the sum is 0; each half is -1.1 and 1.1 up to a rounding."""
    found = ran(SUM, a=json.loads("[-0.7,-0.4,-0.7,1.8]"))
    assert found.outcome is not None
    assert found.verdict == "equal", found.outcome.problems


@pytest.mark.parametrize("seed", range(8))
def test_a_sum_beside_a_number_close_to_it(seed: int) -> None:
    a = np.random.default_rng(seed).normal(size=8).astype(np.float32)
    c = np.float32(np.sum(a, dtype=np.float64))
    found = ran(NEAR, seed, a=a.tolist(), c=float(c))
    assert found.outcome is not None
    assert found.verdict == "equal", found.outcome.problems


@pytest.mark.parametrize("text", [SOFTMAX, SKEW], ids=["softmax", "skew"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_zero_but_for_roundings(text: str, seed: int) -> None:
    shape = (4, 8) if text is SOFTMAX else (8, 8)
    a = np.random.default_rng(seed).normal(size=shape)
    found = ran(text, seed, a=a.tolist())
    assert found.outcome is not None
    assert found.verdict == "equal", found.outcome.problems


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "c64"])
@pytest.mark.parametrize("type", ["16@X", "16"])
@pytest.mark.parametrize("seed", range(4))
def test_a_sum_of_what_is_centred(dtype: str, type: str, seed: int) -> None:
    """In each dtype; cut, and pending in pieces that are larger than what they add up to."""
    a = np.random.default_rng(seed).normal(size=16)
    pending = "" if "@" in type else "{U:X}"
    text = f"""{{ lambda ; a:{dtype}[{type}]{pending}. let
        b:{dtype}[]{pending} = reduce_sum[axes=(0,) out_sharding=None] a
        c:{dtype}[] = reshard b
      in (c,) }}"""
    found = ran(text, seed, a=(a - a.mean()).tolist())
    assert found.outcome is not None
    assert found.verdict == "equal", found.outcome.problems


@pytest.mark.parametrize("off", [1e-5, 1e-2, 1.0])
def test_more_than_roundings_is_a_difference(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is off by a little on blocks, and not on the whole: a sum that cancels does not hide it."""
    real = TABLE["neg"].kernel
    assert real is not None

    def wrong(np: Any, parameters: Any, x: Any) -> Any:
        return real(np, parameters, x) + np.float32(off if x.shape == (2,) else 0)

    monkeypatch.setitem(TABLE, "neg", replace(TABLE["neg"], kernel=wrong))
    text = """{ lambda ; a:f32[4@X]. let
        b:f32[4@X] = neg a
        c:f32[] = reduce_sum[axes=(0,) out_sharding=None] b
      in (c,) }"""
    assert ran(text, a=[-0.7, -0.4, -0.7, 1.8]).verdict == "different"


def test_a_result_in_a_body_that_is_off_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a body is watched: what comes out of it is held against what roundings do, and not more."""
    real = TABLE["neg"].kernel
    assert real is not None

    def wrong(np: Any, parameters: Any, x: Any) -> Any:
        return real(np, parameters, x) + np.float32(1e-4 if x.shape == (2,) else 0)

    monkeypatch.setitem(TABLE, "neg", replace(TABLE["neg"], kernel=wrong))
    text = """{ lambda ; a:f32[4@X]. let
        c:f32[] = jit[
          name=f
          jaxpr={ lambda ; a:f32[4@X]. let
              b:f32[4@X] = neg a
              c:f32[] = reduce_sum[axes=(0,) out_sharding=None] b
            in (c,) }
        ] a
      in (c,) }"""
    assert ran(text, a=[-0.7, -0.4, -0.7, 1.8]).verdict == "different"
    monkeypatch.undo()
    assert ran(text, a=[-0.7, -0.4, -0.7, 1.8]).verdict == "equal"


TIE = """{ lambda ; a:f32[8@X] c:f32[8]. let
    b:f32[] = reduce_sum[axes=(0,) out_sharding=None] a
    d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
    e:bool[] = eq b d
    f:i32[] = convert_element_type[new_dtype=int32 weak_type=False sharding=None] e
  in (e, f) }"""
NUMBERS = [-1.4, 1.8, 0.3, -2.9, 1.3, -0.6, 1.9, 1.0]


def test_a_truth_value_that_roundings_decide_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sums of the same numbers are equal in one order and not in another. Numbers that no rounding brings together
    are unequal in every order: there a wrong answer is a difference."""
    found = ran(TIE, a=NUMBERS, c=NUMBERS)
    assert found.outcome is not None
    assert found.verdict == "equal", found.outcome.problems
    whole, devices = (np.float32(np.sum(part, dtype=np.float32)) for part in (NUMBERS, NUMBERS[:4]))
    assert whole != devices + np.sum(NUMBERS[4:], dtype=np.float32), (
        "in this order and that they are equal: other numbers"
    )
    real = TABLE["eq"].kernel
    assert real is not None
    asked: list[Any] = []

    def wrong(np: Any, parameters: Any, x: Any, y: Any) -> Any:
        asked.append(x - y)
        return real(np, parameters, x, y) ^ (len(asked) == 2)

    monkeypatch.setitem(TABLE, "eq", replace(TABLE["eq"], kernel=wrong))
    assert ran(TIE, a=NUMBERS, c=[*NUMBERS[:-1], 3.0]).verdict == "different"


def test_a_truth_value_that_the_roundings_of_pieces_decide_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, one number is the larger by ten roundings; in pieces that are as many times larger, either may be."""
    text = """{ lambda ; a:f32[64]{U:X}. let
        b:f32[64]{U:X} = mul 1.000001:f32[] a
        c:f32[64] = reshard a
        d:f32[64] = reshard b
        e:bool[64] = gt d c
      in (e,) }"""
    found = ran(text, a=np.full(64, 0.3, np.float32))
    assert found.outcome is not None
    assert found.verdict == "equal", found.outcome.problems
    monkeypatch.setattr(Rounding, "finished", lambda self, blocks: blocks)
    assert ran(text, a=np.full(64, 0.3, np.float32)).verdict == "different"


def test_the_sign_of_a_sum_that_is_zero_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole it is -0, of pieces that cancel it is 0: what is divided by it is infinite, with either sign."""
    text = """{ lambda ; a:f32[2]{U:X}. let
        b:f32[2]{U:X} = neg a
        c:f32[2] = reshard b
        d:f32[2] = div 1.0:f32[] c
      in (d,) }"""
    found = ran(text, a=np.zeros(2, np.float32))
    assert found.outcome is not None
    assert found.verdict == "equal", found.outcome.problems
    monkeypatch.setattr(Rounding, "finished", lambda self, blocks: blocks)
    assert ran(text, a=np.zeros(2, np.float32)).verdict == "different"


REGION = """{ lambda ; a:f32[]{U:X}. let
    b:f32[] = shard_map[
      check_vma=True
      in_specs=(P(unreduced={'X'}),)
      jaxpr={ lambda ; c:f32[]{U:X}. let d:f32[] = unreduced_psum[axes=('X',)] c in (d,) }
      mesh=AbstractMesh('X': 2, axis_types=(Explicit,))
      newly_manual_axes=frozenset({'X'})
      out_specs=(P(),)
    ] a
  in (b,) }"""


@pytest.mark.parametrize("seed", range(8))
def test_a_small_number_in_large_pieces(seed: int) -> None:
    """What enters per-device code pending is cut in pieces, whose sum is rounded as they are."""
    found = ran(REGION, seed, a=7.0779e-5)
    assert found.outcome is not None
    assert found.verdict == "equal", found.outcome.problems


def test_a_distance_beside_the_size_of_the_elements() -> None:
    zero, small = np.zeros(2, np.float32), np.full(2, 1e-7, np.float32)
    assert apart(zero, small, 1e-6)
    assert apart(zero, small, 1e-6, 2e-7) == ""
    assert apart(zero, np.full(2, np.nan, np.float32), 1e-6, 1.0)
    assert apart(np.zeros(2, np.int32), np.ones(2, np.int32), 1e-6, 2.0)


def test_where_a_region_of_automatic_axes_begins_nothing_is_run() -> None:
    """What moves there no type determines: it is not run, and that is no difference."""
    sides = "source_mesh=Mesh('X': 2, axis_types=({},)) target_mesh=Mesh('X': 2, axis_types=({},))"
    text = f"""{{ lambda ; a:f32[4@X]. let
        b:f32[4] = reshard[{sides.format("Explicit", "Auto")}] a
        c:f32[4] = sin b
        d:f32[4@X] = reshard[{sides.format("Auto", "Explicit")}] c
      in (d,) }}"""
    found = ran(text)
    assert found.outcome is not None
    assert found.verdict == "not run"
    assert "X is automatic, and what moves along it is the compiler's choice" in found.outcome.problems[0].message


@pytest.mark.parametrize(
    ("name", "operands", "bound"),
    [
        ("neg", [[1.0, -2.0, 0.3]], [0, 0, 0]),
        ("max", [[1.0, -2.0, 0.3], [0.5, 4.0, 0.1]], [0, 0, 0]),
        ("sub", [[1.0, -2.0, 0.3], [1.0, 4.0, 0.0]], [2, 6, 0]),
        ("mul", [[3.0, -2.0, 0.0], [0.5, 4.0, 0.1]], [1.5, 8, 0]),
        ("exp", [[0.5, 2.0, -1.0]], [np.exp(0.5), np.exp(2), np.exp(-1)]),
    ],
)
def test_a_result_is_moved_by_the_sizes_of_its_terms(
    name: str, operands: list[list[float]], bound: list[float]
) -> None:
    """bound: the sizes of the terms; 0 where the result is an operand, and exact."""
    given = [[np.array(one)] for one in operands]
    site = Site(Parameters(()), ((3,),) * len(given), ("f64",) * len(given), (None,))
    value = applied(TABLE[name], site, [one[0] for one in given])[0]
    ((moved,),) = Rounding(np.random.default_rng(0)).moved(TABLE[name], site, given, [[value]], 2)
    step = 2 * np.finfo(np.float64).eps * np.array(bound)
    assert np.all(np.abs(moved - value) <= step * 1.01 + np.spacing(np.abs(value)) * (step > 0))
    assert np.all((moved != value) == (step > 0))


@pytest.mark.parametrize(("number", "expected"), [(1e-30, 1.0), (1e-39, 0.0)])
def test_a_number_too_small_to_be_normal_is_zero_in_every_other_run(number: float, expected: float) -> None:
    """XLA for CPU takes it for zero: there the sign of 1e-39 is 0, and that of 1e-30 is 1."""
    given = [[np.array([number], np.float32)], [np.array([1.0], np.float32)]]
    site = Site(Parameters(()), ((1,),) * 2, ("f32",) * 2, (None,))
    for flushes, kept in ((True, expected), (False, 1.0)):
        runs = Rounding(np.random.default_rng(0), negative=flushes)
        ((moved,),) = runs.moved(TABLE["mul"], site, given, [[given[0][0]]], 1)
        assert np.sign(moved) == kept
