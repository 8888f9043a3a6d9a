"""Counterexamples that a search finds: a program with the types that JAX gives it, run on devices that hold small
numbers, until what they hold is no value of a type in it, or is not what the program computes whole.

What the calculus refuses in it is taken at its word (`verifier.execution.trusting`). So a typing that is right has no
counterexample here, whatever refuses it. Numbers grow until one is found, and shrink again while it stays one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from calculus.programs import Document
from calculus.types import ArrayType
from verifier.devices import Array, numpy_dtype, part
from verifier.execution.arithmetic import CannotRun, stored
from verifier.execution.grid import Grid
from verifier.execution.machine import Frame, Handler, Machine, Step, Value
from verifier.execution.run import Outcome, Problem, run
from verifier.execution.trusting import Trusting
from verifier.ledger import Counterexample, Entry
from verifier.proving.blocks import written
from verifier.proving.obligations import TESTED, Obligation

LARGEST: Final = (1, 2, 4, 64, None)
"""The largest numbers that are tried, one after the other; at last, of integers, powers of two and what is one less."""
SEEDS: Final = 8
"""How often each is tried."""
MOST: Final = 400
"""The most runs that make a counterexample smaller."""
STEP: Final = 1e-3
"""The step of a quotient of differences."""

Inputs = Mapping[str, Array]
"""Of each input an array: one piece after the other where it is pending, one for each device where it varies."""


class Found(NamedTuple):
    """What goes wrong, in a sentence; what each device holds, line by line; and the inputs."""

    says: str
    lines: tuple[str, ...]
    inputs: Inputs


def refutation(entry: Entry) -> Obligation:
    """That the program of an entry is typed wrong, by a run."""
    from verifier.proving.ledger import NAME

    assert entry.counterexample is not None
    subject = Subject(entry.counterexample)
    found = searched(subject)
    says = "as JAX types it, its program reads back wrong"
    if entry.counterexample.without:
        says = f"its program, which JAX says moves nothing over {', '.join(entry.counterexample.without)}, does"
    elif subject.derivative is not None:
        says = "what JAX says is its program's derivative is not how it changes"
    if found is not None:
        says = f"{says}: {'; '.join((found.says, *found.lines))}"
    return Obligation(
        f"{NAME}.{entry.number}.not.run", NAME, says, check=partial(_again, subject, found), basis=TESTED,
        domain="devices of its mesh, at the sizes of the program",
    )  # fmt: skip


def _again(subject: Subject, found: Found | None) -> str:
    """Why it is no counterexample."""
    if found is None:
        return f"no run of {SEEDS * len(LARGEST)} reads back wrong"
    if not subject.doubted:
        return "the calculus accepts it"
    return "" if subject.tried(found.inputs) is not None else "what the devices compute reads back right"


def searched(subject: Subject) -> Found | None:
    """The first run that goes wrong, made smaller."""
    for largest, seed in itertools.product(LARGEST, range(SEEDS)):
        found = subject.tried(subject.drawn(largest, np.random.default_rng(seed), 1 + seed % 2))
        if found is not None:
            return found if subject.of.without else _smaller(subject, found)
    return None


def _smaller(subject: Subject, found: Found) -> Found:
    """The same with numbers nearer to zero, while it goes wrong."""
    left, going = MOST, True
    while going:
        going = False
        for name, array in list(found.inputs.items()):
            for at in np.ndindex(array.shape):
                for number in _nearer(found.inputs[name][at].item(), name in subject.copies):
                    if left == 0:
                        return found
                    left -= 1
                    other = found.inputs[name].copy()
                    other[at] = number
                    better = subject.tried({**found.inputs, name: other})
                    if better is not None:
                        found, going = better, True
                        break
    return found


def _nearer(number: Any, copy: bool) -> Iterator[Any]:
    """Numbers that are smaller than one, and simpler. Of a copy, which may divide, none is 0."""
    size = abs(number)
    if size:
        halves = math.trunc(size / 2)
        power = 1 << (math.trunc(size).bit_length() - 1) if size >= 1 else 0
        yield from (one for one in dict.fromkeys((0, 1, power, halves)) if one < size and (one or not copy))


class Subject:
    """What a counterexample is sought of. Raises `Refused` where a text is no program."""

    def __init__(self, counterexample: Counterexample) -> None:
        from grammar.read import read
        from verifier.texts import meshes_of, programs_of

        self.of = counterexample
        self.document: Document = read(counterexample.program)
        self.meshes = meshes_of(self.document)
        programs = list(programs_of(self.document))
        types = [type for one in programs for type in (*one.input_types, *one.constant_types)]
        types += [type for one in programs for equation in one.equations for type in equation.types]
        varies = {axis for type in types if isinstance(type, ArrayType) for axis in type.varying}
        self.alike = frozenset(axis for mesh in self.meshes for axis in mesh.by_name) - varies
        said = counterexample.tangents or counterexample.gradient
        self.derivative: Document | None = read(said) if said else None
        self.copies = {
            name for name, type in self.inputs() if not (self.derivative or self._lead(type) or type.sharded)
        }

    @property
    def doubted(self) -> bool:
        """Whether the calculus refuses the program, or assumes what it does not know; or it is about something else
        than what types say of values."""
        from verifier.texts import programs_of

        if self.of.without or self.derivative is not None:
            return True
        checker = Trusting(self.meshes)
        checker.check(self.document.program)
        names = {equation.primitive for one in programs_of(self.document) for equation in one.equations}
        return bool(checker.trusted) or not names.isdisjoint(KERNELS)

    def inputs(self) -> Iterator[tuple[str, ArrayType]]:
        """What the program is given, by name; and of a derivative, along what."""
        program = self.document.program
        for suffix in ("", " along") if self.derivative is not None else ("",):
            for name, type in zip(program.inputs, program.input_types, strict=True):
                assert isinstance(type, ArrayType), f"{name} is no array"
                yield name + suffix, type

    def drawn(self, largest: int | None, random: np.random.Generator, parts: int = 1) -> Inputs:
        """Inputs: whole numbers, and of floats parts of them."""
        found = {name: _numbers(type, self._lead(type), largest, parts, random) for name, type in self.inputs()}
        return {
            name: np.asarray(np.where(one == 0, 1, one), one.dtype) if name in self.copies else one
            for name, one in found.items()
        }

    def _lead(self, type: ArrayType) -> list[int]:
        mesh = self.meshes[0]
        return [mesh.size((axis,)) or 1 for axis in mesh.in_order((*type.unreduced, *type.varying))]

    def tried(self, inputs: Inputs) -> Found | None:
        """Run it on these. `None` where nothing goes wrong, or it does not run."""
        try:
            return self._wrong(inputs) if self.derivative is None else self._derived(self.derivative, inputs)
        except (ValueError, IndexError, TypeError, KeyError):  # what does not run shows nothing
            return None

    def run(self, inputs: Inputs) -> Outcome:
        """The program, whole and on devices. Raises `ValueError` where it is not run."""
        given = {name: self._blocks(inputs[name], type) for name, type in self.inputs() if name in inputs}
        return self._run(self.document, {name: given[name] for name in self.document.program.inputs})

    def _wrong(self, inputs: Inputs) -> Found | None:
        outcome = self.run(inputs)
        if self.of.without:
            moved = _moved(outcome, self.of.without)
            return Found(moved, tuple(_lines(outcome)), inputs) if moved else None
        wrong = next((problem for problem in outcome.problems if problem.differs), None)
        if wrong is None:
            return None
        says = wrong.message.removeprefix("whole: ").removeprefix("on devices: ")
        return Found(says, tuple(_lines(outcome, wrong)), inputs)

    def _run(self, document: Document, given: Mapping[str, Any]) -> Outcome:
        checker = Trusting(self.meshes)
        return run(document.program, self.meshes, given=given, checker=checker, kernels=KERNELS, alike=self.alike)

    def _blocks(self, array: Array, type: ArrayType) -> list[Array]:
        """What each device holds of an input."""
        mesh = self.meshes[0]
        grid = Grid(mesh, mesh.size(mesh.by_name) or 1)
        lead = mesh.in_order((*type.unreduced, *type.varying))
        return [
            array[tuple(at[axis] for axis in lead)][part(stored(type), mesh, place)]
            for at, place in zip(grid.coordinates, grid.places, strict=True)
        ]

    def _derived(self, derivative: Document, inputs: Inputs) -> Found | None:
        """What a program's derivative is said to be, beside the quotients of its differences."""
        names = self.document.program.inputs
        points, ways = [inputs[name] for name in names], [inputs[f"{name} along"] for name in names]

        def made(document: Document, given: Sequence[Array]) -> Outcome:
            return self._run(document, dict(zip(document.program.inputs, given, strict=True)))

        def at(by: float) -> list[Array]:
            moved = [(x + by * way).astype(x.dtype) for x, way in zip(points, ways, strict=True)]
            return [one.value for one in made(self.document, moved).results]

        outcome = made(derivative, [*points, *ways] if self.of.tangents else points)
        said = [one.value for one in outcome.results]
        if self.of.gradient:
            said = [np.asarray(sum(np.sum(one * way) for one, way in zip(said, ways, strict=True)))]
        for one, here, other, tangent in zip(at(-STEP), at(0), at(STEP), said, strict=True):
            change = (other - one) / (2 * STEP)
            smooth = np.allclose(other - here, here - one, 0.01, 0.01 * STEP)
            if smooth and not np.allclose(change, tangent, 0.01, 0.01):
                moved = [f"{name} = {written(point)}" for name, point in zip(names, points, strict=True)]
                along = [f"{name} {written(way)}" for name, way in zip(names, ways, strict=True)]
                says = f"at {', '.join(moved)}, in the direction of {', of '.join(along)}, its result changes"
                says += f" by {written(change)}, and JAX says by {written(tangent)}"
                called = [*names, *(f"direction of {name}" for name in names)]
                return Found(says, tuple(_lines(outcome, called=called)), inputs)
        return None


def _numbers(
    type: ArrayType, lead: Sequence[int], largest: int | None, parts: int, random: np.random.Generator
) -> Array:
    dtype, shape = numpy_dtype(stored(type).dtype), [*lead, *(int(size) for size in type.shape)]
    if dtype.kind == "b":
        return np.asarray(random.random(shape) < 0.5)
    if largest is None and dtype.kind in "iu":
        powers = random.integers(0, 8 * dtype.itemsize, shape, dtype)
        return np.asarray((dtype.type(1) << powers) - random.integers(0, 1, shape, dtype, endpoint=True))
    most = 64 if largest is None else largest
    found = np.asarray(random.integers(0 if dtype.kind == "u" else -most, most, shape, endpoint=True))
    return np.asarray(found / parts if dtype.kind in "fc" else found, dtype)


def _lines(outcome: Outcome, wrong: Problem | None = None, called: Sequence[str] = ()) -> Iterator[str]:
    """What each device holds of the inputs, and of what is wrong; else of the first result. called: what the inputs
    are, where their program says it otherwise."""
    grid = Grid(outcome.mesh, outcome.devices)
    inputs = [grid.named(one.blocks) for one in outcome.inputs]
    held = dict(wrong.held) if wrong is not None else {}
    if not held and outcome.results:  # else the run has ended before
        names = wrong.equation.binders if wrong is not None and wrong.equation is not None else ()
        shown = [outcome.values[name] for name in names if name in outcome.values] or outcome.results
        apart = [one for one in shown if wrong is not None and wrong.message.startswith(f"{one.name},")]
        held = dict(grid.named((apart or shown)[0].blocks))
    for number, at in enumerate(grid.named([np.zeros(())] * outcome.devices)):
        has = ", ".join(
            f"{name} = {written(one[number][1])}" if len(inputs) > 1 else written(one[number][1])
            for name, one in zip(called or [shown.name for shown in outcome.inputs], inputs, strict=False)
        )
        made = held.get(at[0]) if len(held) == outcome.devices else None
        parts = [f"holds {has}"] if has else []
        parts += [f"computes {written(made)}"] if made is not None else []
        yield f"device {at[0]} {' and '.join(parts)}"


def _moved(outcome: Outcome, axes: Sequence[str]) -> str:
    """What moves over axes: what was derived, and was executed where types determine it."""
    said = []
    for line in outcome.lines:
        own = [axis for axis in line.collective.axes if axis in axes]
        size = line.moved or line.expected
        if own and size and line.derived != 0:
            said.append(f"{line.collective.kind} of {size} bytes over {', '.join(own)}")
    return f"each device takes part in {', '.join(said)}" if said else ""


def _handed_on(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    """A function of the host may be any: here it hands on what it is given."""
    return list(operands)


def _gamma(machine: Machine, step: Step, operands: Sequence[Value], frame: Frame) -> list[Value]:
    """Samples, drawn by a key, of whole concentrations: each is the sum of so many that are distributed exponentially.
    JAX draws others, of the same distribution."""
    keys, sizes = (machine.blocks(value, step) for value in operands)
    found: list[Array] = []
    for key, size in zip(keys, sizes, strict=True):
        if np.any((size <= 0) | (size != np.floor(size))):
            raise CannotRun("a concentration that is no whole number, or none")
        random = np.random.default_rng(int(np.ravel(key)[0]))
        parts = random.exponential(size=(int(np.max(size, initial=0)), *size.shape))
        counted = np.arange(len(parts)).reshape((-1, *(1,) * size.ndim)) < size
        found.append(np.sum(parts * counted, 0).astype(size.dtype))
    return [found]


KERNELS: Final[Mapping[str, Handler]] = {
    "pure_callback": _handed_on,
    "io_callback": _handed_on,
    "random_gamma": _gamma,
}
"""What stands for primitives that the executor does not compute: one of the functions that they may be."""
