"""Bodies that print no types are derived at the types that they were checked at: as the same bodies with types are."""

from __future__ import annotations

import re

import pytest

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.equivalence import difference
from calculus.gradients import vjp
from calculus.programs import Program
from calculus.typed import typed
from grammar.meshes import parse_meshes
from grammar.read import read

HEAD = "{ lambda ; a:f32[4]{R:X} b:f32[3,4]{R:X} i:i32[]. let\n    "

BODIES = {
    "a call": "c:f32[4]{R:X} = jit[name=f jaxpr={ lambda ; d:f32[4]{R:X}. let e:f32[4]{R:X} = mul d d in (e,) }] a",
    "a call in a call": (
        "c:f32[4]{R:X} = jit[name=f jaxpr={ lambda ; d:f32[4]{R:X}. let\n"
        "      e:f32[4]{R:X} = jit[name=g jaxpr={ lambda ; f:f32[4]{R:X}. let g:f32[4]{R:X} = sin f in (g,) }] d\n"
        "    in (e,) }] a"
    ),
    "a loop": (
        "c:f32[4]{R:X} = scan[jaxpr={ lambda ; d:f32[4]{R:X} e:f32[4]{R:X}. let f:f32[4]{R:X} = mul d e in (f,) }"
        " length=3 linear=(False, False) num_carry=1 num_consts=0 reverse=False unroll=1] a b"
    ),
    "a choice": (
        "c:f32[4]{R:X} = cond[branches=(\n"
        "      { lambda ; d:f32[4]{R:X}. let e:f32[4]{R:X} = sin d in (e,) }\n"
        "      { lambda ; f:f32[4]{R:X}. let in (f,) }\n"
        "    )] i a"
    ),
}


def checked(text: str) -> tuple[Program, Checker]:
    checker = Checker(parse_meshes("X=2"))
    found = checker.check(read(text).program)
    assert not checker.refusals, checker.refusals[0][0].message
    return typed(found), checker


@pytest.mark.parametrize("equation", BODIES.values(), ids=BODIES)
def test_a_body_without_types_is_derived_as_one_with_types(equation: str) -> None:
    text = f"{HEAD}{equation}\n  in (c,) }}"
    bare = text[: len(HEAD)] + re.sub(r":f32\[4\]\{R:X\}", "", text[len(HEAD) :])
    assert bare != text
    one, checker = checked(text)
    other, again = checked(bare)
    wrt = [0]
    left, right = vjp(one, Workbench(checker), wrt), vjp(other, Workbench(again), wrt)
    assert difference(left, right) == ""


def test_what_prints_its_types_stays_as_it_is() -> None:
    program = read(f"{HEAD}{BODIES['a call']}\n  in (c,) }}").program
    assert typed(Checker(parse_meshes("X=2")).check(program)) is program


def test_a_body_that_is_called_from_many_places_is_visited_once() -> None:
    """Each definition calls the one before it twice: forty of them are a million million calls."""
    lines = ["let f0 = { lambda ; a. let b = sin a in (b,) } in"]
    for number in range(1, 41):
        call = f"jit[name=f{number - 1} jaxpr=f{number - 1}]"
        lines.append(f"let f{number} = {{ lambda ; a. let b = {call} a; c = {call} b in (c,) }} in")
    text = "\n".join([*lines, "{ lambda ; a:f32[4]. let b = jit[name=f40 jaxpr=f40] a in (b,) }"])
    program, _ = checked(text)
    assert program.equations
