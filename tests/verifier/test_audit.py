"""`shardproof audit`: the defects of the installed JAX, and one primitive for the author of its rule."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest
from click.testing import CliRunner, Result

from calculus.primitives import TABLE
from calculus.types import array_type
from verifier.audit import as_data, lines
from verifier.auditing import audit
from verifier.author import RUNS, Finding, Found
from verifier.author_report import lines as report
from verifier.cells import Cell, Verdict
from verifier.cli import main
from verifier.evidence import Outcome
from verifier.ledger import ledger
from verifier.matrix import MESHES, Matrix
from verifier.proposing import NoProposal, propose
from verifier.spread import Pace, Task, spread
from verifier.with_jax import on_devices, own_checkers, own_primitive, probe

RELEASE = "0.12.0.1"
about = pytest.mark.skipif(jax.__version__ != RELEASE, reason=f"the verdicts are those of JAX {RELEASE}")

DECLARED = """\
from calculus.primitives.declaration import Primitive, same_dtype
from calculus.primitives.elementwise import aligned
def kernel(np, parameters, x): return x / (1 + np.exp(-1.702 * x))
PRIMITIVES = [Primitive("own_gelu", ("x",), "/ x", aligned, same_dtype, kernel=kernel)]
"""


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["audit", *arguments])


def found(*arguments: str) -> dict[str, Any]:
    result = invoke(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    read: dict[str, Any] = json.loads(result.stdout)
    return read


def kinds(data: dict[str, Any]) -> dict[str, int]:
    named = [one["kind"] for one in data["findings"]]
    return {kind: named.count(kind) for kind in named}


@about
def test_a_part_of_the_audit() -> None:
    """The defects that meet one primitive, and what JAX's own checker says of what it types unsoundly: nothing."""
    result = audit(["pad"], meshes=MESHES[:2], processes=0)
    defects = {entry.number: entry for entry in result.defects}
    assert result.cells(defects[2]) > 20
    assert result.clean
    assert result.asked.unsound == result.asked.unsound_accepted > 20
    text = "\n".join(lines(result))
    assert "proofs/differences/02_pad_partial_sum.py" in text
    assert "wrong value: a value reads back wrong" in text
    assert {one["number"] for one in as_data(result)["defects"]} == set(defects)


@about
def test_what_is_repaired_and_what_is_new_is_said() -> None:
    """An entry whose program no longer finds the defect; and, without the ledger, everything that is unsound."""
    result = audit(["pad"], meshes=MESHES[:1], processes=0)
    result.outcomes[2] = Outcome(ledger()[1].file, False, "JAX: [2, 2, 7] right: [2, 2, 7]")
    assert [entry.number for entry in result.repaired] == [2]
    assert 2 not in {entry.number for entry in result.defects}
    assert "entry 2 is repaired" in "\n".join(lines(result))
    nobody = replace(result, outcomes={}, matrix=replace(result.matrix, unexplained=result.matrix.differences))
    assert "new: pad (f32[8,8]{U:X}, f32[]) on X=2" in "\n".join(lines(nobody))
    assert not nobody.clean
    assert len(as_data(nobody)["new"]) == len(nobody.new) > 10


@about
def test_no_collectives_is_asked() -> None:
    """A contraction that gathers is let through, and what needs no collective is not refused."""
    asked = own_checkers.ask(Matrix(RELEASE), ["dot_general"])
    assert asked.communicating > asked.communicating_accepted > 0
    assert asked.silent > 10 > asked.silent_refused


@about
def test_cells_run_on_devices() -> None:
    """A stack of copies and cut arrays runs right, one of partial sums does not; negation does, also of what varies."""
    for name, mesh, wrong in (("stack", MESHES[0], {"U"}), ("neg", MESHES[1], set())):
        (call,) = [call for call in probe.calls() if call.call.name == name]
        cells = [Cell((type,) * len(call.call.operands)) for type in _alike(name)]
        ran = on_devices.run(call, cells, probe.evaluate(call, cells, mesh), mesh)
        assert len(ran) >= 3
        assert {one.cell.operands[0].state("X") for one in ran if not one.right} == wrong
        assert not any(one.crashed for one in ran)


def _alike(name: str) -> list[Any]:
    varying = ("X",) if name == "neg" else ()
    cut = array_type("f32", (8, 8), ((), ()) if varying else (("X",), ()), varying)
    return [array_type("f32", (8, 8)), cut, array_type("f32", (8, 8), ((), ()), (), ("X",))]


@about
def test_a_right_rule_has_no_findings(tmp_path: Path) -> None:
    file = tmp_path / "gelu.py"
    file.write_text(DECLARED, encoding="utf-8")
    for source in (["--declaration", str(file)], ["--kernel", "own_primitives:gelu"]):
        data = found("--primitive", "own_primitives:gelu_p", *source)
        assert data["findings"] == []
        assert data["cells"] - data["elsewhere"] == data["agree"] > 100
        assert data["seconds"] < 15
    assert "own_gelu" not in TABLE


@about
def test_a_wrong_rule_has_a_counterexample_in_numbers() -> None:
    data = found("--primitive", "own_primitives:doubled_p", "--kernel", "own_primitives:doubled")
    assert kinds(data).keys() == {"wrong"}
    first = data["findings"][0]
    assert first["cell"] == "own_doubled (f32[8,8]{U:X})"
    assert "is read back, where the devices hold" in first["numbers"]


@about
def test_a_missing_case_and_a_transpose_that_does_not_type() -> None:
    """A weighted sum is linear in both operands jointly: its rule knows no pending sums. A stack of reduced arrays has
    no gradient."""
    data = found("--primitive", "own_primitives:weighted_p", "--kernel", "own_primitives:weighted")
    assert "x0 x1" in data["declaration"]
    assert "own_weighted (f32[8,8]{U:X}, f32[8,8]{U:X})" in {
        one["cell"] for one in data["findings"] if one["kind"] == "missing"
    }
    stack = found("--primitive", "jax._src.lax.lax:stack_p")
    backward = [one for one in stack["findings"] if one["kind"] == "does not transpose"]
    assert "pspec" in next(one["theirs"] for one in backward if "{R:X}" in one["cell"])


@about
def test_running_adds_devices_and_gradients() -> None:
    data = found("--primitive", "jax._src.lax.lax:stack_p", "--run")
    wrong = [one["cell"] for one in data["findings"] if one["kind"] == RUNS]
    assert "stack (f32[8,8]{U:X}, f32[8,8]{U:X})" in wrong
    (call,) = [call for call in probe.calls() if call.call.name == "sin"]
    cell = Cell((array_type("f32", (8, 8), ((), ()), (), (), ("X",)),))
    (ran,) = on_devices.run(call, [cell], [Verdict(cell.operands)], MESHES[0], pulled=True)
    assert ran.right
    assert own_primitive.differentiable(call) == [0]


@about
def test_the_test_that_is_emitted_fails_until_the_rule_is_right() -> None:
    """It is run: on a wrong rule its first assertion fails, and that on the cell of the counterexample."""
    text = invoke("--primitive", "own_primitives:doubled_p", "--kernel", "own_primitives:doubled", "--emit-test").stdout
    assert text.startswith("  def test_sharding_of_own_doubled(self):")
    scope: dict[str, Any] = {"jax": jax, "unittest": unittest}
    exec(f"class Emitted(unittest.TestCase):\n{text}", scope)
    case = scope["Emitted"]("test_sharding_of_own_doubled")
    with pytest.raises(AssertionError, match="Exception not raised"):
        case.test_sharding_of_own_doubled()


def test_an_audit_that_is_interrupted_says_how_far_it_came() -> None:
    """What was found until then is reported, and the exit status is that of an interrupt."""
    calls = 0

    def interrupt(pace: object, what: str) -> None:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise KeyboardInterrupt

    result = audit(["pad", "rev", "neg"], progress=interrupt, meshes=MESHES[:1], processes=0)
    assert result.interrupted
    assert 0 < result.matrix.cells < 100
    assert next(lines(result)).startswith("interrupted: ")
    assert as_data(result)["asked"] < 1


def test_work_is_spread_and_what_ends_a_process_is_found() -> None:
    """Of tasks of which one ends its process, the others are done, and it is told which it was."""
    done: dict[int, int] = {}
    ended: list[tuple[int, Any]] = []

    def take(task: Task, found: int) -> list[Task]:
        done[task.arguments[0]] = found
        return [Task("square", (9,))] if task.arguments[0] == 1 else []

    def died(task: Task, running: Any, message: str) -> list[Task]:
        ended.append((task.arguments[0], running))
        return []

    pace = Pace(2)
    spread("own_primitives:Doing", [Task("square", (number,)) for number in range(4)], pace, take, died)
    assert done == {0: 0, 1: 1, 3: 9, 9: 81}
    assert ended == [(2, ("two",))]
    assert pace.left >= 0


def test_what_is_new_since_a_revision() -> None:
    """What an earlier run found too is left out, and what is found no more is counted."""
    findings = [Finding("wrong", f"f ({type})", "X=2", "", "") for type in ("f32[8]", "f32[8@X]")]
    since = Found("m:f_p", "f", "", "", findings=findings)
    before = [one["identity"] for one in since.as_data()["findings"]]
    since.only_since([before[0], "missing: f (f32[8]{R:X}) on X=2"], "main")
    assert [one.cell for one in since.findings] == ["f (f32[8@X])"]
    assert "since main: only what is new; gone since then: 1 finding" in "\n".join(report(since))


def test_a_proposal_finds_how_operands_are_linear() -> None:
    types = [array_type("f32", (4, 8))] * 2
    assert propose("f", lambda x, y: 2 * x - y, types).linearity == "x0 x1"
    assert propose("f", lambda x, y: x * y, types).linearity == "x0 | x1"
    assert propose("f", lambda x, y: x / y, types).linearity == "x0 / x1"
    assert propose("f", lambda x: x**2, types[:1]).linearity == "/ x0"
    with pytest.raises(NoProposal, match="not elementwise"):
        propose("f", lambda x: x[::-1], types[:1])
    with pytest.raises(NoProposal, match="raised ZeroDivisionError"):
        propose("f", lambda x: 1 // 0, types[:1])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--primitive", "own_primitives:nothing_p"], "has no nothing_p"),
        (["--primitive", "own_primitives:gelo_p"], "did you mean gelu_p?"),
        (["--primitive", "own_primitives:"], "write MODULE:NAME"),
        (["--primitive", ":gelu_p"], "write MODULE:NAME"),
        (["--primitive", "broken:gelu_p"], "broken cannot be imported: ZeroDivisionError: division by zero"),
        (["--primitive", "jax._src.lax.lax:add_p", "--operands", "f32[8]"], "names 1 type, and add takes 2: x, y"),
        (["--primitive", "jax._src.lax.lax:sin_p", "--operands", "f32[n]"], "give its dims sizes"),
        (["--primitive", "jax._src.lax.lax:sin_p", "--parameter", "a=1", "--parameter", "a=2"], "given twice"),
        (["--primitive", "add_p", "--operands", "f32[8] f32[8]"], "as jax.extend.core.primitives:add_p"),
        (["--primitive", "own_primitives:gelu_p", "--emit-test", "--json"], "give one"),
        (["--primitive", "no_such_module:gelu_p"], "cannot be imported"),
        (["--primitive", "own_primitives:gelu"], "and no primitive"),
        (["--primitive", "own_primitives:gelu_p"], "declares no own_gelu"),
        (["--primitive", "own_primitives:gelu_p", "--kernel", "own_primitives:mirrored"], "not elementwise"),
        (["--primitive", "own_primitives:gelu_p", "--primitive", "sin"], "stands alone"),
        (["--primitive", "jax._src.lax.lax:sin_p", "--operands", "f32[8@X]"], "without shardings"),
        (["--primitive", "jax._src.lax.lax:sin_p", "--parameter", "axis"], "NAME=VALUE"),
        (["--primitive", "jax._src.lax.lax:sin_p", "--since", "HEAD"], "--since needs JAX from a git checkout"),
        (["--primitive", "sn"], "did you mean"),
        (["--emit-test"], "--primitive MODULE:NAME"),
    ],
)
def test_misuse_is_said(arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert says in " ".join(result.output.split())
