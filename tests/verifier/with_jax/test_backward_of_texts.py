"""Texts that JAX has printed, run by JAX as Python and differentiated: its derivative has the communication and the
types of ours. The corpus, as far as its constructs are written as Python."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import pytest

from grammar.meshes import parse_meshes
from verifier.backward_agreement import Agreement, compare
from verifier.ledger import BOTH

if jax.__version_info__ < (0, 12):
    pytest.skip("the texts are those of the newer release", allow_module_level=True)

CORPUS = Path(__file__).parents[2] / "golden" / "corpus"
MESHES = {name: row["mesh"] for name, row in json.loads((CORPUS / "index.json").read_text()).items()}

#: texts that JAX is not asked about, by what they hold that is not written as Python
BESIDE = {
    "feat_compute_on": "compute_type",
    "feat_compute_on_memspace": "ArrayCopySemantics",
    "feat_cond_grad": "memory_space",
    "feat_device_put_copy": "ArrayCopySemantics",
    "feat_ffi": "float32[3]",
    "feat_float0": "float0",
    "feat_pallas": "jaxpr",
    "feat_symbolic_dims": "4*b",
    "feat_symbolic_dims2": "b + 1",
    "linen_mlp_grad": "relu",
    "seed_dist_abstract_mesh_change": "mentions axis A",  # of a second mesh
    "seed_dist_explicit_axes": "without a size",
    "seed_dist_wsc": "'X'",
    "shmap_collectives": "axis_name",
}
#: functions on which JAX itself gives up: its check wants to know what it says
UNTRACED = {"feat_check_p": "err_tree"}
#: what no side differentiates: a loop of unknown length, in reverse
NEITHER = {"feat_cond_while_scan"}
#: of the transformers, one of each layout: the others are longer
TRANSFORMERS = {"llama_dp_fwd_scan96", "llama_fsdp_fwd_unroll2", "llama_tp_fwd_unroll2", "llama_dpr_grad_scan8"}


def compared(name: str) -> Agreement:
    mesh = MESHES[name]
    given = parse_meshes(",".join(f"{axis}={size}" for axis, size in mesh.items())) if mesh else ()
    return compare([str(CORPUS / f"{name}.jaxpr")], meshes=given)


NAMES = [name for name in MESHES if name in TRANSFORMERS or not name.startswith(("llama", "nnx", "linen_transformer"))]


@pytest.mark.parametrize("name", NAMES)
def test_a_text_has_the_derivative_that_jax_makes_of_it(name: str) -> None:
    found = compared(name)
    (said,) = [*found.beside.values(), *found.untraced.values(), *(one.accepts or "neither" for one in found.compared)]
    assert (BESIDE | UNTRACED | dict.fromkeys(NEITHER, "neither")).get(name, BOTH) in said
    assert not found.unexplained
    assert all(one.agree for one in found.compared)


def test_most_texts_are_compared() -> None:
    assert len(NAMES) - len(BESIDE) - len(UNTRACED) - len(NEITHER) >= 30
