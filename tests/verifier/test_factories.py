"""Functions by name: what the command makes of `package.module:factory`, whatever stands there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import verifier
from verifier.cli import main
from verifier.factories import is_target, made_by

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
    return (lambda a, b: jnp.matmul(a, b, out_sharding=P(None, None))), (weights, weights)


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


def greatest():
    def step(x):
        return jax.shard_map(lambda v: jax.lax.pmax(v.sum(), "data"), in_specs=P("data"), out_specs=P())(x)
    return jax.grad(step), (array(8, spec=P("data")),)


def unwritten():
    def step(x):
        raise NotImplementedError("tomorrow")
    return step, (array(8),)


def unreduced():
    return jnp.cos, (array(8, spec=P(None, unreduced={"data"})),)


def bare():
    return jnp.sum, (jax.ShapeDtypeStruct((8,), jnp.float32, sharding=P("rows")),)
"""

SCRIPTS = {
    "users_exit": "import sys\nprint('hello')\nsys.exit(0)\n",
    "users_words": "import sys\nsys.exit('no data')\n",
    "users_arguments": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--need', required=True)\n"
        "parser.parse_args()\n"
    ),
    "users_late": (
        "import sys\nprint('imported', sys.argv)\nimport jax.numpy as jnp\n\ndef leaves():\n    sys.exit(3)\n\n"
        "def traced():\n    return (lambda x: sys.exit()), (jnp.ones(3),)\n\n"
        "def talks():\n    print('called', sys.argv)\n    def f(x):\n        print('traced')\n        return x\n"
        "    return f, (jnp.ones(3),)\n"
    ),
    "users_needs": "import users_no_such_library\n",
    "users_optax": "raise ModuleNotFoundError('no optax', name='optax.losses')\n",
    "users_jax": "raise ModuleNotFoundError('no jax', name='jax')\n",
    "users_interrupt": "raise KeyboardInterrupt\n",
    "users_wrapped": (
        "try:\n    try:\n        raise KeyboardInterrupt\n    except BaseException as error:\n"
        "        raise RuntimeError('no backend') from error\n"
        "except RuntimeError:\n    raise ImportError('half a library')\n"
    ),
    "users_half": "try:\n    raise KeyboardInterrupt\nexcept BaseException:\n    raise ImportError('half a library')\n",
}
"""Modules that do more than define functions."""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a user's, with a module, and nothing of it left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "users_steps.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "users_broken.py").write_text("def step(:\n", encoding="utf-8")
    for name, text in SCRIPTS.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    yield tmp_path
    for name in ("users_steps", "users_broken", *SCRIPTS):
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


def test_what_jax_does_not_trace_is_refused_in_our_words() -> None:
    """f32[8], 32 bytes."""
    result = run("users_steps:unreduced")
    assert result.exit_code == 1
    assert "note: JAX does not trace this at these types (" in result.output
    assert "unsound: cos of (unreduced) along data reads back wrong (operand 0, x, is x)" in result.output
    assert "help: reshard operand 0 to f32[8] (all-reduce over data of 32 bytes forward" in result.output


def test_a_mesh_from_the_command_line() -> None:
    result = run("users_steps:bare", "--mesh", "rows=2")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1].split()[-4:] == ["all-reduce", "rows", "4", "4"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("users_nowhere:step", "module users_nowhere cannot be imported: ModuleNotFoundError: No module named"),
        ("users_broken:step", "module users_broken cannot be imported: File"),
        (
            "users_steps:nope",
            "users_steps has no nope; name a function in it that returns (f, args): array, bare, good, greatest",
        ),
        ("users_steps:number", "users_steps:number is a int; it should be a function that returns (f, args)"),
        ("users_steps:returns_a_number", "returned a int; it should return (f, args) or (f, args, kwargs)"),
        ("users_steps:returns_no_arguments", "returned a tuple; it should return (f, args) or (f, args, kwargs)"),
        ("users_steps:raises", "users_steps:raises raised ValueError: no data today"),
        ("users_steps:shapes", "cannot be traced: TypeError: dot_general requires contracting dimensions"),
        ("users_steps:unwritten", "cannot be traced: NotImplementedError: tomorrow"),
        ("users_steps:bare", "and no mesh is given: add mesh=..."),
    ],
)
def test_what_leads_to_nothing_exits_with_2(target: str, words: str) -> None:
    result = run(target)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output
    assert "removed its internal frames" not in result.output


def test_what_jax_refuses_is_refused() -> None:
    """It is no mistake in how the command is used: JAX has no derivative of a maximum over devices."""
    result = run("users_steps:greatest")
    assert result.exit_code == 1
    assert "unmodelled: JAX does not trace this: NotImplementedError: Differentiation rule for 'pmax'" in result.output
    assert "because: JAX refuses the function" in result.output
    function, arguments, _ = made_by("users_steps:greatest")
    report = verifier.check(function, *arguments)  # in Python too
    assert (report.verdict, [one.code for one in report.refusals]) == ("refused", ["unmodelled-construct"])


def test_a_mesh_beside_that_of_the_arguments() -> None:
    result = run("users_steps:good", "--mesh", "data=3")
    assert result.exit_code == 2
    assert "the mesh that is given has data=3, and the arguments lie on data=4" in result.output
    assert "leave out the mesh that is given" in result.output


def test_an_error_names_the_users_line() -> None:
    where = MODULE.splitlines().index("        return x @ w") + 1
    assert f"users_steps.py:{where} in misfit" in run("users_steps:shapes").output
    where = MODULE.splitlines().index('    raise ValueError("no data today")') + 1
    assert f"users_steps.py:{where} in raises" in run("users_steps:raises").output


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("steps:good", True), ("package.steps:good", True), ("steps:Class.good", True), ("steps", False), ("-", False),
        ("steps.py:good", True), ("../some folder/steps.py:Class.good", True), ("/steps.py:", False), (".py:x", False),
        ("steps.jaxpr", False), ("C:\\steps.jaxpr", False), ("./steps:good", False), ("steps:", False),
        (":good", False), ("1steps:good", False), ("there:file", False),
    ],
)  # fmt: skip
def test_what_is_a_name(name: str, target: bool) -> None:
    Path("there:file").touch()
    assert is_target(name) is target


PROGRAM = "{ lambda ; a:f32[2]. let in (a,) }"
SCRIPT_HELP = 'help: put what the module runs as a script under `if __name__ == "__main__":`'


@pytest.mark.parametrize(
    ("target", "words", "place"),
    [
        ("users_exit:f", "called sys.exit(0) while it was imported", "users_exit.py:3 in <module>"),
        ("users_words:f", "called sys.exit('no data') while it was imported", "users_words.py:2 in <module>"),
        ("users_arguments:f", "called sys.exit(2) while it was imported", "users_arguments.py:4 in <module>"),
        ("users_late:leaves", "called sys.exit(3) while it was called", "users_late.py:6 in leaves"),
        ("users_late:traced", "called sys.exit() while it was traced", "users_late.py:9 in <lambda>"),
    ],
)
def test_a_module_that_exits_does_not_end_the_check(target: str, words: str, place: str) -> None:
    Path("step.jaxpr").write_text(PROGRAM, encoding="utf-8")
    arguments = list(sys.argv)
    result = run(target, "step.jaxpr")
    assert result.exit_code == 2
    assert f"{target} {words}" in result.stdout
    assert place in result.stdout
    assert SCRIPT_HELP in result.stdout
    assert "step.jaxpr: well typed" in result.stdout
    assert sys.argv == arguments


def test_a_bad_factory_in_json_is_an_entry_of_its_own() -> None:
    Path("step.jaxpr").write_text(PROGRAM, encoding="utf-8")
    result = run("users_exit:f", "users_steps:raises", "step.jaxpr", "--json")
    assert result.exit_code == 2
    exits, raises, file = json.loads(result.stdout)
    assert [entry["verdict"] for entry in (exits, raises, file)] == ["malformed", "malformed", "ok"]
    assert exits["refusals"][0]["help"] == SCRIPT_HELP.removeprefix("help: ")
    assert "ValueError: no data today" in raises["refusals"][0]["message"]
    assert [entry["refusals"][0]["code"] for entry in (exits, raises)] == ["no-function"] * 2


def test_a_mesh_of_more_devices_than_there_are_says_how_to_get_them() -> None:
    text = "import jax\n\n\ndef step():\n    jax.make_mesh((64, 512), ('X', 'Y'))\n"
    Path("wide.py").write_text(text, encoding="utf-8")
    result = run("wide.py:step")
    assert result.exit_code == 2
    assert "must be >= the product of mesh_shape (64, 512)" in result.stdout
    assert "JAX_NUM_CPU_DEVICES=32768, or make the mesh a jax.sharding.AbstractMesh" in " ".join(result.stdout.split())


def test_what_a_module_prints_goes_to_standard_error() -> None:
    result = run("users_late:talks", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)[0]["verdict"] == "ok"
    assert result.stderr.splitlines() == ["imported ['users_late']", "called ['users_late']", "traced"]


@pytest.mark.parametrize("module_name", ["users_interrupt", "users_half", "users_wrapped"])
def test_an_interrupt_is_nobodys_mistake(module_name: str) -> None:
    result = run(f"{module_name}:f", "--json")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted\n")


@pytest.mark.parametrize(
    ("target", "help"),
    [
        ("users_nowhere:f", "run it from the folder that holds the module, or put that on PYTHONPATH"),
        ("users_nowhere.py:good", "write a file with its folder, or package.module:good"),
        ("users_optax:f", "pip install -e '.[examples]'"),
        ("users_jax:f", "pip install -e '.[jax]'"),
        ("./users_steps", "name a file that holds a printed jaxpr, or - for standard input"),
        ("users_steps.py", "this is a module: name a function in it that returns (f, args), as module:factory"),
    ],
)
def test_the_repair_of_a_name(target: str, help: str) -> None:
    result = run(target)
    assert result.exit_code == 2
    assert f"  help: {help}\n" in result.output
    assert "importlib" not in result.output


def test_the_place_of_an_import_that_fails() -> None:
    """The user's line; no help for a library that nobody here knows."""
    output = run("users_needs:f").output
    assert "users_needs.py:1 in <module>" in output
    assert "help:" not in output


@pytest.mark.parametrize("command", ["check", "grad", "run"])
def test_a_function_in_a_file(command: str, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its own folder and from another, by a relative path and by an absolute one; twice it is the same module."""
    (module / "elsewhere").mkdir()
    for folder, file in (
        (".", "users_steps.py"), (".", "./users_steps.py"), ("elsewhere", "../users_steps.py"),
        ("elsewhere", str(module / "users_steps.py")),
    ):  # fmt: skip
        monkeypatch.chdir(module / folder)
        result = CliRunner().invoke(main, [command, f"{file}:good"], prog_name="shardproof", catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert f"{file}:good: well typed" in result.output or command == "run"


def test_what_a_file_imports(module: Path) -> None:
    """What lies beside it, and in its package; and a file may be called like a module that is there."""
    (module / "made" / "inner").mkdir(parents=True)
    for folder in ("made", "made/inner"):
        (module / folder / "__init__.py").touch()
    (module / "made" / "users_shapes.py").write_text("from users_steps import good\n", encoding="utf-8")
    (module / "made" / "inner" / "users_deep.py").write_text("from ..users_shapes import good\n", encoding="utf-8")
    (module / "beside").mkdir()
    (module / "beside" / "users_helper.py").write_text("from users_steps import good\n", encoding="utf-8")
    (module / "beside" / "json.py").write_text("import users_helper\ngood = users_helper.good\n", encoding="utf-8")
    (module / "beside" / "users_wrong.py").write_text("import users_helper\n1 / 0\n", encoding="utf-8")
    before = sys.modules["json"]
    try:
        for file in ("made/inner/users_deep.py", "beside/json.py"):
            assert run(f"{file}:good").output.splitlines()[0].startswith(f"{file}:good: well typed")
        failed = run("beside/users_wrong.py:good")
        assert (failed.exit_code, sys.modules["json"]) == (2, before)
        assert "beside/users_wrong.py cannot be imported: ZeroDivisionError" in failed.output
        assert "users_wrong.py:2 in <module>" in failed.output
        assert "users_wrong" not in sys.modules
    finally:
        for name in [name for name in sys.modules if name.startswith(("made", "users_")) or name.endswith("json.py")]:
            del sys.modules[name]
