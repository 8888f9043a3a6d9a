"""Blocks of types: one type a line, what it is, and why it is refused.

f32[8@X,4]{U:Y} -> cotangent f32[8@X,4]{R:Y}
f32[8@X,4] -> long float32[8@X,4] -> block f32[4,4], 64 bytes -> states X:S
f32[8@X,4@X]                                                     #: malformed: repeated-axis
"""

from __future__ import annotations

import re
from typing import Final

from calculus.cotangents import cotangent
from calculus.meshes import Mesh
from calculus.refusals import CATALOGUE, Refused
from calculus.types import ArrayType, Type
from calculus.wellformed import well_formed
from grammar.parse import parse_type
from grammar.read import read_type
from tests.spec.document import Block
from verifier.picture import block_shape, bytes_each

_REFUSAL: Final = re.compile(r"([\w-]+): ([\w-]+)")
Problems = list[tuple[int, str]]


def run_lines(block: Block, mesh: Mesh, ran: set[str], problems: Problems) -> None:
    """Check every line of a block of types on a mesh: engines P and T."""
    said = {one.line: one for one in block.said}
    if len(said) != len(block.said) or 0 in said:
        problems.append((0, "a type has at most one expectation, on its own line"))
        return
    for index, line in enumerate(block.text.splitlines(), 1):
        if not line.strip():
            continue
        written, wanted = block.line + index, ""
        if index in said:
            match = _REFUSAL.fullmatch(said[index].text)
            if match is None or match[2] not in CATALOGUE or CATALOGUE[match[2]][0].value != match[1]:
                problems.append((written, f"no refusal of the catalogue: {said[index].text}"))
                continue
            wanted = match[2]
        text, *claims = re.split(r"\s+->\s*", line.strip())
        for sentence in _check(text, claims, wanted, mesh, ran):
            problems.append((written, sentence))


def _check(text: str, claims: list[str], wanted: str, mesh: Mesh, ran: set[str]) -> list[str]:
    ran.add("P")
    try:
        type, normative = read_type(text), parse_type(text)
    except Refused as refused:
        return [] if refused.refusal.code == wanted else [f"not read: {refused.refusal.message}"]
    found: list[str] = []
    if type != normative:
        found.append(f"the readers differ: {type} and {normative}")
    if str(type) != text and not any(claim.startswith("read ") for claim in claims):
        found.append(f"printed, it reads {type}")
    ran.add("T")
    try:
        well_formed(type, mesh)
        for claim in claims:
            what, _, value = claim.partition(" ")
            got = _FACTS[what](type, mesh) if what in _FACTS else f"nothing: there is no fact {what}"
            if value.strip() != got and not (wanted and not value):
                found.append(f"{what} is {got}")
    except Refused as refused:
        if refused.refusal.code != wanted:
            found.append(f"refused: {refused.refusal.code}: {refused.refusal.message}")
        return found
    if wanted:
        found.append(f"not refused: {wanted}")
    return found


def _long(type: Type, mesh: Mesh) -> str:
    return type.long if isinstance(type, ArrayType) else str(type)


def _states(type: Type, mesh: Mesh) -> str:
    return " ".join(f"{axis.name}:{type.state(axis.name)}" for axis in mesh.axes) if isinstance(type, ArrayType) else ""


def _block(type: Type, mesh: Mesh) -> str:
    if not isinstance(type, ArrayType):
        return "none"
    return f"{type.dtype}[{','.join(map(str, block_shape(type, mesh)))}], {bytes_each(type, mesh)} bytes"


_FACTS: Final = {
    "cotangent": lambda type, mesh: str(cotangent(type)),
    "long": _long,
    "read": lambda type, mesh: str(type),
    "states": _states,
    "block": _block,
}
