"""`shardproof prove --rule`: the tutorial does what it says, and files that are wrong say where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from calculus.primitives import TABLE
from verifier.cli import main

PAGE = Path(__file__).resolve().parents[2] / "proofs" / "your-own-rule.md"


def prove(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["prove", "--rule", str(path), *arguments])


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("rules") / "products.py"
    path.write_text(PAGE.read_text().split("```python\n")[1].split("```")[0])
    found = prove(path, "--json")
    assert found.exit_code == 1, found.output
    return {one["primitive"]: one for one in json.loads(found.output)}


def test_the_right_rule_is_proved(said: dict[str, Any]) -> None:
    assert [one["status"] for one in said["twice_product"]["obligations"]] == 4 * ["proved from definition"]
    assert "**twice_product**: four typings" in PAGE.read_text()
    assert said["twice_product"]["left_out"] == []


def test_claims_are_judged(said: dict[str, Any]) -> None:
    claims = said["twice_product"]["claims"]
    assert [one["verdict"] for one in claims] == ["proved", "one-way", "refuted"]
    assert "is read back" in claims[2]["because"]
    assert [line.partition(" holds")[0] for line in claims[2]["blocks"]] == ["device X=0", "device X=1"]


def test_the_wrong_rule_is_refuted(said: dict[str, Any]) -> None:
    wrong = [one for one in said["wrong_product"]["obligations"] if one["status"] == "refuted"]
    assert wrong
    assert all("unreduced_unreduced" in one["name"] for one in wrong)


def test_what_is_left_out_is_named(said: dict[str, Any]) -> None:
    assert {one["status"] for one in said["shy_product"]["obligations"]} == {"proved from definition"}
    assert said["shy_product"]["left_out"] == ["(copy, unreduced) -> unreduced"]


def test_the_table_is_left_as_it_was(said: dict[str, Any]) -> None:
    assert not set(said) & set(TABLE)


POWERS = """
from calculus.primitives.declaration import Primitive, same_dtype
from calculus.primitives.elementwise import aligned

def kernel(np, parameters, x):
    scaled = x * float(parameters["factor"])
    return scaled if parameters["power"] == 1 else scaled * scaled

def linearity(site):
    return "x" if site.parameters["power"] == 1 else "/ x"

PRIMITIVES = [Primitive("power", ("x",), linearity, aligned, same_dtype, kernel=kernel)]
CALLS = {"power": ["[factor=3.0 power=1] f32[2]", "[factor=3.0 power=2] f32[4]"]}
CLAIMS = [
    "power[factor=3.0 power=1] f32[2]{U:X} -> f32[2]{U:X}",
    "power[factor=3.0 power=2] f32[2]{U:X} -> f32[2]{U:X}",
    "power[factor=3.0 power=2] f32[4@X] -> f32[4@X]",
]
"""


def test_a_call_with_parameters_is_judged_as_that_call(tmp_path: Path) -> None:
    """What is proved of one call says nothing of another."""
    path = tmp_path / "power.py"
    path.write_text(POWERS)
    (said,) = json.loads(prove(path, "--json").output)
    assert [one["verdict"] for one in said["claims"]] == ["proved", "refuted", "proved"]
    assert {one["status"] for one in said["obligations"]} == {"proved from definition"}
    assert sum(one["name"].endswith("unreduced.unreduced") for one in said["obligations"]) == 1


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("[factor=3.0 power=1] f32[2]", "factor=3.0 f32[2]", "is no type"),
        ("[factor=3.0 power=1] f32[2]", "[factor=3.0", "are no parameters"),
        ("[factor=3.0 power=1] f32[2]", "[power=1] f32[2]", "the kernel of power fails on f32[2]: KeyError"),
        ("float(", "sum(", "the kernel of power fails on f32[2]: TypeError"),
    ],
)
def test_a_call_that_does_not_run_says_so(tmp_path: Path, old: str, new: str, named: str) -> None:
    path = tmp_path / "power.py"
    path.write_text(POWERS.replace(old, new, 1))
    found = prove(path)
    assert found.exit_code == 2
    assert named in found.output


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("PRIMITIVES = [", "SyntaxError"),
        ("x = 1", "defines no PRIMITIVES"),
        ("PRIMITIVES = []\nCLAIMS = ['mine f32[4] -> f32[4]']", "mine"),
        ("PRIMITIVES = []\nCLAIMS = ['mine f32[4']", "f32[4"),
        ("PRIMITIVES = []\nCLAIMS = ['mine f32[4]']", "is no claim"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "rules.py"
    path.write_text(text)
    found = prove(path)
    assert found.exit_code == 2
    assert named in found.output
    assert "Traceback" not in found.output


LOOKING = """
from calculus.primitives.declaration import Primitive, same_dtype
from calculus.primitives.elementwise import aligned

def ours(name, kernel, **more):
    return Primitive(name, ("x",), "x", aligned, same_dtype, kernel=kernel, **more)

PRIMITIVES = [
    ours("turned", lambda np, p, x: np.flip(x)),
    ours("rolled", lambda np, p, x: np.roll(x, 1)),
    ours("centered", lambda np, p, x: x - np.mean(x)),
    ours("total", lambda np, p, x: x + np.add.reduce(x)),
    ours("sliced", lambda np, p, x: np.asarray(x)[::-1]),
    ours("misdefined", lambda np, p, x: np.roll(x, 1), element=lambda e, call: call.arrays[0](call.digits)),
]
"""


def test_a_kernel_that_looks_at_other_elements_is_refuted_where_it_is_cut(tmp_path: Path) -> None:
    """Whatever function it does that by, and also where a definition says that it does not."""
    path = tmp_path / "looking.py"
    path.write_text(LOOKING)
    found = json.loads(prove(path, "--json").output)
    assert len(found) == 6
    for one in found:
        cut = {each["name"].rpartition(".")[2]: each["status"] for each in one["obligations"] if ".cut" in each["name"]}
        assert cut["cut0"] == "refuted", one["primitive"]


ASKING = """
from calculus.primitives.declaration import Primitive, same_dtype
from calculus.primitives.elementwise import aligned

def ours(name, kernel):
    return Primitive(name, ("x",), "x", aligned, same_dtype, kernel=kernel)

PRIMITIVES = [
    ours("flat", lambda np, p, x: x if x.ndim < 3 else np.cos(x)),
    ours("shaped", lambda np, p, x: x if x.shape != (64, 64) else np.cos(x)),
    ours("small", lambda np, p, x: x if x.size < 100 else np.cos(x)),
    ours("narrow", lambda np, p, x: x if len(x) < 100 else np.cos(x)),
    ours("even", lambda np, p, x: x if np.shape(x)[-1] % 2 == 0 else np.cos(x)),
]
"""


def test_of_a_kernel_that_asks_for_shapes_nothing_is_proved_from_its_definition(tmp_path: Path) -> None:
    """It may do something else at the next size: it was run at one."""
    path = tmp_path / "asking.py"
    path.write_text(ASKING)
    found = json.loads(prove(path, "--json").output)
    assert {each["status"] for one in found for each in one["obligations"]} == {"from declared properties"}


def test_a_kernel_makes_what_is_declared(tmp_path: Path) -> None:
    path = tmp_path / "compared.py"
    path.write_text(ASKING.partition("PRIMITIVES")[0] + 'PRIMITIVES = [ours("more", lambda np, p, x: x > 0)]\n')
    found = prove(path)
    assert found.exit_code == 2
    assert "makes bool[4,8] of f32[4,8], and the declaration says f32[4,8]" in found.output


FAILING = (
    ASKING.partition("PRIMITIVES")[0]
    + """
def shaped(np, p, x):
    assert x.shape == (4, 8)
    return 2 * x

def low(np, p, x):
    if x.min() < -1:
        raise ValueError("too low")
    return 2 * x

PRIMITIVES = [
    ours("shaped", shaped),
    ours("low", low),
    ours("powers", lambda np, p, x: np.frexp(x)[0] * 2 ** np.frexp(x)[1]),
    ours("nothing", lambda np, p, x: None if x.min() < -1 else x),
    ours("twice", lambda np, p, x: 2 * x),
]
"""
)


def test_a_kernel_that_fails_in_a_run_is_named_after_the_others(tmp_path: Path) -> None:
    path = tmp_path / "failing.py"
    path.write_text(FAILING)
    found = prove(path)
    assert found.exit_code == 2
    assert "twice: 4 typings" in found.output
    for line in (
        "the kernel of shaped fails on f32[2,8]: AssertionError",
        "the kernel of low fails on f32[4,8]: ValueError: too low",
        "the kernel of powers fails on f32[4,8]: ValueError: Integers to negative integer powers",
        "the kernel of nothing fails on f32[4,8]: TypeError: it makes object",
    ):
        assert line in found.output
    assert "Traceback" not in found.output
    assert "float()" not in found.output


MAGNITUDES = (
    ASKING.partition("PRIMITIVES")[0]
    + """
from dataclasses import replace
from calculus.primitives import TABLE

WRONG = [
    ours("rounded", lambda np, p, x: np.round(x * 16) / 16),
    ours("decimals", lambda np, p, x: np.round(x, 3)),
    ours("nearest", lambda np, p, x: np.rint(x * 16) / 16),
    ours("clipped", lambda np, p, x: x.clip(-1000, 1000)),
    ours("remainder", lambda np, p, x: np.fmod(x, 1e9)),
    ours("cut", lambda np, p, x: np.vectorize(lambda v: v if v < 1000 else 0.0)(x)),
    ours("stepped", lambda np, p, x: np.heaviside(x - 1e4, 0) + x),
    ours("positive", lambda np, p, x: x if x.min() < 0 else np.sin(x)),
]
RIGHT = [
    ours("twice", lambda np, p, x: 2 * x),
    ours("added", lambda np, p, x: np.asarray(x) + 0.1 * np.asarray(x)),
    ours("half", lambda np, p, x: x.astype("float16").astype("float32")),
    replace(TABLE["cumsum"], name="running"),
    replace(TABLE["fft"], name="waves"),
]
PRIMITIVES = [*WRONG, *RIGHT]
CALLS = {one.name: ["f32[8]"] for one in WRONG} | {
    "twice": ["f32[4]", "bf16[4]", "c64[4]"],
    "running": ["[axis=0 reverse=False] f32[8,2]"],
    "waves": ["[fft_lengths=(8,) fft_type=2] f32[2,8]"],
}
"""
)


def test_what_is_linear_is_so_at_every_magnitude(tmp_path: Path) -> None:
    """What rounds, clips or takes remainders is shown on devices; what is only rounded as floats are is not."""
    path = tmp_path / "magnitudes.py"
    path.write_text(MAGNITUDES)
    found = {one["primitive"]: one["obligations"] for one in json.loads(prove(path, "--json").output)}
    refuted = {name: [each for each in several if each["status"] == "refuted"] for name, several in found.items()}
    wrong, right = list(refuted)[:8], list(refuted)[8:]
    assert not any(refuted[name] for name in right), refuted
    for name in wrong:
        assert len(refuted[name]) == 1 or name == "positive"  # which looks at other elements, where it is cut too
        shown = refuted[name][-1]
        assert shown["name"].endswith("unreduced.unreduced")
        assert sum(line.startswith("device X=") for line in shown["blocks"]) == 2
    assert {each["domain"].partition(", ")[2] for each in found["half"]} == {"rounding to f16 taken as the identity"}
