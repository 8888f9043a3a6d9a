"""Verdicts do not depend on the sizes of mesh axes, divisibility aside; an axis of size 1 is typed like any other, and
costs nothing. Every program of the documents, on other sizes than its own.

Sizes that divide a program's own divide whatever those divide. What a shard_map's body is, depends on sizes, and so
does whether an axis cuts the groups of a convolution or what is inside of one: their programs are left out here. Those
whose refusals are about sizes are skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from pathlib import Path

import pytest

from grammar.meshes import parse_meshes
from tests.spec.document import Block, read_document
from verifier.report import Report
from verifier.texts import check_text

SPEC = Path(__file__).resolve().parents[1] / "spec"
#: what is refused because of a size
ABOUT_SIZES = {"indivisible", "bad-mesh", "too-large", "shape"}


def _programs() -> dict[str, tuple[str, str]]:
    """Texts and meshes, by where they stand."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(SPEC.glob("*.md")):
        if path.name == "README.md":
            continue
        for section in read_document(path):
            for block in section.blocks:
                mesh = block.options.get("mesh", "")
                if block.language == "jaxpr" and mesh and _sizeless(block, mesh):
                    found[f"{path.name}:{block.line}"] = block.text, mesh
    return found


def _sizeless(block: Block, mesh: str) -> bool:
    """Whether the program may run on other sizes: one mesh, and no shapes inside that depend on it."""
    text = block.text
    if re.search(r"group_count=(?!1\b)", text):
        return False
    return ";" not in mesh and "shard_map" not in text and "manual" not in mesh and "axis_size" not in text


PROGRAMS = _programs()


def resized(text: str, mesh: str, size: dict[str, int]) -> Report:
    """The report on a program whose axes have other sizes, in the mesh and wherever the text says them."""
    for axis, count in size.items():
        text = re.sub(rf"'{axis}': \d+", f"'{axis}': {count}", text)
        mesh = re.sub(rf"\b{axis}=\d+", f"{axis}={count}", mesh)
    return check_text(text, parse_meshes(mesh), "the text")


def verdict(report: Report) -> Counter[tuple[object, ...]]:
    return Counter((one.code, one.line, one.place.part, one.place.index) for one in report.refusals)


@pytest.mark.parametrize("where", PROGRAMS)
def test_a_verdict_does_not_depend_on_sizes(where: str) -> None:
    text, mesh = PROGRAMS[where]
    sizes = {axis.name: axis.size or 1 for axis in parse_meshes(mesh)[0].axes}
    report = check_text(text, parse_meshes(mesh), "the text")
    expected = verdict(report)
    codes = {code for code, *_ in expected}
    if codes & ABOUT_SIZES or ("misaligned" in codes and "reshape" in text):  # where an axis cuts a factor is a size
        pytest.skip("refused because of a size")
    smaller = {
        axis: next((n for n in (2, 3, 5, 7) if size % n == 0 and size > n), size) for axis, size in sizes.items()
    }
    each = [{axis: 1} for axis in sizes]
    for changed in (smaller, *each, dict.fromkeys(sizes, 1)):
        found = resized(text, mesh, changed)
        assert verdict(found) == expected, changed
        if prod({**sizes, **changed}.values()) == 1:
            assert found.communication == []


def test_there_are_programs() -> None:
    """That say their mesh, and have no shard_map: hundreds."""
    assert len(PROGRAMS) > 200
