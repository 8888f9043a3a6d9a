"""Texts that JAX has printed, run by JAX as Python and differentiated: its derivative has the communication and the
types of ours. The corpus, as far as its constructs are written as Python."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import pytest

from grammar.meshes import parse_meshes
from verifier.backward_agreement import Agreement, compare
from verifier.patterns import BOTH

if jax.__version_info__ < (0, 12):
    pytest.skip("the texts are those of the newer release", allow_module_level=True)

CORPUS = Path(__file__).parents[2] / "golden" / "corpus"
MESHES = {
    name: [row.get(key) for key in ("mesh", "inner_mesh")]
    for name, row in json.loads((CORPUS / "index.json").read_text()).items()
}
MESHES["seed_dist_explicit_axes"] = [{"X": 4, "Y": 2}]

#: texts that JAX is not asked about, by what they hold that is not written as Python
BESIDE = {
    "feat_check_p": "check, which",
    "feat_ffi": "ffi_call, a function",
    "feat_pallas": "pallas_call, of which",
}
#: what no side differentiates: a loop of unknown length, in reverse, and the maximum over devices
NEITHER = {"feat_cond_while_scan", "shmap_collectives"}
#: of the transformers, one of each layout: the others are longer
TRANSFORMERS = {"llama_dp_fwd_scan96", "llama_fsdp_fwd_unroll2", "llama_tp_fwd_unroll2", "llama_dpr_grad_scan8"}


def compared(name: str) -> Agreement:
    said = [",".join(f"{axis}={size}" for axis, size in mesh.items()) for mesh in MESHES[name] if mesh]
    given = [mesh for text in said for mesh in parse_meshes(text)]
    return compare([str(CORPUS / f"{name}.jaxpr")], meshes=given)


NAMES = [name for name in MESHES if name in TRANSFORMERS or not name.startswith(("llama", "nnx", "linen_transformer"))]


@pytest.mark.parametrize("name", NAMES)
def test_a_text_has_the_derivative_that_jax_makes_of_it(name: str) -> None:
    found = compared(name)
    (said,) = [*found.beside.values(), *found.untraced.values(), *(one.accepts or "neither" for one in found.compared)]
    assert (BESIDE | dict.fromkeys(NEITHER, "neither")).get(name, BOTH) in said
    assert not found.unexplained
    assert all(one.agree for one in found.compared)


def test_most_texts_are_compared() -> None:
    assert len(NAMES) - len(BESIDE) - len(NEITHER) >= 40
