"""The fast reader against the grammar: the same terms, the same refusals, and no grammar where none is needed."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calculus.programs import Document, Parameters, Program, Programs, Reference
from calculus.refusals import Refusal, Refused
from grammar.fast import read_fast
from grammar.layout import NESTING
from grammar.leaves import Odd
from grammar.parse import parse_document
from grammar.read import read

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = {str(path.relative_to(GOLDEN)): path for path in sorted(GOLDEN.glob("**/*.jaxpr"))}
NOT_TAKEN = {name for name in FILES if Path(name).name in ("linear_solve.jaxpr", "linear_solve_grad.jaxpr")}
"""Programs quoted inside values that are not programs, over several lines: only the grammar reads these."""


def places(document: Document) -> list[tuple[int, str | None]]:
    """What equality of terms leaves out: the line of each program and equation, and comments."""
    found: list[tuple[int, str | None]] = []
    waiting = [document.program, *(program for _, program in document.definitions)]
    while waiting:
        program = waiting.pop()
        found.append((program.line, None))
        for equation in program.equations:
            found.append((equation.line, equation.comment))
            for _, value in equation.parameters.items_in_order:
                inner = value.items if isinstance(value, Programs) else (value,)
                waiting += [item for item in inner if isinstance(item, Program)]
    return found


def outcome(reader: Callable[[str], Document], text: str) -> Document | Refusal:
    try:
        return reader(text)
    except Refused as refused:
        return refused.refusal


def check_same(text: str) -> None:
    """`read`, which is fast where it can be, and the grammar alone: the same term, or the same refusal."""
    found, norm = outcome(read, text), outcome(parse_document, text)
    assert found == norm
    if isinstance(found, Document) and isinstance(norm, Document):
        assert places(found) == places(norm)


@pytest.mark.parametrize("name", FILES)
def test_printed_programs(name: str) -> None:
    text = FILES[name].read_text(encoding="utf-8")
    if name in NOT_TAKEN:
        with pytest.raises(Odd):
            read_fast(text)
    else:
        norm = parse_document(text)
        found = read_fast(text)
        assert found == norm
        assert places(found) == places(norm)


SMALL = [path.read_text(encoding="utf-8") for path in FILES.values() if path.stat().st_size < 3_000]
PIECES = [
    *("in", "let", "lambda", "_", "a", "b", "mul", "scatter-add", "jaxpr", "é"),
    *"{}[]()=:;,.#*'\" \t\n",
    *(
        "<-",
        "+=",
        "...",
        "  ",
        "\n  ",
        "# x",
        "{ lambda ;",
        "in (a,) }",
        "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }",
    ),
    *("in:f32[]", "f32[4]", "f32[2@X]{V:X, U:Y}", "key<fry>[]", "Ref{f32[2]}"),
    *("1.0:f32[]", "1.0", "0", "-0", "007", "1e-38", "inf", "nan", "inf:f32[]", "(1+2j):c64[]", "(b'',):float0[]"),
    *("True", "None", "jaxpr=f", "branches=(", "fmt=x", "x=1", "P(", "<lambda>", "2*b"),
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A printed program with one to three mistakes: lines lost, repeated, exchanged or indented, pieces put in."""
    text = draw(st.sampled_from(SMALL))
    for _ in range(draw(st.integers(1, 3))):
        lines = text.split("\n")
        line, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        start, length = draw(st.integers(0, len(text))), draw(st.integers(0, 12))
        match draw(st.integers(0, 6)):
            case 0:
                del lines[line]
            case 1:
                lines.insert(other, lines[line])
            case 2:
                lines[line], lines[other] = lines[other], lines[line]
            case 3:
                lines[line] = " " * (length % 4) + lines[line]
            case 4:
                lines[line] = lines[line].removeprefix(" ").removeprefix(" " * (length % 2))
            case 5:
                lines = [text[:start] + draw(st.sampled_from(PIECES)) + text[start + length // 3 :]]
            case _:
                lines = [text[:start] + text[start + length :]]
        text = "\n".join(lines)
    return text


@settings(max_examples=1500, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_mutated_programs(text: str) -> None:
    check_same(text)


HEAD = "{ lambda ; a:f32[4] b:i32[]. let\n"
END = "  in (a,) }"
MANY = "".join(f"    c{i}:f32[4] = sin a\n" for i in range(200))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{ lambda ; . let  in () }",
        "# mesh: X=4, Y=2\n{ lambda ; a:f32[4@X]. let  in (a,) }\n",
        "{ lambda a:f32[]; . let b:f32[] = sin a; c:f32[] = cos b in (c,) : { Read<a> } }",
        "{ lambda ; in:f32[]. let let:f32[] = mul in in; mul:f32[] = mul let in in (mul, in) }",
        "{ lambda ; a:f32[]. let debug_print nan:f32[]; b = sin a; print b:f32[]; a[] <- b in (b,) }",
        "{ lambda ; in:f32[]. let c:c64[] = mul in (1+2j):c64[] in (c,) }",  # `in (` is an operand and a literal
        HEAD + "    c = cos a\n    c d = f a 1.0\n" + END,  # older dialects print no types
        HEAD + "    c:f32[4] = add a 1.0 # here\n    print[x=1] a\n    print a\n" + END,
        HEAD
        + "    c:f32[4] <- a[b,1:3,:] # there\n    a[...] <- c\n    a[b] += 1.0:f32[]\n    d:f32[4], a[] <- a[], c\n"
        + END,
        HEAD + "    d:f32[4], a[0] <- a[1], c\n" + END,
        HEAD + "    c:f32[4] = f[m=M(device_kind=TPU v6 lite, n=1, other=NVIDIA A100-SXM4-40GB)] a\n" + END,
        HEAD + "    c:f32[4] = f[m=M(device_kind=TPU v6 lite +)] a\n" + END,
        HEAD + "    c:f32[4] = add a\n      b # late\n    d:f32[4]\n      e:f32[4] = f[\n      x=1\n    ] c\n" + END,
        HEAD + "    c:f32[4] = f[x=1 x=2] a\n" + END,
        HEAD + "    c:f32[4] = f[fmt=a {} b=3] a\n    d:f32[4] = f[\n      fmt=] #\n  y=2\n      x=1\n    ] a\n" + END,
        HEAD + "    c:f32[4] = f[\n      branches=(\n        g\n      )\n    ] a\n" + END,
        HEAD + "    c:f32[4] = f[jaxpr=g] a\n" + END,
        HEAD + "    c\n      d:f32[4] = f a\n" + END,
        HEAD + "    c:f32[4]{Un (g,) }\n:X} = f a\n" + END,  # the line break comes too early to say what is wrong
        HEAD + "    c:f32[4] = f[x=5 m', '_b=3] a\n    d:f32[4] = f[x=1] a\n" + END,  # an open quote
        HEAD + "    c:Ref{f32 [4]} = f a\n" + END,
        HEAD + "    c:f32[4] = f a; d:f32[4] = g a\n" + END,
        # what ends a value may be far behind the lines that look like its equation
        HEAD + "    c:f32[4] = f[\n      x=1\n" + MANY + "    ] a\n" + END,
        HEAD + "    c:f32[4] = f[\n      fmt='[' ] a\n" + "  y\n" * 2_000 + "      x=1\n    ] a\n" + END,
        HEAD + "    c:f32[4] = f a\n\n    d:f32[4] = f a\n# note\n    e:f32[4] = f a\n" + END,
        HEAD + "    c:f32[4] = iota[n=1]\n    d:f32[4] = iota\n" + END,  # an editor has removed blanks at the end
        "let f = { lambda ; a:f32[]. let b:f32[] = jit[jaxpr=g] a in (b,) } in\n"
        "let g = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in\n"
        + HEAD
        + "    c:f32[4] = jit[jaxpr=f] a\n"
        + END,
        "let f = { lambda ; a:f32[]. let b:f32[] = jit[jaxpr=f] a in (b,) } in\n" + HEAD + END,
        "let f = { lambda ; a:f32[]. let\n    b:f32[] = jit[jaxpr=g] a\n  in (b,) } in\n"
        "let g = { lambda ; a:f32[]. let\n    b:f32[] = jit[jaxpr=g] a\n  in (b,) } in\n" + HEAD + END,
        "let f = { lambda ; a:f32[]. let  in (a,) } in\nlet f = { lambda ; . let  in () } in\n" + HEAD + END,
    ],
)
def test_every_form(text: str) -> None:
    check_same(text)


def nested(depth: int) -> str:
    """Programs inside programs, each on one line."""
    return (
        "{ lambda ; a:f32[]. let b:f32[] = jit[jaxpr=" * depth + "{ lambda ; . let  in () }" + "] a in (b,) }" * depth
    )


def test_depth() -> None:
    """So many programs inside each other are read, and no more."""
    found, norm = read_fast(nested(NESTING - 1)), parse_document(nested(NESTING - 1))
    assert places(found) == places(norm)
    assert len(places(found)) == NESTING + NESTING - 1
    for depth in (NESTING, 20_000):
        refusal = outcome(read, nested(depth))
        assert isinstance(refusal, Refusal)
        assert refusal.code == "too-deep"
        assert refusal == outcome(parse_document, nested(depth))


def test_depth_through_definitions() -> None:
    def chain(length: int) -> str:
        uses = "let f{} = {{ lambda ; a:f32[]. let b:f32[] = jit[jaxpr=f{}] a in (b,) }} in\n"
        return (
            "".join(uses.format(i, i + 1) for i in range(length))
            + f"let f{length} = {{ lambda ; a:f32[]. let  in (a,) }} in\n"
            + HEAD
            + END
        )

    assert isinstance(read_fast(chain(NESTING - 10)), Document)
    with pytest.raises(Odd):
        read_fast(chain(NESTING + 10))
    check_same(chain(NESTING - 10))
    check_same(chain(NESTING + 10))


def test_references_are_of_their_document() -> None:
    """The same block of parameters, in documents where it names different programs, or none."""
    equation = "    c:f32[4] = jit[name=f jaxpr=f] a\n"
    empty = read_fast(f"let f = {{ lambda ; . let  in () }} in\n{HEAD}{equation}{END}")
    other = read_fast(f"let f = {{ lambda ; z:i32[]. let  in (z,) }} in\n{HEAD}{equation}{END}")
    none = read_fast(HEAD + equation + END)
    values = [document.program.equations[0].parameters["jaxpr"] for document in (empty, other, none)]
    assert [value.program.inputs if isinstance(value, Reference) and value.program else value for value in values] == [
        (),
        ("z",),
        "f",
    ]


def test_equal_blocks_are_one_object() -> None:
    """On one line or on several, and in another document; not where a program stands inside."""
    wide = "    c:f32[4] = f[\n      x=(1, 2)\n      y=None\n    ] a\n"
    document = read_fast(HEAD + wide + "    d:f32[4] = g[x=(1, 2) y=None] a\n    e:f32[4] = f[x=(1, 2) y=1] a\n" + END)
    first, second, third = (equation.parameters for equation in document.program.equations)
    assert first is second
    assert first is not third
    assert read_fast(HEAD + wide + END).program.equations[0].parameters is first
    assert first == Parameters((("x", (1, 2)), ("y", None)))


def test_the_grammar_is_asked_about_one_equation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """One odd equation does not make the whole document slow; what is wrong in it is said as the grammar says it."""
    odd = "    d:f32[4] = f[x={ lambda  ; . let  in () }] a\n"
    check_same(HEAD + MANY + odd + MANY + END)
    check_same(HEAD + MANY + "    d:f32[4] = f f f = a\n" + MANY + END)
    monkeypatch.setattr("grammar.parse.parse_document", None)
    assert len(read(HEAD + MANY + odd + MANY + END).program.equations) == 401


def output(code: str, *arguments: str) -> str:
    """What a Python program prints, run in a process of its own at the root of the project."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=GOLDEN.parents[1], capture_output=True, text=True, check=True).stdout


def test_lark_is_not_loaded_without_need() -> None:
    """On all programs of the seeds, those with shard_map, and the transformers."""
    code = (
        "import sys, pathlib\nfrom grammar.read import read, read_type\n"
        "for path in sys.argv[1:]: read(pathlib.Path(path).read_text())\n"
        "read_type('f32[8@X,4]{U:Y}')\nprint('lark' in sys.modules)\n"
        "read_type('f32[b + 1]')\nprint('lark' in sys.modules)"
    )
    wanted = [str(path) for name, path in FILES.items() if Path(name).name.startswith(("seed_", "shmap_", "llama_"))]
    assert len(wanted) > 60
    assert output(code, *wanted) == "False\nTrue\n"


HOSTILE: dict[str, Callable[[int], str]] = {
    "one long line": lambda n: HEAD + "    c:f32[4] = f " + "a " * n + "\n" + END,
    "one long body": lambda n: "{ lambda ; a:f32[]. let " + "; ".join(["b:f32[] = f[x=[1]] a"] * n) + " in (a,) }",
    "binders without end": lambda n: HEAD + "    a:f32[]\n" + "      a:f32[]\n" * n + END,
    "a block without end": lambda n: HEAD + "    a:f32[] = f[\n" + "      x=1\n" * n + END,
    "brackets without end": lambda n: HEAD + "    a:f32[] = f[x=" + "[" * n + "\n" + END,
    "heads without end": lambda n: "{ lambda " * n,
    "programs without end": lambda n: HEAD + "    b:f32[] = jit[jaxpr={ lambda ; a:f32[]. let\n" * n,
    "odd bodies in odd bodies": lambda n: (
        (HEAD + "    b:f32[] = jit[x=1\n y={ lambda ; . let\n") * (n // 100) + "\n in (a" * n
    ),
    "odd equations": lambda n: HEAD + "    c:f32[4] = f[x={ lambda  ; . let  in () }] a\n" * (n // 20) + END,
    "definitions": lambda n: "let f = { lambda ; . let  in () } in\n" * n + HEAD + END,
    "many outputs": lambda n: HEAD + "  in (" + "a, " * n + " }",
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_take_linear_time(make: Callable[[int], str]) -> None:
    """The fast reader and what it asks of the grammar; the grammar's own time has its own test."""

    def seconds(n: int) -> float:
        text = make(n)
        start = time.process_time()
        with contextlib.suppress(Odd, Refused):
            read_fast(text)
        return time.process_time() - start

    def linear() -> bool:
        """Ten times the time for ten times the text, with room; where it is quadratic, a hundred times."""
        return seconds(20_000) < 40 * max(seconds(2_000), 0.02)

    seconds(100)
    assert any(linear() for _ in range(3))


def test_odd_bodies_are_not_asked_about_at_every_depth() -> None:
    """Where each of many nested bodies needs the grammar, it reads the text a few times, not once for each depth."""
    depth = 40
    opening, closing = [], []
    for level in range(depth):
        margin = " " * (4 + 6 * level)
        opening.append(f"{margin}c:f32[4] = f[\n{margin}  jaxpr={{ lambda ; a:f32[4]. let\n")
        closing.append(f"{margin}    in ((1+2j):c64[],) }}\n{margin}] a\n")
    inner = f"{' ' * (4 + 6 * depth)}c:f32[4] = sin a\n" * 300
    text = HEAD + "".join(opening) + inner + "".join(reversed(closing)) + END
    times = []
    for reader in (parse_document, read):
        start = time.process_time()
        reader(text)
        times.append(time.process_time() - start)
    assert times[1] < 8 * times[0]


def test_collection_is_switched_on_again() -> None:
    assert gc.isenabled()
    with pytest.raises(Odd):
        read_fast("no program")
    assert gc.isenabled()
    gc.disable()
    try:
        read_fast(HEAD + END)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_caches_can_be_cleared() -> None:
    """In a process of its own: types made before do not equal those made after."""
    code = (
        "from grammar.read import clear_leaf_caches, read_type\n"
        "texts = ['f32[7@Q]', 'f32[q + 1]']\n"
        "first, second = map(read_type, texts), map(read_type, texts)\n"
        "first = list(first)\nprint([a is b for a, b in zip(first, second)])\n"
        "clear_leaf_caches()\nprint([a is b for a, b in zip(first, map(read_type, texts))])"
    )
    assert output(code) == "[True, True]\n[False, False]\n"
