"""Programs with symbolic sizes, at numbers."""

from __future__ import annotations

import pytest

from grammar.read import read
from verifier.execution.arithmetic import CannotRun
from verifier.execution.instances import instance, value_of
from verifier.execution.texts import run_text, told

TEXT = """
{ lambda ; a:f32[b,4]. let
    c:f32[4*b] = reshape[dimensions=None new_sizes=(4*b,) sharding=None] a
    d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
    e:i32[] = dim_as_value[dim=b + 1]
    f:f32[] = convert_element_type[new_dtype=float32 weak_type=False] e
    g:f32[] = add d f
  in (c, g) }
"""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("b", 2), ("4*b", 8), ("b*s + s", 9), ("b^2 - 1", 3), ("-b + s", 1), ("floordiv(s, b)", 1), ("mod(s, b)", 1),
        ("max(b, s)", 3), ("min(b, s)", 2),
    ],
)  # fmt: skip
def test_a_size_is_computed(text: str, number: int) -> None:
    assert value_of(text, {"b": 2, "s": 3}) == number


@pytest.mark.parametrize("text", ["c", "b.real", "open(b)", "b if b else s", "1.5", "b +"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(CannotRun, match="is not understood"):
        value_of(text, {"b": 2, "s": 3})


def test_a_program_is_run_at_numbers() -> None:
    """8 ones, and b + 1 = 3."""
    program, sizes = instance(read(TEXT).program)
    assert sizes == {"b": 2}
    assert [str(type) for type in program.input_types] == ["f32[2,4]"]
    ran = run_text(TEXT, [], "symbolic.jaxpr")
    assert ran.verdict == "equal"
    assert ran.outcome is not None
    (given,) = ran.outcome.inputs
    cut, total = ran.outcome.results
    assert given.value.shape == (2, 4)
    assert cut.value.tolist() == given.value.reshape(8).tolist()
    assert total.value == given.value.sum() + 3
    assert "at b = 2" in next(iter(told(ran, TEXT, 0)))


def test_where_there_are_no_symbols_it_is_the_same_program() -> None:
    program = read("{ lambda ; a:f32[4]. let b:f32[4] = neg a in (b,) }").program
    assert instance(program) == (program, {})
