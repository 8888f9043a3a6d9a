"""The runner is able to fail: what is wrong in a document, in each way it can be, is reported."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from calculus.programs import Equation, Program
from tests.spec.document import NotADocument, Said, sections
from tests.spec.engines import LANGUAGES, OPTIONS, Outcome, run_section
from tests.spec.statements import Statements

GOOD = """# Title

## A9 · a pending sum

Prose.

```jaxpr mesh="X=2" file="sum.jaxpr"
#: 32 bytes in all
{ lambda ; a:f32[4,2]{U:X}. let
    b:f32[4,2] = reshard a #: all-reduce X 32 bytes, wire 32
    c:f32[4,2] = cos b
    d:f32[4,2]{U:X} = neg a
  in (c, d) }
```

```jaxpr mesh="X=2"
{ lambda ; a:f32[4,2]{U:X}. let b:f32[4,2]{U:X} = cos a in (b,) } #: unsound: state, operand 0
```

```jaxpr mesh="X=2"
#: no communication
#: well typed
{ lambda ; a:f32[4,2]{U:X}. let b:f32[4,2]{U:X} = neg a in (b,) }
```

```type mesh="X=2"
f32[8@X,4]{U:Y}   #: malformed: unknown-axis
f32[4]{R:X} -> cotangent f32[4]{U:X} -> block f32[4], 16 bytes
```

```run file="sum.jaxpr"
a = [[0, 0], [0, 0], [0, 0], [0, 1]]
b on 1 is [[0, 0], [0, 0], [0, 0], [0, 1]]
c is [[1, 1], [1, 1], [1, 1], [1, 0.540302]]
1 x all-reduce X 32 bytes
```

```console
$ shardproof check sum.jaxpr --mesh X=2
sum.jaxpr: well typed · 3 equations · 1 collective, 1 run · 32 bytes per device
  line  primitive  collective  over  bytes  wire
     2  reshard    all-reduce  X        32    32
```
"""


def outcome(text: str) -> Outcome:
    (section,) = sections(text, "page.md")
    return run_section(section)


def test_what_is_right_is_accepted() -> None:
    found = outcome(GOOD)
    assert found.problems == []
    assert found.ran == set("PTCUX")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (" #: all-reduce X 32 bytes, wire 32", "", "not expected: line 2 of the block: all-reduce X 32 bytes, wire 32"),
        ("all-reduce X 32", "all-reduce X 31", "no such collective"),
        ("all-reduce X 32", "all-gather X 32", "no such collective"),
        ("all-reduce X 32", "all-reduce Y 32", "no such collective"),
        ("bytes, wire 32", "bytes, wire 31", "no such collective"),
        ("bytes, wire", "bytes x2, wire", "no such collective"),
        ("wire 32", "wire 32 (estimate)", "no such collective"),
        ("32 bytes in all", "33 bytes in all", "32 bytes in all, not 33"),
        ("1, 0.540302]", "1, 0.5404]", "it is [[1.0, 1.0]"),
        ("b on 1 is [[0, 0]", "b on 1 is [[0, 1]", "it is [[0.0, 0.0]"),
        ("b on 1 is", "b on 2 is", "it is None"),
        ("b on 1 is", "e on 1 is", "it is None"),
        ("b on 1 is", "b of 1 is", "this does not read"),
        ("1 x all-reduce X 32", "2 x all-reduce X 32", "executed are ['1 x all-reduce X 32 bytes']"),
        ("1 x all-reduce X 32", "different: copies", "nothing says so"),
        ('```run file="sum.jaxpr"', '```run file="some.jaxpr"', "no program of the section is called"),
        ("#: 32 bytes in all", "#: no communication", "contradict"),
        ("cos b", "cos b #: all-reduce X 32 bytes", "no such collective"),
        (" #: unsound: state, operand 0", "", "not expected: line 1 of the block: unsound: state, operand 0"),
        ("unsound: state, operand 0", "unsound: state, operand 1", "not refused"),
        ("unsound: state, operand 0", "unsound: shape", "not refused"),
        ("unsound: state, operand 0", "one-way: state", "state is of unsound family"),
        ("unsound: state, operand 0", "unsound: wrong", "wrong is of no family"),
        ("unsound: state, operand 0", "unsound", "does not read here"),
        ("cos b", "cos b #: unsound: state", "contradict"),
        ("#: well typed", "#: well typed; unsound: state", "does not read here"),
        ("#: well typed", "#: note: perhaps", "no note says this"),
        ("c:f32[4,2] =", "c:f32[4,2] == ", "the grammar does not read this"),
        ("c:f32[4,2] = cos b", "c:f32[4,2] = cos  b", "printed, line 3 of the block reads"),
        ("in (c, d)", "in (c,d)", "printed, line 5 of the block reads"),
        ('mesh="X=2" file', 'mesch="X=2" file', "no option mesch"),
        ('mesh="X=2" file', 'printed="seed_loss_grad" file', "not what JAX printed"),
        ("```console", "```bash", "no engine runs a block of bash"),
        ("malformed: unknown-axis", "malformed: repeated-axis", "refused: unknown-axis"),
        ("   #: malformed: unknown-axis", "", "refused: unknown-axis"),
        ("malformed: unknown-axis", "unsound: unknown-axis", "no refusal of the catalogue"),
        ("f32[4]{R:X} ->", "f32[4]<R:X> ->", "printed, it reads f32[4]{R:X}"),
        ("cotangent f32[4]{U:X}", "cotangent f32[4]{R:X}", "cotangent is f32[4]{U:X}"),
        ("cotangent f32[4]{U:X}", "tangent f32[4]{U:X}", "there is no fact tangent"),
        ("16 bytes", "16 bytes #: unsound: no-cotangent", "not refused: no-cotangent"),
        ("16 bytes", "17 bytes", "block is f32[4], 16 bytes"),
        ('```type mesh="X=2"', "```type", "names one mesh"),
        ("32    32\n", "32    33\n", "the command prints"),
        ("32    32\n", "32    32\n[exit 1]\n", "the command prints"),
        ("$ shardproof check", "$ echo check", "only shardproof is run here"),
        ("```console\n", "```console\noutput\n", "output before the first command"),
        ("```console\n", "```console\n#: well typed\n", "no expectations beside"),
        ("```console\n", '```python run="T"\n1\n```\n\n```console\n', "asserts something"),
    ],
)
def test_what_is_wrong_is_reported(old: str, new: str, complaint: str) -> None:
    assert GOOD.count(old) >= 1, "the change changes nothing"
    found = outcome(GOOD.replace(old, new, 1))
    assert any(complaint in sentence for _, sentence in found.problems), found.problems


def test_problems_point_into_the_document() -> None:
    text = GOOD.replace("unsound: state, operand 0", "unsound: shape")
    written = text[: text.index("unsound: shape")].count("\n") + 1
    assert (written, "not refused: unsound: shape") in outcome(text).problems


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("## one\n```jaxpr\n{ lambda", "page.md:2: the block is not closed"),
        ("## one\n```text\n\n```jaxpr\n```", "page.md:4: the block opened on line 2 is still open"),
        ("```text\n```\n## one", "page.md:1: a block before the first section"),
        ("## one\n```jaxpr mesh=X\n```", "page.md:2: a fence reads"),
        ("## A1 · one\n## A1 · two", "page.md:2: there are two sections A1"),
        ("## one\n## one", "page.md:2: there are two sections one"),
    ],
)
def test_what_is_not_a_document(text: str, complaint: str) -> None:
    with pytest.raises(NotADocument, match=re.escape(complaint)):
        sections(text, "page.md")


def test_expectations_leave_the_text() -> None:
    text = '## A1 · one\n```jaxpr file="x"\n#: well typed\na  #: p; q\n#: r\nb\n```\n'
    ((block,),) = [section.blocks for section in sections(text, "page.md")]
    assert block.text == "a\nb\n"
    assert block.said == (Said("well typed", 0, 3), Said("p", 1, 4), Said("q", 1, 4), Said("r", 0, 5))


def test_too_few_engines_and_missing_numbers() -> None:
    named = {"A1": frozenset("PT"), "A2": frozenset("TJ"), "B1": frozenset("T")}
    statements = Statements(dict.fromkeys("PTJ", ""), frozenset("J"), {}, named)
    assert statements.not_run("A1", {"P"}) == ["T"]
    assert statements.not_run("A2", {"T"}) == []  # J is not built
    assert statements.not_run("A2", {"J"}) == ["T"]
    assert statements.not_run("", set()) == []  # no statement names engines for it
    assert statements.missing("A", ["A1"]) == ["A2"]


def test_the_examples_of_the_readme_hold() -> None:
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    examples = re.findall(r"(?:^    .*\n|^\n(?=    ))+", readme, re.MULTILINE)
    found = outcome("## examples\n" + "".join(map(textwrap.dedent, examples)))
    assert found.problems == []
    assert found.ran == set("PTCUXZ")


def test_every_language_has_its_options() -> None:
    assert OPTIONS.keys() == LANGUAGES.keys()


GRADIENT = """## The gradient of a square

Prose.

```jaxpr mesh="X=2" file="square.jaxpr"
{ lambda ; a:f32[]. let b:f32[] = integer_pow[y=2] a in (b,) }
```

```jaxpr mesh="X=2" gradient="square.jaxpr" wrt="a"
{ lambda ; a:f32[]. let
    b:f32[] = mul 2.0:f32[] a
    c:f32[] = mul b 1.0:f32[]
  in (c,) }
```
"""

VALUE_AND_GRADIENT = """
```jaxpr mesh="X=2" gradient="square.jaxpr"
{ lambda ; a:f32[]. let
    b:f32[] = integer_pow[y=2] a
    c:f32[] = mul 2.0:f32[] a
    d:f32[] = mul c 1.0:f32[]
  in (b, d) }
```
"""

VJP = """
```jaxpr mesh="X=2" vjp="square.jaxpr"
{ lambda ; a:f32[] b:f32[]. let
    c:f32[] = mul 2.0:f32[] a
    d:f32[] = mul b c
  in (d,) }
```
"""

JVP = """
```jaxpr mesh="X=2" jvp="square.jaxpr" wrt="a"
{ lambda ; a:f32[] b:f32[]. let
    c:f32[] = mul 2.0:f32[] a
    d:f32[] = mul b c
    e:f32[] = integer_pow[y=2] a
  in (e, d) }
```
"""


@pytest.mark.parametrize("derived", [GRADIENT, VALUE_AND_GRADIENT, VJP, JVP])
def test_what_is_derived_is_engine_g(derived: str) -> None:
    found = outcome(derived if derived is GRADIENT else GRADIENT + derived)
    assert found.problems == []
    assert found.ran == set("PTG")


@pytest.mark.parametrize(
    ("derived", "old", "new", "says"),
    [
        (GRADIENT, "mul 2.0", "mul 3.0", "is not the gradient of square.jaxpr"),
        (GRADIENT, 'gradient="square', 'gradient="cube', "no program of the section is called cube"),
        (GRADIENT, "b:f32[] = integer_pow[y=2] a in", "b:f32[4] = broadcast_in_dim a in", "has no gradient"),
        (GRADIENT, "in (c,)", "in (c, c, c)", "1 and 3 results"),
        (VALUE_AND_GRADIENT, "(b, d)", "(c, d)", "is not the gradient of square.jaxpr: result 0"),
        (VALUE_AND_GRADIENT, "(b, d)", "(b, b)", "is not the gradient of square.jaxpr: result 0"),
        (VJP, "mul 2.0", "mul 3.0", "is not the vjp of square.jaxpr"),
        (VJP, "(d,)", "(c, d)", "is not the vjp of square.jaxpr: result 0"),
        (JVP, "y=2", "y=3", "is not the jvp of square.jaxpr: result 0"),
        (JVP, "(e, d)", "(e, c)", "is not the jvp of square.jaxpr: result 1"),
        (JVP, 'wrt="a"', 'wrt=""', "is no input"),
    ],
)
def test_what_is_derived_wrongly_is_reported(derived: str, old: str, new: str, says: str) -> None:
    assert derived.count(old) == 1
    whole = derived.replace(old, new) if derived is GRADIENT else GRADIENT + derived.replace(old, new)
    (problem,) = outcome(whole).problems
    assert says in problem[1]


ASKED = """## A9 · two programs

Prose.

```jaxpr mesh="X=2" file="sum.jaxpr" compiled="cpu"
{ lambda ; a:f32[4,2]{U:X}. let
    b:f32[4,2] = reshard a
    c:f32[4,2] = cos b
  in (c,) }
```

```jaxpr mesh="X=2" gradient="sum.jaxpr"
{ lambda ; a:f32[4,2]{U:X}. let b:f32[4,2] = reshard a in (b,) }
```

```jaxpr mesh="X=2"
{ lambda ; a:f32[4,2]{U:X}. let b:f32[4,2]{U:X} = cos a in (b,) } #: unsound: state, operand 0
```

```run file="sum.jaxpr"
a = [[0, 0], [0, 0], [0, 0], [0, 1]]
```

```type mesh="X=2"
f32[8@X,4]
f32[8@X,4]{R:X}   #: malformed: repeated-axis
```
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("", "", ""),
        ("b:f32[4,2] = reshard a\n", "b:f32[4@X,2] = reshard a\n", "line 3 of the block: f32[4@X,2]"),
        (" #: unsound: state, operand 0", "", "line 1 of the block: Refusal(code='ShardingTypeError'"),
        ("b:f32[4,2]{U:X} = cos a", "b:f32[4,2]{U:X} = neg a", "accepted, where unsound: state is expected"),
        ("f32[8@X,4]\n", "f32[8@X,4] #: malformed: repeated-axis\n", "f32[8@X,4] is a type"),
        ("   #: malformed: repeated-axis", "", "f32[8@X,4]{R:X} is []"),
    ],
)
def test_what_jax_says_otherwise_is_reported(old: str, new: str, complaint: str) -> None:
    from tests.spec.jax_engine import NEWEST, ask

    if not NEWEST:
        pytest.skip("the sections are about JAX 0.12")
    (section,) = sections(ASKED.replace(old, new), "page.md")
    found = ask(section)
    assert "J" in found.ran
    assert [complaint in sentence for _, sentence in found.problems] == [True] * bool(complaint)


def test_what_jax_does_otherwise_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX is told of another equation; and nothing is derived, so that what is compiled moves more."""
    from tests.spec import jax_engine

    if not jax_engine.NEWEST:
        pytest.skip("the sections are about JAX 0.12")
    from verifier.with_jax.running import of_program as right

    def wrong(program: Program, *rest: Any) -> Any:
        first, cosine = program.equations
        sine = Equation("sin", cosine.parameters, cosine.inputs, cosine.binders, cosine.types)
        equations = (first, sine)
        return right(Program((), (), program.inputs, program.input_types, equations, program.outputs), *rest)

    monkeypatch.setattr(jax_engine, "of_program", wrong)
    monkeypatch.setattr("verifier.with_jax.deriving.derived", lambda made: [])
    (section,) = sections(ASKED, "page.md")
    section.blocks = [block for block in section.blocks if block.options.get("file")]
    compiled, ran = (sentence for _, sentence in jax_engine.ask(section).problems)
    assert "compiled, it moves" in compiled
    assert "result 0, f32[4,2], device 0: at [0, 0] 1.0 ours, 0.0 JAX's" in ran


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("cotangents.involution #: proved from definition", ""),
        ("cotangents.involution #: tested", "cotangents.involution is proved from definition"),
        ("cotangents.involution", "needs one status"),
        ("cotangents.involution #: surely", "needs one status"),
        ("cotangents.evolution #: proved from definition", "no obligation is called cotangents.evolution"),
    ],
)
def test_what_is_not_proved_so_is_reported(line: str, complaint: str) -> None:
    (section,) = sections(f"## B1 · a title\n\n```prove\n{line}\n```\n", "page.md")
    found = run_section(section)
    assert "Z" in found.ran
    assert bool(found.problems) is bool(complaint)
    assert any(complaint in sentence for _, sentence in found.problems) or not complaint
