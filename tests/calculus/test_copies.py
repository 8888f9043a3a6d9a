"""Sums of equal copies are noted, and sums of anything else are not."""

from __future__ import annotations

import pytest

from grammar.meshes import parse_meshes
from verifier.explaining.explanation import explain_text
from verifier.explaining.warnings import COPIES
from verifier.texts import check_text


def noted(*equations: str, tracked: bool = True) -> list[str]:
    """What is said of a body with inputs p, cut on X, and q, the same everywhere, and result z. Where nothing
    is tracked it is said of a step alone, whose transposes are known."""
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
    if not tracked:
        explained = explain_text(text, parse_meshes("X=4, Y=2"), "the text", None, step=True)
        return [str(warned) for warned in explained.warnings if warned.code == COPIES]
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
        ("z:f32[2] = pmax[axes=('X',) axis_index_groups=None] p",),
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


def test_where_nothing_is_tracked_specs_and_sums_tell() -> None:
    """q enters whole, so that it is the same everywhere; so is what was summed. p is cut."""
    psum = "psum[axes=('X',) axis_index_groups=None]"
    (note,) = noted(f"z:f32[2] = {psum} q", tracked=False)
    assert "adds up equal copies" in note
    (note,) = noted(f"r:f32[2] = {psum} p", "s:f32[2] = mul r 2.0:f32[]", f"z:f32[2] = {psum} s", tracked=False)
    assert "adds up equal copies" in note
    assert noted(f"z:f32[2] = {psum} p", tracked=False) == []
    assert noted("r:f32[2] = mul p q", f"z:f32[2] = {psum} r", tracked=False) == []


PSUM = "psum_invariant[axes=('X',)]"
ONE = "k:f32[]{V:X} = pvary[axes=('X',)] 2.0:f32[]"


@pytest.mark.parametrize(
    "equations",
    [
        (CAST, ONE, "s:f32[2]{V:X} = mul k r", f"z:f32[2] = {PSUM} s"),
        (CAST, ONE, "s:f32[2]{V:X} = add k r", f"z:f32[2] = {PSUM} s"),
        (CAST, "s:f32[2]{V:X} = div r 2.0:f32[]", f"z:f32[2] = {PSUM} s"),
        (
            CAST,
            "s:f32[2]{V:X} = jit[jaxpr={ lambda ; t:f32[2]{V:X}. let u:f32[2]{V:X} = neg t in (u,) } name=f] r",
            f"z:f32[2] = {PSUM} s",
        ),
    ],
)
def test_constants_and_calls_hand_copies_on(equations: tuple[str, ...]) -> None:
    (note,) = noted(*equations)
    assert "psum_invariant over X adds up equal copies: 4 times the value" in note


NO_MEAN = "is a mean of equal copies: it gives back the value, which is a sum over them already: this is no mean"


@pytest.mark.parametrize(
    ("equations", "said"),
    [
        ((CAST, f"s:f32[2] = {PSUM} r", "z:f32[2] = div s 4.0:f32[]"), "is a mean of equal copies"),
        ((CAST, "s:f32[2]{V:X} = div r 4.0:f32[]", f"z:f32[2] = {PSUM} s"), "is a mean of equal copies"),
        ((CAST, "s:f32[2]{V:X} = mul r 0.25:f32[]", f"z:f32[2] = {PSUM} s"), "is a mean of equal copies"),
        (
            (
                CAST,
                f"s:f32[2] = jit[name=f jaxpr={{ lambda ; t:f32[2]{{V:X}}. let u:f32[2] = {PSUM} t in (u,) }}] r",
                "z:f32[2] = div s 4.0:f32[]",
            ),
            "is a mean of equal copies",
        ),
        (
            (
                f"g:f32[2] = {PSUM} p",
                "h:f32[2]{V:X} = pvary[axes=('X',)] g",
                f"s:f32[2] = {PSUM} h",
                "z:f32[2] = div s 4.0:f32[]",
            ),
            NO_MEAN,
        ),
        ((CAST, "z:f32[2] = pmax[axes=('X',) axis_index_groups=None] r"), "takes the greatest of equal copies"),
    ],
)
def test_a_mean_of_copies_is_what_they_are(equations: tuple[str, ...], said: str) -> None:
    (note,) = noted(*equations)
    assert said in note


def test_of_several_calls_of_one_body_the_one_with_copies_is_found() -> None:
    """Whichever comes first."""
    shared = f"jit[name=f jaxpr={{ lambda ; t:f32[2]{{V:X}}. let u:f32[2] = {PSUM} t in (u,) }}]"
    for first, second in (("p", "r"), ("r", "p")):
        (note,) = noted(CAST, f"a:f32[2] = {shared} {first}", f"b:f32[2] = {shared} {second}", "z:f32[2] = add a b")
        assert "adds up equal copies: 4 times the value" in note


def test_a_constant_that_is_summed_counts_devices() -> None:
    assert noted(ONE, "s:f32[2]{V:X} = broadcast_in_dim k", f"z:f32[2] = {PSUM} s") == []


DOT = "d:f32[]{V:X} = reduce_sum[axes=(0,) out_sharding=None] p"
BIAS = "b:f32[]{V:X} = reduce_sum[axes=(0,) out_sharding=None] r"
WHOLE = f"s:f32[] = {PSUM} e", "z:f32[2] = broadcast_in_dim s"


@pytest.mark.parametrize(("added", "warned"), [("e:f32[]{V:X} = add d b", True), ("e:f32[]{V:X} = mul d b", False)])
def test_a_bias_is_added_to_each_part_of_a_sum(added: str, warned: bool) -> None:
    """Case 33: each device has its part of the sum, and adds the whole bias to it."""
    found = noted(CAST, DOT, BIAS, added, *WHOLE)
    assert [("equal copies of what is added to each: 4 times" in note) for note in found] == [True] * warned


BODY = "{ lambda ; t:f32[]{V:X} u:f32[]{V:X}. let v:f32[]{V:X} = add t u in (v,) }"
OTHER = "{ lambda ; t:f32[]{V:X} u:f32[]{V:X}. let  in (t,) }"
SHARE = BODY.replace("v:f32[]{V:X} = add t u", "s:f32[]{V:X} = div u 4.0:f32[]\n  v:f32[]{V:X} = add t s")
QUESTION = "i:i32[] = convert_element_type[new_dtype=int32 weak_type=False] 1.0:f32[]"


@pytest.mark.parametrize(
    ("added", "warned"),
    [
        ((f"e:f32[]{{V:X}} = jit[name=f jaxpr={BODY}] d b",), True),
        ((f"e:f32[]{{V:X}} = jit[name=f jaxpr={SHARE}] d b",), False),
        ((f"e:f32[]{{V:X}} = remat2[differentiated=False jaxpr={BODY} policy=None prevent_cse=True] d b",), True),
        ((QUESTION, f"e:f32[]{{V:X}} = cond[branches=({OTHER} {BODY})] i d b"), True),
        ((QUESTION, f"e:f32[]{{V:X}} = cond[branches=({OTHER} {SHARE})] i d b"), False),
        ((ONE, "e:f32[]{V:X} = add d k"), True),
        (("k:f32[]{V:X} = pvary[axes=('X',)] 0.0:f32[]", "e:f32[]{V:X} = add d k"), False),
    ],
)
def test_a_bias_is_found_in_calls_and_branches(added: tuple[str, ...], warned: bool) -> None:
    """And so is a number, but for zero."""
    found = noted(CAST, DOT, BIAS, *added, *WHOLE)
    assert [("equal copies of what is added to each: 4 times" in note) for note in found] == [True] * warned


@pytest.mark.parametrize("shared", ["div b 4.0:f32[]", "mul b 0.25:f32[]"])
def test_a_share_of_a_bias_is_added_to_each_part_of_a_sum(shared: str) -> None:
    """A quarter on each of four devices."""
    assert noted(CAST, DOT, BIAS, f"c:f32[]{{V:X}} = {shared}", "e:f32[]{V:X} = add d c", *WHOLE) == []


def test_a_bias_of_every_example_is_right() -> None:
    """The sum over examples, of which each has the bias once."""
    total = "e:f32[]{V:X} = reduce_sum[axes=(0,) out_sharding=None] t"
    assert noted(CAST, "t:f32[2]{V:X} = add p r", total, *WHOLE) == []
