"""What is well typed and goes wrong in JAX is said under the report, by the ledger's own patterns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from grammar.meshes import parse_meshes
from verifier import known, ledger
from verifier.cli import main
from verifier.report import Report
from verifier.texts import check_text

PENDING = """\
{ lambda ; a:f32[4]{U:X} b:f32[4]. let
    c:f32[2,4]{U:X} = stack[axis=0] a a
    d:f32[4]{U:Y} = reshard a
    e:f32[2,4] = stack[axis=0] b b
    f:f32[4] = reshard a
  in (c, d, e, f) }
"""
CHOICE = """\
{ lambda ; a:f32[] b:f32[4@X]. let
    c:f32[] = shard_map[
      check_vma=True
      in_specs=(P(), P('X',))
      jaxpr={ lambda ; d:f32[] e:f32[2]{V:X}. let
          f:i32[]{V:X} = axis_index[axis_name=X]
          g:f32[]{V:X} = cond[
            branches=(
              { lambda ; h:f32[] i:f32[2]{V:X}. let
                  j:f32[]{V:X} = reduce_sum[axes=(0,) out_sharding=None] i
                in (j,) }
              { lambda ; k:f32[] l:f32[2]{V:X}. let
                  m:f32[]{V:X} = pvary[axes=('X',)] k
                in (m,) }
            )
          ] f d e
          n:f32[] = psum_invariant[axes=('X',)] g
        in (n,) }
      mesh=AbstractMesh('X': 2, axis_types=(Explicit,), device_kind=cpu, num_cores=None, platform=cpu)
      newly_manual_axes=frozenset({'X'})
      out_specs=(P(),)
    ] a b
  in (c,) }
"""


@pytest.fixture(autouse=True)
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "installed", lambda: known.REFERENCE)


def report(text: str, mesh: str = "X=2, Y=2") -> Report:
    return check_text(f"# mesh: {mesh}\n{text}", (), "a.jaxpr")


def test_the_primitives_that_are_looked_for_are_those_of_the_ledger() -> None:
    assert known.index(ledger.ledger()) == known.WATCHED


def test_what_goes_wrong_is_said_with_its_line_and_entry() -> None:
    found = report(PENDING)
    assert found.verdict == "ok"
    assert [(one["line"], one["entry"], one["ends_process"]) for one in found.known] == [(3, 61, False), (4, 74, True)]
    assert "line 3: well typed, but JAX 0.12.0.1 computes another value here: a stack of partial sums" in found.notes[0]
    assert "line 4: well typed, but JAX 0.12.0.1 ends its process here" in found.notes[1]


def test_a_derivative_that_goes_wrong_is_said_of_the_program() -> None:
    (one,) = report(CHOICE, "X=2").known
    assert (one["entry"], one["in_derivative"], one["defect"]) == (55, True, "wrong gradient")
    assert not report(CHOICE.replace("m:f32[]{V:X} = pvary[axes=('X',)] k", "m:f32[]{V:X} = mul f 1.0"), "X=2").known


@pytest.mark.parametrize(
    ("image", "groups", "mesh", "wrong"),
    [
        ("4@X,4,6", 2, "X=2, Y=2", True),
        ("4,4,6@X", 1, "X=2, Y=2", True),
        ("4@X,4,6", 1, "X=2, Y=2", False),
        ("4@X,4,6", 2, "X=2", False),
        ("4@X,4,6", 2, "X=2, Y=1", False),
    ],
)
def test_the_kernel_of_a_convolution(image: str, groups: int, mesh: str, wrong: bool) -> None:
    """As measured: the gradient of the kernel is as many times too large as there are devices along the other axis."""
    kernel, result = f"4,{4 // groups},3", image.replace("6", "4")
    found = report(
        f"""{{ lambda ; a:f32[{image}] b:f32[{kernel}]. let
    c:f32[{result}] = conv_general_dilated[
      batch_group_count=1
      dimension_numbers=ConvDimensionNumbers(lhs_spec=(0, 1, 2), rhs_spec=(0, 1, 2), out_spec=(0, 1, 2))
      feature_group_count={groups}
      lhs_dilation=(1,)
      out_sharding=None
      padding=((0, 0),)
      precision=None
      preferred_element_type=float32
      rhs_dilation=(1,)
      window_strides=(1,)
    ] a b
  in (c,) }}""",
        mesh,
    )
    assert found.verdict == "ok", found.refusals
    assert [one["entry"] for one in found.known] == [76] * wrong


def test_only_of_the_release_at_hand_and_of_what_is_well_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not report(PENDING.replace("e:f32[2,4] =", "e:f32[4] =")).known
    monkeypatch.setattr(known, "installed", lambda: "0.10.2")
    assert [one["entry"] for one in report(PENDING).known] == [61, 74]
    monkeypatch.setattr(known, "installed", lambda: "99.0")
    assert not report(PENDING).known


def test_the_ledger_is_not_read_where_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> None:
        raise AssertionError

    monkeypatch.setattr(ledger, "ledger", read)
    text = "{ lambda ; a:f32[4@X] b:f32[4]. let c:f32[4] = reshard a d:f32[2,4] = stack[axis=0] b b in (c, d) }"
    assert report(text).known == []


def test_the_command_says_it_and_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "a.jaxpr"
    file.write_text(PENDING, encoding="utf-8")
    for command in ("check", "run"):
        run = CliRunner().invoke(main, [command, str(file), "--mesh", "X=2,Y=2"])
        assert run.exit_code == 0, run.output
        assert "entry 61 of the ledger" in run.stdout
    run = CliRunner().invoke(main, ["check", str(file), "--mesh", "X=2,Y=2", "--json"])
    assert [one["entry"] for one in json.loads(run.stdout)[0]["goes_wrong_in_jax"]] == [61, 74]


@pytest.mark.parametrize(
    ("mesh", "found"),
    [("X=4,Y=2", [(147, False), (147, True)]), ("X=2,Y=2", []), ("X=4,Y=1", [])],
)
def test_a_dim_cut_on_two_axes_that_becomes_pieces(mesh: str, found: list[tuple[int, bool]]) -> None:
    """JAX 0.12.0.1 reads back [0,1,0,0,2,3,0,22] on X=4 and Y=2, where [0,1,2,3,4,5,6,7] is right: of the move, and of
    the gradient of its transpose. On axes of one size, or of one device, it is right."""
    text = """{ lambda ; a:f32[8@(X,Y)] b:f32[8]{R:(X,Y)} c:f32[8@X,2@Y]. let
        d:f32[8]{U:(X,Y)} = reshard a
        e:f32[8@(X,Y)] = reshard b
        f:f32[8,2]{U:(X,Y)} = reshard c
      in (d, e, f) }"""
    told = check_text(text, parse_meshes(mesh), "a.jaxpr").known
    assert [(one["entry"], one["in_derivative"]) for one in told] == found


@pytest.mark.parametrize(
    "entry",
    [one for one in ledger.ledger() if one.defect == "backward fails" and one.equations],
    ids=lambda one: one.number,
)
def test_what_has_no_gradient_in_jax_is_said_where_the_forward_program_has_it(entry: ledger.Entry) -> None:
    """Of each such entry the program whose gradient is proved."""
    assert entry.proof is not None
    (one, *others) = check_text(entry.proof.program, (), "a.jaxpr").known
    assert not others
    assert (one["entry"], one["defect"], one["in_derivative"]) == (entry.number, "backward fails", True)


@pytest.mark.parametrize(("dtype", "found"), [("f32", [54]), ("i32", [])])
def test_what_has_no_derivative_does_not_go_wrong_in_it(dtype: str, found: list[int]) -> None:
    text = f"{{ lambda ; a:{dtype}[8@X,4]. let b:{dtype}[8@X] = reduce_prod[axes=(1,) out_sharding=None] a in (b,) }}"
    assert [one["entry"] for one in report(text).known] == found


COPIES_IN_A_REGION = """f32[2]. let c:f32[2] = shard_map[
      check_vma=True
      in_specs=(P(None,),)
      jaxpr={ lambda ; d:f32[2]. let e:f32[2] = erf d in (e,) }
      mesh=AbstractMesh('X': 2, axis_types=(Explicit,))
      newly_manual_axes=frozenset({'X'})
      out_specs=(P(None,),)
    ] a"""


@pytest.mark.parametrize(
    "text",
    [
        "f32[8@X,4@Y] b:f32[4@Y,2]{R:X}. let c:f32[8@X,2] = dot_general[dimension_numbers=(([1], [0]), ([], []))] a b",
        "f32[8@X]. let c:f32[4@X] = slice[limit_indices=(5,) start_indices=(1,) strides=None] a",
        "f32[4,2@X]. let c:f32[2@X] = reduce_prod[axes=(0,)] a",
        "f32[8@X]. let c:f32[8@X] = reduce_window_sum[base_dilation=(1,) padding=((1, 1),) window_dilation=(1,) "
        "window_dimensions=(3,) window_strides=(1,)] a",
        "f32[2]{R:X} b:bool[2]. let c:f32[2]{R:X} = select_n b a a",
        "f32[8@X]. let c:f32[8@X] = erf a",
        COPIES_IN_A_REGION,
    ],
)
def test_what_has_a_gradient_in_jax(text: str) -> None:
    """As measured of the releases: by what is like the entries' programs, and has one."""
    report = check_text(f"{{ lambda ; a:{text} in (c,) }}", parse_meshes("X=2, Y=2"), "a.jaxpr")
    assert report.verdict == "ok", report.refusals
    assert not report.known


@pytest.mark.parametrize(
    ("equations", "outputs", "apart"),
    [
        ("d:f32[8]{U:(X,Y)} = reshard a e:f32[8] = reshard d", "e", True),
        ("d:f32[8]{U:(X,Y)} = reshard a e:f32[8] = reshard d", "d, e", False),
        ("d:f32[8]{U:(X,Y)} = reshard a e:f32[8@X]{U:Y} = reshard d", "e", False),
        ("d:f32[8]{R:(X,Y)} = reshard b e:f32[8@(X,Y)] = reshard d", "e", True),
        ("d:f32[8]{R:(X,Y)} = reshard b e:f32[8@(X,Y)] = reshard d", "d, e", False),
    ],
)
def test_a_reshard_that_finishes_the_sum_at_once(equations: str, outputs: str, apart: bool) -> None:
    """As measured: where both reshards are in one jit JAX is right; each by itself, or with another use, it is not."""
    text = f"{{ lambda ; a:f32[8@(X,Y)] b:f32[8]. let {equations.replace(' e:', '; e:')} in ({outputs},) }}"
    (one,) = check_text(text, parse_meshes("X=4,Y=2"), "a.jaxpr").known
    assert (one["entry"], one["outside_of_jit"]) == (147, apart)


WHILE = """{{ lambda ; a:f32[2]{{U:X}} b:f32[2]. let
    _:i32[] c:f32[2] = while[
      body_jaxpr={{ lambda ; {body}d:i32[] e:f32[2]. let
          f:i32[] = add d 1:i32[]
          {next}
        in (f, g) }}
      body_nconsts={bodies}
      cond_jaxpr={{ lambda ; {condition}h:i32[] i:f32[2]. let j:bool[] = lt h 2:i32[]{asked} in (j,) }}
      cond_nconsts={conditions}
    ] {given}0:i32[] b
  in (c,) }}"""
SUM = """n:f32[2]{U:X} = add k k
          m:f32[2] = reshard n
          g:f32[2] = add e m"""
RESHARD = """m:f32[2] = reshard k
          g:f32[2] = add e m"""
CALL = """g:f32[2] = jit[
            jaxpr={ lambda ; k:f32[2]{U:X} e:f32[2]. let
                m:f32[2] = reshard k
                g:f32[2] = add e m
              in (g,) }
            name=f
          ] k e"""
ASKED = "; l:f32[2]{U:X} = add k k; m:f32[2] = reshard l"


@pytest.mark.parametrize(
    ("body", "next", "condition", "asked", "found"),
    [
        (True, SUM, False, "", [144]),
        (True, RESHARD, False, "", []),
        (True, CALL, False, "", []),
        (True, CALL.replace("m:f32[2] = reshard k", "n:f32[2]{U:X} = add k k; m:f32[2] = reshard n"), False, "", [144]),
        (False, "g:f32[2] = add e e", True, ASKED, [144]),
        (False, "g:f32[2] = add e e", True, "; l:f32[2] = reshard k", []),
    ],
)
def test_what_a_while_loop_reads_and_only_moves(
    body: bool, next: str, condition: bool, asked: str, found: list[int]
) -> None:
    """As measured: what a body, or a condition, does nothing with but reshard it is right in JAX."""
    text = WHILE.format(
        body="k:f32[2]{U:X} " * body, bodies=int(body), next=next, given="a ",
        condition="k:f32[2]{U:X} " * condition, conditions=int(condition), asked=asked,
    )  # fmt: skip
    report = check_text(text, parse_meshes("X=2"), "a.jaxpr")
    assert report.verdict == "ok", report.refusals
    assert [one["entry"] for one in report.known] == found


@pytest.mark.parametrize(
    ("held", "given", "count", "next", "found"),
    [("c:f32[2]{U:X} ", "a ", 1, "add e c", [144]), ("", "", 0, "add e e", [])],
)
def test_what_a_while_loop_reads_and_does_not_change(
    held: str, given: str, count: int, next: str, found: list[int]
) -> None:
    """What it carries itself is right in JAX."""
    text = f"""{{ lambda ; a:f32[2]{{U:X}}. let
        _:i32[] b:f32[2]{{U:X}} = while[
          body_jaxpr={{ lambda ; {held}d:i32[] e:f32[2]{{U:X}}. let
              f:i32[] = add d 1:i32[]
              g:f32[2]{{U:X}} = {next}
            in (f, g) }}
          body_nconsts={count}
          cond_jaxpr={{ lambda ; h:i32[] i:f32[2]{{U:X}}. let j:bool[] = lt h 2:i32[] in (j,) }}
          cond_nconsts=0
        ] {given}0:i32[] a
      in (b,) }}"""
    assert [one["entry"] for one in check_text(text, parse_meshes("X=2"), "a.jaxpr").known] == found
