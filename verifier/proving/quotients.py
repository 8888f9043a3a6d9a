"""A derivative that the calculus writes, held against the quotients of differences of the program itself, at twice the
precision that the program has."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from calculus.checking import Checker
from calculus.gradients import vjp
from grammar.read import read
from verifier.backward import derive
from verifier.execution.run import Outcome, run
from verifier.texts import meshes_of

STEP: Final = 1e-5
NEAR: Final = 1e-5
"""How far the two may be apart, in parts of the sum of the absolute terms."""

_WIDER: Final = {"f32": "f64", "bf16": "f64", "c64": "c128", "float32": "float64", "complex64": "complex128"}
_NARROW: Final = re.compile(rf"\b({'|'.join(_WIDER)})\b")


class CannotCompare(ValueError):
    """One of the programs does not run here. The message says why."""


def apart(text: str, wrt: tuple[str, ...]) -> str:
    """Why the backward pass of a well-typed program is none; empty where ⟨y, df(v)⟩ = ⟨fᵀ y, v⟩ at random inputs,
    seeds y and directions v. Raises `CannotCompare`."""
    text = _NARROW.sub(lambda found: _WIDER[found.group(1)], text)
    made = derive(text, [], "the ledger", vjp, wrt or None)
    random = np.random.default_rng(0)
    inputs = [_drawn(one.value, random) for one in _ran(text, {}).inputs]
    names = read(text).program.inputs
    moving = [at for at, name in enumerate(names) if inputs[at].dtype.kind in "fc" and (not wrt or name in wrt)]
    ways = [random.uniform(-1, 1, one.shape) if at in moving else None for at, one in enumerate(inputs)]

    def moved(by: float) -> list[Any]:
        given = {
            name: one if way is None else one + by * way for name, one, way in zip(names, inputs, ways, strict=True)
        }
        return [one.value for one in _ran(text, given).results]

    back = _ran(made.text, dict(zip(read(made.text).program.inputs, inputs, strict=False)))
    seeds = [one.value for one in back.inputs[len(inputs) :]]
    after, before = moved(STEP), moved(-STEP)
    changes = [(a - b) / (2 * STEP) for a, b in zip(after, before, strict=True) if a.dtype.kind in "fc"]
    found = [one.value for one in back.results[len(after) :]]
    left = [y * one for y, one in zip(seeds, changes, strict=True)]
    right = [one * ways[at] for one, at in zip(found, moving, strict=True)]
    total = [float(sum(np.sum(one).real for one in side)) for side in (left, right)]
    size = 1.0 + float(sum(np.sum(np.abs(one)) for one in (*left, *right)))
    if not abs(total[0] - total[1]) <= NEAR * size:
        return f"along a direction the results change by {total[0]:.6g}, and the cotangents say {total[1]:.6g}"
    return ""


def _drawn(value: Any, random: np.random.Generator) -> Any:
    """Between a tenth and nine tenths: inside of the domain of what has one, no two alike."""
    if value.dtype.kind not in "fc":
        return value
    made = random.uniform(0.1, 0.9, value.shape)
    return made + 1j * random.uniform(0.1, 0.9, value.shape) if value.dtype.kind == "c" else made


def _ran(text: str, given: dict[str, Any]) -> Outcome:
    document = read(text)
    meshes = meshes_of(document)
    outcome = run(document.program, meshes, given=given, checker=Checker(meshes))
    if outcome.problems:
        raise CannotCompare("; ".join(one.message for one in outcome.problems))
    return outcome
