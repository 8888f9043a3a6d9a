"""Functions by name: what the command makes of `package.module:factory`, whatever stands there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from verifier.cli import main
from verifier.factories import is_target

MODULE = """
import jax, jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

MESH = AbstractMesh((4,), ("data",), axis_types=(AxisType.Explicit,))


def array(*shape, spec=P()):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))


def good():
    return (lambda x: jnp.sum(x)), (array(8, spec=P("data")),)


def with_keywords():
    return (lambda x, *, scale: jnp.sum(x) * scale), [array(8, spec=P("data"))], {"scale": array()}


def one_way():
    weights = array(8, 8, spec=P(None, None, reduced={"data"}))
    return (lambda a, b: a @ b), (weights, weights)


class Steps:
    good = staticmethod(good)


number = 3


def returns_a_number():
    return 3


def returns_no_arguments():
    return good, 4


def raises():
    raise ValueError("no data today")


def shapes():
    def misfit(x, w):
        return x @ w
    return misfit, (array(3), array(4))


def unreduced():
    return jnp.cos, (array(8, spec=P(None, unreduced={"data"})),)


def bare():
    return jnp.sum, (jax.ShapeDtypeStruct((8,), jnp.float32, sharding=P("rows")),)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a user's, with a module, and nothing of it left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "users_steps.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "users_broken.py").write_text("def step(:\n", encoding="utf-8")
    yield tmp_path
    for name in ("users_steps", "users_broken"):
        sys.modules.pop(name, None)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["check", *arguments], prog_name="shardproof")
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


@pytest.mark.parametrize("name", ["good", "with_keywords", "Steps.good"])
def test_a_factory(name: str) -> None:
    """One float is summed over 4 devices: 4 bytes."""
    result = run(f"users_steps:{name}")
    assert result.exit_code == 0
    first, heading, where, row = result.output.splitlines()
    assert first.startswith(f"users_steps:{name}: well typed · ")
    assert first.endswith(" · 1 collective, 1 run · 4 bytes per device")
    assert heading.split() == ["value", "collective", "over", "bytes", "wire"]
    assert where.strip().startswith("users_steps.py:")
    assert row.split()[-4:] == ["all-reduce", "data", "4", "6"]


def test_json_and_a_file_beside_it() -> None:
    Path("step.jaxpr").write_text("{ lambda ; a:f32[2]. let in (a,) }", encoding="utf-8")
    result = run("users_steps:good", "step.jaxpr", "--json")
    assert result.exit_code == 0
    function, file = json.loads(result.output)
    assert (function["file"], file["file"]) == ("users_steps:good", "step.jaxpr")
    assert function["communication"][0]["where"].startswith("users_steps.py:")


def test_what_is_refused_exits_with_1() -> None:
    result = run("users_steps:one_way")
    assert result.exit_code == 1
    assert "users_steps:one_way: refused · " in result.output
    assert "(operand 0, x, is a; operand 1 is b)" in result.output


def test_a_mesh_from_the_command_line() -> None:
    result = run("users_steps:bare", "--mesh", "rows=2")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].split()[-4:] == ["all-reduce", "rows", "4", "4"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("users_nowhere:step", "module users_nowhere cannot be imported: ModuleNotFoundError: No module named"),
        ("users_broken:step", "module users_broken cannot be imported: File"),
        ("users_steps:nope", "users_steps has no nope; name a function in it that returns (f, args)"),
        ("users_steps:number", "users_steps:number is a int; it should be a function that returns (f, args)"),
        ("users_steps:returns_a_number", "returned a int; it should return (f, args) or (f, args, kwargs)"),
        ("users_steps:returns_no_arguments", "returned a tuple; it should return (f, args) or (f, args, kwargs)"),
        ("users_steps:raises", "users_steps:raises raised ValueError: no data today"),
        ("users_steps:shapes", "cannot be traced: TypeError: dot_general requires contracting dimensions"),
        ("users_steps:unreduced", "JAX raised this while it traced cos, before anything was checked"),
        ("users_steps:bare", "and no mesh is given: add mesh=..."),
    ],
)
def test_what_leads_to_nothing_exits_with_2(target: str, words: str) -> None:
    result = run(target)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
    assert "removed its internal frames" not in result.output


def test_an_error_names_the_users_line() -> None:
    where = MODULE.splitlines().index("        return x @ w") + 1
    assert f"users_steps.py:{where} in misfit" in run("users_steps:shapes").output
    where = MODULE.splitlines().index('    raise ValueError("no data today")') + 1
    assert f"users_steps.py:{where} in raises" in run("users_steps:raises").output


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("steps:good", True), ("package.steps:good", True), ("steps:Class.good", True), ("steps", False), ("-", False),
        ("steps.jaxpr", False), ("C:\\steps.jaxpr", False), ("./steps:good", False), ("steps:", False),
        (":good", False), ("1steps:good", False), ("there:file", False),
    ],
)  # fmt: skip
def test_what_is_a_name(name: str, target: bool) -> None:
    Path("there:file").touch()
    assert is_target(name) is target
