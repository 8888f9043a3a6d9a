"""Sums of equal copies are noted, and sums of anything else are not."""

from __future__ import annotations

import pytest

from grammar.meshes import parse_meshes
from verifier.texts import check_text


def noted(*equations: str, tracked: bool = True) -> list[str]:
    """The notes about a body whose inputs are p, cut on X, and q, the same everywhere; its result is z."""
    state = "{V:X}" if tracked else ""
    body = "\n".join(f"          {equation}" for equation in equations)
    if not tracked:
        body = body.replace("{V:X}", "")
    text = f"""{{ lambda ; a:f32[8@X] b:f32[2]. let
    c:f32[2] = shard_map[
      check_vma={tracked}
      in_specs=(P('X',), P(None,))
      jaxpr={{ lambda ; p:f32[2]{state} q:f32[2]. let
{body}
        in (z,) }}
      mesh=AbstractMesh('X': 4, 'Y': 2, axis_types=(Explicit, Explicit), device_kind=cpu, num_cores=None, platform=cpu)
      newly_manual_axes=frozenset({{'X', 'Y'}})
      out_specs=(P(None,),)
    ] a b
  in (c,) }}"""
    report = check_text(text, parse_meshes("X=4, Y=2"), "the text")
    assert report.refusals == []
    return [note for note in report.notes if "copies" in note]


CAST = "r:f32[2]{V:X} = pvary[axes=('X',)] q"


@pytest.mark.parametrize(
    "equations",
    [
        (CAST, "z:f32[2] = psum_invariant[axes=('X',)] r"),
        (
            CAST,
            "s:f32[2]{V:X} = mul r 2.0:f32[]",
            "t:f32[2]{V:X} = add r s",
            "z:f32[2] = psum_invariant[axes=('X',)] t",
        ),
        (
            "r:f32[8]{V:X} = all_gather[all_gather_dimension=0 axis_index_groups=None axis_name=('X',) axis_size=4 "
            "tiled=True] p",
            "s:f32[2]{V:X} = slice[limit_indices=(2,) start_indices=(0,) strides=None] r",
            "z:f32[2] = psum_invariant[axes=('X',)] s",
        ),
        (
            "r:f32[2] = psum_invariant[axes=('X',)] p",
            "s:f32[2]{V:X} = pvary[axes=('X',)] r",
            "z:f32[2] = psum_invariant[axes=('X',)] s",
        ),
    ],
)
def test_a_sum_of_copies_is_noted_once(equations: tuple[str, ...]) -> None:
    (note,) = noted(*equations)
    assert f"line {6 + len(equations) - 1}: psum_invariant over X adds up equal copies: 4 times the value" in note


@pytest.mark.parametrize(
    "equations",
    [
        ("z:f32[2] = psum_invariant[axes=('X',)] p",),
        (CAST, "s:f32[2]{V:X} = add r p", "z:f32[2] = psum_invariant[axes=('X',)] s"),
        (CAST, "z:f32[2] = pmax[axes=('X',) axis_index_groups=None] r"),
        (
            CAST,
            "s:i32[]{V:X} = axis_index[axis_name=X]",
            "t:f32[]{V:X} = convert_element_type[new_dtype=float32 weak_type=False] s",
            "u:f32[2]{V:X} = mul r t",
            "z:f32[2] = psum_invariant[axes=('X',)] u",
        ),
    ],
)
def test_any_other_sum_is_not(equations: tuple[str, ...]) -> None:
    assert noted(*equations) == []


def test_along_one_of_two_axes() -> None:
    (note,) = noted("r:f32[2]{V:(X,Y)} = pvary[axes=('Y',)] p", "z:f32[2] = psum_invariant[axes=('X', 'Y')] r")
    assert "psum_invariant over Y adds up equal copies: as many times the value as Y has devices" in note


def test_where_nothing_is_tracked_nothing_is_known() -> None:
    assert noted("z:f32[2] = psum[axes=('X',) axis_index_groups=None] q", tracked=False) == []
