"""Parameters: how far each value reaches, and what it denotes. Expected terms are written by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from calculus.programs import (
    NO_PARAMETERS,
    Braces,
    Call,
    Document,
    Equation,
    Pair,
    Programs,
    Real,
    Value,
    Word,
    bodies,
)
from grammar.parse import parse_document, parse_type, parse_value
from grammar.read import read


def only(text: str) -> Equation:
    """The one equation of a program with this body."""
    document = parse_document(f"{{ lambda ; a:f32[3] i:i32[]. let\n{text}\n  in () }}")
    (equation,) = document.program.equations
    return equation


def value(text: str) -> Value:
    """The value of a parameter that has a line of its own."""
    return only(f"    b:f32[3] = prim[\n      p={text}\n      q=0\n    ] a").parameters["p"]


def test_parameters_keep_their_order() -> None:
    equation = only("    b:f32[3] = prim[z=1 a=(0, 1) m=None flag=True dtype=float32] a")
    assert equation.parameters.items_in_order == (
        ("z", 1), ("a", (0, 1)), ("m", None), ("flag", True), ("dtype", Word("float32")),
    )  # fmt: skip


@pytest.mark.parametrize("reader", [read, parse_document])
def test_parameters_stand_beside_each_other(reader: Callable[[str], Document]) -> None:
    """Lines of a block that hold several: each is read, by both readers. Text for people, brackets, quotes and `<...>`
    keep what looks like one."""
    document = reader("""{ lambda ; a:f32[3]. let
    b:f32[3] = scan[
      length=3 num_carry=1  num_consts=(1,
        2)
      jaxpr={ lambda ; . let  in () } linear=(False,) reverse=f( x=1 ) unroll='a b=1'
      what=<f x=1> z=x == y last=
      spec=P('X',) q=1
    ] a
    check[
      msg=at x=1 y=2
      debug=False
    ] a
  in () }
""")
    scan, check = document.program.equations
    assert [name for name, _ in scan.parameters.items_in_order] == [
        "length", "num_carry", "num_consts", "jaxpr", "linear", "reverse", "unroll", "what", "z", "last", "spec", "q",
    ]  # fmt: skip
    expected = {
        "length": 3, "num_carry": 1, "num_consts": (1, 2), "linear": (False,), "unroll": "a b=1",
        "what": Word("<f x=1>"), "z": Word("x == y"), "last": Word(""), "spec": Call("P", ("X",), ()), "q": 1,
    }  # fmt: skip
    for name, wanted in expected.items():
        assert scan.parameters[name] == wanted, name
    assert check.parameters["msg"] == "at x=1 y=2"


VALUES: dict[str, Value] = {
    "None": None,
    "True": True,
    "False": False,
    "0": 0,
    "-7": -7,
    "12345678901234567890": 12345678901234567890,
    "'x'": "x",
    '"it\'s"': "it's",
    "'a\\nb'": "a\nb",
    "1.5": Real("1.5"),
    "-0.0": Real("-0.0"),
    "1e-38": Real("1e-38"),
    "nan": Real("nan"),
    "-inf": Real("-inf"),
    "(1+2j)": Real("(1+2j)"),
    "1j": Real("1j"),
    "float32": Word("float32"),
    "<lambda>": Word("<lambda>"),
    "my.op": Word("my.op"),
    "nanmax": Word("nanmax"),
    "GatherScatterMode.FILL_OR_DROP": Word("GatherScatterMode.FILL_OR_DROP"),
    "<function f.<locals>.<lambda> at 0x7f>": Word("<function f.<locals>.<lambda> at 0x7f>"),
    "<class 'm.C'>": Word("<class 'm.C'>"),
    "b'ab'": Word("b'ab'"),
    "4*b": Word("4*b"),
    "()": (),
    "(0,)": (0,),
    "('x',)": ("x",),
    "((0, 1), (1, 0))": ((0, 1), (1, 0)),
    "[]": [],
    "(([1], [0]), ([], []))": (([1], [0]), ([], [])),
    "(b + 1, 2*s)": (Word("b + 1"), Word("2*s")),
    "(floordiv(b^2, 3) - 1,)": (Word("floordiv(b^2, 3) - 1"),),
    "{}": Braces(()),
    "{'Y', 'X'}": Braces(("Y", "X")),
    "{'a': *, 'b': (*,)}": Braces((Pair("a", Word("*")), Pair("b", (Word("*"),)))),
    "frozenset({})": Call("frozenset", (Braces(()),)),
    "frozenset({'X'})": Call("frozenset", (Braces(("X",)),)),
    "np.int64(4)": Call("np.int64", (4,)),
    "(('eps', np.float32(1.5)),)": (("eps", Call("np.float32", (Real("1.5"),))),),
    "P()": Call("P"),
    "P('X',)": Call("P", ("X",)),
    "P('X', None)": Call("P", ("X", None)),
    "P(('X', 'Y'),)": Call("P", (("X", "Y"),)),
    "P(None, unreduced={'X'}, unreduced_kind=sum)": Call(
        "P", (None,), (("unreduced", Braces(("X",))), ("unreduced_kind", Word("sum")))
    ),
    "Mesh('X': 4, 'Y': 2, axis_types=(Explicit, Auto))": Call(
        "Mesh", (Pair("X", 4), Pair("Y", 2)), (("axis_types", (Word("Explicit"), Word("Auto"))),)
    ),
    "NamedSharding(spec=P('X', None), memory_kind=device)": Call(
        "NamedSharding", (), (("spec", Call("P", ("X", None))), ("memory_kind", Word("device")))
    ),
    "ShapedArray(float32[8@X,3], weak_type=True)": Call(
        "ShapedArray", (Word("float32[8@X,3]"),), (("weak_type", True),)
    ),
    "(ShapedArray(f32[3]{V:X}),)": (Call("ShapedArray", (Word("f32[3]{V:X}"),)),),
    "Pytree(vals=[None], tree=PyTreeDef(([], [*])))": Call(
        "Pytree", (), (("vals", [None]), ("tree", Call("PyTreeDef", (([], [Word("*")]),))))
    ),
    "((), (RightsOnly(Right(None)),))": ((), (Call("RightsOnly", (Call("Right", (None,)),)),)),
    "CustomNode(C[('a',)], [*])": Call("CustomNode", (Word("C[('a',)]"), [Word("*")])),
    # not derived by the grammar, so kept as they are
    "(1)": Word("(1)"),
    "1 2": Word("1 2"),
    "007": Word("007"),
    "-0": Word("-0"),
    "f(1, x=2, 3)": Word("f(1, x=2, 3)"),
    "Tolerance object at 0x7f": Word("Tolerance object at 0x7f"),
    "T(f={ lambda ; a:f32[]. let  in (a,) }, g=0)": Word("T(f={ lambda ; a:f32[]. let  in (a,) }, g=0)"),
    "PyTreeDef(CustomNode(C[[1]], [*]))": Word("PyTreeDef(CustomNode(C[[1]], [*]))"),
    "a ] b": Word("a ] b"),
    "'open": Word("'open"),
    "'\\q'": Word("'\\q'"),
    "1" * 5000: Word("1" * 5000),
    "{1: }": Word("{1: }"),
    "é": Word("é"),
    "": Word(""),
}


@pytest.mark.parametrize("text", VALUES, ids=lambda text: text[:60])
def test_values(text: str) -> None:
    found = value(text)
    assert found == VALUES[text]
    assert type(found) is type(VALUES[text])
    assert parse_value(text) == VALUES[text]


@pytest.mark.parametrize(
    "text", [text for text in VALUES if text not in ("a ] b", "'open", "")], ids=lambda text: text[:60]
)
def test_values_on_one_line(text: str) -> None:
    assert only(f"    b:f32[3] = prim[o=1 p={text} q=(0,)] a").parameters.items_in_order == (
        ("o", 1), ("p", VALUES[text]), ("q", (0,)),
    )  # fmt: skip


def test_text_for_people_is_never_decoded() -> None:
    text = """{ lambda ; a:f32[]. let
    debug_print[
      fmt=x={x} [{y}  # 'not a comment
      ordered=False
    ] a
    debug_print[
      fmt=one
two  ] three
      ordered=False
    ] a
    debug_print[fmt=it's {x} (1,) ordered=False] a
    debug_print[
      fmt={x}
    ] a
    debug_print[
      fmt=
    ] a
  in () }"""
    found = [e.parameters["fmt"] for e in parse_document(text).program.equations]
    assert found == ["x={x} [{y}  # 'not a comment", "one\ntwo  ] three", "it's {x} (1,)", "{x}", ""]
    assert all(isinstance(fmt, Word) for fmt in found)


def test_blocks_that_people_indent_otherwise() -> None:
    text = """{ lambda ; a:f32[]. let
    b:f32[] = dot_general[dimension_numbers=(([1], [0]), ([], []))
                          preferred_element_type=float32] a a
    c:f32[] = shard_map[
            in_specs=(P('X',),
                      P())
            out_specs=P('X', None)
        ] b
  in (c,) }"""
    first, second = parse_document(text).program.equations
    assert first.parameters["preferred_element_type"] == "float32"
    assert first.inputs == ("a", "a")
    assert second.parameters["in_specs"] == (Call("P", ("X",)), Call("P"))
    assert second.inputs == ("b",)


def test_programs_as_parameters() -> None:
    text = """{ lambda ; a:f32[] i:i32[]. let
    b:f32[] = while[
      body_jaxpr={ lambda ; c:f32[]. let
          a:f32[] = sin c
        in (a,) }
      cond_jaxpr={ lambda ; d:f32[]. let  in (True:bool[],) }
    ] a
    e:f32[] = cond[
      branches=(
        { lambda ; f:f32[]. let g:f32[] = neg f in (g,) }
        { lambda ; h:f32[]. let  in (h,) }
      )
    ] i b
    j:f32[] = reduce[f={ lambda ; a:f32[] b:f32[]. let c:f32[] = add a b in (c,) } dims=(0,)] e
  in (j,) }"""
    first, second, third = parse_document(text).program.equations
    assert [(name, program.line) for name, program in bodies(first.parameters)] == [
        ("body_jaxpr", 3),
        ("cond_jaxpr", 6),
    ]
    assert isinstance(second.parameters["branches"], Programs)
    assert [(name, program.line) for name, program in bodies(second.parameters)] == [("branches", 10), ("branches", 11)]
    assert third.parameters["dims"] == (0,)
    ((_, adder),) = bodies(third.parameters)
    assert adder.equations == (Equation("add", NO_PARAMETERS, ("a", "b"), ("c",), (parse_type("f32[]"),)),)
