"""The transposes that the calculus writes of the table's calls, run on whole numbers: ⟨f x, y⟩ = ⟨x, fᵀ y⟩, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.linearization import differentiable, linearize
from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.programs import Equation, Program
from calculus.schemes import Indices
from calculus.transposition import transpose
from calculus.types import ArrayType, Type
from verifier.devices import Array, numpy_dtype
from verifier.execution.machine import Machine
from verifier.samples import NoSample, Sample, samples

ROUNDING: Final = 1e-9
"""How far the two sides may be apart, in parts of the sum of the absolute terms, where what is computed rounds."""


def structural(sample: Sample) -> str:
    """What the calculus derives a call's transpose from, where nobody wrote it: `contraction` (sums and broadcasts of
    products, whose index lists it exchanges) or `elementwise`; nothing elsewhere."""
    primitive, site = TABLE[sample.primitive], sample.site
    scheme, signature = primitive.scheme(site), primitive.read(site)
    if any(primitive.adjoints_at(site, place) for place, _ in signature.linear_operands()):
        return ""
    result = scheme.results[0]
    if not scheme.roles and all(_broadcast(operand, result) for operand in scheme.operands):
        return "elementwise"
    if primitive.target == "sharding":
        return "reshape"
    plain = set(scheme.roles.values()) <= {"sum"} and not scheme.grouped and not signature.nonlinear
    if plain and (len(scheme.operands) == 1 or primitive.kernel is None):
        return "contraction"
    return ""


def _broadcast(operand: Indices, result: Indices) -> bool:
    """Whether an operand has the result's dims at their places, or dims of size 1, or none."""
    return not operand or (
        len(operand) == len(result) and all(dim in ((), wanted) for dim, wanted in zip(operand, result, strict=True))
    )


@cache
def linear_samples() -> dict[str, tuple[Sample, ...]]:
    """By primitive, its sample calls on real numbers that are linear in some operand, of which a transpose can be
    asked for."""
    found: dict[str, tuple[Sample, ...]] = {}
    for name, primitive in TABLE.items():
        try:
            calls = [sample for sample in samples(name) if sample.kind == "f"]
        except NoSample:
            continue
        some = tuple(
            one for one in calls if any(primitive.read(one.site).linear_operands()) and differentiable(one.operands[0])
        )
        if some and name not in _NOT_TURNED:
            found[name] = some
    return found


def disagreement(sample: Sample, seed: int = 0) -> str:
    """Why the transpose that the calculus writes of a call is none, in all operands in which it is linear at once, or
    one after the other where it is separately linear. Nothing where ⟨f x, y⟩ = ⟨x, fᵀ y⟩."""
    primitive = TABLE[sample.primitive]
    signature = primitive.read(sample.site)
    random = np.random.default_rng(seed)
    operands = [_drawn(sample, place, random) for place in range(len(sample.operands))]
    for group in signature.groups:
        flowing = [place in group and differentiable(type) for place, type in enumerate(sample.operands)]
        if not any(flowing):
            continue
        forward, pushed, pulled, reached = _derived(sample, tuple(flowing))
        count = len(sample.results)
        residuals = _run(forward, operands)[count:]
        tangents = [_whole(one, random) for one, flows in zip(operands, flowing, strict=True) if flows]
        images = _run(pushed, [*residuals, *tangents])
        cts = [_whole(one, random) for one in images]
        back = _run(pulled, [*residuals, *cts])
        kept = [tangent for tangent, came in zip(tangents, reached, strict=True) if came]
        left, right = _paired(images, cts), _paired(kept, back)
        scale = sum(float(np.sum(np.abs(one * other))) for one, other in zip(images, cts, strict=True))
        if abs(left - right) > (0.0 if _exact(sample) else ROUNDING * scale):
            return f"of {sample}, ⟨f x, y⟩ is {left} and ⟨x, fᵀ y⟩ is {right}"
    return ""


ALONE: Final = frozenset(
    {
        "complex", "concatenate", "conj", "convert_element_type", "cumsum", "pad", "reduce_window_sum", "rev", "slice",
        "split", "stack", "tile", "unstack",
    }
)  # fmt: skip
"""Primitives whose transposes are written into their declarations, and read nothing but what they are linear in."""


def entries_disagree(sample: Sample) -> str:
    """The same for every pair of an entry of x and an entry of y, one at a time: all entries of the two matrices. Both
    maps are linear and read nothing else, so at these shapes that is all there is to say."""
    signature = TABLE[sample.primitive].read(sample.site)
    for group in signature.groups:
        flowing = tuple(place in group and differentiable(type) for place, type in enumerate(sample.operands))
        if not any(flowing):
            continue
        forward, pushed, pulled, reached = _derived(sample, flowing)
        if len(forward.outputs) != len(sample.results):
            return f"{sample} reads more than what it is linear in"
        given = [type for type, flows in zip(sample.operands, flowing, strict=True) if flows]
        places = [place for place, came in enumerate(reached) if came]
        pushing, pulling = _Runner(pushed), _Runner(pulled)
        images = [_coordinates(pushing(one)) for place, one in _basis(given) if place in places]
        back = [_coordinates(pulling(one)) for _, one in _basis([_array(type) for type in pulled.input_types])]
        left, right = np.array(images), np.array(back).T
        if left.shape != right.shape or np.max(np.abs(left - right), initial=0) > (0 if _exact(sample) else ROUNDING):
            return f"the matrix of the transpose of {sample} is not the transpose of its matrix"
    return ""


def _basis(types: Sequence[ArrayType]) -> Iterator[tuple[int, list[Array]]]:
    """Arrays that are 0 but for one entry, which is 1, or the imaginary unit; and in which of them it is."""
    zeros = [np.zeros([int(size) for size in type.shape], numpy_dtype(type.dtype)) for type in types]
    for place, array in enumerate(zeros):
        for unit in (1, 1j) if array.dtype.kind == "c" else (1,):
            for index in np.ndindex(array.shape):
                found = list(zeros)
                found[place] = array.copy()
                found[place][index] = unit
                yield place, found


def _coordinates(arrays: Sequence[Array]) -> Array:
    """What arrays pair to with each array of the basis: without conjugation, and of it the real part."""
    parts = []
    for array in arrays:
        parts.append(np.real(array).ravel())
        if array.dtype.kind == "c":
            parts.append(-np.imag(array).ravel())
    return np.concatenate(parts)


def _array(type: Type | None) -> ArrayType:
    assert isinstance(type, ArrayType)
    return type


#: compute by dividing, or in complex numbers: the two sides are rounded
_ROUNDED: Final = {"fft", "ormqr", "triangular_solve", "tridiagonal_solve"}
#: nothing flows back through the one, and nobody has written the transpose of the other
_NOT_TURNED: Final = {"stop_gradient", "scaled_dot"}


def _paired(values: Sequence[Array], cts: Sequence[Array]) -> float:
    """Without conjugation, as transposes are; of what is complex, the real part."""
    return float(sum(np.real(np.sum(one * other)) for one, other in zip(values, cts, strict=True)))


def _exact(sample: Sample) -> bool:
    return sample.primitive not in _ROUNDED


@cache
def _derived(sample: Sample, flowing: tuple[bool, ...]) -> tuple[Program, Program, Program, tuple[bool, ...]]:
    """The program that computes the residuals, the linear one, and its transpose; and which operands it reaches."""
    names, binders = (
        tuple(f"x{place}" for place in range(len(flowing))),
        tuple(f"y{n}" for n in range(len(sample.results))),
    )
    equation = Equation(sample.primitive, sample.parameters, names, binders, sample.results)
    program = Program((), (), names, sample.operands, (equation,), binders)
    checker = Checker([Mesh(())])
    checked = checker.check(program)
    if checker.refusals:
        raise ValueError(checker.refusals[0][0].message)
    equation.types = tuple(one for one in checked.types if isinstance(one, ArrayType))
    bench = Workbench(checker)
    found = linearize(bench, checker.scope, program, list(flowing))
    held = len(found.residuals)
    linear = [False] * held + [True] * (len(found.linear.inputs) - held)
    turned = transpose(bench, checker.scope, found.linear, linear, [True] * len(found.linear.outputs))
    return found.forward, found.linear, turned.program, turned.nonzero


class _Runner:
    """A program, run on whole arrays by the reference executor."""

    def __init__(self, program: Program) -> None:
        self.checker = Checker([Mesh(())])
        self.checked = self.checker.check(program)
        self.machine = Machine(self.checker, True, 1, np.random.default_rng(0))
        self.used = frozenset(range(len(program.outputs)))

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Its results."""
        given = [[np.asarray(one)] for one in inputs]
        found = self.machine.run(self.checked, self.checker.scope, given, self.used)
        return [np.asarray(one[0]) for one in found if isinstance(one, list)]


def _run(program: Program, inputs: Sequence[Array]) -> list[Array]:
    return _Runner(program)(inputs)


def _drawn(sample: Sample, place: int, random: np.random.Generator) -> Array:
    """An operand: whole numbers, powers of two where it divides, places where it is looked up."""
    type, about = sample.operands[place], sample.ranges[place]
    dtype = numpy_dtype(type.dtype)
    shape = tuple(int(size) for size in type.shape)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if about is not None:
        return random.integers(*about, shape).astype(dtype)
    return (random.choice([-1, 1], shape) * 2 ** random.integers(0, 4, shape)).astype(dtype)


def _whole(like: Array, random: np.random.Generator) -> Array:
    return random.integers(-99, 100, like.shape).astype(like.dtype)
