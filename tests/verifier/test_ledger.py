"""The ledger: what its file may say, which cells its patterns cover, and the page made of it.

`make differences` writes the page.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calculus.meshes import Axis, AxisMode, Mesh
from calculus.programs import NO_PARAMETERS, Equation
from grammar.read import read_type
from verifier.agreement import page
from verifier.cells import Call, Cell, Refusal, Verdict
from verifier.ledger import KINDS, assign, ledger
from verifier.patterns import BOTH, JAX, OURS, BadLedger, Difference, Pattern, agree

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "proofs" / "differences.md"
RELEASES = {"0.12.0.1", "0.10.2"}

ENTRY = """
[[entry]]
number = 1
title = "a title"
kind = "jax-refuses-sound"
cause = "typing rule"
versions = ["0.12.0.1"]
program = "x"
because = "y"
evidence = "by hand"
[entry.proof]
program = "{ lambda ; a:f32[8]{U:X}. let b:f32[8]{U:X} = neg a in (b,) }"
[[entry.cells]]
primitives = ["neg"]
along = { 0 = "U*" }
"""


def cell(operand: str, ours: str | None, theirs: str | None, primitive: str = "neg") -> Difference:
    """A cell of one operand; a verdict is a type, or `None` for a refusal."""
    type = read_type(operand)
    mesh = Mesh([Axis("X", 2, AxisMode.EXPLICIT), Axis("Y", 2, AxisMode.EXPLICIT)])
    call = Call(primitive, "", Equation(primitive, NO_PARAMETERS, ("a",), ("b",), (type,)), (type,))
    first, second = (
        Verdict(None, Refusal("state", "no rule for it")) if text is None else Verdict((read_type(text),))
        for text in (ours, theirs)
    )
    return Difference(call, mesh, Cell((type,)), first, second)  # type: ignore[arg-type]


def test_the_ledger_keeps_its_rules() -> None:
    entries = ledger()
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    assert len({entry.title for entry in entries}) == len(entries)
    assert {entry.kind for entry in entries} <= set(KINDS)
    assert {version for entry in entries for version in entry.versions} == RELEASES
    assert "neg" in {name for entry in entries for p in entry.patterns for name in p.primitives or ["neg"]}


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(ledger()), "run `make differences`"


def test_the_page_names_pages_that_exist() -> None:
    """Evidence that refers to a theorem refers to one that stands there; a test, to one that is there."""
    text = PAGE.read_text(encoding="utf-8")
    theorems = re.findall(r"proofs/(\w+)\.md#([\w-]+)", text)
    assert theorems
    for name, heading in theorems:
        assert f"\n## {heading}\n" in (ROOT / "proofs" / f"{name}.md").read_text(encoding="utf-8")
    tests = re.findall(r"tests/[\w/]+\.py", text)
    assert all((ROOT / test).is_file() for test in tests)
    assert tests


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('title = "a title"', "", "no title"),
        ("number = 1", "number = 2", "its number is another"),
        ("number = 1", "number = 1\ncolour = 3", "colour"),
        ("jax-refuses-sound", "opinion", "of kind opinion"),
        ("typing rule", "bad luck", "cause bad luck"),
        ('versions = ["0.12.0.1"]', "versions = []", "names no version"),
        ('primitives = ["neg"]', 'accepts = ["jax"]', "it is of another kind"),
        ('primitives = ["neg"]', 'primitive = "neg"', "no primitive"),
        ('0 = "U*"', 'nobody = "U*"', "along"),
        ('title = "a title"', "title", "Expected"),
        ('"by hand"', '"Pending: somebody looks at it."', "evidence that is pending is none"),
        ('"by hand"', '"to be run"', "evidence that is pending is none"),
        (
            "[entry.proof]\n",
            "[entry.counterexample]\nby = 'search'\n",
            "says that something is sound, and has no proof",
        ),
        ("jax-refuses-sound", "jax-accepts-unsound", "says that something is unsound, and has no counterexample"),
        ("[[entry.cells]]", "[entry.counterexample]\nprogram = 'x'\n[[entry.cells]]", "is of what is unsound"),
        ("[entry.proof]", "[entry.proof]\nby = 'hand'", "a proof has a program"),
    ],
)
def test_an_entry_that_breaks_them_is_refused(old: str, new: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    path.write_text(ENTRY, encoding="utf-8")
    assert len(ledger(path)) == 1
    other = tmp_path / "other.toml"
    other.write_text(ENTRY.replace(old, new), encoding="utf-8")
    with pytest.raises(BadLedger, match=says):
        ledger(other)


WRONG = (
    ENTRY.replace("jax-refuses-sound", "jax-accepts-unsound")
    .replace("[entry.proof]\n", "[entry.counterexample]\nby = 'search'\n")
    .replace("0 =", "any =")
)
BY_DEVICES = ENTRY.replace("jax-refuses-sound", "jax-accepts-unsound").replace(
    "[[entry.cells]]", "[entry.counterexample]\nby = 'devices'\n[[entry.cells]]"
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (WRONG, ""),
        (WRONG.replace("by = 'search'\n", ""), "found by solver, search, devices"),
        (WRONG.replace("'search'", "'hand'"), "found by solver, search, devices"),
        (WRONG.replace("'search'", "'devices'"), "by devices has no more"),
        (WRONG.replace("'search'", "'solver'\ntangents = 'x'"), "by solver has program"),
        (BY_DEVICES, "has a proof of its typing, a file, and lowering or partitioner as its cause"),
        (BY_DEVICES.replace("typing rule", "lowering"), "has a proof of its typing, a file"),
    ],
)
def test_a_counterexample_says_who_finds_it(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    path.write_text(text, encoding="utf-8")
    if says:
        with pytest.raises(BadLedger, match=says):
            ledger(path)
    else:
        assert len(ledger(path)) == 1


def test_what_devices_alone_show_is_compiled_wrong(tmp_path: Path) -> None:
    defect = "defect = 'crash'\nfunction = 'a:b'\nreaches = 'a.b'\nfile = '01_a.py'\nversions"
    path = tmp_path / "differences.toml"
    path.write_text(BY_DEVICES.replace("typing rule", "partitioner").replace("versions", defect), encoding="utf-8")
    (entry,) = ledger(path)
    assert entry.counterexample is not None
    assert (entry.counterexample.by, entry.counterexample.program) == ("devices", "")


def test_conventions_are_few(tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    one = ENTRY.replace("jax-refuses-sound", "convention")
    path.write_text("".join(one.replace("number = 1", f"number = {n}") for n in range(1, 12)), encoding="utf-8")
    with pytest.raises(BadLedger, match="11 conventions"):
        ledger(path)


@pytest.mark.parametrize(
    ("ours", "theirs", "accepts"),
    [("f32[8]{U:X}", None, OURS), (None, "f32[8]", JAX), ("f32[8]{U:X}", "f32[8]", BOTH)],
)
def test_who_accepts(ours: str | None, theirs: str | None, accepts: str) -> None:
    assert cell("f32[8]{U:X}", ours, theirs).accepts == accepts


def test_agreement_is_of_types() -> None:
    same = Verdict((read_type("f32[8]{U:(X,Y)}"),))
    assert agree(same, Verdict((read_type("f32[8]{U:(Y,X)}"),)))
    assert not agree(same, Verdict((read_type("f32[8]{U:X}"),)))
    assert not agree(same, Verdict(None, Refusal("ValueError", "no")))
    assert agree(Verdict(None, Refusal("state", "no")), Verdict(None, Refusal("ValueError", "no")))


def pattern(**said: str) -> Pattern:
    """A pattern of conditions along one axis."""
    return Pattern(along=tuple((what, frozenset(states.split())) for what, states in said.items()))


@pytest.mark.parametrize(
    ("difference", "along", "fits"),
    [
        (cell("f32[8]{U:X}", "f32[8]{U:X}", None), {"any": "U"}, True),
        (cell("f32[8]{U_max:X}", "f32[8]{U:X}", None), {"any": "U"}, False),
        (cell("f32[8]{U:X, R:Y}", "f32[8]{U:X}", None), {"any": "U", "some": "R"}, False),  # along two axes, not one
        (cell("f32[8]{U:X}", None, "f32[8]"), {"any": "U", "jax": "N"}, True),
        (cell("f32[8]{U:X}", None, "f32[8]{U:X}"), {"any": "U", "jax": "N"}, False),
        (cell("f32[8]{U:X}", "f32[8]{U:X}", None), {"any": "U", "target": "U"}, False),  # there is no target
        (cell("f32[8@X]{U:Y}", "f32[8@X]", None), {"every": "S", "we": "S"}, True),
    ],
)
def test_patterns(difference: Difference, along: dict[str, str], fits: bool) -> None:
    assert pattern(**along).fits(difference) == fits


def test_a_cell_belongs_to_the_first_entry_that_covers_it(tmp_path: Path) -> None:
    path = tmp_path / "differences.toml"
    wide = ENTRY.replace("number = 1", "number = 2").replace('along = { 0 = "U*" }', "")
    path.write_text(ENTRY + wide, encoding="utf-8")
    cells = [cell("f32[8]{U:X}", "f32[8]{U:X}", None), cell("f32[8]{R:X}", "f32[8]{R:X}", None)]
    other = cell("f32[8]{U:X}", "f32[8]{U:X}", None, "cos")
    unsound = cell("f32[8]{U:X}", None, "f32[8]")  # the entries are of what JAX refuses
    covered, unexplained = assign([*cells, other, unsound], ledger(path))
    assert covered == {1: [cells[0]], 2: [cells[1]]}
    assert unexplained == [other, unsound]


if __name__ == "__main__":
    PAGE.write_text(page(ledger()), encoding="utf-8")
