"""Programs that run equal: those of the seeds, of the corpus that JAX printed, and every well-typed one of the
documents. Equal means: one value, whole and on devices, copies that agree, and what is derived is what is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from grammar.meshes import parse_meshes
from tests.spec.document import Block, read_document
from verifier.execution.run import MOST_DEVICES
from verifier.execution.texts import Ran, run_text

ROOT = Path(__file__).resolve().parents[3]
SEEDS = sorted((ROOT / "examples" / "seeds").glob("*.jaxpr"))
CORPUS = ROOT / "tests" / "golden" / "corpus"


def wrong(ran: Ran) -> list[str]:
    """What is wrong with a run, line by line."""
    assert ran.outcome is not None, ran.report.refusals
    return [f"{one.equation.line if one.equation else 0}: {one.message}" for one in ran.outcome.problems]


@pytest.mark.parametrize("file", SEEDS, ids=lambda file: file.stem)
@pytest.mark.parametrize("seed", [0, 1])
def test_seeds(file: Path, seed: int) -> None:
    ran = run_text(file.read_text(encoding="utf-8"), [], file.name, seed)
    assert wrong(ran) == []
    assert ran.verdict == "equal"


CASES: Final = {
    "feat_check_p": "",
    "feat_compute_on": "",
    "feat_cond_grad": "",
    "feat_consts": "",
    "feat_device_put_copy": "",
    "feat_float0": "",
    "feat_gather_scatter_conv": "",
    "feat_jit_params": "",
    "feat_jit_shardings": "",
    "feat_literals": "",
    "feat_unreduced_max": "data=2,model=2",
    "feat_weak_types": "",
    "shmap_collectives": "",
    "shmap_no_check_vma": "",
    "shmap_partial_manual": "",
    "shmap_unreduced": "",
    "optax_adafactor": "",
    "optax_adam": "",
    "optax_adamw_clip_sched": "",
    "linen_mlp_grad": "",
    "linen_transformer6_grad_dropout": "",
    "nnx_transformer_fwd": "",
    "llama_dp_grad_unroll2": "data=4,model=2",
    "llama_fsdp_grad_unroll2": "data=4,model=2",
    "llama_tp_grad_unroll2": "data=4,model=2",
}


@pytest.mark.parametrize("name", CASES)
def test_corpus(name: str) -> None:
    text = (CORPUS / f"{name}.jaxpr").read_text(encoding="utf-8")
    meshes = parse_meshes(CASES[name]) if CASES[name] else []
    assert wrong(run_text(text, meshes, name)) == []


NOT_RUN: Final = (
    "symbolic", "is not described here", "too large", "too many", "are not known", "is meant is not printed",
    "cannot be computed here", "name the sources", "a part of a cell that communicates", "a part of a part",
    "crosses the boundary", "rows are sent", "decide differently write",
)  # fmt: skip
"""Why a program of the documents may not be run: what no numbers are for, or what is not described."""

CLAIMED: Final = "check_vma=False"
"""What a boundary claims without a type behind it may be false, and a run may say so."""

BLOCKS: Final[list[Block]] = [
    block
    for path in sorted((ROOT / "tests" / "spec").glob("*.md"))
    if path.name != "README.md"
    for section in read_document(path)
    for block in section.blocks
    if block.language == "jaxpr"
]


@pytest.mark.parametrize("part", range(12))
def test_documents(part: int) -> None:
    """Every well-typed program of the documents is true on devices: a twelfth of them at a time."""
    equal, skipped = 0, []
    for block in BLOCKS[part::12]:
        meshes = parse_meshes(block.options["mesh"]) if block.options.get("mesh") else []
        if any((mesh.size(mesh.by_name) or 0) > MOST_DEVICES for mesh in meshes):
            continue
        ran = run_text(block.text, meshes, f"line {block.line}")
        if ran.outcome is None:
            continue
        if ran.verdict == "different":
            assert ran.report.assumed, (block.line, wrong(ran), block.text)
            assert all("different copies" in one.message for one in ran.outcome.problems)
        elif ran.verdict == "not run":
            assert all(any(why in one.message for why in NOT_RUN) for one in ran.outcome.problems), wrong(ran)
            skipped.append(block.line)
        else:
            equal += 1
    assert equal >= 20
    assert len(skipped) <= equal / 4
