"""Texts that type and yet are no programs to differentiate: each gets its refusal, none a traceback."""

from __future__ import annotations

import pytest

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.gradients import vjp
from calculus.refusals import Refused
from grammar.read import read


def solve(
    matvec: str, back: str = "{ lambda ; a:f32[4,4] b:f32[4]. let c:f32[4] = neg b in (c,) }", lengths: str = ""
) -> str:
    lengths = lengths or "matvec=1, vecmat=1, solve=1, transpose_solve=1"
    return f"""{{ lambda ; a:f32[4,4] b:f32[4]. let
    c:f32[4] = custom_linear_solve[
      const_lengths=_LinearSolveTuple({lengths})
      jaxprs=_LinearSolveTuple(matvec={matvec}, vecmat={back}, solve={back}, transpose_solve={back})
    ] a a a a b
  in (c,) }}"""


FITS = "{ lambda ; a:f32[4,4] b:f32[4]. let c:f32[4] = neg b in (c,) }"
PLAIN = "{ lambda ; a:f32[4]. let b:f32[4] = neg a in (b,) }"

ODD = {
    "a matvec of something else": (solve(PLAIN), "bad-parameter"),
    "a matvec of more": (solve("{ lambda ; a:f32[4,4] b:f32[4]. let c:f32[4] = neg b in (c, c) }"), "bad-parameter"),
    "a matvec without types": (solve("{ lambda ; a b. let c = neg b in (c,) }"), "bad-parameter"),
    "a matvec that is none": (solve("{ lambda"), "unmodelled-construct"),
    "a solver of something else": (solve(FITS, PLAIN), "bad-parameter"),
    "fewer than none": (
        solve(FITS, lengths="matvec=-1, vecmat=2, solve=2, transpose_solve=1"), "bad-parameter"),
    "functions that are not printed": (
        "{ lambda ; a:f32[4]. let b:f32[4] = custom_linear_solve[const_lengths=_LinearSolveTuple(matvec=0, vecmat=0, "
        "solve=0, transpose_solve=0) jaxprs=f] a in (b,) }", "unmodelled-construct"),
    "a rule that is not there": (
        "{ lambda ; a:f32[4]. let b:f32[4] = custom_lin[bwd=f] a in (b,) }", "unmodelled-construct"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_texts_are_refused(name: str) -> None:
    text, code = ODD[name]
    program, checker = read(text).program, Checker([])
    checker.check(program)
    assert not checker.refusals, checker.refusals[0][0].message
    with pytest.raises(Refused) as caught:
        vjp(program, Workbench(checker), range(len(program.inputs)))
    assert caught.value.refusal.code == code


def test_the_system_fits() -> None:
    program, checker = read(solve(FITS)).program, Checker([])
    checker.check(program)
    assert len(vjp(program, Workbench(checker), (0, 1)).outputs) == 3
