"""`shardproof diff --values`, and what the results of a training step replace. What the programs compute is written
beside them in numpy."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from verifier.cli import main
from verifier.differing.replacing import replaced

MEANS = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

MESH = AbstractMesh((2,), ("dp",), axis_types=(AxisType.Explicit,))
CUT = jax.ShapeDtypeStruct((4,), jnp.float32, sharding=NamedSharding(MESH, P("dp")))
ONE = jax.ShapeDtypeStruct((), jnp.float32, sharding=NamedSharding(MESH, P()))
GIVEN = (ONE, CUT, CUT)

def local(w, x, mask):
    return ((w * x) * mask).sum() / mask.sum()

def mapped(body):
    return jax.shard_map(body, mesh=MESH, in_specs=(P(), P("dp"), P("dp")), out_specs=P())

def whole():
    return local, GIVEN

def mean_of_means():
    return mapped(lambda w, x, mask: lax.pmean(local(w, x, mask), "dp")), GIVEN

def ratio_of_sums():
    return mapped(lambda w, x, mask: lax.psum(((w * x) * mask).sum(), "dp") / lax.psum(mask.sum(), "dp")), GIVEN

def other_shapes():
    return lambda w: w * 2, (CUT,)
"""


@pytest.fixture(scope="module")
def means(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("values") / "means.py"
    path.write_text(MEANS)
    return path


def run(path: Path, old: str, new: str, *more: str) -> Result:
    return CliRunner().invoke(main, ["diff", f"{path}:{old}", f"{path}:{new}", *more], prog_name="shardproof")


def test_a_mean_of_means_is_no_mean(means: Path) -> None:
    """Case 55. Where the devices count alike it is one; the counterexample is computed again, by numpy."""
    found: dict[str, Any] = json.loads(run(means, "whole", "mean_of_means", "--values", "--json").stdout)["values"]
    assert found["gradients"] == ["w", "x", "mask"]
    for family, one in found["tried"].items():
        assert (one["equal"] == one["inputs"]) == (family in ("ones", "alike on every device", "zeros")), family
    w, x, mask = (np.array(ast.literal_eval(found["counterexample"][name])) for name in ("w", "x", "mask"))
    assert {*x.tolist(), *mask.tolist()} <= {0, 1}
    parts = (w * x * mask).reshape(2, 2).sum(1) / mask.reshape(2, 2).sum(1)
    result, of_w = (one for one in found["different"] if one["what"] in ("result", "the gradient of w"))
    assert float(result["old"]) == pytest.approx((w * x * mask).sum() / mask.sum())
    assert float(result["new"]) == pytest.approx(parts.mean())
    assert float(of_w["old"]) == pytest.approx((x * mask).sum() / mask.sum())


def test_what_is_equal_is_proved_of_nothing_else(means: Path) -> None:
    found = run(means, "whole", "ratio_of_sums", "--values", "12")
    assert found.exit_code == 0, found.output
    words = "values: equal on 12 inputs, results and gradients of w, x, mask; of others this proves nothing"
    assert words in found.stdout


def test_programs_of_other_shapes_are_not_compared(means: Path) -> None:
    found = run(means, "whole", "other_shapes", "--values")
    assert (found.exit_code, "values: not compared: their inputs have other shapes" in found.stdout) == (1, True)


NEAR = {
    "a ten thousandth": ("b:f32[16] = mul a 1.0001:f32[]", "b:f32[16] = mul a 1.0:f32[]", False),
    "a mean over other many": (
        "c:f32[] = reduce_sum[axes=(0,)] a\n b:f32[] = div c 16.0:f32[]",
        "c:f32[] = reduce_sum[axes=(0,)] a\n b:f32[] = div c 15.99:f32[]", False,
    ),
    "a little more": (
        "c:f32[] = reduce_sum[axes=(0,)] a\n b:f32[] = add c 1e-05:f32[]", "b:f32[] = reduce_sum[axes=(0,)] a", False,
    ),
    "thirty for thirty-two": (
        "c:bf16[16] = convert_element_type[new_dtype=bfloat16 weak_type=False] a\n d:bf16[16] = div c 32.0:bf16[]\n"
        " b:f32[16] = convert_element_type[new_dtype=float32 weak_type=False] d",
        "b:f32[16] = div a 31.0:f32[]", False,
    ),
    "a number written out": ("b:f32[16] = mul a 0.1:f32[]", "b:f32[16] = div a 10.0:f32[]", True),
    "a sum in another order": (
        "c:f32[4,4] = reshape[dimensions=None new_sizes=(4, 4) sharding=None] a\n d:f32[4] = reduce_sum[axes=(0,)] c\n"
        " b:f32[] = reduce_sum[axes=(0,)] d", "b:f32[] = reduce_sum[axes=(0,)] a", True,
    ),
    "nothing by nothing": ("b:f32[16] = div a a", "c:f32[16] = mul a 2.0:f32[]\n b:f32[16] = div c c", True),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
def test_roundings_explain_little(name: str, tmp_path: Path) -> None:
    """What differs by more than roundings is different, however little that is; and what they explain is not."""
    *bodies, equal = NEAR[name]
    for at, body in enumerate(bodies):
        (tmp_path / f"{at}.jaxpr").write_text(f"{{ lambda ; a:f32[16] f:f8_e4m3fn[4]. let\n {body}\n in (b,) }}")
    names = [str(tmp_path / f"{at}.jaxpr") for at in (0, 1)]
    found = CliRunner().invoke(main, ["diff", *names, "--values", "8"], prog_name="shardproof")
    assert found.exit_code == (0 if equal else 1), found.output
    assert f"values: {'equal' if equal else 'different'} on " in found.stdout, found.output
    assert ("of the largest element: " in found.stdout) == equal


def test_the_elements_that_differ_are_shown(tmp_path: Path) -> None:
    """Of a large array: where, and both values; and as data all of it."""
    texts = ("b:f32[8,4] = abs a", "b:f32[8,4] = neg a")
    for at, body in enumerate(texts):
        (tmp_path / f"{at}.jaxpr").write_text(f"{{ lambda ; a:f32[8,4]. let\n {body}\n in (b,) }}")
    names = [str(tmp_path / f"{at}.jaxpr") for at in (0, 1)]
    shown, data = (
        CliRunner().invoke(main, ["diff", *names, "--values", *more], prog_name="shardproof")
        for more in ([], ["--json"])
    )
    found = json.loads(data.stdout)["values"]
    (result,) = (one for one in found["different"] if one["what"] == "b")
    given = np.array(ast.literal_eval(found["counterexample"]["a"]))
    assert np.array_equal(np.array(ast.literal_eval(result["old"])), np.abs(given))
    places = [tuple(one["at"]) for one in result["elements"]]
    assert places == [tuple(map(int, at)) for at in np.argwhere(given)]
    place = list(places[0])
    assert f"but {place} = {given[places[0]]}" in shown.stdout
    assert f"at {place} {abs(given[places[0]])} and {-given[places[0]]}" in shown.stdout


TEXTS = [
    "{ lambda ; a:f32[4] b:i32[4]. let c:f32[4] = mul a 2.0:f32[] in (c,) }",
    "{ lambda ; a:f32[4] b:i32[4]. let c:f32[4] = add a a in (c,) }",
    "{ lambda ; a:f32[4] b:i32[4]. let\n    d:f32[4] = abs a\n    f:f32[4] = add d a\n  in (f,) }",
]


@pytest.mark.parametrize(("new", "status"), [(1, 0), (2, 1)])
def test_texts_are_compared_too(new: int, status: int, tmp_path: Path) -> None:
    """Twice a is a + a; and |a| + a only where nothing is negative."""
    for at, text in enumerate(TEXTS):
        (tmp_path / f"{at}.jaxpr").write_text(text)
    names = [str(tmp_path / f"{at}.jaxpr") for at in (0, new)]
    found = CliRunner().invoke(main, ["diff", *names, "--values"], prog_name="shardproof")
    assert found.exit_code == status, found.output
    assert ("values: equal on 24 inputs" in found.stdout) == (not status)


STEPS = {
    "unchanged state": ("c:f32[4] = sub a a", "c b", ["w", "mu"], ["result[0]", "result[1]"], [(0, 0), (1, 1)]),
    "only the state": ("c:f32[4] = mul b 2.0:f32[]", "c", ["w", "mu"], ["result[0]"], [(0, 1)]),
    "the other way round": (
        "c:f32[4] = mul b 2.0:f32[]\n    d:f32[4] = sub a c", "c d", ["w", "mu"], ["result[0]", "result[1]"],
        [(0, 1), (1, 0)],
    ),
    "moments": (
        "c:f32[4] = mul a 2.0:f32[]\n    d:f32[4] = mul b 2.0:f32[]", "c d", ["s['m']['w']", "s['v']['w']"],
        ["result[0]['m']['w']", "result[0]['v']['w']"], [(0, 0), (1, 1)],
    ),
    "no step": ("c:f32[] = reduce_sum[axes=(0,)] a", "c", ["w", "x"], ["result[0]"], []),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_what_results_replace(name: str) -> None:
    """Case 41: a state that has the shape of the weights is no weight."""
    from grammar.read import read

    equations, results, inputs, outputs, pairs = STEPS[name]
    listed = ", ".join(results.split()) + ("," if " " not in results else "")
    text = f"{{ lambda ; a:f32[4] b:f32[4]. let\n    {equations}\n  in ({listed}) }}"
    assert replaced(read(text).program, inputs, outputs) == pairs
