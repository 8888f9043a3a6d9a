"""Leaves decoded by hand: what they denote, and that the grammar says the same of every leaf JAX prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calculus.programs import Braces, Call, Pair, Real, Value, Word
from calculus.refusals import Refused
from calculus.types import RefType, Type, array_type
from grammar.leaves import DEEPEST, Odd, literal_of, printed_type, type_of, value_at, value_of
from grammar.parse import parse_type, parse_value

PRINTED = Path(__file__).parents[1] / "golden"
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(PRINTED.glob("**/*.jaxpr"))]


def by_hand(text: str) -> bool:
    """Whether this is a value that is decoded by hand, all of it."""
    try:
        _, end = value_at(text, 0)
    except Odd:
        return False
    return end == len(text)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("f32[]", array_type("f32")),
        ("float32[8@X,4]", array_type("f32", (8, 4), (("X",), ()))),
        ("f32[8@(Y,X),4]{U:Z}", array_type("f32", (8, 4), (("Y", "X"), ()), unreduced=("Z",))),
        ("bf16[2]{V:data, U:model}", array_type("bf16", (2,), varying=("data",), unreduced=("model",))),
        ("f32[]{R:(X,Y)}", array_type("f32", reduced=("X", "Y"))),
        ("f32[]{U_max:X}", array_type("f32", unreduced=("X",), kind="max")),
        ("~f32<host>[3]", array_type("f32", (3,), memory="host", weak=True)),
        ("key<fry>[2]", array_type("key<fry>", (2,))),
        ("Ref{f32[4]{V:x}}", RefType(array_type("f32", (4,), varying=("x",)))),
        ("Ref<default>{f8_e4m3fn[0]}", RefType(array_type("f8_e4m3fn", (0,)), "default")),
        ("f32[b + 1,2*s]", array_type("f32", ("b + 1", "2*s"))),  # the grammar's
    ],
)
def test_types(text: str, type: Type) -> None:
    assert type_of(text) == printed_type(text) == type


@pytest.mark.parametrize(
    "text", ["f32", "f33[2]", "f32[2", "f32[2]]", "f32[2,]", "f32[2]{}", "f32[2]{U:X,U:Y}", "[2]", ""]
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        type_of(text)


def test_blanks_inside_a_type_are_for_people() -> None:
    """In a program a blank may part two operands, so there the grammar decides."""
    assert type_of("f32 [2]") == array_type("f32", (2,))
    with pytest.raises(Odd):
        printed_type("f32 [2]")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("None", None),
        ("True", True),
        ("-12", -12),
        ("0", 0),
        ("1e-38", Real("1e-38")),
        ("nan", Real("nan")),
        ("-0.0", Real("-0.0")),
        ("float32", Word("float32")),
        ("GatherScatterMode.CLIP", Word("GatherScatterMode.CLIP")),
        ("<lambda>", Word("<lambda>")),
        ("()", ()),
        ("('x',)", ("x",)),
        ("(([1], [0]), ([], []))", (([1], [0]), ([], []))),
        ("(np.int64(0), 1)", (Call("np.int64", (0,)), 1)),
        ("(4*b, b + 1)", (Word("4*b"), Word("b + 1"))),
        ("frozenset({'X', 'Y'})", Call("frozenset", (Braces(("X", "Y")),))),
        ("P('X',)", Call("P", ("X",))),
        ("P(None, ('X', 'Y'))", Call("P", (None, ("X", "Y")))),
        ("P('X', unreduced={'Y'})", Call("P", ("X",), (("unreduced", Braces(("Y",))),))),
        (
            "Mesh('X': 4, axis_types=(Explicit,))",
            Call("Mesh", (Pair("X", 4),), (("axis_types", (Word("Explicit"),)),)),
        ),
        ("PyTreeDef(([], [*]))", Call("PyTreeDef", (([], [Word("*")]),))),
    ],
)
def test_values(text: str, value: Value) -> None:
    found, end = value_at(text, 0)
    assert (found, type(found), end) == (value, type(value), len(text))
    assert value_of(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "(1)", "(1,,)", "[1,]", "(1, 2,)", "f('x',)", "P('X','Y')", "(a: 1)", "f(a=1, 2)", "<a>(1)", "*(1)", "(" * 60],
)
def test_what_is_not_decoded_by_hand(text: str) -> None:
    assert not by_hand(text)
    assert repr(value_of(text)) == repr(parse_value(text))


def test_deep_values_are_left_to_the_grammar() -> None:
    text = "(" * DEEPEST + "()" + ",)" * DEEPEST
    assert value_at(text, 0)[1] == len(text)
    with pytest.raises(Odd):
        value_at(f"({text},)", 0)
    assert value_of(f"({text},)") == (value_of(text),)


@pytest.mark.parametrize(
    "text", ["2.0:f32[]", "-inf:f32[]", "nan:bf16[]", "True:bool[]", "(1+2j):c64[]", "(b'',):float0[]"]
)
def test_literals(text: str) -> None:
    printed, _, type = text.rpartition(":")
    literal = literal_of(text)
    assert (literal.text, literal.type) == (printed, type_of(type))
    assert str(literal) == text


def test_literals_of_older_dialects_have_no_type() -> None:
    assert literal_of("1.0").type is None
    for word in ("c", "1.0.0", "1.0:", "--1", "x:f32[]"):
        with pytest.raises(Odd):
            literal_of(word)


def test_the_grammar_gives_the_same_types() -> None:
    printed = re.compile(r"[ {]\w+:([^ \n]+\[[^\]\n]*\](?:\{[^}\n]*\})?)[ .]")
    texts = {found[1] for text in TEXTS for found in printed.finditer(text)}
    assert len(texts) > 300
    for text in texts:
        assert type_of(text) == parse_type(text), text


def test_the_grammar_gives_the_same_values() -> None:
    printed = re.compile(r"^ +[a-z]\w*=([^{\n][^\n]*)$", re.MULTILINE)
    texts = {found[1] for text in TEXTS for found in printed.finditer(text)}
    decoded = list(filter(by_hand, texts))
    assert len(decoded) > 0.8 * len(texts) > 300
    for text in decoded:
        assert repr(value_at(text, 0)[0]) == repr(parse_value(text)), text
