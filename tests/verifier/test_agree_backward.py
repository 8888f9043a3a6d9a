"""Our derivatives beside JAX's: a part of the family is explained, a wrong derivation is seen, and where JAX has no
derivative of a well-typed function, it still has none, and ours has the right values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner, Result
from jax.sharding import PartitionSpec as P

from calculus.cotangents import cotangent
from calculus.derivatives import FORMS
from calculus.derivatives.rules import Form
from calculus.types import same
from grammar.parse import parse_type
from tests.laws.evaluation import evaluate
from verifier.backward_agreement import Agreement, Comparison, Side, compare, compared, lines
from verifier.cells import Refusal
from verifier.cli import main
from verifier.ledger import ledger
from verifier.patterns import OURS, BackwardPattern
from verifier.with_jax.backward_programs import ROOMS, programs
from verifier.with_jax.gradients import Array, Sample

OLD = jax.__version_info__ < (0, 12)
REDUCED = P(None, None, reduced={"X"})

PART = (
    "documented/fan-out", "documented/layers", "documented/microbatches", "documented/pieces along two axes",
    "documented/a region of auto axes", "documented/gathered layers", "documented/an axis of one device",
    "documented/a step of ZeRO", "transformer/llama_fsdp_scan3_again", "transformer/llama_tp_unroll2",
    "manual/rows and columns", "manual/a ring", "manual/layers in a loop, computed again", "manual/a partial product",
    "manual/one axis of two", "manual/a stage of its own on each device",
    "family/transformer layer", "family/one layer many times",
    "family/microbatches accumulated",
    "family/a call used twice", "family/a switch", "family/cross entropy", "family/low rank multiplied first",
    "family/several results", "operation/maximum", "operation/gathered in a loop", "operation/nested loops",
    "operation/choice between two", "mathematics/Fourier transform", "mathematics/absolute value",
    "mathematics/complex number",
)  # fmt: skip


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["agree", *arguments], prog_name="shardproof")


@pytest.fixture(scope="module")
def part() -> Agreement:
    return compare(PART)


def test_every_difference_is_in_the_ledger(part: Agreement) -> None:
    assert [line for line in lines(part) if "unexplained: " in line] == []
    assert part.unexplained == []
    assert len(part.compared) > (40 if OLD else 120)
    # the older release writes the derivatives of tanh and others as other sums of products
    assert len(part.same) > (0.5 if OLD else 0.9) * len(part.compared)


def test_batches_of_matrices_and_special_functions() -> None:
    """All of them: whether a row is written as JAX writes it, it moves the same, or an entry says what JAX fails on."""
    found = compare(["mathematics"])
    assert [line for line in lines(found) if "unexplained: " in line] == []
    assert len(found.same) + len(found.otherwise) > 100
    unlike = {one.name.partition(" (")[0].partition("/")[2] for one in found.neither}
    assert unlike <= {"QR factors, pivoted"}


def test_every_room_is_drawn_from(part: Agreement) -> None:
    assert {one.name.partition("/")[0] for one in part.compared} == {*ROOMS}
    assert len(programs()) > 1500


def test_programs_communicate_and_differ(part: Agreement) -> None:
    """What is compared is not nothing: most programs move something, and they move it in all ways."""
    moving = [one for one in part.compared if one.ours.moves]
    assert len(moving) > len(part.compared) / 2
    kinds = {kind for one in moving for kind, *_ in one.ours.moves}
    assert kinds >= {"all-reduce", "all-gather", "collective-permute"} | (set() if OLD else {"reduce-scatter"})


def test_a_wrong_transpose_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reshard whose cotangent went there, back, and there again has the right types, and moves more."""

    def twice(walk: Any, equation: Any, cts: Any) -> None:
        target, given = cotangent(walk.builder.type_of(equation.inputs[0])), walk.builder.type_of(cts[0])
        atom = cts[0]
        for type in (target, given, target):
            atom = walk.builder.one("reshard", (atom,), None, type)
        walk.add(equation.inputs[0], atom)

    names = ("documented/implicitly gathered layers", "documented/gathered layers")
    assert len(compare(names).compared) == 3
    monkeypatch.setitem(FORMS, "reshard", Form(FORMS["reshard"].linearize, twice))
    found = compare(names)
    wrong = [one.name for one in found.unexplained]
    assert wrong == ["documented/gathered layers", "documented/gathered layers, reduced"]
    assert any("we alone" in line for line in lines(found))


def test_a_transposed_reshard_that_forgets_its_meshes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It moves what the compiler may leave where it is: JAX's own goes back between the meshes of the region."""

    def forgetful(walk: Any, equation: Any, cts: Any) -> None:
        target = cotangent(walk.builder.type_of(equation.inputs[0]))
        walk.add(equation.inputs[0], walk.builder.one("reshard", cts, None, target))

    names = ("documented/a region of auto axes",)
    assert len(compare(names).same) == 1
    monkeypatch.setitem(FORMS, "reshard", Form(FORMS["reshard"].linearize, forgetful))
    (wrong,) = compare(names).unexplained
    assert {move[0]: move[3] for move in (wrong.ours.moves - wrong.theirs.moves)} == {"all-gather": "exact"}
    assert {move[0] for move in (wrong.theirs.moves - wrong.ours.moves)} == {"unknown"}


@pytest.mark.skipif(OLD, reason="the older release has no reduced arguments")
@pytest.mark.parametrize(
    ("title", "function", "arrays"),
    [
        (
            "A contraction forgets reduced",
            lambda x, a, b: jnp.sum((x @ (a @ b)) ** 2),
            (Array((8, 4), P("X")), Array((4, 4), REDUCED), Array((4, 4), REDUCED)),
        ),
        (
            "A reduced operand that a contraction slices has no gradient",
            lambda x, y: jnp.sum(jnp.einsum("bi,bj->ij", x, y) ** 2),
            (Array((8, 4), P("X")), Array((8, 4), REDUCED)),
        ),
        ("A product along a dim", lambda x: jnp.sum(x.prod(1) ** 2), (Array((8, 4), P("X")),)),
        ("A window that leaves", lambda v: v[3] * v[2], (Array((8,), P("X")),)),
    ],
)
def test_what_jax_does_not_differentiate_has_a_gradient(
    title: str, function: Callable[..., Any], arrays: tuple[Array, ...]
) -> None:
    """JAX types the function at these arguments, runs it, and raises when it is differentiated. Ours is well typed, has
    the cotangents' types, and, computed on one device, the values of the gradient at copies."""
    traced = Sample(function, arrays).traced()
    found = compared(title, traced)
    assert found.accepts == OURS
    (entry,) = (one for one in ledger() if one.title.startswith(title))
    assert entry.explains(found)
    assert found.ours.program is not None
    inputs = traced.forward.program.input_types
    assert all(same(got, cotangent(of)) for got, of in zip(found.ours.types, inputs, strict=True) if of is not None)
    random = np.random.default_rng(0)
    values = [random.standard_normal(one.shape).astype(np.float32) for one in arrays]
    want = jax.grad(function, argnums=tuple(range(len(arrays))))(*map(jnp.asarray, values))
    for ours, theirs in zip(evaluate(found.ours.program, values), want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_names() -> None:
    assert {one.name for one in compare(["documented/fan-out"]).compared} >= {"documented/fan-out, reduced first"}
    found = run("--backward", "--program", "a fan")
    assert (found.exit_code, "there is no program a fan" in found.stderr) == (2, True)
    assert run("--backward", "--matrix").exit_code == run().exit_code == 2
    assert run("--backward", "--primitive", "add").exit_code == run("--matrix", "--program", "layers").exit_code == 2


def test_the_command() -> None:
    found = run(
        "--backward", "--program", "documented/loss", "--program", "examples.ring_attention:train_step", "--json"
    )
    data = json.loads(found.stdout)
    assert found.exit_code == 0, found.stdout
    assert data["unexplained"] == []
    assert data["equal"] == data["programs"] == len(data["same"]) + len(data["otherwise"])
    text = run("--backward", "--program", "documented/loss")
    assert (text.exit_code, f"JAX {jax.__version__}: derivatives of" in text.stdout) == (0, True)
    assert "unexplained         0" in text.stdout
    bad = run("--backward", "--program", "examples.ring_attention:nothing")
    assert (bad.exit_code, "has no nothing" in bad.stderr) == (2, True)


def test_patterns() -> None:
    ours, refused = Side(retyped=True), Side(refusal=Refusal("ValueError", "no such thing"))
    found = Comparison("x", ours, refused)
    pattern = BackwardPattern(frozenset({OURS}), retyped=True)
    assert pattern.fits(found)
    assert not BackwardPattern(frozenset({OURS}), retyped=False).fits(found)
    assert not pattern.fits(Comparison("x", ours, ours))
    moved = Side(objection=Refusal("state", "no"))
    both = BackwardPattern(frozenset({"both"}))
    assert both.fits(Comparison("x", ours, moved))
    more = moved._replace(moves=moved.moves + type(moved.moves)({("all-reduce", ("X",), 4, "exact", False): 1}))
    assert not both.fits(Comparison("x", ours, more)), "an objection explains no communication"
    uncounted = BackwardPattern(frozenset({"both"}), uncounted=True)
    assert uncounted.fits(Comparison("x", ours, more))
    assert not uncounted.fits(Comparison("x", ours, more._replace(types=(parse_type("f32[2]"),)))), "nor any types"
