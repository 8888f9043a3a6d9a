"""A model of the solver, read as what devices hold.

What a theorem says of a family is a function of devices in its query, or a number for each of two (`x[0]`, `x[1]`, and
`x′[0]` in a second run). So a counterexample is printed block by block, device by device; what is the same for all of
them stands below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from verifier.solver import FAMILY, Answer

_OF_ONE: Final = re.compile(r"(?P<name>[^\[\]]+)\[(?P<device>\d)\]")
_ELEMENT: Final = re.compile(r"(\w+)!val!(\d+)")


def held(answer: Answer) -> Iterator[str]:
    """Line by line: each device and what it holds, and what belongs to none."""
    blocks: dict[int, list[str]] = {}
    families = dict(answer.families)
    count = _count(dict(answer.model))
    for name, values in families.items():
        for at, value in enumerate(values[:count]):
            blocks.setdefault(at, []).append(f"{name} = {_plain(value)}")
    rest = []
    for name, value in answer.model:
        one = _OF_ONE.fullmatch(name)
        if one:
            blocks.setdefault(int(one["device"]), []).append(f"{one['name']} = {_plain(value)}")
        elif name not in families:
            rest.append(f"{name} = {_plain(value)}")
    for at in sorted(blocks):
        yield f"device {at} holds {', '.join(blocks[at])}"
    yield from rest


def _count(model: dict[str, str]) -> int:
    """How many devices are shown: those of the step, where a model has them, and at least two."""
    number = model.get("n", "")
    return min(max(int(number) + 1, 2), FAMILY) if number.isdigit() else 2


def _plain(value: str) -> str:
    """The solver's names of what nobody named: `element!val!2` is the third element."""
    return " ".join(_ELEMENT.sub(r"\1 \2", value).split())
