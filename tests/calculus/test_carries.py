"""Carries that must vary further are repaired together, at the least types."""

from __future__ import annotations

import pytest

from calculus.carries import cast_together
from calculus.meshes import Axis, AxisMode, Mesh
from grammar.read import read, read_type

MESH = Mesh((Axis("X", 2, AxisMode.MANUAL), Axis("Y", 2, AxisMode.MANUAL)))

SWAPPED = """{ lambda ; c:f32[] d:f32[] x:f32[]{V:X} y:f32[]{V:Y}. let
    e:f32[]{V:X} = pvary[axes=('X',)] d
    f:f32[]{V:X} = add e x
    g:f32[]{V:Y} = pvary[axes=('Y',)] c
    h:f32[]{V:Y} = add g y
  in (f, h) }"""
SUMMED = SWAPPED.replace("add g y", "add g y\n    i:f32[] = psum_invariant[axes=('Y',)] h").replace("(f, h)", "(f, i)")
CHAIN = """{ lambda ; c:f32[] d:f32[] e:f32[] x:f32[]{V:X}. let
    y:f32[]{V:X} = neg x
  in (d, e, y) }"""
BOTH = "with pvary over X and pvary over Y"


def repaired(text: str, *afters: str) -> str:
    program = read(text).program
    befores = program.input_types[: len(afters)]
    return cast_together(program, program.inputs[: len(afters)], befores, [read_type(after) for after in afters], MESH)


def test_each_carry_is_what_the_other_was() -> None:
    """The first varies over X and the second over Y after one iteration, and both over both after two."""
    found = repaired(SWAPPED, "f32[]{V:X}", "f32[]{V:Y}")
    assert f"that of carry 0 to f32[]{{V:(X,Y)}} {BOTH} (free forward" in found
    assert f"that of carry 1 to f32[]{{V:(X,Y)}} {BOTH} (free forward" in found


def test_a_sum_over_an_axis_ends_it() -> None:
    """What is summed over Y varies no more there, but over X, along which its summand does."""
    found = repaired(SUMMED, "f32[]{V:X}", "f32[]")
    assert "that of carry 0 to f32[]{V:X} with pvary over X (" in found
    assert "that of carry 1 to f32[]{V:X} with pvary over X (" in found


def test_a_chain_is_followed_to_its_end() -> None:
    assert repaired(CHAIN, "f32[]", "f32[]", "f32[]{V:X}").count("to f32[]{V:X} with pvary over X") == 3


@pytest.mark.parametrize("after", ["f32[2]", "f32[]{R:X}"])
def test_other_differences_have_other_repairs(after: str) -> None:
    assert repaired(CHAIN, "f32[]", after, "f32[]{V:X}") == ""


def test_one_carry_is_the_initial_value() -> None:
    one = "{ lambda ; c:f32[] x:f32[]{V:X}. let y:f32[]{V:X} = neg x in (y,) }"
    assert repaired(one, "f32[]{V:X}").startswith("cast the initial value to f32[]{V:X} with pvary over X (free")
