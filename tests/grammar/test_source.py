"""Places: the line and column of every part of every equation, counted by hand here and checked over the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from calculus.programs import Equation, Program, bodies
from calculus.refusals import Place
from grammar.parse import parse_document
from grammar.references import equations
from grammar.source import Source, inside_type, locate

CORPUS = Path(__file__).parents[1] / "golden" / "corpus"

#                1         2         3         4         5         6
#       123456789012345678901234567890123456789012345678901234567890
TEXT = """{ lambda a:f32[]; b:f32[2]
    c:f32[2]. let
    d:f32[] in:f32[2]
      e:f32[2] = scan[  # f.py:1:2 (g)
      jaxpr={ lambda ; b:f32[2]. let
          d:f32[2] = mul b b; e:f32[2] = mul b b
        in (d,
          e) }
      length=3
    ] a 1.0:f32[]
      b
    f:f32[2] = jit[name=g jaxpr={ lambda ; b:f32[2]. let f:f32[2] = sin b in (f, b) }] in
    check[debug=False] f in
    g:f32[2] <- h[i,0]
    k:f32[2], h[0] <- h[0], g
    h[1:] += g
  in (in, a, 2.0:f32[]) }
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return parse_document(TEXT).program


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(TEXT, "text")


@pytest.mark.parametrize(
    ("equation", "place", "expected"),
    [
        (0, Place("primitive"), (4, 18)),
        (0, Place("binder", 0), (3, 5)),
        (0, Place("binder", 1), (3, 13)),
        (0, Place("binder", 2), (4, 7)),
        (0, Place("type", 1), (3, 16)),
        (0, Place("type", 2), (4, 9)),
        (0, Place("operand", 0), (10, 7)),
        (0, Place("operand", 1), (10, 9)),
        (0, Place("operand", 2), (11, 7)),
        (0, Place("parameter", name="jaxpr"), (5, 7)),
        (0, Place("parameter", name="length"), (9, 7)),
        (0, Place("parameter", name="missing"), (4, 18)),
        (0, Place("operand", 7), (4, 18)),
        (1, Place("primitive"), (12, 16)),
        (1, Place("parameter", name="jaxpr"), (12, 27)),
        (1, Place("operand", 0), (12, 88)),
        (2, Place("primitive"), (13, 5)),
        (2, Place("operand", 1), (13, 26)),
        (2, Place("parameter", name="debug"), (13, 11)),
        (3, Place("binder", 0), (14, 5)),
        (3, Place("primitive"), (14, 14)),
        (3, Place("operand", 0), (14, 17)),
        (4, Place("operand", 0), (15, 15)),
        (4, Place("operand", 1), (15, 29)),
        (4, Place("primitive"), (15, 20)),
        (5, Place("operand", 0), (16, 5)),
        (5, Place("primitive"), (16, 11)),
        (5, Place("operand", 1), (16, 14)),
    ],
)
def test_places_of_an_equation(
    program: Program, source: Source, equation: int, place: Place, expected: tuple[int, int]
) -> None:
    assert locate(source, program.equations[equation], place) == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (Place("input", 0), (1, 19)),
        (Place("input", 1), (2, 5)),
        (Place("output", 0), (17, 7)),
        (Place("output", 1), (17, 11)),
        (Place("output", 2), (17, 14)),
        (Place("output", 3), (1, 1)),
        (Place("primitive"), (1, 1)),
    ],
)
def test_places_of_a_program(program: Program, source: Source, place: Place, expected: tuple[int, int]) -> None:
    assert locate(source, program, place) == expected


def test_inside_programs(program: Program, source: Source) -> None:
    ((_, inner),) = bodies(program.equations[0].parameters)
    assert locate(source, inner, Place()) == (5, 13)
    assert locate(source, inner, Place("input", 0)) == (5, 24)
    assert locate(source, inner, Place("output", 0)) == (7, 13)
    assert locate(source, inner, Place("output", 1)) == (8, 11)
    first, second = inner.equations
    assert (first.line, second.line) == (6, 6)
    assert locate(source, first, Place("operand", 1)) == (6, 28)
    assert locate(source, second, Place("binder", 0)) == (6, 31)
    assert locate(source, second, Place("operand", 0)) == (6, 46)
    ((_, inline),) = bodies(program.equations[1].parameters)  # it reuses the name of the outer binder
    assert locate(source, inline.equations[0], Place("binder", 0)) == (12, 58)
    assert locate(source, inline.equations[0], Place("primitive")) == (12, 69)
    assert locate(source, inline, Place("output", 1)) == (12, 82)


def test_what_the_text_does_not_show(program: Program, source: Source) -> None:
    moved = Equation("sin", program.equations[2].parameters, ("a",), ("z",), (None,), line=13)
    assert locate(source, moved, Place("operand", 0)) == (13, 5)
    nowhere = Equation("sin", program.equations[2].parameters, ("a",), ("z",), (None,), line=99)
    assert locate(source, nowhere, Place("operand", 0)) == (99, 1)
    assert locate(source, Equation("sin", program.equations[2].parameters, (), (), ()), Place()) == (0, 0)


def test_lines(source: Source) -> None:
    assert source.line(1) == "{ lambda a:f32[]; b:f32[2]"
    assert source.line(17) == "  in (in, a, 2.0:f32[]) }"
    assert source.line(18) == source.line(99) == ""
    assert Source("").line(1) == ""


@pytest.mark.parametrize("file", sorted(CORPUS.rglob("[fs]*.jaxpr")), ids=lambda file: str(file.relative_to(CORPUS)))
def test_what_is_found_is_what_stands_there(file: Path) -> None:
    text = file.read_text()
    source, lines = Source(text), text.split("\n")
    document = parse_document(text)

    def check(term: Equation | Program, place: Place, expected: str) -> None:
        line, column = locate(source, term, place)
        assert lines[line - 1][column - 1 :].startswith(expected)
        assert line >= term.line

    pending = [program for _, program in document.definitions] + [document.program]
    for program in pending:
        pending.extend(inner for equation in program.equations for _, inner in bodies(equation.parameters)
                       if inner not in pending)  # fmt: skip
        for index, output in enumerate(program.outputs):
            check(program, Place("output", index), str(output))
        for index, name in enumerate(program.inputs):
            check(program, Place("input", index), name)
    for equation in equations([equation for program in pending for equation in program.equations]):
        if equation.cell is None:
            check(equation, Place("primitive"), equation.primitive)
        for index, atom in enumerate(equation.inputs):
            check(equation, Place("operand", index), str(atom))
        for index, (name, type) in enumerate(zip(equation.binders, equation.types, strict=True)):
            check(equation, Place("binder", index), name)
            check(equation, Place("type", index), str(type))
        for name in equation.parameters:
            check(equation, Place("parameter", name=name), f"{name}=")


#       123456789012345678901234567890123456789012345
TYPES = [
    ("f32[8@Z]", Place(axis="Z"), 7),
    ("f32[8,4@(X, Z)]", Place(axis="Z"), 13),
    ("f32[8,X@Y,4]{U:X}", Place(axis="X"), 16),  # a size of the same name is no axis
    ("f32[X@X,X]", Place(axis="X"), 7),
    ("f32[8@(X,X)]", Place(axis="X"), 10),  # the last of several
    ("f32[8@XX]{V:X, R:(YX,XX)}", Place(axis="X"), 13),
    ("f32[8@data.x]", Place(axis="data.x"), 7),
    ("Ref{f32[8@X]}", Place(axis="X"), 11),
    ("key<X>[4@X]", Place(axis="X"), 10),
    ("f32[8,7@X]", Place(dim=1), 7),
    ("f32[ 8 , 7@X ]", Place(dim=0), 6),
    ("f32[f(a, b),(c + 1),7@(X,Y), 6]", Place(dim=2), 21),
    ("f32[f(a, b),(c + 1),7@(X,Y), 6]", Place(dim=3), 30),
    ("f32[8]", Place(axis="X"), 1),
    ("f32[8]", Place(dim=3), 1),
    ("Tok", Place(axis="X"), 1),
    ("f32[8@", Place(axis="X"), 1),
]


@pytest.mark.parametrize(("text", "place", "column"), TYPES)
def test_inside_a_type(text: str, place: Place, column: int) -> None:
    assert inside_type(text, place) + 1 == column
    assert inside_type(f"a:{text}", place, 2) - 2 + 1 == column


def test_inside_the_types_of_binders_and_inputs() -> None:
    text = "{ lambda ; a:f32[4] b:f32[8,7@X]. let\n    c:f32[8] d:f32[8@Z] = f b\n  in (c,) }"
    program, source = parse_document(text).program, Source(text)
    assert locate(source, program, Place("input", 1, dim=1)) == (1, 29)
    assert locate(source, program.equations[0], Place("binder", 1, axis="Z")) == (2, 22)
    assert locate(source, program.equations[0], Place("binder", 1)) == (2, 14)
