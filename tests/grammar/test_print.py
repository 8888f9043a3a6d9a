"""The printer gives back JAX's bytes. The texts in `tests/golden` were printed by JAX; the widths here are by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from calculus.programs import (
    NO_PARAMETERS,
    Braces,
    Call,
    Cell,
    Document,
    Equation,
    Literal,
    Pair,
    Parameters,
    Program,
    Programs,
    Real,
    Reference,
    Value,
    Word,
)
from calculus.refusals import Refused
from calculus.types import array_type
from grammar import pretty
from grammar.parse import parse_document
from grammar.pretty import GAP, WIDTH, Break, Comment, Deferred, Group, Nest, Part, lay_out, separated
from grammar.print import print_document, print_equation, print_program, print_value
from grammar.read import read

GOLDEN = Path(__file__).parents[1] / "golden"
CORPUS = sorted((GOLDEN / "corpus").rglob("*.jaxpr"))
PRINTED = sorted((GOLDEN / "printed").rglob("*.jaxpr"))
F32 = array_type("float32")


def _name(file: Path) -> str:
    return file.relative_to(GOLDEN).as_posix()


# What JAX printed comes back


@pytest.mark.parametrize("file", CORPUS, ids=_name)
def test_the_corpus_comes_back(file: Path) -> None:
    text = file.read_text().removesuffix("\n")
    assert print_document(read(text)) == text


@pytest.mark.parametrize("file", PRINTED, ids=_name)
def test_the_printed_programs_come_back(file: Path) -> None:
    text = file.read_text().removesuffix("\n")
    assert print_document(read(text)) == text


@pytest.mark.parametrize("file", PRINTED, ids=_name)
def test_the_printed_programs_come_back_through_the_grammar(file: Path) -> None:
    text = file.read_text().removesuffix("\n")
    assert print_document(parse_document(text)) == text


def test_the_index_lists_what_there_is() -> None:
    index = json.loads((GOLDEN / "printed" / "index.json").read_text())
    assert sorted(index) == [file.relative_to(GOLDEN / "printed").as_posix() for file in PRINTED]
    assert {entry["jax"] for entry in index.values()} == {"0.12.0.1", "0.10.2"}


# Terms by hand


def _equation(primitive: str, *inputs: str, to: str = "b", parameters: Parameters = NO_PARAMETERS) -> Equation:
    return Equation(primitive, parameters, inputs, (to,), (F32,))


def _program(*equations: Equation, effects: str | None = None) -> Program:
    outputs = equations[-1].binders if equations else ("a",)
    return Program((), (), ("a",), (F32,), equations, outputs, effects)


def test_programs() -> None:
    assert print_program(Program((), (), (), (), (), ())) == "{ lambda ; . let  in () }"
    assert print_program(_program(_equation("sin", "a"))) == "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    two = Program(("c",), (F32,), ("a",), (F32,), (), ("a", Literal("2.0", F32)), "{ Read<c> }")
    assert print_program(two) == "{ lambda c:f32[]; a:f32[]. let  in (a, 2.0:f32[]) : { Read<c> } }"
    long = _program(_equation("sin", "a"), _equation("a_name_of_thirty_three_characters", "b", to="c"))
    assert print_program(long) == (
        "{ lambda ; a:f32[]. let\n    b:f32[] = sin a\n    c:f32[] = a_name_of_thirty_three_characters b\n  in (c,) }"
    )


def test_what_a_term_lacks_is_not_printed() -> None:
    older = Program(
        (), (), ("a",), (None,), (Equation("add", NO_PARAMETERS, ("a", Literal("1.0", None)), ("b",), (None,)),), ("b",)
    )
    assert print_program(older) == "{ lambda ; a. let b = add a 1.0 in (b,) }"


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        (Equation("rng", NO_PARAMETERS, (), (), ()), "rng "),
        (Equation("rng", NO_PARAMETERS, (), ("b", "_"), (F32, F32)), "b:f32[] _:f32[] = rng "),
        (_equation("f", "a", parameters=Parameters((("k", 1), ("of", ())))), "b:f32[] = f[k=1 of=()] a"),
        (Equation("sin", NO_PARAMETERS, ("a",), ("b",), (F32,), comment=""), "b:f32[] = sin a # "),
        (Equation("check", NO_PARAMETERS, ("a",), (), (), comment="m.py:1:2 (f)"), "check a # m.py:1:2 (f)"),
        (Equation("get", NO_PARAMETERS, ("r",), ("b",), (F32,), cell=Cell("r", "i,1:3")), "b:f32[] <- r[i,1:3]"),
        (Equation("swap", NO_PARAMETERS, ("r", "v"), (), (), cell=Cell("r", "...")), "r[...] <- v"),
        (
            Equation("swap", NO_PARAMETERS, ("r", "v"), ("b",), (F32,), cell=Cell("r", "0")),
            "b:f32[], r[0] <- r[0], v",
        ),
        (
            Equation("addupdate", NO_PARAMETERS, ("r", Literal("1.0", F32)), (), (), comment="m", cell=Cell("r", "i")),
            "r[i] += 1.0:f32[] # m",
        ),
    ],
)
def test_equations(equation: Equation, text: str) -> None:
    assert print_equation(equation) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-3, "-3"),
        (Real("1e-38"), "1e-38"),
        (Word("GatherScatterMode.CLIP"), "GatherScatterMode.CLIP"),
        (("x", "it's", "\n"), "('x', \"it's\", '\\n')"),
        ((), "()"),
        (((1,), ([2], [])), "((1,), ([2], []))"),
        (Braces(("X", Pair("k", 2))), "{'X', 'k': 2}"),
        (Call("frozenset", (Braces(()),)), "frozenset({})"),
        (Call("P", ("X",)), "P('X',)"),
        (Call("P", (("X", "Y"), None)), "P(('X', 'Y'), None)"),
        (Call("P", ("X",), (("unreduced", Braces(("Y",))),)), "P('X', unreduced={'Y'})"),
        (Call("P"), "P()"),
        (Call("np.int64", (4,)), "np.int64(4)"),
        (Call("Mesh", (Pair("X", 4),), (("axis_types", (Word("Auto"),)),)), "Mesh('X': 4, axis_types=(Auto,))"),
        (Reference("small"), "small"),
        (Programs((Reference("f"), _program())), "(f { lambda ; a:f32[]. let  in (a,) })"),
        (Word("{ lambda ; a.\n let b in }"), "{ lambda ; a.\n let b in }"),
    ],
)
def test_values(value: Value, text: str) -> None:
    assert print_value(value) == text


def test_documents() -> None:
    program = _program(_equation("jit", "a", parameters=Parameters((("jaxpr", Reference("f")),))))
    document = Document((("f", _program(_equation("sin", "a"))),), program, "X=4, Y=2")
    assert print_document(document) == (
        "# mesh: X=4, Y=2\n"
        "let f = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in\n"
        "{ lambda ; a:f32[]. let b:f32[] = jit[jaxpr=f] a in (b,) }"
    )


# Layout


def test_a_group_that_ends_at_the_margin_fits() -> None:
    def block(size: int) -> Part:
        return ["12345", Group(("x" * size, Break("; "), "y"))]

    fits = WIDTH - len("12345") - len("; y")
    assert lay_out(block(fits)) == "12345" + "x" * fits + "; y"
    assert lay_out(block(fits + 1)) == "12345" + "x" * (fits + 1) + "\ny"
    assert lay_out(Nest(("a", Break(), block(fits - 2)))) == "a\n  12345" + "x" * (fits - 2) + "; y"
    assert lay_out(Nest(("a", Break(), block(fits - 1)))) == "a\n  12345" + "x" * (fits - 1) + "\n  y"


def test_what_follows_a_group_does_not_count() -> None:
    assert lay_out([Group(("x" * 39, Break(), "y" * 40)), "z" * 40]) == "x" * 39 + " " + "y" * 40 + "z" * 40


def test_a_list_breaks_only_once_the_line_is_full() -> None:
    items: list[Part] = ["x" * 39, "y" * 40, "z" * 3]
    assert lay_out(Group(separated(items, GAP))) == "x" * 39 + " " + "y" * 40 + "\nzzz"
    items[1] = "y" * 39
    assert lay_out(Group(separated(items, GAP))) == "x" * 39 + " " + "y" * 39 + " zzz"
    assert lay_out(Group(separated(items, ",", GAP))) == "x" * 39 + ", " + "y" * 39 + ",\nzzz"


def test_inside_a_group_on_one_line_nothing_breaks() -> None:
    assert lay_out(Group(("a", Group((Break("-"), "b")), Nest((Break("+"), Deferred(lambda: "c")))))) == "a-b+c"


def test_width_is_counted_in_bytes() -> None:
    assert lay_out(Group(("é" * 39, Break(), "x"))) == "é" * 39 + " x"
    assert lay_out(Group(("é" * 40, Break(), "x"))) == "é" * 40 + "\nx"


def test_comments_stand_in_one_column() -> None:
    parts: list[Part] = ["a", Comment("one"), Break(), "abc", Break(), "é", Comment("two"), Comment("")]
    assert lay_out(parts) == "a   # one\nabc\né  # two\n    # "


# Depth and time


def _nested(depth: int) -> Program:
    program = _program(_equation("sin", "a"))
    for _ in range(depth):
        program = _program(_equation("jit", "a", parameters=Parameters((("jaxpr", program),))))
    return program


def test_deep_programs_cost_no_stack() -> None:
    lines = print_program(_nested(900)).split("\n")
    assert max(len(line) - len(line.lstrip(" ")) for line in lines) == 900 * 6 + 4
    value: Value = 1
    for _ in range(100_000):
        value = [value]
    assert print_value(value) == "[" * 100_000 + "1" + "]" * 100_000


def test_deeper_programs_are_refused() -> None:
    with pytest.raises(Refused) as caught:
        print_program(_nested(5_000))
    assert caught.value.refusal.code == "too-deep"


def _with(value: Value) -> Equation:
    return _equation("f", "a", parameters=Parameters((("k", value),)))


@pytest.mark.parametrize(
    "build",
    [
        lambda n: _program(*[_equation("sin", "a")] * n),
        lambda n: _program(*[_with(_nested(3))] * n),
        lambda n: _nested(n // 4),
        lambda n: Program((), (), ("a",) * n, (F32,) * n, (), ("a",) * n),
        lambda n: _program(_with(tuple(range(n)))),
        lambda n: _program(_with(Programs((_nested(1),) * n))),
        lambda n: _program(_with(_program(_with(_program(*[_equation("sin", "a")] * n))))),
    ],
    ids=["long", "many bodies", "deep", "wide", "a large value", "many branches", "long and deep"],
)
def test_twice_the_program_is_twice_the_work(build: Callable[[int], Program], monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = 0

    def counted(text: str) -> int:
        nonlocal pieces
        pieces += 1
        return len(text)

    monkeypatch.setattr(pretty, "columns", counted)
    print_program(build(1_000))
    once = pieces
    assert once > 1_000
    print_program(build(2_000))
    assert pieces - once < 2.1 * once
