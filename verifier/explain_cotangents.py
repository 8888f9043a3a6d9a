"""What `shardproof type --cotangent` says: the types of the gradients of a bare signature, without a program.

Of `f32[8@X,4] f32[4]{R:X} -> f32[8@X]` the cotangent map makes `f32[8@X] -> f32[8@X,4] f32[4]{U:X}`: it acts along each
mesh axis by itself, and knows no sizes (statements A2, A5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from calculus.cotangents import cotangent
from calculus.meshes import Axis, AxisMode, Mesh
from calculus.refusals import Refused, refuse
from calculus.types import ArrayType, Type, held
from calculus.wellformed import well_formed
from grammar.read import read_type

ARROW: Final = "->"
_COLUMN: Final = re.compile(r"^column \d+: ")
"""Where in the type that was read by itself; the place in the signature is another."""
_OPEN: Final = "[({<"
_CLOSED: Final = "])}>"


@dataclass(slots=True)
class Signature:
    """The types of a program's inputs and results. arrow: whether there is one; without it all are inputs."""

    inputs: list[Type] = field(default_factory=list)
    results: list[Type] = field(default_factory=list)
    arrow: bool = False


def read_signature(text: str, mesh: Mesh | None) -> tuple[Signature, Mesh]:
    """The signature with this text, and the mesh: where none is given, one of the axes that it mentions, of any size.

    signature ::= type* ["->" type*], with blanks or commas between the types.

    Raises `Refused` (malformed) with the column where it goes wrong.
    """
    found = Signature()
    starts: list[tuple[int, str, Type]] = []
    for start, word in words(text):
        if word == ARROW:
            if found.arrow:
                raise _at(refuse("syntax", "a second ->", help="write types -> types"), start)
            found.arrow = True
            continue
        try:
            type = read_type(word)
        except Refused as refused:
            raise _at(refused, start) from None
        starts.append((start, word, type))
        (found.results if found.arrow else found.inputs).append(type)
    if not starts:
        raise _at(refuse("syntax", "no type", help="write types -> types: f32[8@X,4] f32[4]{R:X} -> f32[8@X]"), 0)
    on = mesh if mesh is not None else _of_any_size([type for _, _, type in starts])
    for start, word, type in starts:
        try:
            well_formed(type, on)
        except Refused as refused:
            from grammar.source import inside_type

            refused.refusal.column = refused.refusal.column or inside_type(word, refused.refusal.place) + 1
            raise _at(refused, start) from None
    return found, on


def words(text: str) -> Iterator[tuple[int, str]]:
    """The types and arrows of a signature, each with the place where it starts. What stands in brackets is one word."""
    start, depth, at = -1, 0, 0
    while at < len(text):
        letter = text[at]
        arrow = depth == 0 and text.startswith(ARROW, at)
        if arrow or (depth == 0 and (letter.isspace() or letter == ",")):
            if start >= 0:
                yield start, text[start:at]
                start = -1
            if arrow:
                yield at, ARROW
                at += len(ARROW)
                continue
        else:
            start = at if start < 0 else start
            depth = max(0, depth + (letter in _OPEN) - (letter in _CLOSED))
        at += 1
    if start >= 0:
        yield start, text[start:]


def _at(refused: Refused, start: int) -> Refused:
    refused.refusal.line = 1
    refused.refusal.message = _COLUMN.sub("", refused.refusal.message)
    refused.refusal.column = (refused.refusal.column or 1) + start
    return refused


def _of_any_size(types: Sequence[Type]) -> Mesh:
    arrays = [array for type in types if isinstance(array := held(type), ArrayType)]
    names = dict.fromkeys(axis for array in arrays for axis in array.mentioned)
    manual = {axis for array in arrays for axis in array.varying}
    return Mesh(Axis(name, None, AxisMode.MANUAL if name in manual else AxisMode.EXPLICIT) for name in names)


def _map(type: Type) -> tuple[Type | None, str]:
    """The cotangent type, or why there is none."""
    try:
        return cotangent(type), ""
    except Refused as refused:
        return None, f"{refused.refusal.message}: {refused.refusal.because}"


def lines(signature: Signature, mesh: Mesh) -> Iterator[str]:
    """Lines of text: each type with its cotangent and the state along each mesh axis, then the signature of the
    backward pass, and why what has no cotangent has none."""
    named = [*_named("input", signature.inputs, signature.arrow), *_named("result", signature.results)]
    rows = [("", "primal", "cotangent", *(f"along {axis.name}" for axis in mesh.axes))]
    reasons: list[str] = []
    for name, type in named:
        found, why = _map(type)
        states = (_along(type, found, axis) for axis in mesh.axes)
        rows.append((name, str(type), "none" if found is None else str(found), *states))
        reasons += [why] if why else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if signature.arrow:
        yield ""
        yield f"forward   {_listed(signature.inputs)} -> {_listed(signature.results)}"
        yield f"backward  {_backward(signature.results)} -> {_backward(signature.inputs)}"
    for reason in dict.fromkeys(reasons):
        yield f"note: {reason}"


def _named(what: str, types: Sequence[Type], arrow: bool = True) -> Iterator[tuple[str, Type]]:
    for number, type in enumerate(types):
        name = what if arrow else "type"
        yield (f"{name} {number}" if len(types) > 1 else name), type


_WORDS: Final = {"R": "reduced", "U": "unreduced", "V": "varying", "N": "replicated"}


def state_along(type: ArrayType, axis: Axis) -> str:
    """The state of a type along a mesh axis, in a word or two."""
    if axis.mode is AxisMode.AUTO:
        return "auto"
    if type.state(axis.name) == "S":
        return f"sharded on dim {next(dim for dim, axes in enumerate(type.axes) if axis.name in axes)}"
    state = _WORDS[type.state(axis.name)]
    return f"{state} ({type.kind})" if state == "unreduced" and type.kind != "sum" else state


def _along(type: Type, found: Type | None, axis: Axis) -> str:
    """The state along an axis, and that of the cotangent where it is another."""
    if not isinstance(type, ArrayType):
        return "-"
    before = state_along(type, axis)
    if not isinstance(found, ArrayType):
        return f"{before} -> none"
    after = state_along(found, axis)
    return before if before == after else f"{before} -> {after}"


def _listed(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _backward(types: Sequence[Type]) -> str:
    """The cotangent types of those that have one and are no `float0`, in which there is nothing."""
    found = [one for one, _ in map(_map, types) if one is not None and getattr(one, "dtype", "") != "float0"]
    return _listed(found)


def signature_as_json(signature: Signature, mesh: Mesh, text: str) -> dict[str, object]:
    """The same as plain data."""
    found: dict[str, object] = {"signature": text, "mesh": str(mesh), "verdict": "ok", "refusals": []}
    found["inputs" if signature.arrow else "types"] = [_data(type, mesh) for type in signature.inputs]
    if signature.arrow:
        found["results"] = [_data(type, mesh) for type in signature.results]
    return found


def _data(type: Type, mesh: Mesh) -> dict[str, object]:
    found, why = _map(type)
    along = {
        axis.name: {
            "primal": state_along(type, axis),
            "cotangent": state_along(found, axis) if isinstance(found, ArrayType) else None,
        }
        for axis in mesh.axes
        if isinstance(type, ArrayType)
    }
    return {
        "type": str(type),
        "cotangent": None if found is None else str(found),
        "why_no_cotangent": why or None,
        "along": along,
    }
