"""Programs that are drawn, their linear programs and the transposes of these; run on devices, and paired as the states
say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.cotangents import cotangent
from calculus.linearization import differentiable, linearize
from calculus.meshes import Mesh
from calculus.programs import Program
from calculus.refusals import Refused
from calculus.transposition import transpose
from calculus.types import ArrayType, Type
from verifier.devices import Array, devices, place
from verifier.execution.drawing import drawn as numbers
from verifier.execution.machine import Machine
from verifier.generated import drawn

SEEDS: Final = range(12)
"""Programs that are drawn."""
CLOSE: Final = 2.0**-10
"""How far the two sides may be apart, in parts of the sum of the absolute terms: the programs compute in f32."""


class Backward(NamedTuple):
    """A program and its backward. forward: also computes what the other two read, the residuals, after its results.
    linear: from residuals and tangents. pulled: from residuals and cotangents. reached: of the tangents, which have a
    cotangent. refused: why there is no backward program; then there is nothing else."""

    mesh: Mesh
    program: Program
    forward: Program | None = None
    residuals: int = 0
    linear: Program | None = None
    pulled: Program | None = None
    reached: tuple[bool, ...] = ()
    refused: str = ""
    code: str = ""


@cache
def backward(seed: int) -> Backward:
    """The backward program of a seed's program, in all inputs that have derivatives."""
    grown = drawn(seed)
    checker = Checker([grown.mesh])
    checker.check(grown.program)
    bench = Workbench(checker)
    flows = [type is not None and differentiable(type) for type in grown.program.input_types]
    try:
        found = linearize(bench, checker.scope, grown.program, flows)
        held = len(found.residuals)
        linear = [False] * held + [True] * (len(found.linear.inputs) - held)
        back = transpose(bench, checker.scope, found.linear, linear, [True] * len(found.linear.outputs))
    except Refused as refused:
        return Backward(grown.mesh, grown.program, refused=refused.refusal.message, code=refused.refusal.code)
    return Backward(grown.mesh, grown.program, found.forward, held, found.linear, back.program, back.nonzero)


def ill_typed(one: Backward) -> str:
    """Why the transpose is not well typed; nothing where it is."""
    assert one.pulled is not None
    checker = Checker([one.mesh])
    checker.check(one.pulled)
    return checker.refusals[0][0].message if checker.refusals else ""


def disagreement(one: Backward, seed: int) -> tuple[str, bool]:
    """Whether ⟨L t, c⟩ and ⟨t, Lᵀ c⟩ differ, of a program's linear program L, run on devices; and whether they could be
    compared, all numbers being finite."""
    assert one.forward is not None
    assert one.linear is not None
    assert one.pulled is not None
    random = np.random.default_rng(seed)
    inputs = [_family(type, one.mesh, random) for type in one.forward.input_types]
    results = _run(one.forward, inputs, one.mesh, seed)
    residuals = results[len(results) - one.residuals :]
    tangent_types = one.linear.input_types[one.residuals :]
    tangents = [_family(type, one.mesh, random) for type in tangent_types]
    images = _run(one.linear, [*residuals, *tangents], one.mesh, seed)
    ct_types = one.pulled.input_types[one.residuals :]
    cts = [_family(type, one.mesh, random) for type in ct_types]
    back = _run(one.pulled, [*residuals, *cts], one.mesh, seed)
    kept = [(type, family) for type, family, came in zip(tangent_types, tangents, one.reached, strict=True) if came]
    primals = [cotangent(_array(type)) for type in ct_types]
    left = [pairing(*three, one.mesh) for three in zip(images, cts, primals, strict=True)]
    right = [pairing(family, ct, type, one.mesh) for (type, family), ct in zip(kept, back, strict=True)]
    scale = 1 + sum(size for _, size in (*left, *right))
    apart = abs(sum(value for value, _ in left) - sum(value for value, _ in right))
    if apart > CLOSE * scale:
        return f"of seed {seed}, ⟨L t, c⟩ and ⟨t, Lᵀ c⟩ are {apart} apart", True
    return "", bool(np.isfinite(scale))


def pairing(family: Sequence[Array], other: Sequence[Array], type: Type | None, mesh: Mesh) -> tuple[float, float]:
    """⟨x, y⟩ of a family at this type and one at its cotangent type, and the sum of the absolute terms: added up over
    all devices, of which those that hold copies along an axis on which the type is replicated count once."""
    array = _array(type)
    once = [place for place, axis in enumerate(mesh.axes) if array.state(axis.name) == "N"]
    value = size = 0.0
    for device, mine, theirs in zip(devices(mesh), family, other, strict=True):
        if all(device[place] == 0 for place in once):
            terms = np.asarray(mine, np.float64) * np.asarray(theirs, np.float64)
            value, size = value + float(np.sum(terms)), size + float(np.sum(np.abs(terms)))
    return value, size


def _array(type: Type | None) -> ArrayType:
    if not isinstance(type, ArrayType):
        raise TypeError(f"{type} is no array")
    return type


def _family(type: Type | None, mesh: Mesh, random: np.random.Generator) -> list[Array]:
    array = _array(type)
    found = place(numbers(array, random), array, mesh, random)
    return [found[device] for device in devices(mesh)]


def _run(program: Program, inputs: Sequence[Sequence[Array]], mesh: Mesh, seed: int) -> list[list[Array]]:
    checker = Checker([mesh])
    checked = checker.check(program)
    machine = Machine(checker, False, len(devices(mesh)), np.random.default_rng(seed))
    used = frozenset(range(len(program.outputs)))
    found = machine.run(checked, checker.scope, [list(one) for one in inputs], used)
    return [list(one) for one in found if isinstance(one, list)]
