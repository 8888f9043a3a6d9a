"""Rows of communication, forward and backward, and the facts that decide them. Numbers are those of the pages (fifteen
all-reduces of 64 bytes, or one of 192) or by hand: bytes of a block, elements times four."""

from __future__ import annotations

import pytest

from verifier.explaining.entries import Entry
from verifier.explaining.explanation import Explanation, explain_text


def rows(found: Explanation) -> list[tuple[str, str, tuple[str, ...], int | None, int | None]]:
    return [(one.direction, one.row.kind, one.row.axes, one.row.bytes, one.row.times) for one in found.entries]


def explained(text: str, mesh: str = "X=2", wrt: str | None = None) -> Explanation:
    return explain_text(f"# mesh: {mesh}\n{text}", [], "loss.jaxpr", None if wrt is None else wrt.split(","))


LAYERS = """{ lambda ; w:f32[3,4,4] x:f32[8@X,4]. let
    y:f32[8@X,4] = scan[
      jaxpr={ lambda ; c:f32[8@X,4] v:f32[4,4]. let
          d:f32[8@X,4] = dot_general[
            dimension_numbers=(([1], [0]), ([], []))
            preferred_element_type=float32
          ] c v
          e:f32[8@X,4] = tanh d
        in (e,) }
      length=3
      linear=(False, False)
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] x w
    s:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] y
  in (s,) }"""


def test_a_replicated_weight_is_summed_in_every_iteration() -> None:
    found = explained(LAYERS, wrt="w")
    assert rows(found) == [
        ("backward", "all-reduce", ("X",), 64, 3),
        ("forward", "all-reduce", ("X",), 4, 1),
    ]
    fact = found.entries[0].fact
    assert fact is not None
    assert (fact.state, fact.value, str(fact.type)) == ("replicated", "w", "f32[4,4]")
    assert fact.says == "w is replicated along X: its gradient is summed in every iteration"
    assert found.entries[0].row.value == "gradient of w"


def test_what_the_data_s_cotangent_needs_is_told_apart_from_the_weight_s() -> None:
    """Tensor parallel: the weight's gradient is local, that of what it multiplies is summed over the other axis."""
    text = """{ lambda ; w:f32[4,8@Y] x:f32[8@X,4]. let
    d:f32[8@X,8@Y] = dot_general[
      dimension_numbers=(([1], [0]), ([], []))
      preferred_element_type=float32
    ] x w
    s:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] d
  in (s,) }"""
    found = explained(text, "X=2, Y=4")
    told = {one.fact.value: (one.row.axes, one.row.bytes, one.formula) for one in found.entries if one.fact is not None}
    assert told == {"w": (("X",), 4 * 2 * 4, "128/Y"), "x": (("Y",), 4 * 4 * 4, "128/X")}


CAST = """{ lambda ; w:f32[4,2] x:f32[8@X,4]. let
    r:f32[4,2]{R:X} = reshard w
    d:f32[8@X,2] = dot_general[
      dimension_numbers=(([1], [0]), ([], []))
      preferred_element_type=float32
    ] x r
    s:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] d
  in (s,) }"""


def test_where_a_cast_decides_it_is_the_fact() -> None:
    (row, _) = explained(CAST, wrt="w").entries
    assert row.fact is not None
    assert (row.fact.state, row.fact.value, row.row.line) == ("cast", "w", 3)
    assert row.fact.says.endswith("its gradient stays a pending sum up to here, and is summed once")


@pytest.mark.parametrize(
    ("type", "goal", "formula"),
    [
        ("f32[8@X,4]", "f32[8,4]", "128"),
        ("f32[8@X,4@Y]", "f32[8,4@Y]", "128/Y"),
        ("f32[8@X,4@Y]", "f32[8,4]", "128"),  # last dim first: Y, of what is cut along X, then X
        ("bf16[16@X,8@(Y,Z)]", "bf16[16,8@(Y,Z)]", "256/(Y·Z)"),
        ("f32[b@X,4]", "f32[b,4]", "16·b"),
    ],
)
def test_formulas_are_those_of_blocks(type: str, goal: str, formula: str) -> None:
    """Without sizes: a gather's payload is the block that it leaves."""
    text = f"{{ lambda ; a:{type}. let\n    b:{goal} = reshard a\n  in (b,) }}"
    found = explain_text(text, [], "move.jaxpr", step=True)
    assert found.entries[-1].formula == formula
    assert found.entries[-1].row.bytes is None or "b" not in type


def wire(entry: Entry) -> str:
    return entry.wire_formula


def test_wire_is_what_a_ring_sends() -> None:
    text = "{ lambda ; a:f32[8,4]{U:X}. let\n    b:f32[8,4] = reshard a\n  in (b,) }"
    (entry,) = explain_text(text, [], "sum.jaxpr", step=True).entries
    assert wire(entry) == "2·(X - 1)/X · 128"
    (known,) = explain_text(f"# mesh: X=4\n{text}", [], "sum.jaxpr", step=True).entries
    assert known.row.wire_bytes == 2 * 3 * 128 / 4
