"""Rows are read as formulas, or refused."""

from __future__ import annotations

import pytest

from calculus.formulas import (
    Apply,
    Full,
    Name,
    Number,
    Places,
    Star,
    Zeros,
    read_formula,
    read_row,
    spelled,
)
from calculus.programs import Call, Real, Value, Word

G, X = Name("g"), Name("x")


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("g", G),
        ("g * cos(x)", Apply("mul", (G, Apply("cos", (X,))))),
        ("-(g * x)", Apply("neg", (Apply("mul", (G, X)),))),
        ("-2 * x", Apply("mul", (Number(-2), X))),
        ("-g * x", Apply("mul", (Apply("neg", (G,)), X))),
        ("x >= 0", Apply("ge", (X, Number(0)))),
        ("full(0.5, result)", Full(Number(0.5), Name("result"))),
        ("places(x, -2) >= 1", Apply("ge", (Places(X, -2), Number(1)))),
        ("g @ x.T", Apply("@", (G, Apply("T", (X,))))),
        ("x.H", Apply("T", (Apply("conjugate", (X,)),))),
        ("result1 - g0", Apply("sub", (Name("result1"), Name("g0")))),
        ("zeros(x)", Zeros("x")),
        ("zeros(x, indices)", Zeros("x", "indices")),
        ("zeros(x, indices, ((0, 1),))", Zeros("x", "indices", ((0, 1),))),
        ("integer_pow(x, y=-2)", Apply("integer_pow", (X,), (("y", -2),))),
        ("concatenate(*g, dimension=1)", Apply("concatenate", (Star("g"),), (("dimension", 1),))),
        ("conv(g, out_sharding=sharding(x))", Apply("conv", (G,), (("out_sharding", Call("sharding", (Word("x"),))),))),
        ("scatter_add(g)", Apply("scatter-add", (G,))),
        ("select_and_scatter_add(g)", Apply("select_and_scatter_add", (G,))),
        ("split(g, axis=0, sizes=(1, 2))[1]", Apply("split", (G,), (("axis", 0), ("sizes", (1, 2))), 1)),
    ],
)
def test_a_formula_is_read(text: str, formula: object) -> None:
    assert read_formula(text) == formula


def test_a_row_is_read_by_operand() -> None:
    assert read_row("x: g; y: -g", ("x", "y")) == {"x": G, "y": Apply("neg", (G,))}
    assert read_row("g", ("x",)) == {"x": G}


def test_a_row_names_what_it_uses_twice() -> None:
    doubled = Apply("add", (G, G))
    assert read_row("t = g + g; s = t * x; x: s + t", ("x", "y")) == {
        "x": Apply("add", (Apply("mul", (doubled, X)), doubled))
    }
    assert read_row("t = integer_pow(x, y=2); g * t", ("x",)) == {
        "x": Apply("mul", (G, Apply("integer_pow", (X,), (("y", 2),))))
    }


@pytest.mark.parametrize(
    "text",
    ["g *", "g ** x", "f.g(x)", "g if x else x", "'g'", "full(x, g)", "True", "split(g)[x]", "x.real", "places(x, y)"],
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a formula|is no part of a formula|is no parameter"):
        read_formula(text)


@pytest.mark.parametrize("row", ["z: g", "x: g; x: g"])
def test_a_row_is_about_operands_once_each(row: str) -> None:
    with pytest.raises(ValueError, match="is about"):
        read_row(row, ("x", "y"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -2,
        (1, (2, 3)),
        (1,),
        (),
        Word("float32"),
        Real("0.5"),
        Call("D", (), (("a", (1, 2)), ("b", Word("w")))),
    ],
)
def test_a_parameter_is_spelled_as_it_is_read(value: Value) -> None:
    found = read_formula(f"sin(x, p={spelled(value)})")
    assert isinstance(found, Apply)
    assert found.parameters == (("p", value),)
    assert type(found.parameters[0][1]) is type(value)


def test_an_integer_of_numpy_is_an_integer() -> None:
    assert spelled((Call("np.int64", (3,), ()), 1)) == spelled((3, 1))


def test_a_body_has_no_place_in_a_formula() -> None:
    with pytest.raises(ValueError, match="has no place"):
        spelled(Call("D", (1,), ()))
