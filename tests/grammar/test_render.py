"""How refusals are shown: a caret stands under the place, whatever the line holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculus.refusals import Refusal
from grammar.render import WINDOW, excerpt, render

PROGRAM = """{ lambda ; a:f32[2,2]{U:X}. let
    b:f32[2,2]{U:X} = cos a
  in (b,) }
"""


def test_everything_that_a_refusal_says() -> None:
    refusal = Refusal(
        "state",
        "cos of f32[2,2]{U:X}",
        "cos(x + y) is not cos(x) + cos(y)",
        "reshard a first",
        line=2,
        column=23,
        trail=("scan", "jit"),
    )
    assert render([refusal], PROGRAM, "p.jaxpr") == (
        "p.jaxpr:2:23: unsound: cos of f32[2,2]{U:X}\n"
        "  2 |     b:f32[2,2]{U:X} = cos a\n"
        "    |                       ^^^\n"
        "  rule: the operation does not commute with what is still pending [state]\n"
        "  because: cos(x + y) is not cos(x) + cos(y)\n"
        "  help: reshard a first\n"
        "  inside: jit, scan"
    )


def test_a_refusal_without_a_place() -> None:
    text = render([Refusal("syntax", "the input is empty", line=0)], "", "-")
    assert text == "-: malformed: the input is empty\n  rule: the text is not a program or a type [syntax]"


def test_several_refusals_are_paragraphs() -> None:
    refusals = [Refusal("state", "one", line=2, column=23), Refusal("state", "two", line=3, column=7)]
    assert render(refusals, PROGRAM, "p").count("\n\n") == 1


@pytest.mark.parametrize(("line", "column"), [(4, 1), (99, 5), (-1, 0)])
def test_a_line_outside_the_text(line: int, column: int) -> None:
    assert "state" in render([Refusal("state", "m", line=line, column=column)], PROGRAM.rstrip("\n"), "p")


@pytest.mark.parametrize(
    ("line", "column", "under"),
    [
        ("b = cos a", 5, "cos"),
        ("b:f32[2] = cos a", 1, "b"),
        ("b = cos a", 4, " "),
        ("\tb = cos a", 6, "cos"),
        ("é = cos a", 5, "cos"),
        ("x" * 1000 + " cos " + "y" * 1000, 1002, "cos"),
        ("axes=(0, 1) out", 1, "axes"),
    ],
)
def test_the_caret_is_under_the_word(line: str, column: int, under: str) -> None:
    shown, carets = excerpt(line, column, "7")
    start = carets.index("^")
    assert set(carets[start:]) == {"^"}
    assert shown[start : len(carets)] == under


def test_wide_characters_take_two_columns() -> None:
    shown, carets = excerpt("面 = cos a", 5, "1")
    assert carets.index("^") == shown.index("cos") + 1


@given(st.text(max_size=400), st.integers(0, 500))
def test_any_line_and_column(line: str, column: int) -> None:
    shown = list(excerpt(line.replace("\n", " "), column, "1"))
    assert len(shown) == (2 if column else 1)
    assert all(part.isprintable() for part in shown)
    assert max(map(len, shown)) <= 2 * WINDOW + 10
