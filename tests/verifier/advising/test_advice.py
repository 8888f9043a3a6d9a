"""Advice: what it finds, that its programs cost what it says, and that nothing is cheaper."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from calculus.checking import Checker
from calculus.naming import tidy
from calculus.programs import NO_PARAMETERS, Equation, Program
from calculus.refusals import Refused
from calculus.types import ArrayType, Type
from grammar.leaves import type_of
from grammar.meshes import parse_meshes
from grammar.print import print_document
from grammar.read import read
from verifier.advising.advice import Advice, advise, further, priced
from verifier.advising.choices import choices
from verifier.advising.equality import NotRun, Original
from verifier.advising.microbatches import repeated
from verifier.advising.resizing import resized
from verifier.advising.solving import Unsolved

Types: TypeAlias = "dict[str, Type | None]"
CORPUS = Path(__file__).parents[2] / "golden" / "corpus"


def text(name: str) -> Program:
    return read((CORPUS / f"{name}.jaxpr").read_text()).program


@pytest.fixture(scope="module")
def microbatches() -> Advice:
    return advise(text("seed_microbatch_replicated"), parse_meshes("X=2"))


def test_the_replicated_microbatch_step_gets_reduced_weights(microbatches: Advice) -> None:
    """Seeds A31, A34, A35: 15 all-reduces of 64 bytes become one of 3*64, as JAX's page writes it by hand."""
    assert (microbatches.before.runs, microbatches.before.payload) == (15, 960)
    assert (microbatches.after.runs, microbatches.after.payload) == (1, 192)
    ((axes, made),) = microbatches.steps
    assert axes == ("X",)
    assert made.inputs == {"a": type_of("f32[3,4,4]{R:X}")}
    begun = [cast for cast in made.casts if cast.carried]
    assert [(cast.name, str(cast.target)) for cast in begun] == [("c", "f32[3,4,4]{U:X}")]
    assert made.asked == []  # the gradients follow


def test_what_is_proposed_says_what_the_page_says(microbatches: Advice) -> None:
    """The types of the proposed program are those of the page's own, `seed_microbatch`, name by name of a kind."""
    ours = {str(type) for type in every_type(read(print_document(microbatches.document)).program)}
    page = {str(type) for type in every_type(text("seed_microbatch"))}
    assert page <= ours | {"f32[4,4]{U:X}"}
    assert "f32[4,4]{U:X}" in ours


def test_a_price_is_that_of_the_checker(microbatches: Advice) -> None:
    again = read(print_document(microbatches.document)).program
    assert priced(again, parse_meshes("X=2")).wire == microbatches.after.wire == microbatches.expected[0]


def every_type(program: Program) -> Iterator[Type | None]:
    yield from program.input_types
    for equation in program.equations:
        yield from equation.types
        for _, value in equation.parameters.items_in_order:
            if isinstance(value, Program):
                yield from every_type(value)


FEW = {
    "two products added, an output": """
        { lambda ; a:f32[8@X,4] b:f32[8@X,3] c:f32[8@X,3]. let
            d:f32[4,3] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a b
            e:f32[4,3] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a c
            f:f32[4,3] = add d e
          in (f,) }""",
    "a product of which a cosine is taken": """
        { lambda ; a:f32[8@X,3] b:f32[8@X,3]. let
            d:f32[3,3] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a b
            e:f32[3,3] = cos d
            f:f32[3,3] = add d e
          in (f,) }""",
}
LOSSES = {
    "a weight used twice": """
        { lambda ; a:f32[8@X,4] b:f32[4,4]. let
            c:f32[8@X,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] a b
            d:f32[8@X,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] c b
          in (d,) }""",
    "a weight that is scaled first": """
        { lambda ; a:f32[8@X,4] b:f32[4,4]. let
            c:f32[4,4] = mul 2.0:f32[] b
            d:f32[8@X,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] a c
            e:f32[8@X,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] d c
          in (e,) }""",
}


def assignments(program: Program, axis: str) -> Iterator[Program]:
    """Every program that makes each value in one of the types it may have, and uses each in one of those: written anew,
    without the network, the cells or the rewriting of the advice."""
    mesh = parse_meshes("X=2")[0]
    own: Types = {}
    own.update(zip(program.inputs, program.input_types, strict=True))
    uses: list[tuple[int, int]] = []
    for at, equation in enumerate(program.equations):
        own.update(zip(equation.binders, equation.types, strict=True))
        uses += [(at, index) for index, atom in enumerate(equation.inputs) if isinstance(atom, str)]
    made = [name for equation in program.equations for name in equation.binders]
    may = {name: choices(type, (axis,), mesh, True) for name, type in own.items()}
    names = [program.equations[at].inputs[index] for at, index in uses]
    for types in itertools.product(*(may[name] for name in made)):
        now = own | dict(zip(made, types, strict=True))
        for used in itertools.product(*(may[name] for name in names)):  # type: ignore[index]
            yield _written(program, now, own, dict(zip(uses, used, strict=True)))


def _written(program: Program, now: Types, own: Types, used: dict[tuple[int, int], Type | None]) -> Program:
    equations: list[Equation] = []
    cast: dict[tuple[str, Type | None], str] = {}

    def at(name: str, type: Type | None) -> str:
        if now[name] is type:
            return name
        if (name, type) not in cast:
            cast[name, type] = f"{name}{len(cast)}"
            equations.append(Equation("reshard", NO_PARAMETERS, (name,), (cast[name, type],), (type,)))
        return cast[name, type]

    for number, one in enumerate(program.equations):
        inputs = tuple(
            at(atom, used[number, index]) if isinstance(atom, str) else atom for index, atom in enumerate(one.inputs)
        )
        types = tuple(now[name] for name in one.binders)
        equations.append(Equation(one.primitive, one.parameters, inputs, one.binders, types))
    outputs = tuple(at(atom, own[atom]) for atom in program.outputs if isinstance(atom, str))
    return Program((), (), program.inputs, program.input_types, tuple(equations), outputs)


@pytest.mark.parametrize("name", [*FEW, *LOSSES])
def test_nothing_is_cheaper(name: str) -> None:
    """Of all assignments of a small program, none that is well typed costs less than what is proposed."""
    program = read((FEW | LOSSES)[name]).program
    meshes = parse_meshes("X=2")
    wrt = (1,) if name in LOSSES else ()
    found = advise(program, meshes, wrt)
    best = found.before.wire
    checker = Checker(meshes)
    for one in assignments(program, "X"):
        checker.check(one)
        refused = bool(checker.refusals)
        checker.refusals.clear()
        if not refused:
            with contextlib.suppress(Refused):
                best = min(best, priced(one, meshes, wrt).wire)
    assert found.after.wire == best


def test_a_cast_that_saves_nothing_is_not_advised() -> None:
    """Seed A27: with one use, the communication is the same with and without the cast."""
    program = read("""{ lambda ; a:f32[8@X,4] b:f32[4,4]. let
        c:f32[8@X,4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] a b
      in (c,) }""").program
    found = advise(program, parse_meshes("X=2"), (1,))
    assert not found.better
    assert found.changed is found.program


def test_eight_layers_of_a_transformer_take_seconds() -> None:
    """Data parallel, four microbatches: gradients of weights, norms and the embedding are whole once, not in each. The
    corpus's program has 8 layers one after the other."""
    program = text("llama_dp_fwd_unroll8")
    wrt = [at for at, type in enumerate(program.input_types) if "data" not in str(type)]
    started = time.process_time()
    found = advise(repeated(program, 4, wrt), parse_meshes("data=4,model=2"), wrt, ["data"])
    assert time.process_time() - started < 30
    assert found.proved
    assert found.before.runs == 4 * found.after.runs
    assert found.before.wire == pytest.approx(4 * found.after.wire)
    assert all(not one.inside for one in found.after.charges)


def test_a_solver_without_time_takes_nothing_back(microbatches: Advice, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found before it gave up is proposed, and it is said that there may be more."""

    def gives_up(*arguments: object) -> None:
        raise Unsolved("Time limit reached")

    monkeypatch.setattr("verifier.advising.solving.Model.solved", gives_up)
    found = further(microbatches, advise(microbatches.changed, parse_meshes("X=2")))
    assert (found.after.runs, found.better, found.proved) == (1, True, False)


def test_what_is_cut_along_two_axes_is_reduced_along_both() -> None:
    """A batch over both, four microbatches: reduced along one, the sum over the other would be made in each of them."""
    program = read("""{ lambda ; a:f32[16@(X,Y),4] b:f32[4,4]. let
        c:f32[16@(X,Y),4] = dot_general[dimension_numbers=(([1], [0]), ([], []))] a b
        d:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] c
      in (d,) }""").program
    meshes = parse_meshes("X=4, Y=2")
    whole = repeated(program, 4, (1,))
    found = advise(whole, meshes, (1,))
    assert [axes for axes, _ in found.steps] == [("X", "Y")]
    assert found.steps[0][1].inputs == {"b": type_of("f32[4,4]{R:(X,Y)}")}
    assert (found.before.runs, found.after.runs) == (8, 5)
    assert advise(whole, meshes, (1,), ["X"]).after.runs > 5
    original = Original(whole, meshes, (1,), ["X", "Y"], microbatches=4)
    assert original.difference(found.changed) == ""
    other = repeated(read(str(print_document(tidy(program))).replace("reduce_sum", "reduce_max")).program, 4, (1,))
    assert original.difference(other)


def test_tensor_parallel_layers_reduce_what_several_weights_give_once() -> None:
    """Two layers of a Llama: activations that go into several column-parallel weights are used as reduced, so their
    cotangents are added before they are summed. Of 21 all-reduces the 3 of queries, keys and values become 1, and the 2
    of the gate and the way up 1, in each layer: 6 fewer."""
    program = text("llama_tp_fwd_unroll2")
    wrt = [at for at, type in enumerate(program.input_types) if isinstance(type, ArrayType) and type.dtype == "f32"]
    found = advise(program, parse_meshes("data=4,model=2"), wrt, ["model"])
    over = [
        [one for one in price.charges if one.collective.axes == ("model",)] for price in (found.before, found.after)
    ]
    assert len(over[0]) - len(over[1]) == 6
    assert found.proved


def test_what_is_gathered_is_gathered_as_reduced() -> None:
    """A step with fully sharded weights, and its gradient in it: each of the 16 weights is gathered by a reshard, as
    replicated, so that its gradient is summed whole, and then sliced. Gathered as reduced, it is scattered: half."""
    found = advise(text("llama_fsdp_grad_unroll2"), parse_meshes("data=4,model=2"), (), ["data"], plain=True)
    ((_, made),) = found.steps
    assert [(one.equation.primitive, one.after.reduced) for one in made.asked] == [("reshard", ("data",))] * 16  # type: ignore[union-attr]
    kinds = Counter(one.collective.kind for one in found.after.charges)
    assert kinds["reduce-scatter"] == kinds["all-gather"] == 16
    gathered = sum(
        float(one.collective.wire or 0) for one in found.after.charges if one.collective.kind == "all-gather"
    )
    assert found.before.wire - found.after.wire == gathered  # an all-reduce is a reduce-scatter and a gather


def test_another_program_is_not_equal() -> None:
    """The check of a proposal can fail: of another function, and of another gradient alone."""
    program = read(LOSSES["a weight that is scaled first"]).program
    other = read(LOSSES["a weight that is scaled first"].replace("2.0", "3.0")).program
    original = Original(program, parse_meshes("X=4"), (1,), ["X"])
    assert original.difference(program) == ""
    assert "whole" in original.difference(other)
    large = read("{ lambda ; a:f32[2048,1024]. let b:f32[2048,1024] = neg a in (b,) }").program
    with pytest.raises(NotRun, match="too large"):
        Original(large, parse_meshes("X=2"), (), ["X"]).difference(large)


def test_a_program_on_a_mesh_of_other_sizes_says_so_everywhere() -> None:
    """What a parameter prints of the mesh, in bodies too."""
    program = text("llama_dp_fwd_unroll2")
    small = resized(program, {"data": 2, "model": 1})
    printed = print_document(tidy(small))
    assert "Mesh('data': 2, 'model': 1" in printed
    assert "'data': 4" not in printed


def test_branches_leave_their_sums_to_be_finished_once() -> None:
    """Each branch multiplies over the cut dim, and so does what is added afterwards: an all-reduce in the branch that
    runs and one after it become one of both."""
    program = read("""{ lambda ; a:f32[8@X,3] b:f32[8@X,3] c:i32[]. let
        d:f32[3,3] = cond[
          branches=(
            { lambda ; e:f32[8@X,3] f:f32[8@X,3]. let
                g:f32[3,3] = dot_general[dimension_numbers=(([0], [0]), ([], []))] e f
              in (g,) }
            { lambda ; h:f32[8@X,3] i:f32[8@X,3]. let
                j:f32[3,3] = dot_general[dimension_numbers=(([0], [0]), ([], []))] i h
                k:f32[3,3] = neg j
              in (k,) }
          )
        ] c a b
        l:f32[3,3] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a a
        m:f32[3,3] = add d l
      in (m,) }""").program
    found = advise(program, parse_meshes("X=2"))
    assert (found.before.runs, found.after.runs) == (3, 1)
    assert Original(program, parse_meshes("X=2"), (), ["X"]).difference(found.changed) == ""
