"""Warnings that are not errors: each is given where it is due, and nowhere else. The programs are those of public bug
reports (tests/spec/cases.md), of the page on explicit sharding, and small ones by hand."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.spec.document import read_document
from verifier.explaining.explanation import Explanation, explain_text

ROOT = Path(__file__).resolve().parents[3]
SEEDS = ROOT / "examples" / "seeds"


@functools.cache
def case(number: str, file: str) -> str:
    """A program of a case, by its file."""
    sections = {one.title.split()[0]: one for one in read_document(ROOT / "tests" / "spec" / "cases.md")}
    (block,) = [one for one in sections[number].blocks if (one.language, one.options.get("file")) == ("jaxpr", file)]
    return f"# mesh: {block.options['mesh']}\n{block.text}"


def explained(text: str, step: bool = False, wrt: str | None = None) -> Explanation:
    return explain_text(text, [], "case.jaxpr", None if wrt is None else wrt.split(","), step)


def codes(found: Explanation) -> list[str]:
    assert found.verdict == "ok"
    return [one.code for one in found.warnings]


def test_case_03_a_gradient_that_is_summed_already_is_summed_again() -> None:
    """By 4 devices: 24 where the gradient is 6. Where it is summed once there is nothing to say."""
    found = explained(case("03", "twice.jaxpr"), step=True)
    assert codes(found) == ["copies-summed"]
    assert "adds up equal copies: it multiplies by 4" in str(found.warnings[0])
    assert codes(explained(case("03", "once.jaxpr"), step=True)) == []


def test_case_05_a_sum_of_a_sum() -> None:
    assert codes(explained(case("05", "copies.jaxpr"), step=True)) == ["copies-summed"]


def test_case_23_a_sum_in_every_layer() -> None:
    """Three layers: three sums of 64 bytes with replicated weights, one of 192 with reduced ones."""
    found = explained(case("23", "layers.jaxpr"), wrt="a")
    assert codes(found) == ["in-a-loop"]
    assert "reduced={'X'}" in found.warnings[0].help
    assert [(one.row.bytes, one.row.times) for one in found.of("backward")] == [(64, 3)]
    reduced = explained(case("23", "reduced.jaxpr"), wrt="a")
    assert codes(reduced) == []
    assert sum(one.row.total or 0 for one in reduced.of("backward")) <= 192


def test_what_is_said_of_many_weights_is_said_once() -> None:
    text = """# mesh: X=2
{ lambda ; a:f32[4,4] b:f32[4,4] c:f32[8@X,4]. let
    d:f32[8@X,4] = scan[
      length=3 reverse=False unroll=1 num_consts=2 num_carry=1
      jaxpr={ lambda ; e:f32[4,4] f:f32[4,4] g:f32[8@X,4]. let
          h:f32[8@X,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] g e
          i:f32[8@X,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] h f
        in (i,) }
    ] a b c
    j:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] d
  in (j,) }
"""
    found = explained(text, wrt="a,b")
    assert codes(found) == ["in-a-loop"] * 2
    shown = [line.strip() for line in str(found).splitlines()]
    assert sum(line.startswith("warning:") for line in shown) == 1
    (others,) = [line for line in shown if line.startswith("likewise")]
    assert {line.value for line in found.warnings} == {"a", "b"}
    assert others.startswith("likewise 1 other value: ")


def test_case_31_and_47_nothing_is_tracked_around_a_gradient() -> None:
    """The input is named that costs a sum of 8 bytes; with tracking it costs none."""
    tracked = case("47", "through.jaxpr")
    assert codes(explained(tracked)) == []
    assert explained(tracked).of("backward") == []
    found = explained(tracked.replace("check_vma=True", "check_vma=False"))
    assert codes(found) == ["untracked"]
    (row,) = found.of("backward")
    assert row.fact is not None
    assert (row.row.bytes, row.row.axes, row.fact.state, row.fact.value) == (8, ("X",), "untracked", "a")
    assert codes(explained(case("31", "silent.jaxpr"), step=True)) == ["untracked"]


def test_the_step_of_the_page() -> None:
    assert codes(explained((SEEDS / "seed_microbatch.jaxpr").read_text(), step=True)) == []


HEAD = "# mesh: X=2\n{ lambda ; "


def test_a_collective_that_nothing_uses() -> None:
    text = HEAD + "a:f32[8@X]. let\n    b:f32[8] = reshard a\n    c:f32[8@X] = neg a\n  in (RESULT,) }"
    assert codes(explained(text.replace("RESULT", "c"), step=True)) == ["unused"]
    assert codes(explained(text.replace("RESULT", "b"), step=True)) == []


LOST = (
    HEAD + "w:f32[4] x:f32[4,8@X]. let\n    r:f32[4]{R:X} = reshard w\n    n:f32[4] = reshard r\n"
    "    y:f32[8@X] = dot_general[\n      dimension_numbers=(([0], [0]), ([], []))\n"
    "      preferred_element_type=float32\n    ] USED x\n"
    "    s:f32[] = reduce_sum[axes=(0,) out_sharding=None] y\n  in (s,) }"
)


def test_a_reduced_value_that_is_cast_back() -> None:
    found = explained(LOST.replace("USED", "n"), wrt="w")
    assert "reduced-lost" in codes(found)
    used = explained(LOST.replace("USED", "r").replace("    n:f32[4] = reshard r\n", ""), wrt="w")
    assert codes(used) == []


APART = (
    HEAD + "w:TYPE x:f32[8@X,4] y:f32[8@X,4]. let\n"
    "    b:f32[8@X] = dot_general[\n      dimension_numbers=(([1], [0]), ([], []))\n"
    "      preferred_element_type=float32\n    ] x w\n"
    "    c:f32[8@X] = dot_general[\n      dimension_numbers=(([1], [0]), ([], []))\n"
    "      preferred_element_type=float32\n    ] y w\n"
    "    d:f32[8@X] = mul b c\n    s:f32[] = reduce_sum[axes=(0,) out_sharding=None] d\n  in (s,) }"
)


def test_uses_that_each_sum_their_part() -> None:
    """Two products with one weight: two sums of 16 bytes, or none with a reduced weight, whose gradient is pending."""
    found = explained(APART.replace("TYPE", "f32[4]"), wrt="w")
    assert codes(found) == ["summed-apart"]
    assert [one.row.bytes for one in found.of("backward")] == [16, 16]
    reduced = explained(APART.replace("TYPE", "f32[4]{R:X}"), wrt="w")
    assert (codes(reduced), reduced.of("backward")) == ([], [])


LOOP = """# mesh: X=2
{ lambda ; t:f32[4] x:f32[5,8@X,4]. let
    r:f32[4] = scan[
      jaxpr={ lambda ; c:f32[4] v:f32[8@X,4]. let
          d:f32[4] = reduce_sum[axes=(0,) out_sharding=None] v
          e:f32[4] = add c d
          BODY
        in (OUT,) }
      length=5
      linear=(False, False)
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] t x
  in (r,) }"""


@pytest.mark.parametrize(
    ("body", "out", "expected"),
    [
        ("", "e", ["in-a-loop"]),
        ("f:f32[4] = tanh e", "f", []),  # the next iteration needs the whole sum
        ("k:f32[4] = tanh c\n          f:f32[4] = add e k", "f", []),  # this one needs what is carried, whole
    ],
)
def test_a_sum_that_a_loop_only_adds_up(body: str, out: str, expected: list[str]) -> None:
    text = LOOP.replace("          BODY\n", f"          {body}\n" if body else "").replace("OUT", out)
    assert codes(explained(text, step=True)) == expected


MANUAL = """# mesh: X=4
{{ lambda ; a:f32[5,8@X]. let
    b:f32[] = shard_map[
      check_vma=True
      in_specs=(P(None, 'X'),)
      jaxpr={{ lambda ; c:f32[5,2]{{V:X}}. let
          d:f32[] = {loop}
        in (d,) }}
      mesh=AbstractMesh('X': 4, axis_types=(Explicit,))
      newly_manual_axes=frozenset({{'X'}})
      out_specs=(P(),)
    ] a
  in (b,) }}"""
SCAN = """scan[
            jaxpr={ lambda ; e:f32[] f:f32[2]{V:X}. let
                g:f32[]{V:X} = reduce_sum[axes=(0,) out_sharding=None] f
                h:f32[] = psum_invariant[axes=('X',)] g
                i:f32[] = convert_element_type[new_dtype=float32 weak_type=False] e
                j:f32[] = add i h
              in (OUT,) }
            length=5
            linear=(False, False)
            num_carry=1
            num_consts=0
            reverse=False
            unroll=1
          ] 0.0:f32[] c"""
WHILE = """while[
            body_jaxpr={ lambda ; f:f32[5,2]{V:X} e:f32[]. let
                g:f32[]{V:X} = reduce_sum[axes=(0, 1) out_sharding=None] f
                h:f32[] = psum_invariant[axes=('X',)] g
                j:f32[] = ADDED
              in (j,) }
            body_nconsts=1
            cond_jaxpr={ lambda ; k:f32[]. let l:bool[] = lt k 5.0:f32[] in (l,) }
            cond_nconsts=0
          ] c 0.0:f32[]"""


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (SCAN.replace("OUT", "j"), "the loop only adds the results up"),
        (SCAN.replace("OUT", "h"), "the loop only adds the results up"),  # the last one alone is used
        (SCAN.replace("add i h", "add i h\n                k:f32[] = tanh j").replace("OUT", "k"), ""),
        (WHILE.replace("ADDED", "add e h"), "what the loop does not change"),
    ],
)
def test_a_sum_in_a_loop_of_a_device(loop: str, said: str) -> None:
    found = explained(MANUAL.format(loop=loop), step=True)
    assert codes(found) == ["in-a-loop"] * bool(said)
    assert all(said in one.says for one in found.warnings)


COUNTED = """while[
            body_jaxpr={ lambda ; f:f32[5,2]{V:X} e:f32[] m:f32[]. let
                g:f32[]{V:X} = reduce_sum[axes=(0, 1) out_sharding=None] f
                r:f32[]{V:X} = pvary[axes=('X',)] m
                p:f32[]{V:X} = mul g r
                h:f32[] = psum_invariant[axes=('X',)] p
                j:f32[] = add e h
                o:f32[] = add m 1.0:f32[]
              in (j, o) }
            body_nconsts=1
            cond_jaxpr={ lambda ; k:f32[] n:f32[]. let l:bool[] = lt READ 5.0:f32[] in (l,) }
            cond_nconsts=0
          ] c 0.0:f32[] 0.0:f32[]"""


def test_a_condition_that_reads_the_sum_needs_it_whole() -> None:
    text = MANUAL.format(loop=COUNTED).replace("d:f32[] =", "d:f32[] s:f32[] =")
    assert codes(explained(text.replace("READ", "n"), step=True)) == ["in-a-loop"]
    assert codes(explained(text.replace("READ", "k"), step=True)) == []


def test_what_a_call_hands_out_and_nothing_uses() -> None:
    call = """jit[
            name=f
            jaxpr={ lambda ; e:f32[5,2]{V:X}. let
                f:f32[5,2] = psum_invariant[axes=('X',)] e
                g:f32[]{V:X} = reduce_sum[axes=(0, 1) out_sharding=None] e
              in (f, g) }
          ] c
          i:f32[] = psum_invariant[axes=('X',)] d"""
    text = MANUAL.format(loop=call).replace("d:f32[] =", "h:f32[5,2] d:f32[]{V:X} =").replace("in (d,)", "in (i,)")
    found = explained(text, step=True)
    assert codes(found) == ["unused"]
    assert found.warnings[0].says.startswith("nothing uses the result of psum_invariant (all-reduce)")


def test_warnings_are_shown_and_are_data() -> None:
    found = explained(APART.replace("TYPE", "f32[4]"), wrt="w")
    assert "  warning: case.jaxpr:3: w f32[4] is replicated along X and has 2 uses" in str(found)
    assert found.data()["warnings"] == [one.data() for one in found.warnings]
    assert "<b>warning</b>" in found._repr_html_()


def test_where_nobody_has_a_derivative_the_forward_pass_is_shown() -> None:
    """Which device had the greatest value is in no result, so that nobody knows whose the cotangent is."""
    text = MANUAL.format(
        loop="reduce_sum[axes=(0, 1) out_sharding=None] c\n"
        "          e:f32[] = pmax[axes=('X',) axis_index_groups=None] d"
    )
    text = text.replace("d:f32[] =", "d:f32[]{V:X} =").replace("in (d,)", "in (e,)")
    found = explained(text)
    assert [(one.direction, one.row.kind) for one in found.entries] == [("forward", "all-reduce")]
    assert (codes(found), found.refusals) == ([], [])
    assert "Differentiation rule for 'pmax' not implemented" in found.none
    assert "  no backward pass: there is no derivative of pmax: " in str(found)
    assert found.data()["no_backward"] == found.none
    whole = HEAD + "a:i32[8@X]. let b:i32[] = reduce_sum[axes=(0,) out_sharding=None] a in (b,) }"
    assert explained(whole).none == "no input is floating"
