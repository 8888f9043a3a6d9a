"""Declarations of one's own: found, judged at every door, and refused clearly where they are no declarations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner, Result
from jax.extend.core import Primitive
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from calculus.primitives import TABLE
from verifier import rules_files
from verifier.cli import main
from verifier.rules_files import BadRules, load_rules

HEAD = """
from calculus.primitives.declaration import Primitive, same_dtype
from calculus.primitives.elementwise import aligned
"""

#: squaring, which is not additive, so that a pending sum is refused; and doubling, which is
RULES = (
    HEAD
    + """
PRIMITIVES = [
    Primitive("users_square", ("x",), "/ x", aligned, same_dtype),
    Primitive("pallas_call:users_double", ("x",), "x", aligned, same_dtype),
    Primitive("ffi_call:users.square", ("x",), "/ x", aligned, same_dtype),
    Primitive("users_odd", ("x",), "x", lambda site: site.parameters["nothing"], same_dtype),
    Primitive("users_none", ("x",), "x", lambda site: None, same_dtype),
]
"""
)

STEP = """
import jax, jax.numpy as jnp
from jax.extend.core import Primitive
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P
square = Primitive("users_square")
square.def_abstract_eval(lambda x: x)

def step():
    mesh = AbstractMesh((2,), ("X",), axis_types=(AxisType.Explicit,))
    spec = P(None, unreduced={"X"})
    return square.bind, (jax.ShapeDtypeStruct((4,), jnp.float32, sharding=NamedSharding(mesh, spec)),)
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of a user's; the table as it was afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rules_files, "_loaded", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(TABLE)
    yield tmp_path
    TABLE.clear()
    TABLE.update(before)
    sys.modules.pop("users_step", None)


def name(*files: str, rules: str | None = None) -> None:
    listed = ", ".join(f'"{file}"' for file in files)
    Path("pyproject.toml").write_text(f"[tool.shardproof]\nrules = {rules or f'[{listed}]'}\n", encoding="utf-8")


def run(*arguments: str, text: str = "") -> Result:
    result = CliRunner().invoke(main, ["check", *arguments], input=text, prog_name="shardproof")
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


def program(call: str) -> str:
    return f"# mesh: X=2\n{{ lambda ; a:f32[4]{{U:X}}. let\n    b:f32[4]{{U:X}} = {call} a\n  in (b,) }}\n"


#: a call, and what becomes of it once it is declared
CALLS = [
    ("users_square", 1), ("pallas_call[name=users_double]", 0), ("ffi_call[target_name=users.square]", 1),
]  # fmt: skip


@pytest.mark.parametrize(("call", "status"), CALLS)
def test_text_is_judged_rather_than_assumed(call: str, status: int) -> None:
    before = run("-", text=program(call))
    assert before.exit_code == 0
    assert "on 1 assumption" in before.output
    Path("rules.py").write_text(RULES, encoding="utf-8")
    name("rules.py")
    after = run("-", text=program(call))
    assert after.exit_code == status
    assert "assum" not in after.output
    assert ("[state]" in after.output) is bool(status)


@pytest.mark.parametrize("call", ["pallas_call[name=another]", "pallas_call[name=None]", "ffi_call[target_name=other]"])
def test_other_kernels_are_still_assumed(call: str) -> None:
    Path("rules.py").write_text(RULES, encoding="utf-8")
    name("rules.py")
    result = run("-", text=program(call))
    assert result.exit_code == 0
    assert "on 1 assumption" in result.output


def test_functions_by_name() -> None:
    Path("users_step.py").write_text(STEP, encoding="utf-8")
    assert "on 1 assumption" in run("users_step:step").output
    Path("rules.py").write_text(RULES, encoding="utf-8")
    name("rules.py")
    result = run("users_step:step")
    assert result.exit_code == 1
    assert "unsound: users_square of (unreduced) along X reads back wrong" in result.output


def square() -> Callable[[Any], Any]:
    primitive = Primitive("users_square")
    primitive.def_abstract_eval(lambda x: x)
    bound: Callable[[Any], Any] = primitive.bind
    return bound


def argument() -> jax.ShapeDtypeStruct:
    mesh = AbstractMesh((2,), ("X",), axis_types=(AxisType.Explicit,))
    return jax.ShapeDtypeStruct((4,), jnp.float32, sharding=NamedSharding(mesh, P(None, unreduced={"X"})))


def test_functions(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from a folder inside the project."""
    (project / "rules.py").write_text(RULES, encoding="utf-8")
    name("rules.py")
    (project / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(project / "deep" / "down")
    report = verifier.check(square(), argument())
    assert (report.verdict, report.assumed) == ("refused", 0)
    assert [refusal.code for refusal in report.refusals] == ["state"]


def test_bad_rules_stop_functions_too() -> None:
    name("rules.py")
    with pytest.raises(BadRules, match="there is no such rules file"):
        verifier.check(square(), argument())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("users_odd", "the scheme of users_odd that {} declares raised KeyError: 'nothing'"),
        ("users_none", "the scheme of users_none that {} declares returned NoneType, not Scheme"),
    ],
)
def test_a_declaration_that_fails_when_it_is_used(call: str, words: str, project: Path) -> None:
    Path("rules.py").write_text(RULES, encoding="utf-8")
    name("rules.py")
    result = run("-", text=program(call))
    assert result.exit_code == 1
    assert f"unmodelled: {words.format(project.resolve() / 'rules.py')}" in result.output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "rules.py: defines no PRIMITIVES; list your declarations there"),
        ("PRIMITIVES = 'gelu'", "rules.py: defines no PRIMITIVES"),
        ("PRIMITIVES = [3]", "rules.py: PRIMITIVES holds a int; each should be a Primitive(...)"),
        ("\n1 / 0", "rules.py:2: ZeroDivisionError while it ran: division by zero"),
        ("import users_nowhere", "rules.py:1: ModuleNotFoundError while it ran"),
        ("import sys\nsys.exit(3)", "rules.py:2: SystemExit while it ran: 3"),
        ("def f(:", "rules.py: SyntaxError while it ran"),
        (HEAD + 'PRIMITIVES = [Primitive("cos", ("x",), "x", aligned, same_dtype)]', "cos is declared already"),
        (HEAD + 'PRIMITIVES = 2 * [Primitive("mine", ("x",), "x", aligned, same_dtype)]', "mine is declared already"),
        (HEAD + 'PRIMITIVES = [Primitive("mine", ("x",), "x | z", aligned, same_dtype)]', "rules.py: mine: "),
        (HEAD + 'PRIMITIVES = [Primitive("mine", "x", "x", aligned, same_dtype)]', "operands should be a tuple"),
        (HEAD + 'PRIMITIVES = [Primitive("mine", ("x",), "x", 3, same_dtype)]', "scheme should be a function"),
        (HEAD + 'PRIMITIVES = [Primitive("mine", ("x",), "x", aligned, "f32")]', "dtypes should be a function"),
        (HEAD + 'PRIMITIVES = [Primitive(3, ("x",), "x", aligned, same_dtype)]', "its name should be text"),
    ],
)  # fmt: skip
def test_files_that_declare_nothing_usable(text: str, words: str) -> None:
    Path("rules.py").write_text(text, encoding="utf-8")
    name("rules.py")
    before = dict(TABLE)
    result = run("-", text=program("exp"))
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
    assert before == TABLE


@pytest.mark.parametrize("rules", ['"rules.py"', "[3]", "{a = 1}"])
def test_rules_that_are_no_list_of_names(rules: str) -> None:
    name(rules=rules)
    result = run("-", text=program("neg"))
    assert result.exit_code == 2
    assert "rules should be a list of file names" in result.output


@pytest.mark.parametrize("text", ["", "[tool]\nother = 1", "[project]", "[tool.shardproof]", "not toml ["])
def test_projects_without_rules(text: str) -> None:
    Path("pyproject.toml").write_text(text, encoding="utf-8")
    assert load_rules() == ()
    assert run("-", text=program("neg")).exit_code == 0


def test_files_are_loaded_once() -> None:
    Path("rules.py").write_text(RULES, encoding="utf-8")
    name("rules.py")
    names = ("users_square", "pallas_call:users_double", "ffi_call:users.square", "users_odd", "users_none")
    assert load_rules() == load_rules() == names
