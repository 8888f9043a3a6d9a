"""What types guarantee of a mesh axis beside what XLA moves along it: by hand, and of a few drawn programs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from calculus.checking import Checker
from calculus.effects import charges
from grammar.meshes import parse_meshes
from grammar.read import read
from verifier import communication_agreement as agreement
from verifier.communication_agreement import ACCEPTED, AGREED, OPEN, REFUSED, Asked, Communication, Seen, hold, lines
from verifier.compiled.derived import Said
from verifier.compiled.groups import NO_AXES
from verifier.compiled.reading import Moved
from verifier.examine import Examined
from verifier.explaining.guarantees import Answer, Guarantee, guarantees
from verifier.folders import programs_in

SIZES = {"X": 2, "Y": 4}
SUM = Said("all-reduce", ("X",), 32, 2, "exact", "reshard", "f32")
MOVED = Moved("all-reduce", ("X",), 32, 2, "f32")
FREE, YES, UNKNOWN = (Answer("X", one) for one in (Guarantee.FREE, Guarantee.COMMUNICATES, Guarantee.OPEN))


@pytest.mark.parametrize(
    ("answer", "said", "moved", "outcome"),
    [
        (FREE, [], [], AGREED),
        (FREE, [], [MOVED], ACCEPTED),
        (FREE, [], [dataclasses.replace(MOVED, axes=NO_AXES)], ACCEPTED),
        (FREE, [], [dataclasses.replace(MOVED, axes=("Y",))], AGREED),
        (FREE, [], [dataclasses.replace(MOVED, constant=True)], AGREED),
        (YES, [SUM], [MOVED], AGREED),
        (YES, [SUM], [], REFUSED),
        (YES, [dataclasses.replace(SUM, masked=True)], [], AGREED),  # folded away
        (YES, [dataclasses.replace(SUM, kind="reduce-scatter", masked=True)], [], AGREED),  # seed 902613708270
        (YES, [dataclasses.replace(SUM, kind="all-gather", masked=True)], [], REFUSED),
        (YES, [SUM, dataclasses.replace(SUM, masked=True, site=1)], [], REFUSED),
        (UNKNOWN, [SUM], [], OPEN),
        (UNKNOWN, [SUM], [MOVED], OPEN),
    ],
)
def test_the_two_sides_are_held_against_each_other(
    answer: Answer, said: list[Said], moved: list[Moved], outcome: str
) -> None:
    (seen,) = hold("by hand", [answer], said, moved, SIZES).axes
    assert seen.outcome == outcome


def asked(text: str, mesh: str) -> dict[str, str]:
    checker = Checker(parse_meshes(mesh))
    checked = checker.check(read(text).program)
    assert not checker.refusals
    return {one.axis: one.guarantee.name for one in guarantees(Examined(checker, checked, charges(checked)))}


def program(body: str, inputs: str, result: str = "r") -> str:
    return f"{{ lambda ; {inputs}. let\n    {body}\n  in ({result},) }}"


SWAP = program("r:f32[8@Y,8@X] = reshard a", "a:f32[8@X,8@Y]")
CLOSED_OVER = """{ lambda ; a:f32[8]{STATE} b:f32[8]{STATE}. let
    _:i32[] c:f32[8]{STATE} = while[
      body_jaxpr={ lambda ; d:f32[8]{STATE} e:i32[] f:f32[8]{STATE}. let g:i32[] = add e 1:i32[] in (g, d) }
      body_nconsts=1
      cond_jaxpr={ lambda ; h:i32[] i:f32[8]{STATE}. let j:bool[] = lt h 2:i32[] in (j,) }
      cond_nconsts=0
    ] a 0:i32[] b
  in (c,) }"""
RENUMBERED = program(
    "r:f32[8,8,4@Y] = dot_general[\n      dimension_numbers=(([2], [1]), ([], []))\n"
    "      preferred_element_type=float32\n    ] a b",
    "a:f32[8,8,8@Y] b:f32[4@Y,8]",
)
SOLVED = (
    "{{ lambda ; a:f32[{1}] b:f32[{0}]. let\n    r:f32[{0}] = triangular_solve[\n      conjugate_a=False "
    "left_side=False lower=True transpose_a=False unit_diagonal=True\n    ] a b\n  in (r,) }}"
)
SCATTERED = (
    "{{ lambda ; a:f32[{0}] b:i32[{1}] c:f32[{2}]. let\n    r:f32[4@X,8] = scatter-add[\n"
    "      dimension_numbers=ScatterDimensionNumbers(update_window_dims=(), inserted_window_dims=(1,), "
    "scatter_dims_to_operand_dims=(1,), operand_batching_dims=(0,), scatter_indices_batching_dims=(0,))\n"
    "      indices_are_sorted=False\n      mode=GatherScatterMode.FILL_OR_DROP\n      unique_indices=False\n"
    "      update_consts=()\n      update_jaxpr={{ lambda ; d:f32[] e:f32[]. let f:f32[] = add d e in (f,) }}\n"
    "    ] a b c\n  in (r,) }}"
)
GROUPS = program(
    "r:f32[8@X,16,8] = conv_general_dilated[\n      batch_group_count=1\n      dimension_numbers=ConvDimensionNumbers("
    "lhs_spec=(0, 2, 1), rhs_spec=(2, 1, 0), out_spec=(0, 2, 1))\n      feature_group_count=GROUPS\n      "
    "lhs_dilation=(1,)\n      out_sharding=None\n      padding=((1, 1),)\n      precision=None\n      "
    "preferred_element_type=None\n      rhs_dilation=(1,)\n      window_strides=(1,)\n    ] a b",
    "a:f32[8@X,16,4] b:f32[3,EACH,8]",
)
TOP = program("r:f32[8@X,2] i:i32[8@X,2] = top_k[axis=1 k=2] a", "a:f32[8@X,8]")


EXCHANGED = """{ lambda ; a:f32[8@X,8@Y]. let
    r:f32[8@X,8@Y] = shard_map[
      in_specs=(P('X', None),)
      jaxpr={ lambda ; b:f32[4,8@Y]{V:X}. let
          c:f32[4,8@Y]{V:X} = all_to_all[
            axis_name=('X',) split_axis=0 concat_axis=0 tiled=True axis_index_groups=None
          ] b
        in (c,) }
      out_specs=(P('X', None),)
      mesh=AbstractMesh('X': 2, 'Y': 2, axis_types=(Explicit, Explicit))
      newly_manual_axes=frozenset({'X'})
      check_vma=True
    ] a
  in (r,) }"""
BEGUN = """{ lambda ; a:f32[8@X]. let
    b:f32[8] = reshard a
    r:f32[8] = scan[
      length=4 reverse=False unroll=1 num_consts=0 num_carry=1
      jaxpr={ lambda ; d:f32[8]. let e:f32[8] = broadcast_in_dim 0.0:f32[] in (e,) }
    ] b
  in (r,) }"""
TOLD = program("b:f32[8] = exp a\n    c:f32[8@X] = reshard b\n    r:f32[8] = sin b", "a:f32[8]", "c, r")
CARRIED = """{ lambda ; a:f32[8] b:f32[8]. let
    c:f32[8] r:f32[4,8@X] = scan[
      length=4 reverse=False unroll=1 num_consts=1 num_carry=1
      jaxpr={ lambda ; d:f32[8] e:f32[8]. let f:f32[8@X] = reshard e in (d, f) }
    ] a b
  in (c, r) }"""


@pytest.mark.parametrize(
    ("text", "mesh", "expected"),
    [
        # measured, seed 20261061097: gathered along the other axis first, and exchanged whole
        (EXCHANGED, "X=2, Y=2", {"X": "COMMUNICATES", "Y": "OPEN"}),
        # seed 20261061050: exp2 lies where one of its uses is, and is gathered for the other
        (TOLD, "X=2, Y=2", {"X": "FREE", "Y": "FREE"}),
        (TOLD.replace("exp a", "exp2 a"), "X=2, Y=2", {"X": "OPEN", "Y": "FREE"}),
        # seed 777003331311: so does what a loop carries
        (CARRIED, "X=2, Y=2", {"X": "OPEN", "Y": "FREE"}),
        (program("r:f32[8] = reshard a", "a:f32[8@X]"), "X=2, Y=2", {"X": "COMMUNICATES", "Y": "FREE"}),
        (program("r:f32[8@X] = reshard a", "a:f32[8]"), "X=2, Y=2", {"X": "FREE", "Y": "FREE"}),
        # a partitioner searches, and may renumber the devices along another axis
        (SWAP, "X=2, Y=2, Z=2", {"X": "OPEN", "Y": "OPEN", "Z": "OPEN"}),
        (SWAP, "X=4, Y=2, Z=3", {"X": "OPEN", "Y": "OPEN", "Z": "FREE"}),
        # measured, seed 700145100924: a major axis is dropped along another one of its size, or comes in along one
        (
            program("r:f32[8@Z] = reshard a", "a:f32[8@(Y,Z)]"),
            "X=2, Y=2, Z=2",
            {"X": "OPEN", "Y": "COMMUNICATES", "Z": "COMMUNICATES"},
        ),
        (
            program("r:f32[8@(Y,Z)] = reshard a", "a:f32[8@Z]"),
            "X=2, Y=2, Z=2",
            {"X": "OPEN", "Y": "COMMUNICATES", "Z": "COMMUNICATES"},
        ),
        (
            program("r:f32[8@Z] = reshard a", "a:f32[8@(Y,Z)]"),
            "X=3, Y=2, Z=2",
            {"X": "FREE", "Y": "COMMUNICATES", "Z": "COMMUNICATES"},
        ),
        (
            program("r:f32[8@Z]{U:Y} = reshard a", "a:f32[8@X]"),
            "X=2, Y=2, Z=2",
            {"X": "COMMUNICATES", "Y": "OPEN", "Z": "COMMUNICATES"},
        ),
        # measured: along X and Y here, along all three there; which goes by how a partitioner numbers what is cut, free
        (
            program("r:f32[8@(Y,X,Z)] = reshard a", "a:f32[8@X]"),
            "X=2, Y=2, Z=2",
            {"X": "COMMUNICATES", "Y": "OPEN", "Z": "OPEN"},
        ),
        (
            program("r:f32[8@(Z,X,Y)] = reshard a", "a:f32[8@X]"),
            "X=2, Y=2, Z=2",
            {"X": "COMMUNICATES", "Y": "OPEN", "Z": "OPEN"},
        ),
        # measured: a permute along all three, and along all three after an all-to-all along X
        (
            program("r:f32[8@X,8@Y] = reshard a", "a:f32[8@Z,8]"),
            "X=2, Y=2, Z=2",
            {"X": "OPEN", "Y": "OPEN", "Z": "COMMUNICATES"},
        ),
        (
            program("r:f32[8,8@(Z,Y,X)] = reshard a", "a:f32[8@X,8]"),
            "X=2, Y=2, Z=2",
            {"X": "COMMUNICATES", "Y": "OPEN", "Z": "OPEN"},
        ),
        (
            program("r:f32[8@(Z,Y)] = reshard a", "a:f32[8@(X,Y,Z)]"),
            "X=2, Y=2, Z=2",
            {"X": "COMMUNICATES", "Y": "FREE", "Z": "COMMUNICATES"},
        ),
        # blocks of two cuts that do not line up are gathered
        (program("r:f32[24@Y] = reshard a", "a:f32[24@X]"), "X=2, Y=3", {"X": "OPEN", "Y": "OPEN"}),
        (
            program("r:f32[8@Y] = reshard a", "a:f32[8@(Y,Z)]"),
            "X=2, Y=2, Z=2",
            {"X": "FREE", "Y": "FREE", "Z": "COMMUNICATES"},
        ),
        (TOP, "X=2, Y=4", {"X": "OPEN", "Y": "FREE"}),
        # measured, seed 909092727448: rows are gathered, and a batch of matrices is not
        (SOLVED.format("8@X,3", "3,3"), "X=2, Y=4", {"X": "OPEN", "Y": "FREE"}),
        (SOLVED.format("4@X,8,3", "4@X,3,3"), "X=2, Y=4", {"X": "FREE", "Y": "FREE"}),
        # measured, seed 161803485582: rows of updates are gathered, if neither the array nor the places are cut
        (SCATTERED.format("4,8", "4,1", "4@X"), "X=2, Y=4", {"X": "OPEN", "Y": "FREE"}),
        (SCATTERED.format("4,8", "4@X,1", "4@X"), "X=2, Y=4", {"X": "FREE", "Y": "FREE"}),
        (SCATTERED.format("4@X,8", "4,1", "4@X"), "X=2, Y=4", {"X": "FREE", "Y": "FREE"}),
        # measured: a convolution in groups gathers its batch, and its gradient adds up along the idle axis
        (GROUPS.replace("GROUPS", "1").replace("EACH", "4"), "X=2, Y=4", {"X": "FREE", "Y": "FREE"}),
        (GROUPS.replace("GROUPS", "2").replace("EACH", "2"), "X=2, Y=4", {"X": "OPEN", "Y": "OPEN"}),
        (GROUPS.replace("GROUPS", "2").replace("EACH", "2").replace("8@X", "8"), "X=2", {"X": "FREE"}),
        # measured, seed 299792899633: what a while loop closes over is made whole where it is pending
        (CLOSED_OVER.replace("STATE", "U:X"), "X=2, Y=2", {"X": "OPEN", "Y": "FREE"}),
        (CLOSED_OVER.replace("STATE", "R:X"), "X=2, Y=2", {"X": "FREE", "Y": "FREE"}),
        # measured, seed 11000100 of agree --communication: a permute and an all-reduce over the idle axis
        (RENUMBERED, "X=2, Y=2", {"X": "OPEN", "Y": "OPEN"}),
        (RENUMBERED, "X=4, Y=2", {"X": "OPEN", "Y": "OPEN"}),
        (RENUMBERED, "X=3, Y=2", {"X": "FREE", "Y": "COMMUNICATES"}),
        (program("r:f32[8] = reshard a", "a:f32[8@X]"), "X=2, Z=1", {"X": "COMMUNICATES"}),
        # seed 777003331047: an axis of one device stands in no move's way; what is cut becomes pieces of a sum, free
        (program("r:f32[8]{U:Z} = reshard a", "a:f32[8@(X,Z)]"), "X=1, Z=2", {"Z": "FREE"}),
        (program("r:f32[8]{U:Z} = reshard a", "a:f32[8@(Z,X)]"), "X=1, Z=2", {"Z": "FREE"}),
        # seed 20261060786: what a loop begins with is computed, though its body does not read it
        (BEGUN, "X=2", {"X": "COMMUNICATES"}),
        (program("r:f32[8] = neg a", "a:f32[8]"), "X=2, Y=2:auto", {"X": "FREE", "Y": "OPEN"}),
    ],
)
def test_what_is_guaranteed_of_each_axis(text: str, mesh: str, expected: dict[str, str]) -> None:
    assert asked(text, mesh) == expected


BRANCHES = """{ lambda ; i:i32[] a:f32[8@X]. let
    r:f32[8] = cond[
      branches=(
        { lambda ; b:f32[8@X]. let c:f32[8] = reshard b in (c,) }
        { lambda ; d:f32[8@X]. let e:f32[8] = broadcast_in_dim 0.0:f32[] in (e,) }
      )
    ] INDEX a
  in (r,) }"""


@pytest.mark.parametrize(
    ("index", "expected"), [("i", "COMMUNICATES"), ("0:i32[]", "COMMUNICATES"), ("1:i32[]", "FREE")]
)
def test_a_branch_that_is_never_taken_moves_nothing(index: str, expected: str) -> None:
    assert asked(BRANCHES.replace("INDEX", index), "X=2") == {"X": expected}


def test_a_choice_by_a_constant_that_is_computed_is_left_open() -> None:
    """A number that is clamped, as a switch clamps it, is known."""
    for made, expected in (("add 0:i32[] 1:i32[]", "OPEN"), ("clamp 0:i32[] 1:i32[] 1:i32[]", "FREE")):
        text = BRANCHES.replace("r:f32[8] = cond", f"j:i32[] = {made}\n    r:f32[8] = cond")
        assert asked(text.replace("INDEX", "j"), "X=2") == {"X": expected}


NEVER_READ = """{ lambda ; a:f32[8@X]. let
    b:f32[8] = reshard a
    r:f32[8] = shard_map[
      in_specs=(P(None),)
      jaxpr={ lambda ; d:f32[8]. let
          i:i32[] = clamp 0:i32[] INDEX 1:i32[]
          e:f32[8] = cond[
            branches=(
              { lambda ; f:f32[8]. let g:f32[8] = neg f in (g,) }
              { lambda ; h:f32[8]. let j:f32[8] = broadcast_in_dim 0.0:f32[] in (j,) }
            )
          ] i d
        in (e,) }
      out_specs=(P(None),)
      mesh=AbstractMesh('X': 2, axis_types=(Explicit,))
      newly_manual_axes=frozenset({'X'})
      check_vma=True
    ] b
  in (r,) }"""
NEVER_RUN = """{ lambda ; a:f32[8@X]. let
    b:f32[8] = reshard a
    c:f32[8] = broadcast_in_dim 0.0:f32[]
    r:f32[8] = scan[
      length=LENGTH reverse=False unroll=1 num_consts=1 num_carry=1
      jaxpr={ lambda ; d:f32[8] e:f32[8]. let f:f32[8] = add d e in (f,) }
    ] b c
  in (r,) }"""
WHILE = """{ lambda ; a:f32[8@X]. let
    b:f32[8] = reshard a
    c:f32[8] = broadcast_in_dim 0.0:f32[]
    k:bool[] r:f32[8] = while[
      cond_nconsts=0
      cond_jaxpr={ lambda ; g:bool[] h:f32[8]. let  in (RUNS,) }
      body_nconsts=1
      body_jaxpr={ lambda ; d:f32[8] g:bool[] e:f32[8]. let f:f32[8] = add d e in (g, f) }
    ] b BEGUN:bool[] c
  in (r,) }"""


def gathered(body: str, more: str = "") -> str:
    return program(f"b:f32[8] = reshard a\n    {body}", f"a:f32[8@X]{more}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # measured, seed 577216732037: what only a branch that is never taken reads is computed for a shard_map
        (NEVER_READ.replace("INDEX", "1:i32[]"), "OPEN"),
        (NEVER_READ.replace("INDEX", "0:i32[]"), "COMMUNICATES"),
        (NEVER_RUN.replace("LENGTH", "0"), "OPEN"),
        (NEVER_RUN.replace("LENGTH", "1"), "COMMUNICATES"),
        (WHILE.replace("RUNS", "False:bool[]").replace("BEGUN", "True"), "OPEN"),
        (WHILE.replace("RUNS", "g").replace("BEGUN", "False"), "OPEN"),
        (WHILE.replace("RUNS", "g").replace("BEGUN", "True"), "COMMUNICATES"),
        # XLA selects by a number before it partitions, and by an array that is computed it does not
        (gathered("r:f32[8] = select_n True:bool[] b c", " c:f32[8]"), "OPEN"),
        (gathered("r:f32[8] = select_n p b c", " c:f32[8] p:bool[8]"), "COMMUNICATES"),
        # whichever of two copies of a value is selected, what selects is not needed (seed 667432002294)
        (gathered("r:f32[8] = select_n p b b", " p:bool[8]"), "COMMUNICATES"),
        (gathered("p:bool[8] = gt b 0.0:f32[]\n    r:f32[8] = select_n p c c", " c:f32[8]"), "OPEN"),
        (gathered("p:bool[8] = gt b 0.0:f32[]\n    r:f32[8] = select_n p c d", " c:f32[8] d:f32[8]"), "COMMUNICATES"),
        # an array without elements is none; one that is put over all of another leaves nothing of it
        (gathered("r:f32[0] = slice[start_indices=(2,) limit_indices=(2,) strides=None] b"), "OPEN"),
        (gathered("r:f32[8] = dynamic_update_slice b c 0:i32[]", " c:f32[8]"), "OPEN"),
        (gathered("r:f32[8] = dynamic_update_slice b c 0:i32[]", " c:f32[7]"), "COMMUNICATES"),
        (gathered("r:f32[8] = integer_pow[y=0] b"), "OPEN"),
        (gathered("r:f32[8] = integer_pow[y=2] b"), "COMMUNICATES"),
        # a whole number less itself; of others there may be none that is a number. By zero it multiplies
        (gathered("r:f32[8] = sub b b").replace("f32", "i32"), "OPEN"),
        (gathered("r:f32[8] = sub b b"), "COMMUNICATES"),
        (gathered("r:i32[8] = mul b 0:i32[]").replace("f32", "i32"), "COMMUNICATES"),
    ],
)
def test_what_constants_decide_is_left_open(text: str, expected: str) -> None:
    """A compiler may see it before it partitions, or it may not."""
    assert asked(text, "X=2") == {"X": expected}


@pytest.mark.parametrize(("name", "seed", "many"), [("{}", 0, 10), ("{}.jaxpr", -1, 20)])
def test_a_run_is_clean_only_if_nothing_is_wrong_and_little_is_open(name: str, seed: int, many: int) -> None:
    """Of what is drawn a tenth may be open, of texts a twentieth, of functions all."""

    def of(*outcomes: str, name: str = name, seed: int = seed) -> Communication:
        axes = [[Seen("X", "", (), outcome)] for outcome in outcomes]
        programs = [Asked(name.format(at), seed, axes=each) for at, each in enumerate(axes)]
        return Communication(0, len(programs), programs=programs)

    assert of(*[AGREED] * 2 * (many - 1), OPEN, OPEN).clean
    assert not of(*[AGREED] * 2 * (many - 1), OPEN, OPEN, OPEN).clean
    assert of(OPEN, OPEN, name="train:step", seed=-1).clean
    assert not of(*[AGREED] * 99, ACCEPTED).clean
    assert not of(*[AGREED] * 99, REFUSED).clean
    assert any(line.startswith("  WRONG  1") for line in lines(of(AGREED, REFUSED)))
    assert any("at most" in line and "WRONG" in line for line in lines(of(OPEN, OPEN)))


def test_a_folder_holds_texts_on_the_meshes_of_its_index_and_factories(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"step": {"mesh": {"X": 2, "Y": 4}}, "other": {"mesh": null}}')
    for name in ("step.jaxpr", "other.jaxpr", "notes.md"):
        (tmp_path / name).write_text("")
    (tmp_path / "train.py").write_text(
        "def step() -> tuple[Callable[..., Any], Any]: ...\ndef loss(w) -> tuple[Callable[..., Any], Any]: ...\n"
        "def arguments() -> tuple[int, int]: ...\n"
    )
    found = [(Path(name).name, mesh) for name, mesh in programs_in(str(tmp_path))]
    assert found == [("other.jaxpr", ""), ("step.jaxpr", "X=2,Y=4"), ("train.py:step", "")]
    assert len([*programs_in("examples")]) > 30


def test_a_function_is_compared_on_as_many_devices_as_there_are() -> None:
    from verifier.with_jax.communicating import few

    for given, expected in (("X=4096", "X=8"), ("X=512, Y=8", "X=2, Y=4"), ("X=2, Y=3", "X=2, Y=3"), ("X=9", "X=3")):
        assert str(few(parse_meshes(given)[0])) == expected


def test_drawn_programs_and_an_example_agree_with_xla() -> None:
    """Both ways round: an axis along which XLA moves something, and one along which it moves nothing."""
    from verifier.with_jax.communicating import Communicating

    doing = Communicating()
    found = [doing.asked(seed) for seed in (*range(3_000_100, 3_000_105), 11_000_100)]
    found.append(doing.named("examples.loss:loss_and_arguments", ""))
    every = [axis for one in found for axis in one.axes]
    assert sum(not one.left_out for one in found) >= 5
    assert {axis.outcome for axis in every} <= {AGREED, OPEN}
    assert {bool(axis.moved) for axis in every} == {True, False}
    assert agreement.MOST_OPEN == {agreement.DRAWN: 0.1, agreement.TEXTS: 0.05}


def test_what_cannot_be_compared_is_said() -> None:
    from verifier.with_jax.communicating import Communicating

    assert "no file" in Communicating().named("nowhere.py:nobody", "").left_out


def test_what_was_named_has_to_be_compared() -> None:
    """Of a folder, something; what is drawn, or goes with it unnamed, may be left out."""
    programs = [Asked("a"), Asked("b", left_out="why"), Asked("c", seed=1, left_out="why")]
    assert Communication(0, 3, programs=programs).clean
    assert Communication(0, 3, programs=programs, wanted={"a": ["a"], "folder": ["a", "b"]}).clean
    missed = Communication(0, 3, programs=programs, wanted={"a": ["a"], "b": ["b"], "empty": []})
    assert not missed.clean
    assert [line for line in lines(missed) if "NOT COMPARED" in line] == ["  NOT COMPARED  b", "  NOT COMPARED  empty"]
