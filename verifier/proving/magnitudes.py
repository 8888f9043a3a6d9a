"""Runs on numbers of every magnitude, with all the bits of their mantissas: at quarters and small whole numbers, which
add up exactly, a kernel that rounds, clips or takes remainders looks linear.

All elements of one run are of one magnitude, so that what is lost is not hidden behind what is larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from calculus.primitives.declaration import Primitive
from calculus.types import ArrayType
from verifier.devices import MERGE, Array, NotAFamily, devices, numpy_dtype, part, place, read_back
from verifier.kernels import compute, on_blocks
from verifier.proving.blocks import lines, of_judgment
from verifier.proving.judgments import Judgment, of_dims
from verifier.proving.tried import objection
from verifier.samples import Sample
from verifier.trials.cases import Case, limits_of, runs
from verifier.trials.executions import KINDS, MESH, DimState, state_type

MAGNITUDES: Final = tuple(10.0**power for power in range(-6, 11))
SIGNS: Final = ((-1, 1), (0, 1), (-1, 0))
"""Between which numbers each run of a magnitude draws: of both signs, and of one."""


class _Run(NamedTuple):
    """families: of each operand. held: what devices compute. value: what is read back. whole: what it should be."""

    families: list[dict[Any, Array]]
    held: dict[Any, Array]
    value: Array
    whole: Array


def refuted(primitive: Primitive, sample: Sample, number: int, judgment: Judgment, rounded: Sequence[str]) -> str:
    """An objection to a judgment, found by running it; empty where every run is right. rounded: the dtypes that the
    kernel rounds to on its way, whose precision is all that is asked for."""
    if said := objection(primitive, sample, number, judgment):
        return said
    found = _of_judgment(primitive, sample, number, judgment, rounded)
    return f"a run of {judgment} on two devices reads back wrong: {found[0]}" if found else ""


def blocks(
    primitive: Primitive, sample: Sample, number: int, judgment: Judgment, rounded: Sequence[str]
) -> tuple[str, ...]:
    """A run that reads back wrong, small numbers first: a sentence, and what each device holds, line by line."""
    return of_judgment(primitive, sample, number, judgment) or _of_judgment(
        primitive, sample, number, judgment, rounded
    )


def _of_judgment(
    primitive: Primitive, sample: Sample, number: int, judgment: Judgment, rounded: Sequence[str]
) -> tuple[str, ...]:
    states = of_dims(primitive, sample, number, judgment)
    return () if states is None else wrong(primitive, sample, number, *states, rounded)


def wrong(
    primitive: Primitive,
    sample: Sample,
    number: int,
    given: Sequence[DimState],
    result: DimState,
    rounded: Sequence[str] = (),
) -> tuple[str, ...]:
    """The first run that reads back wrong, in the same form. Empty where none does, or no operand is a float."""
    scheme, made = primitive.scheme(sample.site), primitive.dtypes(sample.site)[number]
    floats = [one for one in (*(each.dtype for each in sample.operands), *rounded, made) if _is_float(one)]
    if not runs(sample) or not any(_is_float(one.dtype) for one in sample.operands):
        return ()
    types = [state_type(one.dtype, one.shape, state) for one, state in zip(sample.operands, given, strict=True)]
    target = state_type(made, scheme.shape(scheme.results[number]), result)
    limits = [limits_of(numpy_dtype(one)) for one in floats]
    largest = min(float(one.max) for one in limits) / 16
    smallest = max(float(one.smallest_normal) / float(one.eps) for one in limits)
    narrow = largest < max(MAGNITUDES)
    epsilon = max(float(one.eps) for one in limits)
    near = max(1e-12, epsilon * (16 if epsilon > 1e-4 else 80)) if _is_float(made) else 0.0
    case = Case(sample)
    tried = [one for one in MAGNITUDES if smallest <= one <= largest]
    for magnitude in (*tried, *([largest] if narrow else [])):
        found: list[_Run] = []
        for signs in SIGNS:
            drawn = [_drawn(case, at, type, magnitude, signs, given) for at, type in enumerate(types)]
            try:
                found.append(_run(primitive, sample, number, drawn, target))
            except NotAFamily as error:
                return (f"the devices' results are no {target}: {error}",)
            except (ValueError, IndexError, TypeError) as error:
                return (f"it does not run on blocks: {error}",)
        size = max(_largest([one.whole, *one.held.values()]) for one in found)
        for one in found:
            if said := _differ(one, near, near * size, narrow):
                return (said, *lines(one.families, one.held, MESH))
    return ()


def _is_float(dtype: str) -> bool:
    return numpy_dtype(dtype).kind in "fcV" and dtype != "float0"


def _drawn(
    case: Case, at: int, type: ArrayType, magnitude: float, signs: tuple[int, int], given: Sequence[DimState]
) -> tuple[Array, dict[Any, Array]]:
    """An operand, and what each device holds of it. What stays the same beside pieces of a sum is of the order of 1."""
    dtype, shape = case.numpy_dtype(at), case.shapes[at]
    if not _is_float(type.dtype):
        value = case.draw(at)
        return value, place(value, type, MESH, case.random)
    if not type.unreduced:
        magnitude, signs = (3.0, (-1, 1)) if "U" in given else (magnitude, signs)

    def draw() -> Array:
        real = case.random.uniform(*signs, shape) * magnitude
        return np.asarray(
            (real + 1j * magnitude * case.random.uniform(*signs, shape) if dtype.kind == "c" else real).astype(dtype)
        )

    if type.unreduced:
        held = {device: draw() for device in devices(MESH)}
        return np.asarray(MERGE[KINDS[str(given[at])]].reduce(list(held.values()))), held
    value = draw()
    return value, place(value, type, MESH, case.random)


def _run(primitive: Primitive, sample: Sample, number: int, drawn: Sequence[Any], target: ArrayType) -> _Run:
    families = [family for _, family in drawn]
    whole = compute(primitive, sample.site, [value for value, _ in drawn])[number]
    held = {}
    for device in devices(MESH):
        own = [family[device] for family in families]
        shape = tuple(one.stop - one.start for one in part(target, MESH, device))
        held[device] = compute(primitive, on_blocks(primitive, sample.site, own, shape), own)[number]
    return _Run(families, held, read_back(held, target, MESH), whole)


def _largest(arrays: Iterable[Array]) -> float:
    with np.errstate(all="ignore"):
        sizes = [np.abs(one.astype(np.complex128)) for one in arrays]
        return max(float(np.max(one, where=np.isfinite(one), initial=0)) for one in sizes)


def _differ(one: _Run, relative: float, absolute: float, narrow: bool) -> str:
    """Where two arrays differ, in a sentence; what runs over a narrow dtype, or in any order of summing, is let be."""
    with np.errstate(all="ignore"):
        value, whole = one.value.astype(np.complex128), one.whole.astype(np.complex128)
        if value.shape != whole.shape:
            return f"its results are of shape {list(whole.shape)}, and {list(value.shape)} is read back"
        over = [~np.isfinite(each) for each in (value, whole)]
        apart = ~np.isclose(value, whole, relative, absolute, equal_nan=True)
        apart &= ~(over[0] | over[1] if narrow else over[0] & over[1])
    if not apart.any():
        return ""
    at = tuple(int(index) for index in np.argwhere(apart)[0])
    return f"at {list(at)} the value is {one.whole[at]:.9g}, and {one.value[at]:.9g} is read back"
