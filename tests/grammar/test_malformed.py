"""What is not a program: where the refusal points, what it says, and that it comes soon."""

from __future__ import annotations

import time

import pytest

from calculus.refusals import Place, Refusal, Refused
from grammar.layout import NESTING
from grammar.parse import parse_document
from grammar.references import equations


def refusal(text: str) -> Refusal:
    with pytest.raises(Refused) as caught:
        parse_document(text)
    return caught.value.refusal


SYNTAX = {  # line, column, what the message says
    "": (1, 1, "the text ends where `let` or a program, `{ lambda ...` is expected"),
    "f32[8]": (1, 1, "`f32` stands where `let` or a program"),
    "{ lambda ; a:f32[3] let": (1, 24, "the text ends where `.`, `:` or a variable is expected"),
    "{ lambda a:f32[3]. let in () }": (1, 18, "`.` stands where `;` or a variable is expected"),
    "{ lambda ; a:. let": (1, 14, "`.` stands where a type"),
    "{ lambda ; a:f31[3]. let  in () }": (1, 14, "`f31` is not an element type"),
    "{ lambda ; a:f32[3@]. let  in () }": (1, 20, "`]` stands where `(` or a mesh axis is expected"),
    "{ lambda ; . let\n    b = \n  in () }": (3, 6, "`(` stands where"),
    "{ lambda ; . let\n    b:f32[] sin a\n  in () }": (3, 6, "`(` stands where"),
    "{ lambda ; . let\n    = sin a\n  in () }": (2, 5, "`=` stands where"),
    "{ lambda ; . let\n    b:f32[] = f[x=1 a\n  in () }": (3, 9, "`}` stands where `]` or a parameter"),
    "{ lambda ; . let\n    b:f32[] = f[x=(1] a\n  in () }": (2, 21, "`]` does not close the bracket that is open here"),
    "{ lambda ; . let\n    b:f32[] = f[x=1 x=2] a\n  in () }": (2, 21, "the parameter `x` is given twice"),
    "{ lambda ; . let\n    b:f32[] = f[x] a\n  in () }": (2, 16, "parameters, `[name=value ...]`"),
    "{ lambda ; . let\n    b:f32[], x[0] <- x[1], v\n  in () }": (2, 22, "`x[0]` is written but `x[1]` is read"),
    "{ lambda ; . let  in (": (1, 23, "the text ends where `)`, a literal or a variable is expected"),
    "{ lambda ; . let  in () ": (1, 25, "the text ends where `}`"),
    "{ lambda ; . let  in () } }": (1, 27, "`}` stands where the end of the text is expected"),
    "{ lambda ; . let  in () }\n{ lambda ; . let  in () }": (2, 1, "`{` stands where the end of the text is expected"),
    "let f = { lambda ; . let  in () }\n{ lambda ; . let  in () }": (2, 1, "`{` stands where `in` is expected"),
    "let f = { lambda ; . let  in () } in\nlet f = { lambda ; . let  in () } in\n{ lambda ; . let  in () }":
        (2, 9, "`f` is defined twice"),
    "{ lambda ; . let\n    f[\n      fmt=x\n  in () }": (3, 7, "the text of `fmt` does not end"),
    "{ lambda ; a:f32[]. let\n    b = \x00\n  in () }": (2, 9, "stands where a primitive is expected"),
}  # fmt: skip


@pytest.mark.parametrize("text", SYNTAX)
def test_syntax(text: str) -> None:
    line, column, says = SYNTAX[text]
    found = refusal(text)
    assert (found.code, found.line, found.column) == ("syntax", line, column)
    assert says in found.message


TWO = [
    "    b:f32[] = sin a c:f32[] = cos b",
    "    b = sin a c = cos b",
    "    b:f32[] = sin a\n      c:f32[] = cos b",
    "    b:f32[] = sin a x[0] <- b",
    "    x[0] <- a b:f32[] = sin a",
]


@pytest.mark.parametrize("text", TWO)
def test_two_equations_on_one_line(text: str) -> None:
    """The help says that each needs a line, or a `;`."""
    found = refusal(f"{{ lambda ; a:f32[]. let\n{text}\n  in () }}")
    assert found.code == "syntax"
    assert "a second equation needs a line of its own" in found.help
    assert "`;`" in found.help


def test_no_second_equation_is_seen_where_none_begins() -> None:
    for text in ("b:f32[] = sin a, a", "b: = sin a"):
        assert refusal(f"{{ lambda ; a:f32[]. let\n    {text}\n  in () }}").help.startswith("keep to what JAX prints")


def test_two_kinds_in_a_program() -> None:
    found = refusal("{ lambda ; . let\n    b:f32[]{U:X, U_max:Y} = sin a\n  in () }")
    assert (found.code, found.line, found.column) == ("two-kinds", 2, 7)


@pytest.mark.parametrize(
    ("uses", "line", "column"),
    [("jaxpr=f", 2, 17), ("branches=(f)", 2, 17), ("jaxpr=g", 5, 21)],
)
def test_cyclic_definitions(uses: str, line: int, column: int) -> None:
    text = f"""let f = {{ lambda ; a:f32[]. let
    b:f32[] = p[{uses}] a
  in (b,) }} in
let g = {{ lambda ; a:f32[]. let
    b:f32[] = p[x=0 jaxpr=f] a
  in (b,) }} in
{{ lambda ; . let  in () }}"""
    found = refusal(text)
    assert (found.code, found.line, found.column) == ("cyclic-definition", line, column)


def test_unknown_branches() -> None:
    found = refusal("{ lambda ; i:i32[]. let\n    cond[x=1 branches=(f { lambda ; . let  in () })] i\n  in () }")
    assert (found.code, found.line, found.column) == ("unknown-definition", 2, 14)
    assert found.place == Place("parameter", name="branches")
    assert "`f`" in found.message


NESTED = "{ lambda ; a:f32[]. let b:f32[] = p[jaxpr="
HOSTILE = {
    "too-deep": [
        NESTED * 3000,
        NESTED * NESTING + "{ lambda ; . let  in () }" + "] a in (b,) }" * NESTING,
        "{ lambda ; . let\n    f[x=" + "(" * 30000,
        "{ lambda ; . let\n    f[\n      x=" + "[" * 30000 + "\n    ] a\n  in () }",
        "{ lambda ; a:" + "Ref{" * 30000 + "f32[]" + "}" * 30000 + ". let  in () }",
        "".join(f"let f{i} = {{ lambda ; . let p[jaxpr=f{i + 1}]  in () }} in\n" for i in range(3000))
        + "let f3000 = { lambda ; . let  in () } in\n{ lambda ; . let  in () }",
    ],
    "syntax": [
        "{ lambda ; . let  in " + "(" * 30000,
        "{ " * 30000,
        "{ lambda ; . let\n    f " + "in (x" * 30000,
        "{ lambda ; . let\n    f[\n" + "      fmt=x\n" * 5000,
        "{ lambda ; . let\n    f[x=" + "'\\" * 30000 + "] a",
        "{ lambda ; . let\n    f[x=a" + " " * 30000 + "b",
        "{ lambda ; . let\n    f[x=a" + "\n" * 30000 + "b",
        "{ lambda ; . let\n    f[x=" + "<a" * 30000,
        "{ lambda ; . let\n    f a" + "\n" * 30000 + "      =",
        "{ lambda ; . let\n" + "    x[" * 30000,
        "{ lambda ; . let  in () : {" + "{a}" * 30000,
        "# \n" * 30000,
        "\x00" * 30000,
    ],
}


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in HOSTILE.items() for text in texts])
def test_hostile_text_ends_soon(code: str, text: str) -> None:
    started = time.process_time()
    found = refusal(text)
    assert found.code == code
    assert code != "too-deep" or str(NESTING) in found.message
    assert time.process_time() - started < 2  # each takes milliseconds when its time is linear, minutes when not


def test_as_deep_as_it_goes() -> None:
    text = NESTED * (NESTING - 1) + "{ lambda ; . let  in () }" + "] a in (b,) }" * (NESTING - 1)
    document = parse_document(text)
    assert document.program == parse_document(text).program
    assert len(list(equations(document.program.equations))) == NESTING - 1
