"""Gradients of the seed page: from the forward program, the backward program that JAX printed."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import pytest

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.cotangents import cotangent
from calculus.equivalence import difference
from calculus.gradients import gradient, vjp
from calculus.linearization import differentiable
from calculus.naming import tidy
from calculus.pieces import Piece, Unmade
from calculus.programs import Program, body
from calculus.refusals import Refused
from calculus.types import ArrayType
from grammar.meshes import parse_meshes
from grammar.print import print_document
from grammar.read import read
from verifier.execution.run import run
from verifier.report import Row
from verifier.texts import check_text

GOLDEN = Path(__file__).parents[1] / "golden" / "corpus"


def forward(text: str, mesh: str) -> tuple[Program, Checker]:
    """A well-typed program, and a checker on its mesh."""
    program, checker = read(text).program, Checker(parse_meshes(mesh))
    checker.check(program)
    assert not checker.refusals
    return program, checker


def grad(text: str, wrt: tuple[int, ...] = (0,), mesh: str = "X=2") -> str:
    """The text of the gradient. It reads back, and it is well typed."""
    program, checker = forward(text, mesh)
    found = print_document(tidy(gradient(program, Workbench(checker), wrt)))
    report = check_text(found, parse_meshes(mesh), "the gradient")
    assert report.verdict == "ok", [refusal.message for refusal in report.refusals]
    return found


def communication(text: str, mesh: str = "X=2") -> list[tuple[object, ...]]:
    """What a program communicates, whatever the order: kind, axes, bytes, how often."""
    found: list[Row] = check_text(text, parse_meshes(mesh), "the program").communication
    return sorted((row.kind, row.axes, row.bytes, row.times) for row in found)


_DOT = "dimension_numbers=(([1], [0]), ([], [])) preferred_element_type=float32"

LOSS = f"""{{ lambda ; a:f32[4,2] b:f32[8@X,4]. let
    c:f32[8@X,2] = dot_general[{_DOT}] b a
    d:f32[8@X,2] = integer_pow[y=2] c
    e:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] d
  in (e,) }}"""

LOSS2 = f"""{{ lambda ; a:f32[4,2] b:f32[8@X,4]. let
    c:f32[4,2]{{R:X}} = reshard a
    d:f32[8@X,2] = dot_general[{_DOT}] b c
    e:f32[8@X,2] = integer_pow[y=2] d
    f:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] e
  in (f,) }}"""

FANOUT = f"""{{ lambda ; a:f32[4,2] b:f32[8@X,4] c:f32[8@X,4]. let
    d:f32[4,2]{{R:X}} = reshard a
    e:f32[8@X,2] = dot_general[{_DOT}] b d
    f:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] e
    g:f32[8@X,2] = dot_general[{_DOT}] c d
    h:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] g
    i:f32[] = add f h
  in (i,) }}"""

MATMUL = f"""{{ lambda ; a:f32[2,2@X] b:f32[2@X,2]. let
    c:f32[2,2]{{U:X}} = shard_map[
      check_vma=True
      in_specs=(P(None, 'X'), P('X', None))
      jaxpr={{ lambda ; d:f32[2,1]{{V:X}} e:f32[1,2]{{V:X}}. let
          f:f32[2,2]{{V:X}} = dot_general[{_DOT}] d e
          g:f32[2,2]{{U:X}} = vary_unreduced_cast[axes=('X',)] f
        in (g,) }}
      mesh=AbstractMesh('X': 2, axis_types=(Explicit,), device_kind=cpu, num_cores=None, platform=cpu)
      newly_manual_axes=frozenset({{'X'}})
      out_specs=(P(None, None, unreduced={{'X'}}, unreduced_kind=sum),)
    ] a b
    h:f32[2,2] = reshard c
    i:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] h
  in (i,) }}"""

REDUCED = f"""{{ lambda ; a:f32[4,2]{{R:X}} b:f32[8@X,4]. let
    c:f32[8@X,2] = shard_map[
      check_vma=True
      in_specs=(P('X', None), P(None, None, reduced={{'X'}}))
      jaxpr={{ lambda ; e:f32[4,4]{{V:X}} f:f32[4,2]{{R:X}}. let
          g:f32[4,2]{{V:X}} = reduced_vary_cast[axes=('X',)] f
          h:f32[4,2]{{V:X}} = dot_general[{_DOT}] e g
          i:f32[4,2]{{V:X}} = tanh h
        in (i,) }}
      mesh=AbstractMesh('X': 2, axis_types=(Explicit,), device_kind=cpu, num_cores=None, platform=cpu)
      newly_manual_axes=frozenset({{'X'}})
      out_specs=(P('X', None),)
    ] b a
    k:f32[8@X,2] = integer_pow[y=2] c
    l:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] k
  in (l,) }}"""


def layers(state: str) -> str:
    """The loss of one microbatch, through a scan over layers."""
    return f"""{{ lambda ; f:f32[3,4,4]{state} h:f32[2@X,4]. let
      i:f32[2@X,4] = scan[
        ft_in=((), (None,), (None,))
        ft_out=((None,), ())
        jaxpr={{ lambda ; l:f32[2@X,4] m:f32[4,4]{state}. let
            n:f32[2@X,4] = dot_general[{_DOT}] l m
            o:f32[2@X,4] = tanh n
          in (o,) }}
        length=3
        reverse=False
        unroll=1
      ] h f
      q:f32[2@X,4] = integer_pow[y=2] i
      s:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] q
    in (s,) }}"""


@pytest.mark.parametrize(
    ("name", "text", "wrt"),
    [
        ("seed_loss_grad", LOSS, (0,)),
        ("seed_argnums01", LOSS, (0, 1)),
        ("seed_loss2_grad", LOSS2, (0,)),
        ("seed_fanout_grad", FANOUT, (0,)),
        ("seed_shardmap_matmul_grad", MATMUL, (0, 1)),
        ("seed_shardmap_reduced", REDUCED, (0,)),
    ],
)
def test_the_seeds_gradients(name: str, text: str, wrt: tuple[int, ...]) -> None:
    printed = (GOLDEN / f"{name}.jaxpr").read_text(encoding="utf-8")
    found = grad(text, wrt)
    assert difference(read(found).program, read(printed).program) == ""
    assert communication(found) == communication(printed)


@pytest.mark.parametrize(("name", "state"), [("seed_microbatch", "{R:X}"), ("seed_microbatch_replicated", "")])
def test_the_gradient_of_a_microbatch(name: str, state: str) -> None:
    """JAX printed it inside the loop over microbatches, added to the sum so far."""
    step = read((GOLDEN / f"{name}.jaxpr").read_text(encoding="utf-8")).program
    (loop,) = (equation for equation in step.equations if equation.primitive == "scan")
    inner = body(loop.parameters["jaxpr"])
    assert inner is not None
    added = inner.equations[-1]
    weights, _, batch = range(3)
    inputs = tuple(inner.inputs[one] for one in (weights, batch))
    types = tuple(inner.input_types[one] for one in (weights, batch))
    theirs = Program((), (), inputs, types, inner.equations[:-1], added.inputs[1:])
    ours = grad(layers(state))
    assert difference(read(ours).program, theirs) == ""
    inside = [("all-reduce", ("X",), 64, 3)] if not state else []
    assert communication(ours) == inside


def test_every_cotangent_matches_its_primal() -> None:
    """Statement A8, on the loss of the page: the backward equations' types, and the values that they belong to."""
    found = read(grad(LOSS, (0, 1))).program
    types = {binder: type for one in found.equations for binder, type in zip(one.binders, one.types, strict=True)}
    given = dict(zip(found.inputs, found.input_types, strict=True))
    for gradient_of, name in zip(found.outputs, found.inputs, strict=True):
        primal = given[name]
        assert primal is not None
        assert isinstance(gradient_of, str)
        assert types[gradient_of] is cotangent(primal)


def test_zeros_have_the_type_of_the_cotangent() -> None:
    """Statement A12: nothing comes to `b`, and its gradient is zeros at its type."""
    found = read(grad("{ lambda ; a:f32[8@X] b:f32[4@X]. let c:f32[] = reduce_sum[axes=(0,)] a in (c,) }", (0, 1)))
    assert [str(type) for type in _types(found.program)] == ["f32[8@X]", "f32[4@X]"]


def _types(program: Program) -> list[ArrayType]:
    types = {binder: type for one in program.equations for binder, type in zip(one.binders, one.types, strict=True)}
    return [type for atom in program.outputs if isinstance(type := types[str(atom)], ArrayType)]


def test_the_vjp_takes_a_cotangent_for_each_result() -> None:
    """The results come first; a pending result takes a reduced cotangent."""
    text = "{ lambda ; a:f32[8]{R:X} b:f32[8]{U:X}. let c:f32[8]{U:X} = mul a b in (c,) }"
    program, checker = forward(text, "X=2")
    found = read(print_document(tidy(vjp(program, Workbench(checker), (0, 1))))).program
    assert [str(type) for type in found.input_types] == ["f32[8]{R:X}", "f32[8]{U:X}", "f32[8]{R:X}"]
    assert [str(type) for type in _types(found)] == ["f32[8]{U:X}", "f32[8]{U:X}", "f32[8]{R:X}"]


@pytest.mark.parametrize(
    ("text", "wrt", "code", "says"),
    [
        ("{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }", 0, "shape", "results are f32[8]"),
        ("{ lambda ; a:i32[]. let b:i32[] = neg a in (b,) }", 0, "no-cotangent", "input 0 is i32[]"),
        (
            "{ lambda ; a:f32[8@X]. let b:f32[]{U_max:X} = reduce_max[axes=(0,) "
            "out_sharding=P(unreduced={'X'}, unreduced_kind=max)] a; c:f32[] = reshard b in (c,) }",
            0,
            "no-cotangent",
            "kind max",
        ),
        (
            "{ lambda ; a:f32[4]. let b:f32[4] = igamma_grad_a a a; c:f32[] = reduce_sum[axes=(0,)] b in (c,) }",
            0,
            "unmodelled-construct",
            "the derivative of igamma_grad_a is not written",
        ),
    ],
)
def test_what_has_no_gradient_is_refused(text: str, wrt: int, code: str, says: str) -> None:
    program, checker = forward(text, "X=2")
    with pytest.raises(Refused) as caught:
        gradient(program, Workbench(checker), (wrt,))
    assert (caught.value.refusal.code, says in caught.value.refusal.message) == (code, True)


class Forgetful(dict[Hashable, Piece | Unmade]):
    """A memory that keeps nothing."""

    def __setitem__(self, key: Hashable, piece: Piece | Unmade) -> None:
        pass


@pytest.mark.parametrize("name", ["llama_fsdp_fwd_unroll2", "llama_tp_fwd_unroll2", "llama_fsdp_fwd_scan8"])
def test_what_is_remembered_changes_nothing(name: str) -> None:
    """Deriving each equation anew gives the same program."""
    text = (GOLDEN / f"{name}.jaxpr").read_text(encoding="utf-8")
    program, checker = forward(text, "data=4, model=2")
    wrt = [index for index, type in enumerate(program.input_types) if type is not None and differentiable(type)]
    remembering, forgetful = Workbench(checker), Workbench(checker)
    forgetful.pieces = Forgetful()
    found, expected = (vjp(program, bench, wrt) for bench in (remembering, forgetful))
    assert not forgetful.pieces
    if "unroll" in name:
        assert len(remembering.pieces) < len(found.equations) / 3
    assert difference(found, expected) == ""


def test_an_operand_that_stands_twice() -> None:
    """What is remembered of a product of two values is right for the square of one. By hand."""
    found = grad("{ lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b; d:f32[] = mul c c in (d,) }", (0, 1), "X=1")
    expected = """{ lambda ; a:f32[] b:f32[]. let
        c:f32[] = mul a b
        _:f32[] = mul c c
        d:f32[] = reshard 1.0:f32[]
        e:f32[] = mul d c
        f:f32[] = mul c d
        g:f32[] = add_any e f
        h:f32[] = mul g b
        i:f32[] = mul a g
      in (h, i) }"""
    assert difference(read(found).program, read(expected).program) == ""


def test_a_complex_result_has_no_gradient() -> None:
    """`jax.grad` asks for a real result too, unless it is told that the function is holomorphic."""
    program, checker = forward("{ lambda ; a:c64[]. let b:c64[] = mul a a in (b,) }", "X=2")
    with pytest.raises(Refused, match="c64"):
        gradient(program, Workbench(checker), (0,))


DOUBLED = """{ lambda ; a:f32[]. let
    b:f32[] _:f32[] = scan[
      ft_in=((), (None, None), ())
      ft_out=((None, None), ())
      jaxpr={ lambda ; c:f32[] d:f32[]. let
          e:f32[] = mul c 2.0:f32[]
          _:i32[] f:f32[] = while[
            body_jaxpr={ lambda ; g:i32[] h:f32[]. let i:i32[] = add g 1:i32[]
                j:f32[] = sin h in (i, j) }
            body_nconsts=0
            cond_jaxpr={ lambda ; k:i32[] l:f32[]. let m:bool[] = lt k 2:i32[] in (m,) }
            cond_nconsts=0
          ] 0:i32[] d
        in (e, RESULT) }
      length=3
      reverse=False
      unroll=1
    ] a a
  in (b,) }"""


def test_a_while_loop_that_no_result_needs_is_in_nobodys_way_back() -> None:
    """Three times doubled: eight, whatever goes on beside it. Where a result needs it, it has no way back."""
    (mesh,) = parse_meshes("X=2")
    made = read(grad(DOUBLED.replace("RESULT", "f"))).program
    assert [float(one.value) for one in run(made, [mesh]).results] == [8.0]
    program, checker = forward(DOUBLED.replace("(e, RESULT)", "(f, e)"), "X=2")
    with pytest.raises(Refused, match="while loop, in reverse"):
        gradient(program, Workbench(checker), (0,))


def test_a_target_says_nothing_of_what_is_manual() -> None:
    """A broadcast of what is pending along one manual axis and reduced along another: its cotangent is reduced along
    the one and pending along the other, and so is the sum that goes back, whose target can name neither."""
    text = """{ lambda ; a:f32[8,8@X]{U:Y}. let
        d:f32[16,4,4]{R:X} = shard_map[
          check_vma=True
          in_specs=(P(None, 'X', unreduced={'Y'}),)
          jaxpr={ lambda ; g:f32[8,4]{V:X, U:Y}. let
              h:f32[16,4]{U:Y, R:X} = all_gather_reduced[
                all_gather_dimension=0 axis_name=('X',) axis_size=2 tiled=True
              ] g
              i:f32[16,4,4]{U:Y, R:X} = broadcast_in_dim[
                broadcast_dimensions=(0, 2) shape=(16, 4, 4) sharding=None
              ] h
              j:f32[16,4,4]{R:X} = unreduced_psum[axes=('Y',)] i
            in (j,) }
          mesh=AbstractMesh('X': 2, 'Y': 2, axis_types=(Explicit, Explicit))
          newly_manual_axes=frozenset({'X', 'Y'})
          out_specs=(P(None, None, None, reduced={'X'}),)
        ] a
      in (d,) }"""
    program, checker = forward(text, "X=2,Y=2")
    found = tidy(vjp(program, Workbench(checker), (0,)))
    report = check_text(print_document(found), parse_meshes("X=2,Y=2"), "the gradient")
    assert report.verdict == "ok", [refusal.message for refusal in report.refusals]
    assert "h:f32[8,8@X]{R:Y} = shard_map" in print_document(found)
    assert run(found.program, parse_meshes("X=2,Y=2"), 0).equal


@pytest.mark.parametrize("primitive", ["add", "sub", "mul", "div", "max", "pow", "atan2"])
@pytest.mark.parametrize("stretched", ["f32[]", "f32[1,4]", "f32[8@X,1]"])
@pytest.mark.parametrize("first", [True, False])
def test_a_gradient_at_what_is_stretched_alone(primitive: str, stretched: str, first: bool) -> None:
    """One operand has fewer elements than the other, and is all that is differentiated."""
    given = "a b" if first else "b a"
    text = f"""{{ lambda ; a:{stretched} b:f32[8@X,4]. let
        c:f32[8@X,4] = {primitive} {given}
        d:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] c
      in (d,) }}"""
    program, checker = forward(text, "X=2")
    found = tidy(gradient(program, Workbench(checker), (0,)))
    report = check_text(print_document(found), parse_meshes("X=2"), "the gradient")
    assert report.verdict == "ok", [refusal.message for refusal in report.refusals]
    assert found.program.equations[-1].types == (program.input_types[0],)
    assert run(found.program, parse_meshes("X=2"), 0).equal


HANDED_ON = """{ lambda ; a:f32[] b:f32[]. let
    c:f32[] = mul a 3.0:f32[]
    _:i32[] d:f32[] _:f32[] = while[
      body_jaxpr={ lambda ; e:i32[] f:f32[] g:f32[]. let h:i32[] = add e 1:i32[]
          i:f32[] = convert_element_type[new_dtype=float32 sharding=None weak_type=False] f
          j:f32[] = sin g in (h, i, j) }
      body_nconsts=0
      cond_jaxpr={ lambda ; k:i32[] l:f32[] m:f32[]. let n:bool[] = lt k 2:i32[] in (n,) }
      cond_nconsts=0
    ] 0:i32[] c b
  in (d,) }"""


def test_what_a_while_loop_hands_on_has_a_way_back() -> None:
    """What comes out is what went in, three times `a`, whatever the loop does to `b`. JAX takes it out of the loop."""
    (mesh,) = parse_meshes("X=2")
    made = read(grad(HANDED_ON, (0, 1))).program
    assert [float(one.value) for one in run(made, [mesh]).results] == [3.0, 0.0]
    program, checker = forward(HANDED_ON.replace("(h, i, j)", "(h, j, i)"), "X=2")
    with pytest.raises(Refused, match="while loop, in reverse"):
        gradient(program, Workbench(checker), (0,))
