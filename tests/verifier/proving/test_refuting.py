"""What the solver is asked about a typing that the ledger says is unsound is what the kernel computes: whatever model
it answers with is a counterexample, so what a refutation rests on does not depend on which one it is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from verifier.devices import MERGE, numpy_dtype
from verifier.ledger import SOLVER, ledger
from verifier.proving.concrete import Loose
from verifier.proving.equations import VARIES, Claim
from verifier.proving.ledger import Read
from verifier.proving.refuting import Held, _Question, _question, tried
from verifier.proving.setting import PIECES
from verifier.solver import Formula, Not, instance, integer, number

DRAWN = 6


def asked() -> list[tuple[Claim, _Question]]:
    found = []
    for entry in ledger():
        by_solver = entry.counterexample is not None and entry.counterexample.by == SOLVER
        program = entry.counterexample.program if entry.counterexample and by_solver else ""
        for claim in Read(program).claims(direct=True) if program else ():
            try:
                question = None if claim.judgment else _question(claim)
            except (Loose, NotImplementedError):
                continue
            if question is not None:
                found.append((claim, question))
    return found


ASKED = asked()
DRAWABLE = [one for one in ASKED if one[0].sample.primitive != "select_n"]
"""Those that run on any numbers: a case that there is not cannot be chosen."""


def said(question: _Question, operands: list[Held]) -> list[Formula]:
    """That the arrays of a question are these."""
    found = []
    for arrays, held in zip(question.arrays, operands, strict=True):
        for array, values in zip(arrays, held.blocks, strict=False):  # the last is made of them
            sizes = [range(array.of_factor(factor)) for factor in array.factors]
            for digits, value in zip(itertools.product(*sizes), np.ravel(values).tolist(), strict=True):
                term = array.read(*map(integer, digits))
                found.append(term == (number(value) if isinstance(value, float) else value))
    return found


def drawn(claim: Claim, at: int, random: np.random.Generator) -> Held:
    """Small whole numbers as an operand of a claim, on two devices."""
    type, state = claim.sample.operands[at], claim.given[at]
    dtype = numpy_dtype(type.dtype)
    if claim.written[at]:
        value = np.array(float(claim.written[at]), dtype)
        return Held((value, value), value)
    shape = [2, *(int(str(size)) for size in type.shape)]
    one, other = random.integers(0 if dtype.kind in "ub" else -3, 3, shape, endpoint=True).astype(dtype)
    if state == VARIES:
        return Held((one, other), None)
    if isinstance(state, str) and state in PIECES:
        return Held((one, other), MERGE[PIECES[state]](one, other))
    return Held((one, one), one)


@pytest.mark.parametrize(("claim", "question"), DRAWABLE, ids=[str(claim) for claim, _ in DRAWABLE])
def test_what_is_asked_is_what_is_computed(claim: Claim, question: _Question) -> None:
    given = [fact for _, fact in question.given]
    seen = set()
    for seed in range(DRAWN):
        random = np.random.default_rng(seed)
        operands = [drawn(claim, at, random) for at in range(len(claim.given))]
        wrong = instance([*given, Not(question.goal), *said(question, operands)], []) is not None
        assert wrong == (tried(claim, operands) is not None), operands
        seen.add(wrong)
    assert True in seen


def test_a_sort_is_looked_into() -> None:
    """A sort of pieces, and one of what varies beside a copy."""
    assert len([claim for claim, _ in ASKED if claim.sample.primitive == "sort"]) == 2
