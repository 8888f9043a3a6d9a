"""The type language: each form, each refusal. Expected terms are written by hand from what JAX prints."""

from __future__ import annotations

import pytest

from calculus.refusals import Family, Place, Refused
from calculus.types import DTYPES, ArrayType, OpaqueType, RefType, array_type, same
from grammar.layout import NESTING
from grammar.parse import parse_type


def refused(text: str) -> Refused:
    with pytest.raises(Refused) as caught:
        parse_type(text)
    assert caught.value.refusal.place == Place("type")
    assert caught.value.refusal.family is Family.MALFORMED
    return caught.value


ARRAYS = {
    "f32[]": array_type("f32"),
    "f32[8,4]": array_type("f32", (8, 4)),
    "f32[0]": array_type("f32", (0,)),
    "f32[8@X,4]": array_type("f32", (8, 4), (("X",), ())),
    "f32[8@(Y,X)]": array_type("f32", (8,), (("Y", "X"),)),
    "f32[8@(X,Y)]": array_type("f32", (8,), (("X", "Y"),)),
    "f32[4]{U:X}": array_type("f32", (4,), unreduced=("X",)),
    "f32[4]{R:(X,Y)}": array_type("f32", (4,), reduced=("X", "Y")),
    "f32[4]{V:X}": array_type("f32", (4,), varying=("X",)),
    "f32[2,8]{V:data, U:model}": array_type("f32", (2, 8), varying=("data",), unreduced=("model",)),
    "f32[2]{V:(a,b), R:c}": array_type("f32", (2,), varying=("a", "b"), reduced=("c",)),
    "f32[4]{U_max:X}": array_type("f32", (4,), unreduced=("X",), kind="max"),
    "f32[4]{U_min:(X,Y)}": array_type("f32", (4,), unreduced=("X", "Y"), kind="min"),
    "f32[4@Z]{U:X, R:Y}": array_type("f32", (4,), (("Z",),), unreduced=("X",), reduced=("Y",)),
    "~f32[]": array_type("f32", weak=True),
    "f32<host>[8@data,4]": array_type("f32", (8, 4), (("data",), ()), memory="host"),
    "key<fry>[]": array_type("key<fry>"),
    "key<rbg>[2@X]": array_type("key<rbg>", (2,), (("X",),)),
    "float0[3]": array_type("float0", (3,)),
    "i32[a]": array_type("i32", ("a",)),
    "f32[4*b]": array_type("f32", ("4*b",)),
    "f32[b + 1,2*s]": array_type("f32", ("b + 1", "2*s")),
    "f32[b*s + s,2]": array_type("f32", ("b*s + s", 2)),
    "f32[d + c - 1]": array_type("f32", ("d + c - 1",)),
    "f32[floordiv(b^2, 3)@X,4*b - 1]": array_type("f32", ("floordiv(b^2, 3)", "4*b - 1"), (("X",), ())),
    "f32[-b + 4]": array_type("f32", ("-b + 4",)),
    "f32[max(b, 2*(c + 1))]": array_type("f32", ("max(b, 2*(c + 1))",)),
}


@pytest.mark.parametrize("text", ARRAYS)
def test_an_array_is_read_and_prints_as_it_was(text: str) -> None:
    assert parse_type(text) is ARRAYS[text]
    assert str(parse_type(text)) == text


@pytest.mark.parametrize("dtype", DTYPES)
def test_short_and_long_names_are_one_type(dtype: str) -> None:
    assert parse_type(f"{dtype}[8@X]") is parse_type(f"{DTYPES[dtype][0]}[8@X]")
    assert str(parse_type(f"{DTYPES[dtype][0]}[]")) == f"{dtype}[]"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("f32[8@X,4]<U:X>", "f32[8@X,4]{U:X}"),
        ("f32[4]<V:a, R:(b,c)>", "f32[4]{V:a, R:(b,c)}"),
        ("f32<host>[8]<U_max:X>", "f32<host>[8]{U_max:X}"),
        ("key<fry>[]<R:X>", "key<fry>[]{R:X}"),
        ("Ref{f32[8]<U:X>}", "Ref{f32[8]{U:X}}"),
        ("float32[ 8 @ X , 4 ]{ R : Y }", "f32[8@X,4]{R:Y}"),
        ("f32[b+1,2 * s]", "f32[b + 1,2*s]"),
        ("f32[8@(X)]", "f32[8@X]"),
        ("f32[4]{R:X, U:Y}", "f32[4]{U:Y, R:X}"),
    ],
)
def test_what_people_write_prints_as_jax_prints_it(text: str, printed: str) -> None:
    assert parse_type(text) is parse_type(printed) or parse_type(text) == parse_type(printed)
    assert str(parse_type(text)) == printed


def test_cells() -> None:
    assert parse_type("Ref{f32[4]}") == RefType(array_type("f32", (4,)))
    assert parse_type("Ref<default>{f32[4,128]}") == RefType(array_type("f32", (4, 128)), "default")
    nested = parse_type("Ref{Ref<vmem>{f32[4]{U:X}}}")
    assert isinstance(nested, RefType)
    assert nested.inner == RefType(array_type("f32", (4,), unreduced=("X",)), "vmem")
    assert str(nested) == "Ref{Ref<vmem>{f32[4]{U:X}}}"


@pytest.mark.parametrize("text", ["Tok", "AbstractOperator()", "AbstractMeasurement(n_wires=None)"])
def test_what_is_not_described_is_kept(text: str) -> None:
    assert parse_type(text) == OpaqueType(text)
    assert str(parse_type(text)) == text


def test_order_counts_in_a_dim_and_not_in_a_state() -> None:
    assert not same(parse_type("f32[8@(X,Y)]"), parse_type("f32[8@(Y,X)]"))
    assert same(parse_type("f32[8]{U:(X,Y)}"), parse_type("f32[8]{U:(Y,X)}"))


@pytest.mark.parametrize("text", ["f32[4]{U:X, U_max:Y}", "f32[4]{U_min:X, U_max:Y}", "f32[4]<U:X, U_min:Y>"])
def test_two_kinds(text: str) -> None:
    assert refused(text).refusal.code == "two-kinds"


SYNTAX = {  # column, and what the message must say
    "": (1, "the text ends where an element type"),
    "f32": (4, "the text ends where `[` is expected"),
    "f32[": (5, "the text ends where `(`, `]`, a name or a number is expected"),
    "f32[8": (6, "the text ends where `,`, `@` or `]` is expected"),
    "f32[8,]": (7, "`]` stands where `(`, a name or a number is expected"),
    "f32[8@]": (7, "`]` stands where `(` or a mesh axis is expected"),
    "f32[8@()]": (8, "`)` stands where a mesh axis is expected"),
    "f32[8@(X,]": (10, "`]` stands where a mesh axis is expected"),
    "f32[8@X@Y]": (8, "`@` stands where `,` or `]` is expected"),
    "f32[08]": (6, "`8` stands where"),
    "f32[-1]": (5, "`-1` is not the size of a dim"),
    "f32[8.5]": (6, "`.` stands where"),
    "f32[8]{}": (8, "`}` stands where one of `V`, `U`, `R`, `U_max`, `U_min` is expected"),
    "f32[8]{S:X}": (8, "`S` stands where one of `V`"),
    "f32[8]{U_prod:X}": (9, "`_prod` stands where `:` is expected"),
    "f32[8]{U}": (9, "`}` stands where `:` is expected"),
    "f32[8]{U:}": (10, "`}` stands where `(` or a mesh axis is expected"),
    "f32[8]{U:X": (11, "the text ends where `,` or `}` is expected"),
    "f32[8]{U:X>": (11, "`>` stands where `,` or `}` is expected"),
    "f32[8]<U:X}": (11, "`}` stands where `,` or `>` is expected"),
    "f32[8]{U:X, U:Y}": (13, "`U` is listed twice"),
    "f32[8] f32[8]": (8, "`f32` stands where"),
    "f31[8]": (1, "`f31` is not an element type"),
    "Float32[8]": (8, "`[` stands where the end of the text is expected"),
    "Ref": (4, "the text ends"),
    "Ref{}": (5, "`}` stands where"),
    "Ref{f32[]": (10, "the text ends where"),
    "~Ref{f32[]}": (2, "`Ref` stands where an element type"),
    "f32[b +]": (8, "`]` stands where"),
    "f32[b^c]": (7, "`c` stands where a number is expected"),
    "f32<host[8]": (4, "`<` stands"),
    "\x00": (1, "stands where an element type"),
}


@pytest.mark.parametrize("text", SYNTAX)
def test_syntax(text: str) -> None:
    column, says = SYNTAX[text]
    refusal = refused(text).refusal
    assert refusal.code == "syntax"
    assert (refusal.line, refusal.column) == (1, column)
    assert refusal.message.startswith(f"column {column}: ")
    assert says in refusal.message


def test_a_near_miss_is_named() -> None:
    assert refused("float23[8]").refusal.help == "did you mean `float32`?"


@pytest.mark.parametrize(
    "text",
    [
        "Ref{" * 5000 + "f32[]" + "}" * 5000,
        "Ref{" * 5000,
        "f32[" + "(" * 5000 + "b" + ")" * 5000 + "]",
        "Ref{" * (NESTING + 1) + "f32[]" + "}" * (NESTING + 1),
    ],
)
def test_too_deep(text: str) -> None:
    assert refused(text).refusal.code == "too-deep"


def test_as_deep_as_it_goes() -> None:
    deep = "Ref{" * (NESTING - 1) + "f32[]" + "}" * (NESTING - 1)
    assert str(parse_type(deep)) == deep
    assert hash(parse_type(deep)) == hash(parse_type(deep))


def test_long_types_are_read() -> None:
    wide = parse_type(f"f32[{','.join(['2'] * 3000)}]")
    assert isinstance(wide, ArrayType)
    assert wide.rank == 3000
    assert str(parse_type(f"f32[{' + '.join(['b'] * 3000)}]")).count("b") == 3000
