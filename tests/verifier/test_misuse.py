"""What the command says where it is interrupted, given what does not read, or given a mesh that cannot be."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.verifier.test_command import ROOT, run


def test_an_interrupt_while_the_command_itself_is_imported() -> None:
    """Nothing of ours is there yet that could catch it but the few lines that import the rest."""
    code = (
        "import sys\n"
        "class Stopped:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stopped())\n"
        "from verifier.__main__ import run\n"
        "run()\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "Interrupted\n")


def test_help_names_every_exit_status() -> None:
    shown = run("--help").output
    assert [line.split()[0] for line in shown.splitlines() if re.match(r" *(Exit status: +)?\d+  ", line)] == [
        "Exit", "1", "2", "130",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["f32[-8]", "f32[8, -8]", "f32[8@X, -8@X]", "f32[ -8 ]"])
def test_a_size_below_zero_is_pointed_at(text: str) -> None:
    data = json.loads(run("type", text, "--mesh", "X=2", "--json").stdout)
    (refusal,) = data["refusals"]
    assert text[refusal["column"] - 1 :].startswith("-8")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "8",
        "f32[8",
        "f32[8@]",
        "f32]",
        "f32[8]{Q:X}",
        "f32[8]{U:}",
        "f32[8,,4]",
        "f32[8]x",
        "f31[8]",
        "f32[8]{U:X, U:Y}",
    ],
)
def test_a_type_that_does_not_read_comes_with_help(text: str) -> None:
    data = json.loads(run("type", text, "--mesh", "X=2", "--json").stdout)
    assert (data["refusals"][0]["code"], bool(data["refusals"][0]["help"])) == ("syntax", True)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "{ lambda a",
        "{ lambda ; . let in () } }",
        "{ lambda ; a:f32[4]. let b:f32[4] = sin a in (b,)",
        "{ lambda ; a:f32[4]. let b:f32[4] = f[x=(] a in (b,) }",
        "{ lambda ; a:f32[4]. let b:f32[4] = f[x=(1] a in (b,) }",
        "{ lambda ; a:f32[4]. let b:f32[4] = f[x=1 a in (b,) }",
        "{ lambda ; a:f32[4]. let b:f32[4] = f[x=1 x=2] a in (b,) }",
    ],
)
def test_a_program_that_does_not_read_comes_with_help(text: str) -> None:
    (report,) = json.loads(run("check", "-", "--json", stdin=text).stdout)
    assert (report["refusals"][0]["code"], bool(report["refusals"][0]["help"])) == ("syntax", True)


def test_a_mesh_without_an_axis_that_the_program_says_it_ran_on() -> None:
    mesh = "Mesh('data': 4, 'model': 2, axis_types=(Explicit, Explicit))"
    body = "{ lambda ; a:f32[8@data]. let b:f32[8@data] = sin a in (b,) }"
    text = f"{{ lambda ; a:f32[8@data]. let b:f32[8@data] = jit[name=f ctx_mesh={mesh} jaxpr={body}] a in (b,) }}"
    refused = run("check", "-", "--mesh", "data=4", stdin=text)
    assert refused.exit_code == 2
    assert "ctx_mesh has the axis model, and the mesh given, (data=4), does not" in refused.output
    assert "help: give the mesh data=4, model=2" in refused.output
    for options in ((), ("--mesh", "data=4,model=2")):
        assert run("check", "-", *options, stdin=text).exit_code == 0
