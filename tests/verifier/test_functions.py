"""Checking a function: what its author reads, in names and lines of their own. Numbers are worked out beside them."""

from __future__ import annotations

import functools
import inspect
import json
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from calculus.refusals import Refused
from calculus.types import Type
from verifier.functions import FunctionReport

MESH = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
HERE = Path(__file__).resolve()


def struct(*shape: int, spec: P | None = None, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, P() if spec is None else spec))


def reduced(*shape: int) -> jax.ShapeDtypeStruct:
    return struct(*shape, spec=P(*[None] * len(shape), reduced={"data"}))


@functools.cache
def line(marker: str) -> int:
    """The line of this file that ends in a comment."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, text in enumerate(lines, 1) if text.endswith(f"# {marker}")]
    return found


def loss(params: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ params["layers"][0]["wi"])  # up
    return jnp.sum(hidden @ params["layers"][1]["wo"])  # down


def train(params: Any, x: Any) -> Any:
    return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, params, jax.grad(loss)(params, x))


def step_arguments() -> tuple[Any, Any]:
    return {"layers": [{"wi": struct(16, 32)}, {"wo": struct(32, 8)}]}, struct(64, 16, spec=P("data", None))


def step_report() -> FunctionReport:
    return verifier.check(train, *step_arguments())


def test_a_gradient_is_named_after_its_parameter_and_found_at_its_line() -> None:
    """Data parallelism: each gradient is summed over `data`, in float32: 16 x 32 x 4 and 32 x 8 x 4 bytes. A ring of
    4 sends 2 x 3/4 of that."""
    rows = {row.value: row for row in step_report().communication}
    assert {value: (row.kind, row.axes, row.bytes, row.wire_bytes, row.times) for value, row in rows.items()} == {
        "gradient of params['layers'][0]['wi']": ("all-reduce", ("data",), 2048, 3072, 1),
        "gradient of params['layers'][1]['wo']": ("all-reduce", ("data",), 1024, 1536, 1),
    }
    lines = {"wi": line("up"), "wo": line("down")}
    for value, row in rows.items():
        assert row.line == lines[value[-4:-2]]
        assert row.where.endswith(f"test_functions.py:{row.line}")


def test_the_text() -> None:
    """The summary, and the table: under the user's lines, without columns that say nothing."""
    where = step_report().communication[0].where.rpartition(":")[0]
    equations = step_report().equations
    assert str(step_report()).splitlines() == [
        f"train: well typed · {equations} equations · 2 collectives, 2 runs · 3,072 bytes per device",
        "    value                                  collective  over  bytes   wire",
        f"  {where}:{line('down')}",
        "    gradient of params['layers'][1]['wo']  all-reduce  data  1,024  1,536",
        f"  {where}:{line('up')}",
        "    gradient of params['layers'][0]['wi']  all-reduce  data  2,048  3,072",
    ]


def test_the_types_are_those_of_inputs_and_outputs() -> None:
    types: dict[str, Type] = step_report().types
    assert {path: str(type) for path, type in types.items()} == {
        "params['layers'][0]['wi']": "f32[16,32]",
        "params['layers'][1]['wo']": "f32[32,8]",
        "x": "f32[64@data,16]",
        "result['layers'][0]['wi']": "f32[16,32]",
        "result['layers'][1]['wo']": "f32[32,8]",
    }


def test_json_says_all() -> None:
    """Also what the table leaves out."""
    data = json.loads(step_report().to_json())
    assert (data["verdict"], data["refusals"], data["total_bytes"]) == ("ok", [], 3072)
    assert data["types"]["x"] == "f32[64@data,16]"
    first = data["communication"][0]
    assert set(first) == {
        "line", "primitive", "kind", "axes", "bytes", "wire_bytes", "times", "total_bytes", "exactness", "inside",
        "where", "library", "value",
    }  # fmt: skip
    assert (first["primitive"], first["exactness"], first["times"], first["inside"]) == ("dot_general", "exact", 1, [])


def test_a_library_is_named_beside_the_users_line() -> None:
    """`optax.sgd` in a step: the mean of the gradient's norm is the library's, called from here."""
    optax = pytest.importorskip("optax", reason="optax is an extra")

    def clipped(slopes: Any) -> Any:
        return optax.tree.norm(slopes)  # norm

    report = verifier.check(clipped, {"w": struct(8, 4, spec=P("data", None))})
    (row,) = report.communication
    assert row.line == line("norm")
    assert re.fullmatch(r"\S+, optax/\S+\.py:\d+", row.library)
    function = row.library.partition(",")[0]
    assert f"  {row.where} in {function}" in str(report).splitlines()


@pytest.mark.parametrize(
    "given",
    [
        lambda: (train, step_arguments()),
        lambda: (jax.jit(train, donate_argnums=0), step_arguments()),
        lambda: (jax.jit(train).trace(*step_arguments()), ()),
        lambda: (functools.partial(train, step_arguments()[0]), step_arguments()[1:]),
    ],
    ids=["function", "jitted", "traced", "partial"],
)
def test_what_may_be_checked(given: Callable[[], tuple[Any, tuple[Any, ...]]]) -> None:
    f, arguments = given()
    if isinstance(f, functools.partial):  # its structs are not arguments, so JAX cannot trace it
        with pytest.raises(TypeError):
            verifier.check(f, *arguments)
        return
    report = verifier.check(f, *arguments)
    assert sorted(row.bytes or 0 for row in report.communication) == [1024, 2048]
    assert {row.line for row in report.communication} == {line("up"), line("down")}


def test_a_program_of_jax() -> None:
    """It has no names but what it is made with; lines it has."""
    report = verifier.check(jax.make_jaxpr(train)(*step_arguments()))
    assert {row.line for row in report.communication} == {line("up"), line("down")}
    assert report.verdict == "ok"


def test_static_arguments_and_keywords() -> None:
    @functools.partial(jax.jit, static_argnames=("power",))
    def summed(x: Any, *, scale: Any, power: int) -> Any:
        return jnp.sum(x**power) * scale

    report = verifier.check(summed, struct(8, spec=P("data")), scale=struct(), power=3)
    assert [(row.bytes, row.value) for row in report.communication] == [(4, "result")]
    assert "scale" in report.types


# Refusals. In each, weights that are reduced are multiplied with each other, and the result is asked to be a copy:
# right forward, and not back.


def product(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, out_sharding=P(None, None))  # product


def plain(p: Any, x: Any) -> Any:
    return x @ product(p["a"], p["b"])


def in_a_call(p: Any, x: Any) -> Any:
    return x @ jax.jit(product)(p["a"], p["b"])


def in_a_scan(p: Any, x: Any) -> Any:
    return jax.lax.scan(lambda carry, _: (carry @ product(p["a"], p["b"]), None), x, None, length=3)[0]


def in_a_scan_in_a_call(p: Any, x: Any) -> Any:
    return jax.jit(in_a_scan)(p, x)


def in_a_shard_map(p: Any, x: Any) -> Any:
    inside = {"a": P(None, None, reduced={"data"}), "b": P(None, None, reduced={"data"})}
    body = jax.shard_map(plain, mesh=MESH, in_specs=(inside, P("data", None)), out_specs=P("data", None))
    return body(p, x)


@pytest.mark.parametrize("f", [plain, in_a_call, in_a_scan, in_a_scan_in_a_call, in_a_shard_map])
def test_operands_are_called_by_their_path(f: Callable[..., Any]) -> None:
    report = verifier.check(f, {"a": reduced(8, 8), "b": reduced(8, 8)}, struct(8, 8, spec=P("data", None)))
    (refusal,) = report.refusals
    assert (refusal.code, refusal.family.value) == ("transpose-communicates", "one-way")
    assert refusal.line == line("product")
    assert re.search(r"\(operand 0\b.* is p\['a'\]; operand 1\b.* is p\['b'\]\)$", refusal.message)
    assert report.verdict == "refused"
    first = str(report).splitlines()[2]
    assert re.match(rf"\S*test_functions\.py:{line('product')}: one-way: ", first)


def test_an_operand_that_is_made_from_an_argument_does_not_pass_for_it() -> None:
    report = verifier.check(
        lambda p: product(p["a"].T, p["b"][0]), {"a": reduced(8, 8), "b": struct(2, 8, 8, spec=P(reduced={"data"}))}
    )
    (refusal,) = report.refusals
    assert "is made from p['a']" in refusal.message
    assert "is made from p['b']" in refusal.message


def test_an_operand_that_is_computed_is_found_at_its_line() -> None:
    """A constant branch beside a pending sum would be counted once per device."""

    def chosen(flags: Any, v: Any) -> Any:
        total = jnp.einsum("i,i->", v, v, out_sharding=P(unreduced={"data"}))  # total
        return jnp.where(flags["first"], 1.0, total)

    report = verifier.check(chosen, {"first": struct(dtype=jnp.bool_)}, struct(8, spec=P("data")))
    (refusal,) = report.refusals
    assert refusal.family.value == "unsound"
    assert re.search(rf"is made by dot_general at \S*test_functions\.py:{line('total')};", refusal.message)
    assert "is the number 1.0" in refusal.message


def test_branches_that_disagree() -> None:
    def chosen(flag: Any, v: Any) -> Any:
        return jax.lax.cond(  # branches
            flag,
            lambda v: jnp.einsum("i,i->", v, v, out_sharding=P(unreduced={"data"})),
            lambda v: np.float32(1),
            v,
        )

    (refusal,) = verifier.check(chosen, struct(dtype=jnp.bool_), struct(8, spec=P("data"))).refusals
    assert (refusal.code, refusal.line) == ("branch-types", line("branches"))


def test_no_refusal_speaks_of_names_that_jax_makes() -> None:
    for f in (plain, in_a_scan, in_a_shard_map):
        report = verifier.check(f, {"a": reduced(8, 8), "b": reduced(8, 8)}, struct(8, 8, spec=P("data", None)))
        for refusal in report.refusals:
            assert not re.search(r"\b(input|variable|value) [a-z]{1,2}\b", refusal.message + refusal.help)


# What else a reader is told.


def test_unsharded_code_says_so_first() -> None:
    report = verifier.check(lambda x: x @ x, jnp.ones((4, 4)))
    assert (report.verdict, report.communication) == ("ok", [])
    assert "auto mode" in str(report).splitlines()[1]


def test_replicated_on_explicit_axes_is_no_auto_mode() -> None:
    """The types say all: every device computes everything, and nothing is left to the compiler."""
    report = verifier.check(lambda a, b: a @ b, struct(8, 8), struct(8, 8))
    assert (report.verdict, report.communication) == ("ok", [])
    assert not any("auto" in note for note in report.notes)


def test_auto_axes_beside_explicit_ones() -> None:
    """The explicit axis costs 4 bytes, one float. The other is left to the compiler, and that is said."""
    mesh = AbstractMesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit, AxisType.Auto))
    x = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(mesh, P("data", None)))
    report = verifier.check(jnp.sum, x)
    assert [(row.kind, row.axes, row.bytes) for row in report.communication] == [("all-reduce", ("data",), 4)]
    assert any("auto axes model" in note for note in report.notes)
    assert not any("auto mode" in note for note in report.notes)


def test_what_is_not_modelled_comes_last_with_its_count() -> None:
    from jax.experimental import pallas

    def promises(p: Any) -> Any:
        first = pallas.multiple_of(jnp.arange(8), 8)  # first promise
        second = pallas.multiple_of(jnp.arange(4), 8)
        return first, second, p["a"] @ p["b"]

    report = verifier.check(promises, {"a": reduced(8, 8), "b": reduced(8, 8)})
    assert [refusal.code for refusal in report.refusals] == ["transpose-communicates", "unmodelled-primitive"]
    last = report.refusals[-1]
    assert last.message.startswith("multiple_of has no declaration: 2 equations")
    assert last.line == line("first promise")


def kernel() -> Callable[[Any], Any]:
    """A primitive of a library that nobody here knows."""
    primitive = Primitive("somebodys_kernel")
    primitive.def_abstract_eval(lambda x: x)
    bound: Callable[[Any], Any] = primitive.bind
    return bound


def test_an_opaque_kernel_is_assumed_and_counted() -> None:
    fused = kernel()
    report = verifier.check(lambda x: jnp.sum(fused(x) + fused(2 * x)), struct(8, spec=P("data")))
    assert (report.verdict, report.assumed) == ("ok", 2)
    assert "well typed on 2 assumptions" in str(report).splitlines()[0]
    assert any("somebodys_kernel (2)" in note for note in report.notes)
    assert [row.bytes for row in report.communication] == [4]


# What cannot be checked.


def spoilt(raised: pytest.ExceptionInfo[BaseException]) -> list[str]:
    """Our own frames below the call of `check`, in what a user sees of an exception."""
    ours = str(Path(inspect.getfile(verifier)).parent)
    frames = [frame for frame in traceback.extract_tb(raised.value.__traceback__) if frame.filename.startswith(ours)]
    return [f"{frame.filename}:{frame.lineno}" for frame in frames[1:]]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((3, 4), TypeError, "int is not a function"),
        ((product, 4, 5, 6), TypeError, "positional arguments"),
        ((product, struct(8, 8)), TypeError, "missing 1 required positional argument: 'b'"),
        ((product, struct(8, 8), struct(4, 8)), TypeError, "contracting dimensions"),
    ],
    ids=["no function", "too many", "too few", "shapes"],
)
def test_what_cannot_be_traced(arguments: tuple[Any, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        verifier.check(*arguments)
    assert spoilt(raised) == []


def test_what_jax_refuses_is_refused_in_our_words_at_the_users_line() -> None:
    """JAX 0.12 says that cos is nonlinear; 0.10 that a rule is missing. f32[8] is 32 bytes."""

    def wave(v: Any) -> Any:
        return jnp.cos(v) * 2.0  # wave

    report = verifier.check(wave, struct(8, spec=P(None, unreduced={"data"})))
    (refusal,) = report.refusals
    assert (report.verdict, refusal.code, refusal.line) == ("refused", "state", line("wave"))
    assert refusal.because == "not additive in x: f(x + y) is not f(x) + f(y)"
    assert refusal.help.startswith(
        "reshard operand 0 to f32[8] (all-reduce over data of 32 bytes forward, free backward)"
    )
    assert report.notes[0].startswith("JAX does not trace this at these types (")
    assert "inferred from the arguments on" in report.notes[0]
    assert {path: str(type) for path, type in report.types.items()} == {"v": "f32[8]{U:data}"}


def test_a_mesh_that_is_none_comes_with_help() -> None:
    with pytest.raises(Refused, match="is of type int") as raised:
        verifier.check(product, jnp.ones((2, 2)), jnp.ones((2, 2)), mesh=3)
    assert spoilt(raised) == []
    assert raised.value.__notes__[-1].startswith("help: give a jax.sharding.Mesh")


def test_time_grows_with_the_program_and_not_with_its_square() -> None:
    """Layers whose sums go all the way through: what each costs is attributed in bounded time."""

    def deep(ps: Any, x: Any) -> Any:
        for p in ps:
            x = x + jnp.einsum("bd,de->be", x, p["w"], out_sharding=P("data", None))
        return x

    w = {"w": struct(8, 8, spec=P("model", None))}
    report = verifier.check(deep, [w] * 400, struct(8, 8, spec=P("data", None)))
    assert len(report.communication) == 400


def counted(x: Any) -> Any:
    def body(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, c: c + x.sum(), 0.0)[None]

    return jax.shard_map(body, in_specs=P("data"), out_specs=P("data"))(x)


def gathered_three_times(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda i, c: jax.reshard(jax.reshard(c, P("data")), P()), x)


def test_a_loop_is_called_what_its_author_called_it() -> None:
    """JAX makes a scan, or a while loop, of a fori_loop, and one carry more."""
    refused = verifier.check(counted, struct(8, spec=P("data")))
    assert "carry 1 of fori_loop x3, whose counter is carry 0, is f32[] before" in refused.refusals[0].message
    (row,) = verifier.check(gathered_three_times, struct(8)).communication
    assert (row.inside, row.times) == (("fori_loop x3",), 3)
    (row,) = verifier.check(
        lambda x: jax.lax.map(lambda r: jax.reshard(r, P()), x), struct(4, 8, spec=P(None, "data"))
    ).communication
    assert row.inside == ("map x4",)
