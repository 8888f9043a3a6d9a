"""Reduced is physically replicated: erase it, and no forward value and no forward price changes (statement A25).

Over programs without pending sums: what is pending may meet what is reduced, and not what is replicated, since the
latter's cotangent would have to be summed unasked. There the values are the same all the same, and are not typed.
"""

from __future__ import annotations

import re

import numpy as np

from calculus.naming import tidy
from grammar.print import print_document
from grammar.read import read
from tests.laws.evaluation import evaluate
from tests.laws.programs import numbers
from verifier.generated import drawn
from verifier.texts import check_text

_CASTS = {"reduced_vary_cast": "pvary", "all_gather_reduced": "all_gather_invariant"}


def erased(text: str) -> str:
    """The text with every reduced axis left out of its types and specs, and casts to reduced left out."""
    text = re.sub(r"preduced\[axes=\([^)]*\)\]", "copy", text)
    for cast, other in _CASTS.items():
        text = text.replace(cast, other)
    text = re.sub(r", R:(\w+|\([\w,]+\))", "", text)
    text = re.sub(r"R:(\w+|\([\w,]+\)), ", "", text)
    text = re.sub(r"\{R:(\w+|\([\w,]+\))\}", "", text)
    return re.sub(r"(, )?(?<!un)reduced=\{[^}]*\}", "", text)


def test_erasing_reduced_changes_no_forward_value_and_no_forward_price() -> None:
    tried = moved = 0
    for seed in range(110):
        grown = drawn(seed, states="NRRSS")
        text = print_document(tidy(grown.program))
        if "U:" in text or "unreduced" in text or "{R:" not in text:
            continue
        plain = erased(text)
        assert "R:" not in plain
        before, after = (check_text(one, [grown.mesh], "it") for one in (text, plain))
        assert before.verdict == "ok", seed
        assert after.verdict == "ok", (seed, [refusal.message for refusal in after.refusals])
        costs = [[(row.kind, row.axes, row.bytes, row.times) for row in one.communication] for one in (before, after)]
        assert costs[0] == costs[1], seed
        inputs = numbers(grown.program.input_types, seed)
        with np.errstate(all="ignore"):
            values = [evaluate(read(one).program, inputs, grown.mesh) for one in (text, plain)]
        for mine, theirs in zip(*values, strict=True):
            assert np.array_equal(mine, theirs, equal_nan=True), seed
        tried += 1
        moved += bool(costs[0])
    assert tried > 40
    assert moved > 15


def test_what_is_pending_beside_it_is_no_longer_typed() -> None:
    """One way only: with the reduced factor replicated the product of a pending sum reads back right, and its transpose
    would communicate."""
    text = "{ lambda ; a:f32[4]{U:X} b:f32[4]{R:X}. let c:f32[4]{U:X} = mul a b in (c,) }"
    (refusal,) = check_text(erased(text), [drawn(0, mesh="X=2").mesh], "it").refusals
    assert refusal.code == "transpose-communicates"
