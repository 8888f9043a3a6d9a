"""Which values of a program are one, and each way into a body with its own."""

from __future__ import annotations

import pytest

from calculus.checking import Checker
from calculus.effects import charges
from calculus.meshes import Axis, Mesh
from grammar.read import read
from verifier.compiled.derived import Said, said
from verifier.compiled.matching import matched
from verifier.compiled.reading import Moved
from verifier.compiled.values import Values

MESH = Mesh((Axis("X", 2),))

CALLS = """
let f = { lambda ; a:f32[8@X]. let
    b:f32[8] = reshard a
    c:f32[] = reduce_sum[axes=(0,) out_sharding=None] a
  in (b, c) } in
{ lambda ; a:f32[8@X] b:f32[8@X]. let
    c:f32[8@X] = sin a
    d:f32[8] e:f32[] = jit[name=f jaxpr=f] c
    g:f32[8] h:f32[] = jit[name=f jaxpr=f] b
    i:f32[8@X] = sin a
    j:f32[8] k:f32[] = jit[name=f jaxpr=f] i
    l:f32[8@X] = cos a
    m:f32[8] n:f32[] = jit[name=f jaxpr=f] l
  in (d, e, g, h, j, k, m, n) }
"""

LOOP = """
{ lambda ; a:f32[8@X] b:f32[8@X]. let
    c:f32[8] = reshard a
    d:f32[8@X] e:f32[3,8] f:f32[3,8] = scan[
      _split_transpose=False
      jaxpr={ lambda ; a:f32[8@X] b:f32[8@X]. let
          c:f32[8] = reshard a
          d:f32[8] = reshard b
          e:f32[8@X] = sin b
        in (e, c, d) }
      length=3
      linear=(False, False)
      num_carry=1
      num_consts=1
      reverse=False
      unroll=1
    ] a b
    g:f32[8] = reshard b
  in (c, d, e, f, g) }
"""


def of(text: str) -> list[Said]:
    checker = Checker([MESH])
    checked = checker.check(read(text).program)
    assert not checker.refusals
    return said(charges(checked, apart=True), MESH, lambda charge: ((), "", ""))


def test_calls_of_one_body_move_what_they_are_given() -> None:
    """Of four calls, two are given the sine of one value; what they gather, and what they sum, is one."""
    found = of(CALLS)
    for kind in ("all-gather", "all-reduce"):
        first, other, again, last = (one.source for one in found if one.kind == kind)
        assert first == again
        assert len({first, other, last}) == 3
    assert len({one.site for one in found}) == len(found) == 8


def test_of_calls_one_is_compiled_only_where_they_are_given_one_value() -> None:
    gathers = [one for one in of(CALLS) if one.kind == "all-gather"]
    compiled = [Moved("all-gather", ("X",), 32, 2, "f32")] * 3
    found = matched(gathers, compiled, {"X": 2})
    assert (found.classes, found.unexplained) == ({"moved once for several uses": 1}, 0)
    assert matched(gathers, compiled[:2], {"X": 2}).unexplained == 1


def test_what_two_calls_scatter_is_added_outside() -> None:
    text = """
    let f = { lambda ; a:f32[8]{U:X}. let b:f32[8@X] = reshard a in (b,) } in
    { lambda ; a:f32[8]{U:X} b:f32[8]{U:X} c:f32[8]{U:X}. let
        d:f32[8@X] = jit[name=f jaxpr=f] a
        e:f32[8@X] = jit[name=f jaxpr=f] b
        g:f32[8@X] = add_any d e
        h:f32[8@X] = jit[name=f jaxpr=f] c
      in (g, h) }
    """
    first, other, alone = (one.terms for one in of(text))
    assert (len(first), first, alone) == (1, other, frozenset())


def test_a_loop_hands_on_what_it_does_not_change() -> None:
    before, constant, carried, after = (one.source for one in of(LOOP))
    assert before == constant
    assert len({before, carried, after}) == 3


def test_both_branches_have_their_own_values() -> None:
    text = """
    { lambda ; a:i32[] b:f32[8@X]. let
        c:f32[8] = cond[branches=(
          { lambda ; b:f32[8@X]. let c:f32[8@X] = sin b; d:f32[8] = reshard c in (d,) }
          { lambda ; b:f32[8@X]. let c:f32[8@X] = cos b; d:f32[8] = reshard c in (d,) }
        )] a b
      in (c,) }
    """
    first, other = (one.source for one in of(text))
    assert first != other


def test_what_is_drawn_or_written_is_never_one() -> None:
    call = "f32[4] = ffi_call[target_name=f] a"
    text = f"{{ lambda ; a:f32[4]. let b:{call}; c:{call} in (b, c) }}"
    checked = Checker([MESH]).check(read(text).program)
    values = Values()
    assert values.results([(checked, 0)]) != values.results([(checked, 1)])


@pytest.mark.parametrize(
    ("made", "spread"),
    [
        ("c:f32[8@X] = broadcast_in_dim a", True),
        ("d:f32[8@X] = broadcast_in_dim a\n e:f32[8@X] = sin d\n c:f32[8@X] = mul e e", True),
        ("d:f32[8@X] = broadcast_in_dim a\n e:bool[8@X] = gt d 0.5:f32[]\n c:f32[8@X] = select_n e d d", True),
        ("d:f32[8@X] = broadcast_in_dim a\n c:f32[8@X] = add d b", False),
        ("d:f32[8@X,4] = broadcast_in_dim a\n c:f32[8@X] = reduce_sum[axes=(1,) out_sharding=None] d", False),
        ("c:f32[8@X] = sin b", False),
        ("c:f32[8@X] = jit[name=f jaxpr={ lambda ; . let d:f32[8@X] = broadcast_in_dim 0.0:f32[] in (d,) }]", True),
        ("c:f32[8@X] = jit[name=f jaxpr={ lambda ; d:f32[8@X]. let e:f32[8@X] = sin d in (e,) }] b", False),
    ],
)
def test_one_number_computed_in_many_places_is_not_permuted(made: str, spread: bool) -> None:
    """Measured: XLA computes it where it is to be; what is summed, and what is gathered, it moves."""
    mesh = Mesh((Axis("X", 2), Axis("Y", 2)))
    text = f"{{ lambda ; a:f32[] b:f32[8@X]. let {made}\n r:f32[8@TO] = reshard c in (r,) }}"
    for to, kind in (("@Y", "collective-permute"), ("", "all-gather")):
        checker = Checker([mesh])
        checked = checker.check(read(text.replace("@TO", to)).program)
        assert not checker.refusals
        (found,) = said(charges(checked, apart=True), mesh, lambda charge: ((), "", ""))
        alone = spread and "d:" not in made
        assert (found.kind, found.spread) == (kind, spread if to else alone)
