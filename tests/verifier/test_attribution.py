"""Whose communication it is, in programs small enough to follow with a finger."""

from __future__ import annotations

import time

import pytest

from calculus.checking import Checker
from calculus.programs import Equation, bodies
from grammar.meshes import parse_meshes
from grammar.read import read
from verifier.attribution import Attribution, Origin
from verifier.examine import Examined, examine


def examined(text: str, mesh: str = "X=2") -> tuple[Examined, Attribution]:
    program = read(text).program
    found = examine(program, Checker(parse_meshes(mesh)))
    assert found.refusals == []
    return found, Attribution(found.checked, program)


def origins(text: str) -> list[int | None]:
    found, attribution = examined(text)
    return [attribution.origin(charge) for charge in found.charges]


def destinations(text: str) -> list[set[int]]:
    found, attribution = examined(text)
    return [set(attribution.destinations(charge)) for charge in found.charges]


def test_a_gather_moves_the_input_that_was_cast_and_turned() -> None:
    text = """{ lambda ; a:f32[4] b:f32[8@X,4]. let
        c:bf16[8@X,4] = convert_element_type[new_dtype=bfloat16 weak_type=False] b
        d:bf16[4,8@X] = transpose[permutation=(1, 0)] c
        e:bf16[4,8] = reshard d
      in (e, a) }"""
    assert origins(text) == [1]


def test_what_was_computed_with_is_nobodys() -> None:
    text = """{ lambda ; a:f32[8@X]. let
        b:f32[8@X] = mul a 2.0:f32[]
        c:f32[8] = reshard b
      in (c,) }"""
    assert origins(text) == [None]


CALLS = """{ lambda ; a:f32[3,8@X] b:f32[8@X]. let
    d:f32[3,8] = scan[
      _split_transpose=False
      ft_in=((None,), (), (None,))
      ft_out=((), (None,))
      jaxpr={ lambda ; e:f32[8@X] f:f32[8@X]. let
          g:f32[8] = jit[
            jaxpr={ lambda ; h:f32[8@X]. let i:f32[8] = reshard h in (i,) }
            name=gathered
          ] f
          j:f32[8] = reshard e
          k:f32[8] = add g j
        in (k,) }
      length=3
      linear=(False, False)
      reverse=False
      unroll=1
    ] b a
  in (d,) }"""


def test_through_a_loop_and_a_call_in_it() -> None:
    """The slice of the scanned `a` is gathered inside the call, the constant `b` in the loop."""
    assert origins(CALLS) == [0, 1]


INSIDE = "{ lambda ; e:f32[4] f:f32[4]. let g:f32[4] ="
SUM = """{{ lambda ; a:f32[8@X,4] b:f32[4]. let
    c:f32[4] = reduce_sum[axes=(0,) out_sharding=None] a
    {}
  }}"""


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("in (b, c)", {1}),
        ("d:f32[4] = sub b c\n in (d, c)", {0, 1}),
        ("d:f32[4,1] = reshape[dimensions=None new_sizes=(4, 1) sharding=None] c\n in (d,)", {0}),
        ("d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c\n in (d, b)", set()),
        (
            "d:f32[] = dot_general[dimension_numbers=(([0], [0]), ([], [])) out_sharding=None "
            "preferred_element_type=float32] c b\n in (d,)",
            set(),
        ),
        (f"d:f32[4] = jit[jaxpr={INSIDE} mul f e in (g,) }} name=up] b c\n in (d,)", {0}),
        (f"d:f32[4] = jit[jaxpr={INSIDE} exp e in (g,) }} name=up] b c\n in (d, c)", {1}),
    ],
    ids=["itself", "two ways", "another shape", "reduced", "contracted", "through a call", "past a call"],
)  # fmt: skip
def test_a_sum_belongs_to_the_outputs_that_it_becomes(rest: str, expected: set[int]) -> None:
    assert destinations(SUM.format(rest)) == [expected]


def equations(text: str, primitive: str) -> tuple[Attribution, Equation]:
    """The one equation of this primitive, in any body."""
    found, attribution = examined(text)
    assert found.checked is not None
    waiting = [found.checked.program]
    hits: list[Equation] = []
    while waiting:
        program = waiting.pop()
        for equation in program.equations:
            hits += [equation] if equation.primitive == primitive else []
            waiting += [inner for _, inner in bodies(equation.parameters)]
    (hit,) = hits
    return attribution, hit


def test_operands_in_a_loop() -> None:
    """`f` is a slice of the input 0, so made from it; the constant `e` is the input 1 itself."""
    text = CALLS.replace("j:f32[8] = reshard e", "m:f32[8@X] = sub f e\n          j:f32[8] = reshard m")
    attribution, equation = equations(text, "sub")
    assert attribution.of_operand(equation, 0) == Origin(0, moved=True)
    assert attribution.of_operand(equation, 1) == Origin(1, moved=False)


def test_operands_that_are_made_and_numbers() -> None:
    text = """{ lambda ; a:f32[8]. let
        b:f32[8] = exp a
        c:f32[8] = copy b
        d:f32[8] = mul c 2.0:f32[]
      in (d,) }"""
    attribution, equation = equations(text, "mul")
    made = attribution.of_operand(equation, 0)
    assert (made.input, made.moved) == (None, True)
    assert made.maker is not None
    assert made.maker.primitive == "exp"
    number = attribution.of_operand(equation, 1)
    assert number.literal is not None
    assert number.literal.text == "2.0"


def test_a_loop_until_is_not_looked_through() -> None:
    """Its condition and its body count constants apart, so a place in the one says nothing about the other."""
    text = """{ lambda ; a:f32[8] b:i32[]. let
        c:i32[] d:f32[8] = while[
          body_jaxpr={ lambda ; e:i32[] f:f32[8]. let
              g:i32[] = add e 1:i32[]
              h:f32[8] = mul f f
            in (g, h) }
          body_nconsts=0
          cond_jaxpr={ lambda ; i:i32[] j:f32[8]. let k:bool[] = lt i 3:i32[] in (k,) }
          cond_nconsts=0
        ] b a
      in (d,) }"""
    attribution, equation = equations(text, "mul")
    assert attribution.of_operand(equation, 0).input is None


def test_time_is_bounded_where_a_stream_runs_through_everything() -> None:
    """Sums, each added to the rest: four times as many take no more than about four times as long."""

    def seconds(count: int) -> float:
        lines = ["{ lambda ; a:f32[8@X,4] x0:f32[4]. let"]
        for number in range(count):
            lines.append(f"  s{number}:f32[4] = reduce_sum[axes=(0,) out_sharding=None] a")
            lines.append(f"  x{number + 1}:f32[4] = add x{number} s{number}")
        text = "\n".join([*lines, f"in (x{count},) }}"])
        found, attribution = examined(text)
        assert len(found.charges) == count
        start = time.process_time()
        for charge in found.charges:
            attribution.destinations(charge)
            attribution.origin(charge)
        return time.process_time() - start

    seconds(10)
    # four times where it is linear, sixteen where it is not
    assert any(seconds(2000) < 10 * max(seconds(500), 0.05) for _ in range(3))
