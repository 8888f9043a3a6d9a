"""The backward program of a function: named by paths, at the author's lines. Bytes are worked out by hand; types are
also those of JAX's own gradients."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from calculus.refusals import Family
from grammar.read import read
from tests.verifier.test_html import read as read_html
from verifier.cli import main

MESH = AbstractMesh((4,), ("data",), axis_types=(AxisType.Explicit,))
HERE = Path(__file__).resolve()


def array(*shape: int, spec: Any = None, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, P() if spec is None else spec))


@functools.cache
def line(marker: str) -> int:
    lines = HERE.read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, text in enumerate(lines, 1) if text.endswith(f"# {marker}")]
    return found


def loss(params: Any, x: Any, step: Any) -> Any:
    hidden = jnp.tanh(x @ params["layers"][0]["wi"])  # up
    down = jax.reshard(params["layers"][1]["wo"], P(None, None, reduced={"data"}))  # cast
    return jnp.sum(hidden @ down) + jnp.sum((2 * hidden) @ down)  # sums


PARAMS = {"layers": [{"wi": array(16, 32)}, {"wo": array(32, 8)}]}
X = array(64, 16, spec=P("data", None))
ARGUMENTS = (PARAMS, X, array(dtype=jnp.int32))
WI, WO = "params['layers'][0]['wi']", "params['layers'][1]['wo']"


def gradient() -> verifier.BackwardReport:
    return verifier.check(loss, *ARGUMENTS).backward()


def test_each_sum_is_named_after_its_parameter_with_the_forward_equation_that_it_comes_from() -> None:
    """Data parallelism: 16 x 32 and 32 x 8 floats; of the weight that two products use as reduced there is one sum,
    where the cast is."""
    rows = {row.value: (row.kind, row.axes, row.bytes, row.line, row.forward) for row in gradient().communication}
    assert rows == {
        f"gradient of {WI}": (
            "all-reduce", ("data",), 2048, line("up"), "dot_general f32[64@data,16], f32[16,32] -> f32[64@data,32]",
        ),
        f"gradient of {WO}": ("all-reduce", ("data",), 1024, line("cast"), "reshard f32[32,8] -> f32[32,8]{R:data}"),
    }  # fmt: skip


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="the older JAX has neither reduced values nor casts")
def test_the_types_of_the_gradients_are_jaxs() -> None:
    with jax.sharding.use_abstract_mesh(MESH):
        theirs = jax.make_jaxpr(jax.grad(loss, argnums=(0, 1)))(*ARGUMENTS).jaxpr.outvars
    found = verifier.check(loss, *ARGUMENTS).backward(wrt=(0, 1))
    assert list(found.gradients) == [WI, WO, "x"]
    assert [str(type) for type in found.gradients.values()] == [
        variable.aval.str_short(short_dtypes=True) for variable in theirs
    ]


@pytest.mark.parametrize(
    ("wrt", "paths"),
    [
        (None, [WI, WO]),
        (0, [WI, WO]),
        (-2, ["x"]),
        ((1, 0), ["x", WI, WO]),
        ("x", ["x"]),
        ("params", [WI, WO]),
        ('params["layers"][1]', [WO]),
        ([WO, "x", WO], [WO, "x"]),
    ],
)
def test_what_may_be_named(wrt: Any, paths: list[str]) -> None:
    assert list(verifier.check(loss, *ARGUMENTS).backward(wrt).gradients) == paths


@pytest.mark.parametrize(
    ("wrt", "words"),
    [
        ("param", "param is no input of the function; did you mean"),
        ("params['layers'][0]['wj']", f"did you mean {WI}"),
        (2, "step has nothing floating to differentiate, it is i32[]"),
        (3, "there is no argument 3: the function has 3, counted from 0"),
        ((), f"the floating inputs are {WI}, {WO}, x"),
        ("", "nothing is no input of the function"),
        (1.5, "1.5 is neither the number of an argument nor the path of an input"),
        (True, "True is neither the number of an argument"),
    ],
)
def test_what_names_nothing(wrt: Any, words: str) -> None:
    report = verifier.check(loss, *ARGUMENTS)
    with pytest.raises(verifier.UnknownInput) as raised:
        report.backward(wrt)
    assert words in str(raised.value)


def test_a_number_of_python_is_part_of_the_program() -> None:
    report = verifier.check(lambda w, s: (w * s).sum(), ARGUMENTS[1], 2.0)
    with pytest.raises(verifier.UnknownInput, match="s holds no array"):
        report.backward("s")


def test_a_derived_program_is_not_derived_again() -> None:
    with pytest.raises(verifier.UnknownInput, match="a gradient already"):
        verifier.check(loss, *ARGUMENTS).backward().backward()


def test_of_several_results_it_is_the_vjp() -> None:
    report = verifier.check(lambda p, x, s: (loss(p, x, s), x * 2), *ARGUMENTS)
    found = report.backward()
    assert found.what == "vjp"
    program = read(found.text).program
    assert len(program.inputs) == 6  # two weights, x, the step, and two cotangents
    assert str(found.types["cotangent of result[1]"]) == "f32[64@data,16]"
    assert str(found.types["result[1]"]) == "f32[64@data,16]"
    assert list(found.gradients) == ["p['layers'][0]['wi']", "p['layers'][1]['wo']"]


def test_the_program_is_well_typed_text() -> None:
    text = gradient().text
    assert text.startswith("# mesh: data=4\n")
    result = CliRunner().invoke(main, ["check", "-", "--json"], input=text)
    (report,) = json.loads(result.stdout)
    assert (result.exit_code, report["total_bytes"]) == (0, 3072)


def test_it_prints_itself_everywhere() -> None:
    found = gradient()
    first, heading, *rest = str(found).splitlines()
    assert first.startswith("loss (gradient): well typed · ")
    assert first.endswith(" · 2 collectives, 2 runs · 3,072 bytes per device")
    assert heading.split()[-3:] == ["wire", "forward", "equation"]
    assert f"gradient of {WO}" in "\n".join(rest)
    data = json.loads(found.to_json())
    assert (data["derived"], data["verdict"], data["total_bytes"]) == ("gradient", "ok", 3072)
    assert data["gradients"] == {WI: "f32[16,32]", WO: "f32[32,8]"}
    assert data["communication"][0]["forward"]
    page = read_html(found)
    assert page.rows[0][-1] == "forward equation"
    assert len(page.rows) == 3


def test_a_refusal_stands_at_the_line_of_the_forward_equation() -> None:
    def looped(x: Any) -> Any:
        return jax.lax.while_loop(lambda c: jnp.sum(c) < 3, lambda c: c * 2, x).sum()  # loop

    found = verifier.check(looped, array(8)).backward()
    (refusal,) = found.refusals
    assert (found.verdict, refusal.family, refusal.line) == ("refused", Family.UNMODELLED, line("loop"))
    assert refusal.message.startswith("in the backward pass: ")
    assert (found.gradients, found.text, found.communication) == ({}, "", [])


def test_what_is_refused_forward_is_refused_backward() -> None:
    weights = array(8, 8, spec=P(None, None, reduced={"data"}))
    report = verifier.check(lambda a, b: jnp.matmul(a, b, out_sharding=P(None, None)), weights, weights)
    found = report.backward()
    assert (found.verdict, found.refusals) == ("refused", report.refusals)


def test_a_sum_that_is_no_gradient_itself_has_the_forward_equation_for_a_name() -> None:
    """The cotangent of a b is summed over devices once, 8 x 8 floats, and those of a and b are made of it."""
    whole = array(8, 8)
    report = verifier.check(lambda x, a, b: jnp.sum(x @ (a @ b)), array(8, 8, spec=P("data")), whole, whole)
    (row,) = [one for one in report.backward(wrt=(1, 2)).communication if one.forward]
    assert (row.value, row.bytes, row.kind) == ("", 256, "all-reduce")
    assert row.forward == "dot_general f32[8@data,8], f32[8,8] -> f32[8@data,8]"


def test_what_jax_refuses_at_these_types_is_differentiated_as_it_is_inferred() -> None:
    """Statement A25: a reduced number times a cut vector. The gradient of the number is pending, and free."""
    report = verifier.check(lambda s, v: s * v, array(spec=P(reduced={"data"})), array(8, spec=P("data")))
    found = report.backward(wrt=(0, 1))
    assert report.verdict == found.verdict == "ok"
    assert {path: str(type) for path, type in found.gradients.items()} == {"s": "f32[]{U:data}", "v": "f32[8@data]"}
    assert found.communication == []


def test_what_is_gathered_again_is_no_transpose() -> None:
    """A rematerialised layer gathers its weight, 16 x 32 floats, once more; and scatters its gradient."""

    def layer(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ jax.reshard(w, P(None, None, reduced={"data"})))

    shards = array(16, 32, spec=P("data", None))
    found = verifier.check(lambda w, x: jnp.sum(jax.checkpoint(layer)(w, x)), shards, X).backward()
    fact = "reshard f32[16@data,32] -> f32[16,32]{R:data}"
    rows = [(row.kind, row.bytes, row.value, row.forward) for row in found.communication]
    assert sorted(rows) == [
        ("all-gather", 2048, "w", f"{fact}, again"), ("reduce-scatter", 2048, "gradient of w", fact),
    ]  # fmt: skip


def test_jitted_and_traced_functions() -> None:
    with jax.sharding.use_abstract_mesh(MESH):
        traced = jax.jit(loss).trace(*ARGUMENTS)
    for given in (verifier.check(jax.jit(loss), *ARGUMENTS), verifier.check(traced)):
        assert list(given.backward().gradients) == [WI, WO]
        assert list(given.backward(wrt=1).gradients) == ["x"]
        assert given.backward().communication[0].line in (line("up"), line("cast"))


def test_arrays_that_a_function_holds() -> None:
    held = jnp.ones((8,))
    found = verifier.check(lambda x: jnp.sum(x * held), jnp.ones((8,))).backward()
    assert (found.verdict, list(found.gradients)) == ("ok", ["x"])


MODULE = """
import jax, jax.numpy as jnp
from tests.verifier import test_function_backward as here

def step():
    return here.loss, here.ARGUMENTS

def pair():
    return (lambda x, w: x @ w), (here.X, here.array(16, 8))

def integers():
    return (lambda k: k + 1), (here.array(8, dtype=jnp.int32),)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "users_loss", raising=False)
    (tmp_path / "users_loss.py").write_text(MODULE, encoding="utf-8")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments), prog_name="shardproof")


def test_the_commands_take_functions() -> None:
    found = run("grad", "users_loss:step")
    assert found.exit_code == 0
    assert found.stdout == gradient().text + "\n"
    assert "users_loss:step (gradient): well typed · " in found.stderr
    assert f"gradient of {WO}" in found.stderr
    data = json.loads(run("grad", "users_loss:step", "--wrt", f"{WO}, 1", "--json").stdout)
    assert list(data["reports"][1]["gradients"]) == [WO, "x"]
    assert json.loads(run("vjp", "users_loss:pair", "--json").stdout)["reports"][1]["derived"] == "vjp"


def test_check_takes_backward_of_a_function() -> None:
    found = run("check", "users_loss:step", "--backward")
    assert found.exit_code == 0
    assert "users_loss:step (forward and backward): well typed · " in found.stdout
    assert found.stdout.endswith("2 reports: 2 well typed\n") is False  # one name, no totals
    integers = run("check", "users_loss:integers", "--backward")
    assert integers.exit_code == 1
    assert "k has nothing floating to differentiate" in integers.stdout


def test_transpose_and_linearize_of_a_function() -> None:
    """x w is linear in each, and not in both."""
    turned = run("transpose", "users_loss:pair", "--linear", "w", "--json")
    (_, report) = json.loads(turned.stdout)["reports"]
    assert [(row["value"], row["bytes"]) for row in report["communication"]] == [("cotangent of w", 16 * 8 * 4)]
    both = run("transpose", "users_loss:pair", "--linear", "0,1")
    assert both.exit_code == 1
    assert "the program is not linear at dot_general (operand 0 is x; operand 1 is w)" in both.stderr
    linear = json.loads(run("linearize", "users_loss:pair", "--wrt", "1", "--json").stdout)
    types = linear["reports"][1]["types"]
    assert (types["tangent of w"], types["tangent of result"]) == ("f32[16,8]", "f32[64@data,8]")
    part = json.loads(run("linearize", "users_loss:pair", "--part", "linear", "--json").stdout)
    assert list(part["reports"][1]["types"]) == ["residual 0", "tangent of x", "tangent of result"]


def test_what_names_nothing_is_misuse() -> None:
    for wrt, words in (("y", "y is no input of the function"), ("5", "there is no argument 5")):
        found = run("grad", "users_loss:step", "--wrt", wrt)
        assert (found.exit_code, found.stdout) == (2, "")
        assert words in found.stderr
    assert run("grad", "users_loss:none").exit_code == 2


def _by_the_compiler(x: Any) -> Any:
    return jax.sharding.auto_axes(lambda x: x * 2.0, out_sharding=P("data", None))(x)


REGIONS = {
    "a region": (_by_the_compiler, 2),
    "set": (lambda x: x.at[jnp.array([0, 1])].set(1.0, out_sharding=P("data", None)), 2),
    "add": (lambda x: x.at[jnp.array([0, 1])].add(1.0, out_sharding=P("data", None)), 2),
    "get, a copy": (lambda x: x.at[jnp.array([0, 1])].get(out_sharding=P(None, None)), 1),
    "a region in a call": (lambda x: jax.jit(_by_the_compiler)(jnp.sin(x)), 2),
    "a copy": (lambda x: jax.sharding.auto_axes(lambda x: x * 2.0, out_sharding=P())(jax.reshard(x, P())), 0),
}
"""Functions, and how often a derivative's region takes over what is cut: going in, and the cotangent going back in.
What is a copy where a region begins costs nothing, and where it ends it is sliced."""


@pytest.mark.parametrize("name", REGIONS)
def test_a_region_has_its_price_and_its_certainty_backward_too(name: str) -> None:
    """The compiler chooses what moves where a region begins, and its transpose begins where it ends."""
    function, chosen = REGIONS[name]

    def summed(x: Any) -> Any:
        return jnp.sum(jnp.sin(function(x)))

    x = array(4, 3, spec=P("data", None))
    ours = verifier.check(summed, x).backward()
    theirs = verifier.check(jax.grad(summed), x)
    prices = [
        sorted((row.kind, row.axes, row.bytes or 0, row.exactness) for row in report.communication)
        for report in (ours, theirs)
    ]
    assert (ours.verdict, prices[0]) == ("ok", prices[1])
    assert [row.exactness for row in ours.communication if row.kind == "unknown"] == ["chosen by the compiler"] * chosen


def test_forward_and_backward_is_both() -> None:
    """The value, whose sum over devices the gradient alone does not need, and the gradient."""
    data = json.loads(run("check", "users_loss:step", "--backward", "--json").stdout)
    forward, both = ([(row["kind"], row["value"]) for row in one["communication"]] for one in data)
    assert forward
    assert all(row in both for row in forward)
    assert len(both) > len(forward)
