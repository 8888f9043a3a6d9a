"""What is the same program, and what is not: each change that counts is seen, each that does not is passed over."""

from __future__ import annotations

import pytest

from calculus.equivalence import difference, equivalent
from calculus.programs import Program
from grammar.read import read

_DOT = "preferred_element_type=float32"

BASE = f"""{{ lambda ; a:f32[4,2] b:f32[8@X,4]. let
    c:f32[8@X,2] = dot_general[dimension_numbers=(([1], [0]), ([], [])) {_DOT}] b a
    d:f32[8@X,2] = sin c
    e:f32[8@X,2] = mul d 2.0:f32[]
    f:f32[8@X,2] = add_any e d
    g:f32[8@X,2] = add_any f c
  in (g,) }}"""

ALIKE = {
    "names and order": f"""{{ lambda ; x:f32[4,2] y:f32[8@X,4]. let
        q:f32[8@X,2] = dot_general[dimension_numbers=(([1], [0]), ([], [])) {_DOT}] y x
        r:f32[8@X,2] = sin q
        s:f32[8@X,2] = mul r 2.0:f32[]
        t:f32[8@X,2] = add_any s r
        u:f32[8@X,2] = add_any t q
      in (u,) }}""",
    "dead code": BASE.replace("    d:f32[8@X,2] = sin c", "    z:f32[8@X,2] = cos c\n    d:f32[8@X,2] = sin c"),
    "the order of summands": BASE.replace("f:f32[8@X,2] = add_any e d", "f:f32[8@X,2] = add_any c d").replace(
        "add_any f c", "add_any e f"
    ),
    "the order of factors": BASE.replace("mul d 2.0:f32[]", "mul 2.0:f32[] d"),
    "a transpose after the contraction": f"""{{ lambda ; a:f32[4,2] b:f32[8@X,4]. let
        z:f32[2,8@X] = dot_general[dimension_numbers=(([0], [1]), ([], [])) {_DOT}] a b
        c:f32[8@X,2] = transpose[permutation=(1, 0)] z
        d:f32[8@X,2] = sin c
        e:f32[8@X,2] = mul d 2.0:f32[]
        f:f32[8@X,2] = add_any e d
        g:f32[8@X,2] = add_any f c
      in (g,) }}""",
    "a transpose before the contraction": BASE.replace(
        f"dot_general[dimension_numbers=(([1], [0]), ([], [])) {_DOT}] b a",
        f"dot_general[dimension_numbers=(([1], [1]), ([], [])) {_DOT}] b z",
    ).replace("    c:f32", "    z:f32[2,4] = transpose[permutation=(1, 0)] a\n    c:f32"),
    "a reshard to where it is": BASE.replace("sin c", "sin z").replace(
        "    d:f32", "    z:f32[8@X,2] = reshard c\n    d:f32"
    ),
    "a call": BASE.replace("sin c", "jit[name=f jaxpr={ lambda ; m:f32[8@X,2]. let n:f32[8@X,2] = sin m in (n,) }] c"),
}

UNLIKE = {
    "a primitive": BASE.replace("sin c", "cos c"),
    "a number": BASE.replace("2.0:f32[]", "3.0:f32[]"),
    "a summand": BASE.replace("add_any f c", "add_any f d"),
    "one summand less": BASE.replace("add_any e d", "mul e 1.0:f32[]"),
    "which dims are contracted": BASE.replace("a:f32[4,2]", "a:f32[2,4]").replace(
        "([1], [0])", "([1], [1])"
    ),
    "a placement": BASE.replace("sin c", "sin z").replace("    d:f32", "    z:f32[8,2] = reshard c\n    d:f32"),
    "an operand": BASE.replace("mul d 2.0:f32[]", "mul d c"),
    "a result": BASE.replace("in (g,)", "in (f,)"),
    "the results": BASE.replace("in (g,)", "in (g, g)"),
}  # fmt: skip


def program(text: str) -> Program:
    return read(text).program


@pytest.mark.parametrize("what", ALIKE)
def test_what_does_not_count(what: str) -> None:
    assert difference(program(BASE), program(ALIKE[what])) == ""


@pytest.mark.parametrize("what", UNLIKE)
def test_what_counts(what: str) -> None:
    assert UNLIKE[what] != BASE
    assert not equivalent(program(BASE), program(UNLIKE[what]))


def scan(update: str = "mul c w", output: str = "c", start: str = "a", reverse: str = "False") -> str:
    """A loop over `b` with a constant and two carries."""
    return f"""{{ lambda ; a:f32[4] b:f32[3,4] k:f32[4]. let
      z:f32[4] = sin k
      p:f32[4] q:f32[4] r:f32[3,4] = scan[
        ft_in=((None,), (None, None), (None,)) ft_out=((None, None), (None,)) length=3 reverse={reverse} unroll=1
        jaxpr={{ lambda ; w:f32[4] c:f32[4] d:f32[4] x:f32[4]. let
            e:f32[4] = {update}
            f:f32[4] = add d x
            g:f32[4] = mul f {output}
          in (e, f, g) }}
      ] z {start} a b
    in (p, r) }}"""


def test_a_loop_is_known_by_what_it_computes() -> None:
    base = program(scan())
    within = (
        scan()
        .replace(" z a a b", " k a a b")
        .replace("= mul c w", "= mul c v")
        .replace("            e:f32[4]", "            v:f32[4] = sin w\n            e:f32[4]")
    )
    swapped = """{ lambda ; a:f32[4] b:f32[3,4] k:f32[4]. let
      z:f32[4] = sin k
      q:f32[4] p:f32[4] r:f32[3,4] = scan[
        ft_in=((None,), (None, None), (None,)) ft_out=((None, None), (None,)) length=3 reverse=False unroll=1
        jaxpr={ lambda ; w:f32[4] d:f32[4] c:f32[4] x:f32[4]. let
            e:f32[4] = mul c w
            f:f32[4] = add d x
            g:f32[4] = mul f c
          in (f, e, g) }
      ] z a a b
    in (p, r) }"""
    assert difference(base, program(within)) == ""  # what the loop does not change may be computed in it
    start = scan(start="k"), swapped.replace(" z a a b", " z a k b")
    assert difference(program(start[0]), program(start[1])) == ""  # the order of carries


def test_carries_that_start_alike_are_told_apart_by_how_they_go_on() -> None:
    assert not equivalent(program(scan()), program(scan(output="d")))
    assert not equivalent(program(scan()), program(scan().replace("in (p, r)", "in (q, r)")))
    other_way = (
        scan()
        .replace("c:f32[4] d:f32[4] x", "d:f32[4] c:f32[4] x")
        .replace("in (e, f, g)", "in (f, e, g)")
        .replace("p:f32[4] q", "q:f32[4] p")
    )
    assert difference(program(scan()), program(other_way)) == ""
    idle = scan().replace("f:f32[4] = add d x", "f:f32[4] = sin d").replace("mul f c", "mul x c")
    assert difference(program(idle), program(idle.replace("sin d", "cos d"))) == ""  # a carry that nothing uses


def number(first: str, operand: str, ending: str = "f32[2,2]{R:X}") -> str:
    return f"""{{ lambda ; a:f32[2,2]{{R:X}} b:f32[2,2]{{U:X}}. let
        {first}
        d:{ending} = mul a {operand}
      in (d,) }}"""


def test_where_a_number_stands_does_not_count() -> None:
    plain = program(number("", "2.0:f32[]"))
    for first in (
        "c:f32[]{R:X} = reshard 2.0:f32[]", "c:f32[2,2]{R:X} = broadcast_in_dim 2.0:f32[]",
        "z:f32[1]{R:X} = broadcast_in_dim 2.0:f32[]\n        c:f32[]{R:X} = squeeze[dimensions=(0,)] z",
    ):  # fmt: skip
        assert difference(plain, program(number(first, "c"))) == ""
    for first in ("c:f32[]{R:X} = reshard 3.0:f32[]", "c:f32[]{R:X} = sin 2.0:f32[]", "c:f16[] = reshard 2.0:f16[]"):
        assert difference(plain, program(number(first, "c"))) != ""


def test_a_number_that_pends_is_another() -> None:
    pending = (number(first, "c", "f32[2,2]{U:X}") for first in (
        "c:f32[]{U:X} = reshard 2.0:f32[]", "c:f32[]{U:X} = broadcast_in_dim[shape=()] 2.0:f32[]"
    ))  # fmt: skip
    for text in pending:
        assert not equivalent(program(text), program(number("", "2.0:f32[]", "f32[2,2]{U:X}")))


@pytest.mark.parametrize("change", [{"update": "add c w"}, {"output": "d"}, {"start": "k"}, {"reverse": "True"}])
def test_a_change_to_a_loop_is_seen(change: dict[str, str]) -> None:
    assert not equivalent(program(scan()), program(scan(**change)))


def paired(first: str, second: str, loop: str = "scan") -> str:
    """A loop with two carries that start alike, and what an iteration makes of each."""
    body = f"{{ lambda ; c:f32[4] d:f32[4]. let e:f32[4] = {first}; f:f32[4] = {second} in (e, f) }}"
    if loop == "scan":
        rows = f"ft_in=((), (None, None), ()) ft_out=((None, None), ()) jaxpr={body} length=3 reverse=False"
    else:
        test = (
            "{ lambda ; c:f32[4] d:f32[4]. let e:f32[] = reduce_sum[axes=(0,)] c; f:bool[] = lt e 9.0:f32[] in (f,) }"
        )
        rows = f"body_jaxpr={body} body_nconsts=0 cond_jaxpr={test} cond_nconsts=0"
    return f"{{ lambda ; a:f32[4]. let b:f32[4] g:f32[4] = {loop}[{rows}] a a in (b, g) }}"


@pytest.mark.parametrize("loop", ["scan", "while"])
def test_carries_that_start_alike_are_told_apart(loop: str) -> None:
    """b is 2ⁿ·a and g is 3ⁿ·a: to double each time what is tripled is something else."""
    base = program(paired("mul 2.0:f32[] c", "mul 3.0:f32[] d", loop))
    assert equivalent(base, program(paired("mul c 2.0:f32[]", "mul d 3.0:f32[]", loop)))
    assert not equivalent(base, program(paired("mul 2.0:f32[] c", "mul 3.0:f32[] c", loop)))
    assert not equivalent(base, program(paired("mul 2.0:f32[] d", "mul 3.0:f32[] d", loop)))
    assert not equivalent(base, program(paired("mul 3.0:f32[] c", "mul 2.0:f32[] d", loop)))


def test_a_carry_that_nothing_uses_does_not_stand_for_another() -> None:
    def text(factor: str) -> Program:
        body = (
            "{ lambda ; c:f32[4] d:f32[4]. let e:f32[4] = mul 2.0:f32[] c; "
            f"f:f32[4] = mul {factor}:f32[] d; h:f32[4] = sin d in (e, f, h) }}"
        )
        rows = f"ft_in=((), (None, None), ()) ft_out=((None, None), (None,)) jaxpr={body} length=3 reverse=False"
        return program(f"{{ lambda ; a:f32[4]. let _:f32[4] _:f32[4] b:f32[3,4] = scan[{rows}] a a in (b,) }}")

    assert equivalent(text("3.0"), text("3.0"))
    assert not equivalent(text("3.0"), text("5.0"))


def test_what_ends_a_loop_is_part_of_what_it_computes() -> None:
    base = paired("mul 2.0:f32[] c", "mul 3.0:f32[] d", "while")
    assert not equivalent(program(base), program(base.replace("lt e 9.0", "lt e 8.0")))
    assert not equivalent(program(base), program(base.replace("[axes=(0,)] c", "[axes=(0,)] d")))


def test_barriers_and_idle_roundings_are_passed_over() -> None:
    def text(step: str) -> Program:
        return program(f"{{ lambda ; a:f32[4] b:f32[4]. let {step}; e:f32[4] = sub c d in (e,) }}")

    base = text("c:f32[4] = sin a; d:f32[4] = cos b")
    assert equivalent(base, text("x:f32[4] y:f32[4] = optimization_barrier a b; c:f32[4] = sin x; d:f32[4] = cos y"))
    assert not equivalent(
        base, text("x:f32[4] y:f32[4] = optimization_barrier a b; c:f32[4] = sin y; d:f32[4] = cos x")
    )
    rounded = "x:f32[4] = reduce_precision[exponent_bits=8 mantissa_bits={}] a; c:f32[4] = sin x; d:f32[4] = cos b"
    assert equivalent(base, text(rounded.format(23)))
    assert not equivalent(base, text(rounded.format(7)))


def test_a_reshape_that_turns_dims_is_another() -> None:
    def text(order: str) -> Program:
        return program(
            f"{{ lambda ; a:f32[2,3]. let b:f32[6] = reshape[dimensions={order} new_sizes=(6,) sharding=None] a;"
            " c:f32[3,2] = reshape[dimensions=None new_sizes=(3, 2) sharding=None] b in (c,) }"
        )

    once = program(
        "{ lambda ; a:f32[2,3]. let c:f32[3,2] = reshape[dimensions=None new_sizes=(3, 2) sharding=None] a in (c,) }"
    )
    assert equivalent(text("None"), once)
    assert not equivalent(text("(1, 0)"), once)
