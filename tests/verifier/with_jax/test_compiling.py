"""Real compilers: XLA for CPU devices always, XLA for TPU where libtpu is installed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from grammar.meshes import parse_meshes
from verifier.cli import main
from verifier.compiled import agreement
from verifier.compiled.derived import Said
from verifier.compiled.matching import matched
from verifier.compiled.pairs import Matching
from verifier.compiled.reading import Moved, read
from verifier.compiled.targets import CPU, PARTITIONED, RUN, NoCompiler, target
from verifier.with_jax import compiling
from verifier.with_jax.backward_programs import programs
from verifier.with_jax.compiling import compile_, derivative_on, have_libtpu
from verifier.with_jax.deriving import derived

TPU = pytest.mark.skipif(not have_libtpu(), reason="libtpu is not installed: pip install 'shardproof[tpu-compiler]'")
SIZES = {"data": 4, "model": 2}
STEPS = Path(__file__).parents[3] / "examples" / "microbatches.py"

SAMPLE = (
    "transformer/llama_fsdp_scan3_again", "documented/microbatches, reduced", "documented/microbatches",
    "documented/pieces along two axes", "documented/looked up", "manual/a ring", "manual/all_to_all",
    "family/layers in an unrolled loop (data and tensor, reduced)",
)  # fmt: skip


def run(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, ["agree", *words], prog_name="shardproof", catch_exceptions=False)
    return found.exit_code, found.output


@pytest.mark.parametrize("name", SAMPLE)
def test_wrong_prices_of_real_programs_are_seen(name: str) -> None:
    """Both sides agree, in loops too; and no longer when one derived collective is wrong."""
    where = target(CPU)
    mesh, made = derivative_on(where, programs()[name]())
    said = derived(made)
    (text,) = compile_(made, where, mesh, quick=True).texts.values()
    sizes = dict(mesh.shape)
    moved = read(text, sizes)
    found = matched(said, moved, sizes)
    assert not found.unexplained, (found.said, found.moved)
    assert sum(pair.placed for pair in found.equal) >= len(found.equal) / 2
    decided = all(one.exactness == "exact" for one in said)
    for at, one in enumerate(said[:6]):
        if one.exactness != "exact" or one.payload is None:
            continue
        rest = [*said[:at], *said[at + 1 :]]
        other = "all-to-all" if one.kind != "all-to-all" else "all-gather"
        for wrong in (
            replace(one, payload=one.payload * 2), replace(one, payload=one.payload + 4), replace(one, kind=other),
            replace(one, axes=("Z",)), replace(one, loops=(*one.loops, 7)), *([None] if decided else []),
        ):  # fmt: skip
            given = rest if wrong is None else [*rest, wrong]
            assert matched(given, moved, sizes).unexplained, (one, wrong)
        assert matched([*said, one], moved, sizes).unexplained, one


def test_the_microbatch_steps_on_cpu_devices() -> None:
    """Seeds A31 to A36. By hand: 3 layers of 4 x 4 numbers of 4 bytes are 192 bytes, one layer 64."""
    code, output = run(
        "--target", "cpu", "examples.microbatches:accumulated", f"{STEPS}:summed_each_time",
        "--mesh", "X=8", "--json",
    )  # fmt: skip
    assert code == 0
    data = json.loads(output)
    pairs = [program["stages"][PARTITIONED]["pairs"] for program in data["programs"]]
    assert [[(pair["compiled"][0]["kind"], pair["compiled"][0]["bytes"], pair["compiled"][0]["loops"]) for pair in one]
            for one in pairs] == [[("all-reduce", 192, [])], [("all-reduce", 64, [5, 3])]]  # fmt: skip
    assert all(pair["class"] is None and pair["same_line"] for one in pairs for pair in one)
    assert data["stages"][PARTITIONED]["unexplained"] == 0


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="the text has a primitive that the older JAX lacks")
def test_a_text_and_a_room() -> None:
    """A printed program, handed to JAX as Python, and derivatives by name. By hand, as above."""
    file = STEPS.parents[1] / "tests" / "golden" / "corpus" / "seed_microbatch_replicated.jaxpr"
    code, output = run("--target", "cpu", str(file), "manual/a ring", "--mesh", "X=2")
    assert code == 0
    rows = [line.split() for line in output.splitlines()]
    assert ["programs", "2"] in rows
    assert ["unexplained", "0"] in rows
    assert [row.count("all-reduce") for row in rows if row[:5] == ["all-reduce", "X", "64", "x5", "x3"]] == [2]


def both(mesh_text: str, function: Any, *arrays: tuple[tuple[int, ...], P]) -> tuple[list[Said], list[Moved], Matching]:
    """What the types say of a function on CPU devices, what its partitioned program moves, and the two together."""
    mesh = compiling.mesh_on(target(CPU), parse_meshes(mesh_text)[0])
    given = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec)) for shape, spec in arrays]
    made = compiling.trace_on(mesh, function, given, {})
    (text,) = compile_(made, target(CPU), mesh, quick=True).texts.values()
    said, moved = derived(made), read(text, dict(mesh.shape))
    return said, moved, matched(said, moved, dict(mesh.shape))


@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="the older release does not lower all of these")
@pytest.mark.parametrize(
    ("spec", "ended"),
    [
        (P(None, None), "XY"), (P("X", None), "XY"), (P(None, "X"), "XY"), (P("X", None, unreduced={"Y"}), "X"),
        (P(("X", "Y"), None), "XY"), (P("X", "Y"), "XY"), (P(None, None, unreduced={"X"}), "Y"),
        (P(("Y", "X"), None), "XY"),
    ],
)  # fmt: skip
def test_every_axis_of_a_pending_sum_is_in_the_replica_groups(spec: P, ended: str) -> None:
    """Case 21: a sum over two axes goes to a target on one, or on both, or stays pending along one."""

    def contracted(a: Any, b: Any) -> Any:
        pending = jnp.einsum("ij,jk->ik", a, b, out_sharding=P(None, None, unreduced={"X", "Y"}))
        return jax.reshard(pending, spec)

    said, moved, found = both("X=2, Y=2", contracted, ((4, 8), P(None, ("X", "Y"))), ((8, 4), P(("X", "Y"), None)))
    assert {axis for one in moved if one.kind == "all-reduce" for axis in one.axes} == {*ended}
    assert {axis for one in said for axis in one.axes} == {*ended}
    assert not found.unexplained


def test_xla_sends_more_than_is_needed() -> None:
    """A gather over Z, of 128 bytes, and slices along X and Z are enough; XLA gathers over Y too."""
    _, moved, found = both(
        "X=2, Y=2, Z=2", lambda x: jax.reshard(x, P(("Y", "X", "Z"), None)), ((8, 8), P("Y", "Z"))
    )  # fmt: skip
    assert [(one.kind, one.axes, one.payload) for one in moved] == [
        ("all-gather", ("Z",), 128), ("all-gather", ("Y",), 256),
    ]  # fmt: skip
    assert (found.classes, found.unexplained) == ({"more than is needed": 1}, 0)


def test_what_one_equation_moves_twice_is_two_values() -> None:
    """An argmax gathers each block's best value, and where it is: 64 bytes each, of two dtypes."""
    said, _, found = both("X=4", lambda x: jnp.argmax(x, 0), ((8, 4), P("X", None)))
    assert [(one.kind, one.payload, one.dtype) for one in said] == [
        ("all-gather", 64, "f32"),
        ("all-gather", 64, "i32"),
    ]
    assert (len(found.equal), found.unexplained) == (2, 0)


def test_a_sum_that_is_only_shown_is_made() -> None:
    """What a callback is handed is moved, though no result needs it."""

    def shows(x: Any) -> Any:
        jax.debug.print("{}", x.sum())
        return x * 2

    _, _, found = both("X=4", shows, ((8,), P("X")))
    assert (len(found.equal), found.unexplained) == (1, 0)


def test_a_pending_sum_that_moves_along_another_axis() -> None:
    """XLA sums first, and exchanges blocks of the whole; the types scatter, and then gather."""

    def pending(a: Any, b: Any) -> Any:
        found = jnp.einsum("ij,jk->ik", a, b, out_sharding=P("Y", None, unreduced={"X"}))
        return jax.reshard(found, P(None, "X"))

    said, _, found = both("X=2, Y=2", pending, ((4, 8), P("Y", "X")), ((8, 4), P("X", None)))
    assert [(one.kind, one.exactness) for one in said] == [("reduce-scatter", "estimate"), ("all-gather", "estimate")]
    assert not found.unexplained


FACTORIES = """
import jax, jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

def made(**axes):
    mesh = AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Explicit,) * len(axes))
    jax.sharding.use_abstract_mesh(mesh).__enter__()
    x = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(mesh, P(next(iter(axes)), None)))
    return (lambda x: jnp.sum(x, 0)), (x,)

def four(): return made(X=4)
def other(): return made(D=4)
def wrong():
    f, (x,) = made(X=4)
    return (lambda x: x @ x), (x,)
"""


def test_each_factory_has_its_mesh_and_one_that_fails_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "several.py").write_text(FACTORIES)
    with jax.sharding.use_abstract_mesh(jax.sharding.get_abstract_mesh()):
        code, output = run(
            "--target", "cpu", *(f"{tmp_path / 'several.py'}:{one}" for one in ("four", "wrong", "other"))
        )
    assert (code, "2 programs" in output, "several.py:wrong is refused by JAX, XLA or us: " in output) == (
        1,
        True,
        True,
    )
    assert "all-reduce D 16" in output


def test_what_is_moved_may_be_any_operand() -> None:
    """The second one, which an equation of one operand made."""
    weight = (8, 8), P("X", None)
    said, _, found = both("X=4", lambda x, w: x @ jnp.sin(w), ((4, 8), P(None, None)), weight)
    assert [(one.kind, one.payload, len(one.made)) for one in said] == [("all-gather", 256, 1)]
    assert not found.unexplained


def test_a_mistake_of_ours_is_no_answer_of_jaxs(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any) -> Any:
        raise IndexError("ours")

    monkeypatch.setattr(agreement, "matched", wrong)
    with pytest.raises(IndexError, match="ours"):
        agreement.compare(target(CPU), ["manual/a ring"])


@pytest.mark.parametrize(("again", "gathers"), [(False, 2), (True, 4)])
def test_how_often_a_fully_sharded_step_gathers(again: bool, gathers: int) -> None:
    """Case 61: once for both passes, and once in each where the layer is computed again; two scatters."""

    def layer(w: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w)

    def loss(first: jax.Array, second: jax.Array, x: jax.Array) -> jax.Array:
        step = jax.checkpoint(layer) if again else layer
        return jnp.sum(step(second, step(first, x)) ** 2)

    weight = (8, 8), P("X", None)
    said, moved, found = both("X=4", jax.grad(loss, (0, 1)), weight, weight, weight)
    assert [sum(one.kind == "all-gather" for one in side) for side in (said, moved)] == [gathers, gathers]
    assert found.classes == {"reduced, then sliced": 2}
    assert not found.unexplained


def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "have_libtpu", lambda: False)
    code, output = run("--target", "tpu:v5p:2x2x2", "examples.microbatches:accumulated")
    assert (code, "pip install 'shardproof[tpu-compiler]'" in output) == (2, True)
    for words, message in (
        (["--target", "gpu"], "there is no target gpu"),
        (["--target", "cpu", "examples.microbatches:nothing"], "has no nothing"),
        (["--target", "cpu", "manual/nothing"], "there is no program manual/nothing"),
        (["--target", "cpu", "no.jaxpr"], "no.jaxpr cannot be read: No such file"),
        (["--target", "cpu", "--matrix"], "say what to compare"),
        (["--backward", "examples.microbatches:accumulated"], "for --target"),
    ):
        code, output = run(*words)
        assert (code, message in output) == (2, True), output


def test_more_cpu_devices_than_there_are_are_refused_with_a_repair() -> None:
    with pytest.raises(NoCompiler, match="at most 2,048 CPU devices") as raised:
        compiling.devices(target(CPU), 4096)
    assert "tpu:v5p:16x16x16" in raised.value.help


def test_a_mesh_that_is_too_large_names_the_repair() -> None:
    with pytest.raises(NoCompiler) as raised:
        compiling.devices(target(CPU), 4 * len(jax.devices("cpu")))
    assert raised.value.help.startswith("set JAX_NUM_CPU_DEVICES=")


@TPU
def test_the_microbatch_steps_on_four_thousand_chips() -> None:
    code, output = run(
        "--target", "tpu:v5p:16x16x16", "examples.microbatches:accumulated", "examples.microbatches:summed_each_time",
        "--json",
    )  # fmt: skip
    assert code == 0
    for program, (size, loops) in zip(json.loads(output)["programs"], ((192, []), (64, [5, 3])), strict=True):
        assert program["mesh"] == "X=4096"
        for stage in (PARTITIONED, RUN):
            (pair,) = program["stages"][stage]["pairs"]
            assert [(one["bytes"], one["loops"]) for one in pair["compiled"]] == [(size, loops)]


@TPU
@pytest.mark.parametrize("name", SAMPLE[:3])
def test_no_difference_is_unexplained_on_eight_chips(name: str) -> None:
    where = target("tpu:v5p:2x2x2")
    mesh, made = derivative_on(where, programs()[name]())
    said, sizes = derived(made), dict(mesh.shape)
    texts = compile_(made, where, mesh).texts
    assert {*texts} == {PARTITIONED, RUN}
    for stage, text in texts.items():
        found = matched(said, read(text, sizes), sizes, stage)
        assert not found.unexplained, (stage, found.said, found.moved)


@TPU
def test_layouts_that_the_compiler_chooses() -> None:
    """Seeds B41 and B42: `x[0, :]` wants rows, `y[:, 0]` columns; what makes the two is compiled to give them so."""
    from jax.experimental.layout import Format, Layout

    mesh = compiling.mesh_on(target("tpu:v5p:2x2x2"), parse_meshes("X=8")[0])
    array = jax.ShapeDtypeStruct((512, 1024), jnp.float32, sharding=NamedSharding(mesh, P()))

    def apply_fn(x: Any, y: Any) -> Any:
        return x[0, :], y[:, 0]

    with jax.set_mesh(mesh):
        applied = jax.jit(apply_fn, in_shardings=Format(Layout.AUTO)).lower(array, array).compile()
        (x, y), _ = applied.input_formats
        assert (x.layout.major_to_minor, y.layout.major_to_minor) == ((0, 1), (1, 0))
        made = jax.jit(lambda x, y: (x * 2, y * 3), out_shardings=(x, y)).lower(array, array).compile()
        assert [one.layout.major_to_minor for one in made.output_formats] == [(0, 1), (1, 0)]
