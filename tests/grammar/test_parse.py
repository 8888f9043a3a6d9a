"""The program language by the grammar: each printed form, term by term. Expected terms are written by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from calculus.programs import (
    NO_PARAMETERS,
    Cell,
    Document,
    Equation,
    Literal,
    Parameters,
    Program,
    Reference,
    Word,
    bodies,
)
from calculus.refusals import Refused
from calculus.types import Type
from grammar.layout import terminals
from grammar.parse import parse_document, parse_equation, parse_type, parse_value
from grammar.references import equations, holds_programs

CORPUS = Path(__file__).parents[1] / "golden" / "corpus"
INDEX = json.loads((CORPUS / "index.json").read_text())


def f32(*shape: int) -> Type:
    return parse_type(f"f32[{','.join(map(str, shape))}]")


def literal(text: str) -> Literal:
    value, _, type = text.partition(":")
    return Literal(value, parse_type(type))


def only(text: str) -> Equation:
    """The one equation of a program with this body."""
    document = parse_document(f"{{ lambda ; a:f32[3] i:i32[]. let\n{text}\n  in () }}")
    (equation,) = document.program.equations
    return equation


def in_order(document: Document) -> list[Equation]:
    programs = [program for _, program in document.definitions]
    return [equation for program in [*programs, document.program] for equation in equations(program.equations)]


# The corpus


@pytest.mark.parametrize("file", sorted(CORPUS.rglob("*.jaxpr")), ids=lambda file: str(file.relative_to(CORPUS)))
def test_the_corpus_is_read(file: Path) -> None:
    found = in_order(parse_document(file.read_text()))
    if file.parent == CORPUS and file.stem in INDEX:  # JAX counted these
        assert len(found) == INDEX[file.stem]["distinct_equations"]
    lines = file.read_text().split("\n")
    for equation in found:
        begins = equation.binders[0] if equation.binders else equation.primitive
        assert equation.cell is not None or begins in lines[equation.line - 1]
        assert all(type is not None for type in equation.types)
    assert [equation.line for equation in found] == sorted(equation.line for equation in found)


# Programs


def test_a_program() -> None:
    text = "{ lambda a:f32[3,4] b:f32[4]; c:f32[2@X,3]. let\n    d:f32[2@X,4] = dot c a\n  in (d, b, 1.0:f32[]) }\n"
    program = parse_document(text).program
    dot = Equation("dot", NO_PARAMETERS, ("c", "a"), ("d",), (parse_type("f32[2@X,4]"),))
    constants = (("a", "b"), (f32(3, 4), f32(4)))
    assert program == Program(*constants, ("c",), (parse_type("f32[2@X,3]"),), (dot,), ("d", "b", literal("1.0:f32[]")))
    assert (program.line, program.equations[0].line, program.effects) == (1, 2, None)


@pytest.mark.parametrize(
    ("printed", "outputs"),
    [
        ("()", []),
        ("(a,)", ["a"]),
        ("(a)", ["a"]),  # written by people
        ("(a, a)", ["a", "a"]),
        ("(1.0:f32[], (1+2j):c64[], (b'',):float0[])", ["1.0:f32[]", "(1+2j):c64[]", "(b'',):float0[]"]),
    ],
)
def test_outputs(printed: str, outputs: list[str]) -> None:
    program = parse_document(f"{{ lambda ; a:f32[3]. let  in {printed} }}").program
    assert [str(output) for output in program.outputs] == outputs
    assert program.equations == ()


def test_a_second_equation_on_a_line_may_begin_with_a_name_without_a_type() -> None:
    """Types hold blanks where sizes are symbolic; what stands before `=` are names all the same."""
    program = parse_document("{ lambda ; a:f32[b + 1]. let c = sin a; d e:f32[b + 1,2*s] = f c in (e,) }").program
    assert [(one.primitive, one.binders) for one in program.equations] == [("sin", ("c",)), ("f", ("d", "e"))]


def test_a_body_on_one_line() -> None:
    text = "{ lambda ; a:f32[]. let b:f32[] = sin a; in:f32[] = mul a b; c:f32[] = add in in in (c, in) }"
    program = parse_document(text).program
    assert [(e.binders, e.primitive, e.inputs) for e in program.equations] == [
        (("b",), "sin", ("a",)),
        (("in",), "mul", ("a", "b")),
        (("c",), "add", ("in", "in")),
    ]
    assert program.outputs == ("c", "in")


def test_variables_named_like_everything_else() -> None:
    text = """{ lambda lambda:f32[]; let:f32[] in:f32[] is:f32[]. let
    mul:f32[] = mul let in
    jit:f32[] or:f32[] = do mul in
    inf:f32[] = max inf nan
    nan:f32[] = max inf:f32[] nan:f32[]
    let:c64[] = add in (1+2j):c64[]
    in:f32[] = neg in
  in (in, let) }"""
    program = parse_document(text).program
    assert (program.constants, program.inputs) == (("lambda",), ("let", "in", "is"))
    assert [(e.binders, e.primitive, e.inputs) for e in program.equations] == [
        (("mul",), "mul", ("let", "in")),
        (("jit", "or"), "do", ("mul", "in")),
        (("inf",), "max", ("inf", "nan")),
        (("nan",), "max", (literal("inf:f32[]"), literal("nan:f32[]"))),
        (("let",), "add", ("in", literal("(1+2j):c64[]"))),
        (("in",), "neg", ("in",)),
    ]
    assert program.outputs == ("in", "let")


def test_wrapped_lines() -> None:
    text = """{ lambda a:f32[3]
    b:f32[3]; c:f32[3]
    d:f32[3]. let
    e:f32[3] f:f32[3]
      g:f32[3] = jit[
      name=f
    ] a b
      c d
      1.0:f32[]
    h:f32[3] = add
      g
      f
  in (e,
    h) }"""
    program = parse_document(text).program
    assert (program.constants, program.inputs) == (("a", "b"), ("c", "d"))
    first, second = program.equations
    assert (first.binders, first.inputs) == (("e", "f", "g"), ("a", "b", "c", "d", literal("1.0:f32[]")))
    assert (second.binders, second.inputs) == (("h",), ("g", "f"))
    assert (first.line, second.line) == (4, 10)
    assert program.outputs == ("e", "h")


def test_no_results_no_operands_and_dropped_results() -> None:
    text = """{ lambda ; a:f32[] b:bool[]. let
    check[debug=False] b 0:i32[] a
    token_op a b
    barrier
    _:f32[] = iota[dimension=0 dtype=float32]\x20
    _:f32[] _:f32[] = two a
  in () }"""
    found = parse_document(text).program.equations
    assert [(e.primitive, e.binders, len(e.inputs)) for e in found] == [
        ("check", (), 3),
        ("token_op", (), 2),
        ("barrier", (), 0),
        ("iota", ("_",), 0),
        ("two", ("_", "_"), 1),
    ]
    assert found[0].parameters == Parameters((("debug", False),))


def test_what_people_write_without_types() -> None:
    program = parse_document(
        "{ lambda ; a b. let\n    c = dot_general[x=1] a b\n    d e = f c 1.0 -inf True\n  in (d, e) }"
    ).program
    assert program.input_types == (None, None)
    first, second = program.equations
    assert (first.binders, first.types, first.inputs) == (("c",), (None,), ("a", "b"))
    assert second.binders == ("d", "e")
    assert second.inputs == ("c", Literal("1.0", None), Literal("-inf", None), Literal("True", None))


def test_primitive_names() -> None:
    names = ["scatter-add", "vary_unreduced_cast_p", "my.op", "remat2", "ns::op"]
    assert [only(f"    b:f32[3] = {name} a").primitive for name in names] == names


@pytest.mark.parametrize(
    "text",
    [
        "2.0:f32[]",
        "1e-38:f32[]",
        "1.0000000150474662e+30:f32[]",
        "-0.0:f32[]",
        "inf:f32[]",
        "-inf:f32[]",
        "nan:f32[]",
        "True:bool[]",
        "False:bool[]",
        "-2147483648:i32[]",
        "(1+2j):c64[]",
        "(-0-1e-05j):c64[]",
        "1j:c64[]",
        "(b'',):float0[]",
        "[1. 2. 3.]:f32[3]",
        "[[1 2]\n [3 4]]:i32[2,2]",
        "1.0:f32[]{V:X}",
    ],
)
def test_literals(text: str) -> None:
    assert only(f"    b:f32[3] = f a {text} a").inputs == ("a", literal(text), "a")


def test_effects() -> None:
    text = """{ lambda ; a:f32[3]. let
    b:f32[3] = jit[
      jaxpr={ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) : { Write<a> } }
    ] a
  in (b,) : { Read<a>, <m.E object at 0x7f>, E(x=<class 'm.F'>, y={1}) } }"""
    program = parse_document(text).program
    assert program.effects == "{ Read<a>, <m.E object at 0x7f>, E(x=<class 'm.F'>, y={1}) }"
    ((_, inner),) = bodies(program.equations[0].parameters)
    assert inner.effects == "{ Write<a> }"


def test_cells() -> None:
    text = """{ lambda ; a:Ref{f32[4,4]} i:i32[]. let
    b:f32[4,4] <- a[...]
    c:f32[2] <- a[i,1:3]
    a[0,:] <- c
    a[i:i+2,0] <- 2.0:f32[]
    a[:2,:][i,:] <- c
    a[...] += b
    d:f32[2], a[0,1:3] <- a[0,1:3], c
    _:f32[], a[0,i] <- a[0,i], 1.0:f32[]
  in () }"""
    found = parse_document(text).program.equations
    assert [(e.primitive, e.binders, e.inputs, e.cell) for e in found] == [
        ("get", ("b",), ("a",), Cell("a", "...")),
        ("get", ("c",), ("a", "i"), Cell("a", "i,1:3")),
        ("swap", (), ("a", "c"), Cell("a", "0,:")),
        ("swap", (), ("a", literal("2.0:f32[]"), "i"), Cell("a", "i:i+2,0")),
        ("swap", (), ("a", "c", "i"), Cell("a", ":2,:][i,:")),
        ("addupdate", (), ("a", "b"), Cell("a", "...")),
        ("swap", ("d",), ("a", "c"), Cell("a", "0,1:3")),
        ("swap", ("_",), ("a", literal("1.0:f32[]"), "i"), Cell("a", "0,i")),
    ]
    assert found[0].types == (f32(4, 4),)


def test_comments() -> None:
    text = """# mesh: X=4, Y=2
{ lambda ; a:f32[]. let
    b:f32[] = sin a             # /a/b.py:1:2 (f.<locals>.g)
    c:f32[] d:f32[]
      e:f32[] = scan[           # second]
      jaxpr={ lambda ; f:f32[]. let
          g:f32[] = mul f f     # inner
        in (g,) }
    ] a
    h:f32[] = cond[             # third
      branches=(
        { lambda ; i:f32[]. let j:f32[] = mul i 2.0:f32[] in (j,) } # in line
      )
    ] b
    # between
    k:f32[] = neg h             #\x20
    l:f32[] = neg k
  in (l,) }
# after"""
    document = parse_document(text)
    assert document.mesh == "X=4, Y=2"
    assert [(e.binders[0], e.comment) for e in in_order(document)] == [
        ("b", "/a/b.py:1:2 (f.<locals>.g)"),
        ("c", "second]"),
        ("g", "inner"),
        ("h", "third"),
        ("j", "in line"),
        ("k", ""),
        ("l", "after"),
    ]


def test_the_mesh_is_on_the_first_line_only() -> None:
    program = "{ lambda ; . let  in () }"
    assert parse_document(f"# mesh: X=2\n{program}").mesh == "X=2"
    assert parse_document(f"\n# mesh: X=2\n{program}").mesh is None
    assert parse_document(f"# other\n{program}").mesh is None


# Definitions


def test_definitions_are_a_letrec() -> None:
    text = """let outer = { lambda ; a:f32[]. let b:f32[] = jit[name=inner jaxpr=inner] a in (b,) } in
let inner = { lambda ; a:f32[]. let  in (a,) } in
{ lambda ; a:f32[] i:i32[]. let
    b:f32[] = jit[name=outer jaxpr=outer] a
    c:f32[] = cond[branches=(inner outer)] i b
    d:f32[] = cond[
      branches=(
        inner
        { lambda ; e:f32[]. let  in (e,) }
      )
    ] i c
    f:f32[] = cond[branches=(inner)] i d
  in (f,) }"""
    document = parse_document(text)
    (outer_name, outer), (inner_name, inner) = document.definitions
    assert (outer_name, inner_name) == ("outer", "inner")
    assert [program for _, program in bodies(outer.equations[0].parameters)] == [inner]
    jit, two, mixed, one = document.program.equations
    assert jit.parameters["name"] == Word("outer")
    assert jit.parameters["jaxpr"] == Reference("outer")
    assert [program for _, program in bodies(jit.parameters)] == [outer]
    assert [program for _, program in bodies(two.parameters)] == [inner, outer]
    assert [program.outputs for _, program in bodies(mixed.parameters)] == [("a",), ("e",)]
    assert [program for _, program in bodies(one.parameters)] == [inner]


def test_only_program_parameters_refer() -> None:
    text = """let f = { lambda ; a:f32[]. let  in (a,) } in
{ lambda ; a:f32[]. let
    b:f32[] = custom[name=f jvp_jaxpr_fun=f fwd_jaxpr_thunk=f call_jaxpr=f update_jaxpr=None jaxpr=other] a
  in (b,) }"""
    parameters = parse_document(text).program.equations[0].parameters
    assert {name: type(value) for name, value in parameters.items()} == {
        "name": Word, "jvp_jaxpr_fun": Word, "fwd_jaxpr_thunk": Word, "call_jaxpr": Reference,
        "update_jaxpr": type(None), "jaxpr": Word,
    }  # fmt: skip
    assert [holds_programs(name) for name in ("jaxpr", "body_jaxpr", "branches", "name")] == [True, True, True, False]


def test_values_alone() -> None:
    assert parse_value("f", "jaxpr") == Reference("f")
    assert parse_value("f", "jaxpr", {"f"}) == Reference("f")
    assert type(parse_value("f", "jaxpr", {"g"})) is Word
    assert type(parse_value("f", "name", {"f"})) is Word
    assert type(parse_value("(1, 2)", "fmt")) is Word


def test_an_equation_alone() -> None:
    equation = parse_equation("    b:f32[] = jit[ # here\n      jaxpr=f\n    ] a\n      c", line=40)
    assert equation == Equation(
        "jit", Parameters((("jaxpr", Reference("f")),)), ("a", "c"), ("b",), (f32(),), comment="here"
    )
    assert equation.line == 40
    nested = parse_equation(
        "c:f32[] = jit[\n  jaxpr={ lambda ; a:f32[]. let\n      b:f32[] = sin a\n    in (b,) }\n] b", 7
    )
    assert [inner.line for inner in equations([nested])] == [7, 9]
    with pytest.raises(Refused) as caught:
        parse_equation("b:f32[] =\n  = a", line=40)
    assert (caught.value.refusal.line, caught.value.refusal.column) == (41, 3)


# The grammar itself


def test_layout_reads_the_terminals_of_the_grammar() -> None:
    grammar = (Path(__file__).parents[2] / "grammar" / "programs.lark").read_text()
    written = re.findall(r"^([A-Z_]+)(?:\.\d)? *: /", grammar, re.MULTILINE)
    assert sorted(written) == sorted(terminals())
    assert len(set(written)) == len(written)
    for pattern in terminals().values():
        assert re.compile(pattern).groups == 0  # the lexer tells terminals apart by group


def test_an_action_before_a_semicolon() -> None:
    """The type of its last operand ends where the equation ends: what follows has a binder of its own."""
    program = parse_document("{ lambda ; a:f32[]. let debug_print nan:f32[]; b = sin a in (b,) }").program
    assert [equation.primitive for equation in program.equations] == ["debug_print", "sin"]
