"""The programs in examples/: each runs, types, prices as its text does, and attributes what communicates. What the
layouts of the MLPs and of the Llama must communicate is worked out by hand here."""

from __future__ import annotations

import functools
import importlib
import math
import re
import runpy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import verifier
from bench.examples import factories
from calculus.programs import Document
from examples import llama, nnx_mlp
from grammar.read import read
from verifier.backward_agreement import compare
from verifier.functions import FunctionReport
from verifier.report import Report, as_json
from verifier.texts import check_text
from verifier.ways import EQUAL, Job, job_of, run_all
from verifier.with_jax.convert import convert
from verifier.with_jax.trace import trace

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


VARIANTS = [f"{name}:{factory}" for name in EXAMPLES for factory, _ in factories(name)]


@functools.cache
def built(variant: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    name, _, factory = variant.partition(":")
    step, arguments = getattr(importlib.import_module(f"examples.{name}"), factory)()
    return step, arguments


@functools.cache
def reported(variant: str) -> FunctionReport:
    step, arguments = built(variant)
    return verifier.check(step, *arguments)


def test_every_example_has_variants() -> None:
    assert len(EXAMPLES) >= 9
    assert {variant.partition(":")[0] for variant in VARIANTS} == set(EXAMPLES)


@pytest.mark.parametrize("variant", VARIANTS)
def test_its_derivative_communicates_as_that_of_jax(variant: str) -> None:
    """Of a step that takes a gradient it is a second one."""
    found = compare([f"examples.{variant}"])
    assert [one.agree for one in found.compared] == [True], (found.untraced, [str(one) for one in found.compared])


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_says_what_to_look_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.count("well typed") == len(list(factories(name)))
    assert len(module["__doc__"].splitlines()) >= 4


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_well_typed(variant: str) -> None:
    """Nothing is refused, and nothing is left unmodelled; the report is more than an empty one."""
    report = reported(variant)
    assert [(refusal.code, refusal.message) for refusal in report.refusals] == []
    assert report.verdict == "ok"
    assert report.equations >= 4


def without_places(report: Report) -> Counter[tuple[Any, ...]]:
    """The rows, without what text does not know: the user's lines and values; and lines, which count other things."""
    return Counter(
        (row.kind, row.axes, row.bytes, row.wire_bytes, row.times, row.exactness, row.primitive, row.inside)
        for row in report.communication
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_its_text_is_the_same_program_with_the_same_report(variant: str) -> None:
    step, arguments = built(variant)
    traced = trace(step, *arguments)
    text = re.sub(r" at 0x[0-9a-f]+", " at 0x0", str(traced.program))
    document: Document = read(text)
    assert convert(traced.program) == document
    by_text = check_text(text, traced.meshes, variant)
    report = reported(variant)
    assert (by_text.verdict, by_text.equations) == (report.verdict, report.equations)
    assert without_places(by_text) == without_places(report)
    assert set(by_text.notes) <= set(report.notes)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_communicates_is_found_in_the_example(variant: str) -> None:
    """Every row names a line of the example's own, and one on which something stands."""
    source = ROOT / "examples" / f"{variant.partition(':')[0]}.py"
    lines = source.read_text(encoding="utf-8").splitlines()
    for row in reported(variant).communication:
        found = re.match(rf"(?:\S*/)?{source.name}:(\d+)\b", row.where)
        assert found, row
        assert lines[int(found[1]) - 1].strip(), row
        assert "site-packages" not in row.where


#: the examples with opaque kernels, and those
OPAQUE = {"pallas_attention:train_step": ["pallas_call (1)"]}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_assumed_is_counted(variant: str) -> None:
    assumed = [note.rpartition(": ")[2] for note in reported(variant).notes if note.startswith("assumed")]
    assert assumed == OPAQUE.get(variant, [])


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_report_is_data(variant: str) -> None:
    data = as_json(reported(variant))
    assert data["verdict"] == "ok"
    assert isinstance(data["communication"], list)
    assert len(data["communication"]) == len(reported(variant).communication)


# What must communicate, by hand. A row is (kind, axes, payload bytes each time, times).

Hand = Counter[tuple[str, tuple[str, ...], int, int]]


def rows(variant: str) -> Hand:
    return Counter((row.kind, row.axes, row.bytes, row.times) for row in reported(variant).communication)  # type: ignore[misc]


CHIPS = ("data", "model")
WIDTH, HIDDEN, CLASSES = nnx_mlp.WIDTH, nnx_mlp.HIDDEN, nnx_mlp.CLASSES
MATRICES = {"up": 4 * WIDTH * HIDDEN, "down": 4 * HIDDEN * CLASSES}
VECTORS = {"norm.scale": 4 * WIDTH, "norm.bias": 4 * WIDTH, "up.bias": 4 * HIDDEN, "down.bias": 4 * CLASSES}
SCALAR = 4  # the loss, a float32


def test_data_parallel() -> None:
    """One all-reduce for the gradient of every parameter, of the parameter's own bytes, and one for the loss."""
    sizes = [*MATRICES.values(), *VECTORS.values(), SCALAR]
    assert sizes == [268_435_456, 33_554_432, 16_384, 16_384, 65_536, 2_048, 4]
    assert rows("nnx_mlp:data_parallel") == Counter(("all-reduce", CHIPS, size, 1) for size in sizes)


def test_fsdp() -> None:
    """Each kernel is gathered once, and its gradient scattered once, both of the kernel's whole bytes. The vectors,
    which are not sharded, and the loss are as in data parallelism. A gather and a scatter over n chips send as much as
    an all-reduce does: 2 (n-1)/n of the bytes."""
    expected: Hand = Counter(("all-reduce", CHIPS, size, 1) for size in (*VECTORS.values(), SCALAR))
    for size in MATRICES.values():
        expected += Counter({("all-gather", CHIPS, size, 1): 1, ("reduce-scatter", CHIPS, size, 1): 1})
    assert rows("nnx_mlp:fsdp") == expected

    def wire(variant: str) -> Any:
        return sum(row.wire_bytes for row in reported(variant).communication)

    assert wire("nnx_mlp:fsdp") == wire("nnx_mlp:data_parallel")


def test_tensor_parallel() -> None:
    """Gradients as in data parallelism, over `data` alone, each of the chip's eighth of what is cut over `model`: the
    kernels and the bias of the hidden dim. Over `model` one all-reduce of what `down` makes of the chip's rows, and
    backward one of the cotangent of what `up` takes."""
    sizes = [size // 8 for size in MATRICES.values()]
    sizes += [VECTORS["up.bias"] // 8, *(VECTORS[name] for name in ("norm.scale", "norm.bias", "down.bias")), SCALAR]
    rows_of_a_chip = nnx_mlp.BATCH // 512
    expected: Hand = Counter(("all-reduce", ("data",), size, 1) for size in sizes)
    expected[("all-reduce", ("model",), 4 * rows_of_a_chip * CLASSES, 1)] += 1
    expected[("all-reduce", ("model",), 4 * rows_of_a_chip * WIDTH, 1)] += 1
    assert rows("nnx_mlp:tensor_parallel") == expected


# The Llama: its weights, in elements of one chip's share along `model`, once gathered over `data`.
LAYER_WEIGHTS = {
    "query": 4096 * 32 * 128 // 8,
    "key": 4096 * 8 * 128 // 8,
    "value": 4096 * 8 * 128 // 8,
    "output": 32 * 128 * 4096 // 8,
    "gate": 4096 * 14336 // 8,
    "up": 4096 * 14336 // 8,
    "down": 14336 * 4096 // 8,
}
END_WEIGHTS = {"embedding": 32768 * 4096 // 8, "logits": 4096 * 32768 // 8}
LAYERS, MICROBATCHES = 32, 4
RUNS = LAYERS * MICROBATCHES
#: bytes of a chip's activations: 1024 sequences over 512 chips, of 2048 tokens, in bfloat16
ACTIVATIONS = 2 * 2048 * 4096 * 2
#: one float32 for each of its tokens
TOKENS = 2 * 2048 * 4


def llama_apart_from_weights() -> Hand:
    """What both variants do. Over `model`, the attention's and the MLP's output forward; under remat the attention's
    alone, since nothing needs the MLP's again; backward, the cotangents of what the two read, once each, since they
    read it as reduced. The embedding looks up, and the logits' cotangent comes back. A softmax over a cut vocabulary
    takes a maximum, a sum, the target's value, and a sum backward. Over `data`, the gradients of norms, and the loss.
    """
    return Counter(
        {
            ("all-reduce", ("model",), ACTIVATIONS, RUNS): 2 + 1 + 2,
            ("all-reduce", ("model",), ACTIVATIONS, MICROBATCHES): 2,
            ("all-reduce", ("model",), TOKENS, MICROBATCHES): 4,
            ("all-reduce", ("data",), 4096 * 4, RUNS): 2,
            ("all-reduce", ("data",), 4096 * 4, MICROBATCHES): 1,
            ("all-reduce", ("data",), 4, MICROBATCHES): 1,
        }
    )


def test_llama_gathering_each_time() -> None:
    """Each weight of a layer is gathered in bfloat16 forward and again under remat, and its gradient scattered in
    bfloat16, for each layer and microbatch; the two at the ends, once a microbatch."""
    expected = llama_apart_from_weights()
    for elements in LAYER_WEIGHTS.values():
        expected[("all-gather", ("data",), 2 * elements, RUNS)] += 2
        expected[("reduce-scatter", ("data",), 2 * elements, RUNS)] += 1
    for elements in END_WEIGHTS.values():
        expected[("all-gather", ("data",), 2 * elements, MICROBATCHES)] += 1
        expected[("reduce-scatter", ("data",), 2 * elements, MICROBATCHES)] += 1
    assert rows("llama:gather_each_time") == expected


def test_llama_gathering_once() -> None:
    """All layers' weights are gathered in bfloat16 once per step, and the sums of gradients, in float32, scattered
    once. That is less: 1 x 2 + 1 x 4 bytes an element, instead of 4 x (2 + 2 + 2)."""
    expected = llama_apart_from_weights()
    for elements in [*(LAYERS * elements for elements in LAYER_WEIGHTS.values()), *END_WEIGHTS.values()]:
        expected[("all-gather", ("data",), 2 * elements, 1)] += 1
        expected[("reduce-scatter", ("data",), 4 * elements, 1)] += 1
    assert rows("llama:gather_once") == expected
    layers, ends = LAYERS * sum(LAYER_WEIGHTS.values()), sum(END_WEIGHTS.values())
    saved = (4 * 6 - 6) * layers + (4 * 4 - 6) * ends
    assert reported("llama:gather_each_time").payload - reported("llama:gather_once").payload == saved


def test_llama_has_the_weights_that_are_counted_here() -> None:
    shapes = {name: shape for name, (shape, _) in {**llama.LAYER, **llama.ENDS}.items() if len(shape) > 1}
    assert {name: math.prod(shape) // 8 for name, shape in shapes.items()} == {**LAYER_WEIGHTS, **END_WEIGHTS}


def test_size_one_axes_cost_nothing() -> None:
    """Types, and so equations, are the same on every mesh; an axis of size 1 is in no row."""
    reports = {name: reported(f"size_one_axes:{name}") for name in ("replicas", "shards", "one_device")}
    assert len({report.equations for report in reports.values()}) == 1
    assert [{axis for row in report.communication for axis in row.axes} for report in reports.values()] == [
        {"data", "model"},
        {"fsdp", "model"},
        set(),
    ]


def test_auto_code_says_so_first() -> None:
    report = reported("linen_transformer:automatic")
    assert "auto" in report.notes[0]
    assert report.communication == []


def test_zero_scatters_gradients_and_gathers_weights() -> None:
    """Stage 1 of ZeRO: of each matrix (three of 4096 x 4096, one of 8192 x 4096) one scatter and one gather, of its
    bytes; of each vector of 4096 (three in each of three layers) an all-reduce; and the loss."""
    matrices = [4 * 4096 * 4096] * 3 + [4 * 8192 * 4096]
    expected: Hand = Counter({("all-reduce", ("data",), 4 * 4096, 1): 9, ("all-reduce", ("data",), 4, 1): 1})
    for size in matrices:
        expected += Counter({("reduce-scatter", ("data",), size, 1): 1, ("all-gather", ("data",), size, 1): 1})
    assert rows("equinox_zero:zero") == expected


def test_the_ring_turns() -> None:
    """Keys and values make eight turns forward, and their cotangents eight backward. A block: 1024 sequences over 512
    chips, 32768 tokens over 8, 8 heads of 128 float32."""
    block = 4 * (1024 // 512) * (32768 // 8) * 8 * 128
    permutes = {key: count for key, count in rows("ring_attention:train_step").items() if key[0].endswith("permute")}
    assert permutes == {("collective-permute", ("context",), block, 8): 4}


def test_tokens_go_to_experts_and_back() -> None:
    """Two all-to-alls forward, two backward, of 8 experts' capacity of 512 tokens of 1024 float32."""
    moves = {key: count for key, count in rows("mixture_of_experts:train_step").items() if key[0] == "all-to-all"}
    assert moves == {("all-to-all", ("expert",), 4 * 8 * 512 * 1024, 1): 4}


@pytest.mark.parametrize("name", ["microbatches__summed_each_time", "ring_attention__train_step"])
def test_it_runs_small_forward_and_backward(name: str) -> None:
    """Whole and per device; JAX beside it is for the command, with `--jax`."""
    job = job_of(f"tests.examples.small:{name}", [])
    assert isinstance(job, Job)
    (found,) = run_all([job], backward=True).found
    assert [(way.ours, way.why) for way in found.ways] == [(EQUAL, "")] * 2
    assert all(way.devices == 8 and way.collectives for way in found.ways)
