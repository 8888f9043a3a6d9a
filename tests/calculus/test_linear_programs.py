"""Linearization and transposition as programs of their own: what is linear, what is not and where, and what is left of
the forward program."""

from __future__ import annotations

import pytest

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.equivalence import difference
from calculus.gradients import vjp
from calculus.linear_programs import linearization, transposed
from calculus.naming import tidy
from calculus.programs import Document, Program, bodies
from calculus.pruning import pruned
from calculus.refusals import Refused
from grammar.meshes import parse_meshes
from grammar.print import print_document
from grammar.read import read
from tests.calculus.test_gradients import FANOUT, LOSS, LOSS2
from verifier.texts import check_text

MESH = parse_meshes("X=2")


def bench_of(program: Program) -> Workbench:
    checker = Checker(MESH)
    checker.check(program)
    assert not checker.refusals, [refusal.message for refusal, _ in checker.refusals]
    return Workbench(checker)


def transpose(text: str, *linear: int) -> str:
    """The text of the transpose, which is well typed."""
    program = read(text).program
    return well_typed(transposed(program, bench_of(program), linear))


def well_typed(program: Program) -> str:
    text = print_document(tidy(program))
    report = check_text(text, MESH, "it")
    assert report.verdict == "ok", [refusal.message for refusal in report.refusals]
    return text


def same(text: str, expected: str) -> None:
    assert difference(read(text).program, read(expected).program) == ""


def body(equations: str, inputs: str = "a:f32[4]", outputs: str = "b,") -> str:
    return f"{{ lambda ; {inputs}. let {equations} in ({outputs}) }}"


SCAN = "scan[ft_in={} ft_out={} jaxpr={} length=3 linear={} reverse={} unroll=1]"
COUNTER = SCAN.format(
    "((), (None, None), ())",
    "((None, None), ())",
    "{ lambda ; x:f32[4] i:i32[]. let j:i32[] = add i 1:i32[]; k:f32[] = "
    "convert_element_type[new_dtype=float32 weak_type=False] i; l:f32[] = sin k; y:f32[4] = mul x l in (y, j) }",
    "(False, False)",
    "False",
)
SQUARES = SCAN.format(
    "((), (None,), ())", "((None,), ())", "{ lambda ; x:f32[4]. let y:f32[4] = mul x x in (y,) }", "(False,)", "False"
)
BRANCHES = (
    "cond[branches=( { lambda ; x:f32[4] y:f32[4]. let z:f32[4] = sin y; w:f32[4] = mul x z in (w,) } "
    "{ lambda ; x:f32[4] y:f32[4]. let w:f32[4] = mul x 2.0:f32[] in (w,) } )]"
)


@pytest.mark.parametrize(
    ("text", "linear", "expected"),
    [
        (body("b:f32[4] = mul a 2.0:f32[]"), [0], body("b:f32[4] = mul a 2.0:f32[]")),
        (body("b:f32[4] = add a 0.0:f32[]"), [0], body("", outputs="a,")),
        (body("c:f32[4] = sin d; b:f32[4] = mul a c", "a:f32[4] d:f32[4]"), [0],
         body("c:f32[4] = sin d; b:f32[4] = mul a c", "d:f32[4] a:f32[4]")),
        (body("b:f32[8@X] = reshard a", "a:f32[8]{R:X}"), [0], body("b:f32[8]{U:X} = reshard a", "a:f32[8@X]")),
        (body("b:f32[2,4] = broadcast_in_dim[broadcast_dimensions=(1,)] a"), [0],
         body("b:f32[4] = reduce_sum[axes=(0,) out_sharding=None] a", "a:f32[2,4]")),
        (body(f"b:f32[4] = {BRANCHES} i a c", "a:f32[4] c:f32[4] i:i32[]"), [0],
         "{ lambda ; c:f32[4] i:i32[] a:f32[4]. let s:f32[4] = cond[branches=("
         " { lambda ; y:f32[4]. let z:f32[4] = sin y in (z,) }"
         " { lambda ; y:f32[4]. let z:f32[4] = broadcast_in_dim 0.0:f32[] in (z,) } )] i c;"
         " b:f32[4] = cond[branches=( { lambda ; z:f32[4] x:f32[4]. let w:f32[4] = mul x z in (w,) }"
         " { lambda ; z:f32[4] x:f32[4]. let w:f32[4] = mul x 2.0:f32[] in (w,) } )] i s a in (b,) }"),
    ],
    ids=["a factor", "zero is added", "what is known is computed", "a free cast", "a broadcast", "branches"],
)  # fmt: skip
def test_a_linear_program_is_transposed(text: str, linear: list[int], expected: str) -> None:
    same(transpose(text, *linear), expected)


def test_what_a_loop_counts_is_computed_without_what_it_carries_linearly() -> None:
    """The factors sin i are stacked by a loop that carries the counter alone; backward they are taken last to first."""
    printed = read(transpose(body(f"b:f32[4] _:i32[] = {COUNTER} a 0:i32[]"), 0)).program
    before, after = printed.equations
    assert [str(type) for type in before.types] == ["i32[]", "f32[3]"]
    assert [str(type) for type in after.types] == ["f32[4]"]
    assert [bool(one.parameters["reverse"]) for one in printed.equations] == [False, True]


@pytest.mark.parametrize(
    ("text", "linear", "at"),
    [
        (body("b:f32[4] = sin a"), [0], "sin"),
        (body("b:f32[4] = mul a a"), [0], "mul"),
        (body("b:f32[4] = mul a c", "a:f32[4] c:f32[4]"), [0, 1], "mul"),
        (body("b:f32[4] = add a 1.0:f32[]"), [0], "add"),
        (body("b:f32[4] = add a c", "a:f32[4] c:f32[4]"), [0], "add"),
        (body("b:f32[4] = floor a"), [0], "floor"),
        (body("b:f32[4] = stop_gradient a"), [0], "stop_gradient"),
        (body("c:f32[4] = stop_gradient a; b:f32[4] = sub a c"), [0], "stop_gradient"),
        (body("c:f32[4] = floor a; d:f32[4] = mul c a; b:f32[4] = add d a"), [0], "mul"),
        (body("c:bool[4] = gt a 0.0:f32[]; b:f32[4] = select_n c d a", "a:f32[4] d:f32[4]"), [0, 1], "select_n"),
        (body("b:f32[4] = pad[padding_config=((1, 1, 0),)] a 1.0:f32[]", "a:f32[2]"), [0], "pad"),
        (body("c:i32[4] = convert_element_type[new_dtype=int32 weak_type=False] a;"
              "b:f32[4] = convert_element_type[new_dtype=float32 weak_type=False] c"), [0], "convert_element_type"),
        (body(f"b:f32[4] = {SQUARES} a"), [0], "mul"),
        (body("b:f32[4] = jit[name=f jaxpr={ lambda ; x:f32[4]. let y:f32[4] = exp x in (y,) }] a"), [0], "exp"),
        (body(f"b:f32[4] = {BRANCHES} i a c", "a:f32[4] c:f32[4] i:i32[]"), [1], "sin"),
    ],
)  # fmt: skip
def test_what_is_not_linear_is_named(text: str, linear: list[int], at: str) -> None:
    """Each has a derivative, and most of those are constant; the function is not linear all the same."""
    with pytest.raises(Refused) as raised:
        transpose(text, *linear)
    refusal = raised.value.refusal
    assert (refusal.code, refusal.message.split()[-1], refusal.line) == ("not-linear", at, 1)


def test_a_result_that_does_not_depend_on_the_input_is_no_linear_one() -> None:
    with pytest.raises(Refused) as raised:
        transpose(body("b:f32[4] = mul a c", "a:f32[4] c:f32[4]", "b, c"), 0)
    refusal = raised.value.refusal
    assert (refusal.code, refusal.place.part, refusal.place.index) == ("not-linear", "output", 1)


@pytest.mark.parametrize(
    ("text", "linear"),
    [
        (body("c:f32[8@X,2] = dot_general[dimension_numbers=(([1], [0]), ([], [])) preferred_element_type=float32] d a;"
              "b:f32[2,8@X] = transpose[permutation=(1, 0)] c", "d:f32[8@X,4] a:f32[4,2]{R:X}"), [1]),
        (body("c:f32[4] = rev[dimensions=(0,)] a; b:f32[4] = mul c d", "a:f32[4] d:f32[4]"), [0]),
        (body("b:f32[] = reduce_sum[axes=(0,) out_sharding=None] a"), [0]),
        (body("b:f32[8] = reshard a", "a:f32[8@X]"), [0]),
    ],
    ids=["a contraction", "turned round", "a sum", "a gather"],
)  # fmt: skip
def test_transposing_twice_gives_the_program_back(text: str, linear: list[int]) -> None:
    once = transpose(text, *linear)
    same(transpose(once, len(read(once).program.inputs) - 1), print_document(reordered(text, linear)))


def reordered(text: str, linear: list[int]) -> Document:
    """The program with its linear inputs last, as a transpose has them."""
    document = read(text)
    program = document.program
    order = [*(one for one in range(len(program.inputs)) if one not in linear), *linear]
    names = tuple(program.inputs[one] for one in order)
    types = tuple(program.input_types[one] for one in order)
    document.program = Program((), (), names, types, program.equations, program.outputs)
    return document


@pytest.mark.parametrize("text", [LOSS, LOSS2, FANOUT])
def test_the_two_halves_make_the_vjp(text: str) -> None:
    """Forward with residuals, then the linear program transposed, is what `vjp` gives in one."""
    program = read(text).program
    bench = bench_of(program)
    wrt = range(len(program.inputs))
    found = linearization(program, bench, wrt)
    for part in (found.whole, found.forward, found.linear):
        well_typed(part)
    count = len(found.linear.inputs)
    back = read(transpose(well_typed(found.linear), *range(found.residuals, count))).program
    forward, whole = read(well_typed(found.forward)).program, read(well_typed(vjp(program, bench, wrt))).program
    results = len(forward.outputs) - found.residuals
    seeds = back.inputs[found.residuals :]
    names = {name: f"z{name}" for name in [*back.inputs, *(one for eq in back.equations for one in eq.binders)]}
    names.update(zip(back.inputs[: found.residuals], forward.outputs[results:], strict=True))  # type: ignore[arg-type]
    for one in back.equations:
        one.inputs = tuple(names.get(atom, atom) if isinstance(atom, str) else atom for atom in one.inputs)
        one.binders = tuple(names[binder] for binder in one.binders)
    glued = Program(
        (), (), (*forward.inputs, *(names[one] for one in seeds)),
        (*forward.input_types, *back.input_types[found.residuals :]), (*forward.equations, *back.equations),
        (*forward.outputs[:results], *(names[one] if isinstance(one, str) else one for one in back.outputs)),
    )  # fmt: skip
    assert difference(glued, whole) == ""


def test_the_tangents_are_in_the_order_that_is_asked_for() -> None:
    program = read(body("b:f32[4] = dot_general[dimension_numbers=(([1], [0]), ([], [])) "
                        "preferred_element_type=float32] d a", "d:f32[4,2] a:f32[2]")).program  # fmt: skip
    bench = bench_of(program)
    for wrt, shapes in (((0, 1), ["f32[4,2]", "f32[2]"]), ((1, 0), ["f32[2]", "f32[4,2]"])):
        found = linearization(program, bench, wrt)
        assert [str(type) for type in found.linear.input_types[found.residuals :]] == shapes
        assert [str(type) for type in found.whole.input_types[2:]] == shapes


def test_pruning_goes_into_bodies() -> None:
    """Of a loop that carries x and counts, only the counter is needed for its count; of the call around it too."""
    text = body(
        f"b:f32[4] c:i32[] = jit[name=f jaxpr={{ lambda ; x:f32[4] i:i32[]. let "
        f"y:f32[4] j:i32[] = {COUNTER} x i in (y, j) }}] a 0:i32[]", outputs="b, c",
    )  # fmt: skip
    program = read(text).program
    left, inputs = pruned(bench_of(program), program, [False, True])
    assert (inputs, len(left.outputs)) == ((False,), 1)
    (call,) = left.equations
    assert [str(atom) for atom in call.inputs] == ["0:i32[]"]
    ((_, called),) = bodies(call.parameters)
    ((_, looped),) = bodies(called.equations[0].parameters)
    assert [one.primitive for one in looped.equations] == ["add"]
    well_typed(left)


def test_a_body_that_writes_a_cell_is_kept_whole() -> None:
    """What is read from a cell is what was written to it, though the statement that writes has no result."""
    text = body(
        "b:f32[4] c:f32[4] = jit[name=f jaxpr={ lambda ; x:f32[4]. let r:Ref{f32[4]} = new_ref[memory_space=None] x;"
        " r[:] <- 2.0:f32[]; y:f32[4] <- r[:]; z:f32[4] = sin x in (y, z) }] a", outputs="b, c",
    )  # fmt: skip
    program = read(text).program
    left, _ = pruned(Workbench(Checker(MESH)), program, [True, False])
    ((_, called),) = bodies(left.equations[0].parameters)
    assert [one.primitive for one in called.equations] == ["new_ref", "swap", "get", "sin"]
    assert len(called.outputs) == 1


def test_a_barrier_is_the_identity() -> None:
    """It takes zero to zero, and is its own transpose."""
    same(
        transpose(body("c:f32[4] = optimization_barrier a; b:f32[4] = neg c"), 0),
        body("c:f32[4] = neg a; b:f32[4] = optimization_barrier c"),
    )


def test_a_residual_that_is_zero_is_made_where_it_is_used() -> None:
    """Else the linear half, by itself, would not be seen to be linear: a choice between a tangent and what is saved."""
    program = read(body("c:bool[4] = gt d 0.0:f32[]; z:f32[4] = broadcast_in_dim 0.0:f32[];"
                        "b:f32[4] = select_n c z a", "a:f32[4] d:f32[4]")).program  # fmt: skip
    found = linearization(program, bench_of(program), [0])
    assert [str(type) for type in found.linear.input_types] == ["bool[4]", "f32[4]"]
    well_typed(found.whole)
    transpose(well_typed(found.linear), 1)
