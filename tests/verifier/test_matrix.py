"""The matrix: a part of it is explained, every primitive has a sample call, and it sees what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import jax
import pytest
from click.testing import CliRunner, Result

from calculus.collectives import COLLECTIVES
from calculus.meshes import Axis, AxisMode, Mesh
from calculus.primitives import TABLE
from verifier import matrix
from verifier.cells import cells, our_verdict, placements
from verifier.cli import main
from verifier.ledger import ledger
from verifier.matrix import MESHES, compare
from verifier.with_jax import probe

#: so many cells of a call on a mesh: all of one operand along one axis, some of the others
FEW = 40

ONE, TWO = (Mesh(Axis(name, 2, AxisMode.EXPLICIT) for name in names) for names in ("X", "XY"))


@pytest.fixture(scope="module")
def part() -> matrix.Matrix:
    return compare(most=FEW, alone=FEW)


def test_every_difference_is_in_the_ledger(part: matrix.Matrix) -> None:
    assert [str(one) for one in part.unexplained] == []
    assert part.named
    assert part.cells > 10_000
    assert part.accepted > 1_500


def test_entries_still_differ(part: matrix.Matrix) -> None:
    """All but those whose cells are too few to be drawn: they are looked for among all cells of their primitives."""
    rare = {name for entry in part.idle for one in entry.patterns for name in one.primitives or ["mul"]}
    if rare:
        two = [mesh for mesh in MESHES if len(mesh.axes) == 2]
        again = compare(sorted(rare & {call.call.primitive for call in probe.calls()}), two, most=1700)
        assert [entry.title for entry in part.idle if not again.covered[entry.number]] == []
    assert len(part.idle) < 6


def test_leaks_are_counted_apart(part: matrix.Matrix) -> None:
    assert part.crashes.keys() <= {"AssertionError", "AttributeError", "DuplicateSpecError"}
    assert part.crashes["AssertionError"] > 50


def test_every_primitive_of_jax_with_a_rule_has_a_sample_call() -> None:
    code = "import sys; sys.path.insert(0, 'tests/calculus')\nimport test_opaque; exec(test_opaque._ENUMERATION)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    theirs = set(run.stdout.split())
    sampled = {call.call.primitive for call in probe.calls()}
    rules = {name for name in {*TABLE, *COLLECTIVES} if not name.endswith("_start")}
    assert (theirs & rules) - sampled == WITHOUT


#: primitives that JAX defines and that no public function on arrays comes to: a sum of untracked types, a scalar
#: without contents, a broadcast inside kernels, steps of a QR decomposition, generators of other words, sizes of
#: counters, products of scaled blocks. What is started is typed as the collective that it starts
WITHOUT = {
    *("psum", "empty2", "broadcast_to", "geqrf", "geqp3", "select_and_scatter", "scaled_dot"),
    *("threefry4x32", "philox2x32", "philox4x32", "iota_2x32_shape"),
}


def test_a_wrong_declaration_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transpose that were not linear would refuse what JAX accepts, and no entry says that this is JAX's fault."""
    assert not compare(["transpose"]).unexplained
    monkeypatch.setitem(TABLE, "transpose", replace(TABLE["transpose"], linearity="/ x"))
    found = compare(["transpose"], (ONE,)).unexplained
    assert {str(one.cell) for one in found} == {"(f32[8,8]{U:X})"}


def test_a_repaired_difference_is_seen() -> None:
    """An entry that covers no cell is reported."""
    entries = ledger()
    neg = [replace(entries[0], patterns=(replace(entries[0].patterns[0], primitives=frozenset({"neg"})),))]
    found = compare(meshes=(ONE,), alone=1, entries=neg)
    assert found.idle == neg


def test_verdicts_do_not_depend_on_sizes() -> None:
    """Neither ours nor JAX's: along an axis of size 1 each cell is typed as along one of size 2. (The older release
    has it otherwise for some convolutions and reshapes: there ours are held together where JAX's are the same.)"""
    small = next(mesh for mesh in MESHES if mesh.size(mesh.by_name) == 2 and len(mesh.axes) == 2)
    for call in probe.calls():
        if call.call.axes or call.call.primitive not in TABLE:
            continue
        chosen = cells(call.call, TWO, probe.KINDS, 12)
        verdicts = []
        for mesh in (TWO, small):
            made = probe.equations(call, chosen, mesh)
            theirs = probe.evaluate(call, chosen, mesh)
            ours = [
                our_verdict(call.call, equation, cell, verdict, mesh)
                for equation, cell, verdict in zip(made, chosen, theirs, strict=True)
            ]
            verdicts.append([(str(one.types), str(other.types)) for one, other in zip(ours, theirs, strict=True)])
        together = list(zip(*verdicts, strict=True))
        if jax.__version_info__ < (0, 12):
            together = [(one, other) for one, other in together if one[1] == other[1]]
        assert together == [(one, one) for one, _ in together], call.call.name


def test_states_along_one_axis_and_two() -> None:
    type = next(call.call.operands[0] for call in probe.calls())
    assert len(placements(type, ONE, kinds=True)) == 7  # N, R, three kinds of U, and S on each of two dims
    both = placements(type, TWO, kinds=True)
    # 7 x 7 pairs; two of different kinds are no type (6 of them); two axes on one dim come in two orders (2 more)
    assert len(both) == len(set(both)) == 49 - 6 + 2
    assert Counter(map(str, both))["f32[8@(Y,X),8]"] == 1


@pytest.mark.parametrize("states", [("f32[8,8]", "f32[8,8]"), ("f32[8,8]{U:X}", "f32[8,8]{R:X}")])
def test_the_probe_can_tell(states: tuple[str, str]) -> None:
    """The probe is not constant: it sees a replicated and an unreduced product."""
    call = next(call for call in probe.calls() if call.call.name == "mul")
    chosen = [cell for cell in cells(call.call, ONE, probe.KINDS, 100) if tuple(map(str, cell.operands)) == states]
    (verdict,) = probe.evaluate(call, chosen, ONE)
    assert verdict.types is not None
    assert str(verdict.types[0]) == states[0]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["agree", *arguments], prog_name="shardproof")


def test_the_command() -> None:
    result = run("--matrix", "--primitive", "neg")
    assert result.exit_code == 0
    assert result.output.startswith(f"JAX {jax.__version__}: ")
    data = json.loads(run("--matrix", "--primitive", "neg", "--json").output)
    assert data["primitives"] == ["neg"]
    assert data["unexplained"] == data["idle"] == []
    assert data["agree"] + sum(entry["cells"] for entry in data["entries"]) == data["cells"]


def test_the_command_fails_on_what_is_unexplained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, "transpose", replace(TABLE["transpose"], linearity="/ x"))
    result = run("--matrix", "--primitive", "transpose")
    assert result.exit_code == 1
    assert "unexplained: transpose (f32[8,8]{U:X}) on X=2\n    we say   refuses: state" in result.output
    assert json.loads(run("--matrix", "--primitive", "transpose", "--json").output)["unexplained"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "--matrix"),
        (("--matrix", "--primitive", "ng"), "did you mean neg?"),
        (("--meshes", "X=2"), "No such option"),
    ],
)
def test_misuse(arguments: tuple[str, ...], says: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.output
