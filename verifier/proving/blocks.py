"""Counterexamples as device blocks: what each device of a small mesh holds and computes, where it reads back wrong.

What a model of the solver says is of any number of devices, of functions and of elements that nobody named; here are
numbers. They are searched for with the call's own sizes on two devices, the smallest numbers first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from calculus.meshes import Mesh
from calculus.primitives.declaration import Primitive, Site
from calculus.refusals import Refused
from calculus.types import ArrayType
from verifier.devices import NotAFamily, devices, numpy_dtype, part, place, read_back
from verifier.kernels import compute, on_blocks
from verifier.proving.judgments import Judgment, of_dims
from verifier.samples import Sample
from verifier.trials.cases import runs
from verifier.trials.executions import MESH, Execution, state_type

LARGEST: Final = (1, 2, 4, 8)
"""The largest numbers that a counterexample is looked for with, one after the other: the first is small."""
SPECIAL: Final = 60
"""How often it is looked for among the ends of a dtype, infinities and NaN."""

Range = tuple[int, int] | None


def of_judgment(primitive: Primitive, sample: Sample, number: int, judgment: Judgment) -> tuple[str, ...]:
    """A run of a judgment that reads back wrong: a sentence, and what each device holds, line by line. Empty where none
    is found, or nothing can be run."""
    states = of_dims(primitive, sample, number, judgment)
    if states is None or not runs(sample):
        return ()
    given, result = states
    scheme = primitive.scheme(sample.site)
    types = [state_type(one.dtype, one.shape, state) for one, state in zip(sample.operands, given, strict=True)]
    dtype, shape = primitive.dtypes(sample.site)[number], scheme.shape(scheme.results[number])
    target = state_type(dtype, shape, result)
    try:
        found = counterexample(primitive, sample.site, types, target, MESH, number, sample.ranges)
        return found or _special(sample, given, target, number)
    except (ValueError, IndexError, TypeError, KeyError, Refused):  # what does not run on blocks shows nothing
        return ()


def counterexample(
    primitive: Primitive,
    site: Site,
    operands: Sequence[ArrayType],
    result: ArrayType,
    mesh: Mesh,
    number: int = 0,
    ranges: Sequence[Range] = (),
) -> tuple[str, ...]:
    """The first wrong element that is found, numbers growing: a sentence, and what each device holds."""
    for largest, seed in itertools.product(LARGEST, range(3)):
        random = np.random.default_rng(seed)
        values = [
            _value(type, largest, random, ranges[at] if ranges else None) for at, type in enumerate(operands)
        ]  # fmt: skip
        try:
            families = [
                _small(value, type, mesh, largest, random) for value, type in zip(values, operands, strict=True)
            ]
            whole = compute(primitive, site, values)[number]
            held = {}
            for device in devices(mesh):
                blocks = [family[device] for family in families]
                shape = tuple(one.stop - one.start for one in part(result, mesh, device))
                held[device] = compute(primitive, on_blocks(primitive, site, blocks, shape), blocks)[number]
        except (ValueError, IndexError, TypeError) as error:
            return (f"it does not run on blocks: {error}",)
        if said := _wrong(held, whole, result, mesh):
            return (said, *lines(families, held, mesh))
    return ()


def _special(sample: Sample, given: Any, result: ArrayType, number: int) -> tuple[str, ...]:
    """The same among the numbers at which monotone maps fail."""
    execution = Execution(sample)
    for _ in range(SPECIAL):
        wholes, blocks = execution.families(given)
        every = list(devices(MESH))
        families = [dict(zip(every, held, strict=True)) for held in zip(*blocks, strict=True)]
        held = {}
        for device, each in zip(every, blocks, strict=True):
            shape = tuple(one.stop - one.start for one in part(result, MESH, device))
            held[device] = execution.compute(on_blocks(execution.primitive, execution.site, each, shape), each)[number]
        if said := _wrong(held, execution.run(wholes)[number], result, MESH):
            return (said, *lines(families, held, MESH))
    return ()


def _wrong(held: Mapping[Any, Any], whole: Any, result: ArrayType, mesh: Mesh) -> str:
    try:
        value = read_back({key: one.astype(numpy_dtype(result.dtype)) for key, one in held.items()}, result, mesh)
    except NotAFamily as error:
        return f"the devices' results are no {result}: {error}"
    with np.errstate(all="ignore"):
        wrong = ~np.isclose(value, whole, 1e-3, 1e-3, equal_nan=True)
    if not wrong.any():
        return ""
    at = tuple(int(one) for one in np.argwhere(wrong)[0])
    return f"at {list(at)} the value is {whole[at]:g}, and {value[at]:g} is read back"


def _value(type: ArrayType, largest: int, random: np.random.Generator, about: Range) -> Any:
    dtype, shape = numpy_dtype(type.dtype), [int(str(size)) for size in type.shape]
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if about is not None and dtype.kind in "iu":
        return random.integers(*about, shape).astype(dtype)
    return random.integers(0 if dtype.kind == "u" else -largest, largest, shape, endpoint=True).astype(dtype)


def _small(value: Any, type: ArrayType, mesh: Mesh, largest: int, random: np.random.Generator) -> Any:
    """Pieces of small whole numbers, where a sum is pending on two devices."""
    if type.kind != "sum" or len(type.unreduced) != 1 or value.dtype.kind not in "fi":
        return place(value, type, mesh, random)
    piece = random.integers(-largest, largest, value.shape, endpoint=True).astype(value.dtype)
    at = list(mesh.by_name).index(type.unreduced[0])
    both = (piece, value - piece)
    return {device: both[device[at]][part(type, mesh, device)] for device in devices(mesh)}


def lines(families: Sequence[Any], held: Mapping[Any, Any], mesh: Mesh) -> Iterator[str]:
    """What each device holds and computes, a line each."""
    for device in devices(mesh):
        where = ", ".join(f"{axis}={one}" for axis, one in zip(mesh.by_name, device, strict=True))
        operands = "; ".join(written(family[device]) for family in families)
        yield f"device {where} holds {operands} and computes {written(held[device])}"


def written(block: Any) -> str:
    """A block in a line."""
    return str(np.array2string(np.asarray(block), separator=",", threshold=12, precision=4)).replace("\n", "")
