"""A program, run whole and on devices, and what the two runs say about each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from calculus.checking import Checker, Scope
from calculus.effects import charges
from calculus.meshes import Mesh
from calculus.programs import Equation, Literal, Program
from calculus.types import ArrayType, RefType, Type, held
from verifier.devices import Array, place, read_back
from verifier.execution.account import Line, compared
from verifier.execution.arithmetic import CannotRun, stored
from verifier.execution.comparing import apart
from verifier.execution.drawing import drawn
from verifier.execution.grid import Blocks, Grid
from verifier.execution.machine import Cell, Disagreement, Failed, Handler, Machine, Value, copied
from verifier.execution.rounding import Rounding, Spread

MOST_DEVICES: Final = 256
"""The most devices of a run."""


class Shown(NamedTuple):
    """An input or a result: its name and type, the array, and what each device holds of it. given: whether somebody
    said the values of an input, so that they are not drawn."""

    name: str
    type: Type
    value: Array
    blocks: Blocks
    given: bool = False


class Problem(NamedTuple):
    """What is wrong, and at which equation (`None` where it is about the whole). unrunnable: whether nothing is wrong
    but that it cannot be run here. held: what each device holds, where copies differ; and what else shows it. differs:
    whether it is in what devices hold, or wait for."""

    message: str
    equation: Equation | None = None
    unrunnable: bool = False
    held: tuple[tuple[str, Array], ...] = ()
    differs: bool = False


@dataclass(slots=True)
class Outcome:
    """What two runs of a program are. lines: the collectives, as derived and as executed. values: what the names of the
    program stand for, those of bodies left out. allowed, spread: how far another computation of them may be off.
    notes: what else is to be said."""

    devices: int
    mesh: Mesh
    inputs: list[Shown] = field(default_factory=list)
    results: list[Shown] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    allowed: float = 0.0
    values: dict[str, Shown] = field(default_factory=dict)
    spread: Spread | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether the two runs agree, and communicated as derived."""
        return not self.problems


def run(
    program: Program, meshes: Sequence[Mesh], seed: int = 0, given: Mapping[str, Array | Blocks] | None = None,
    checker: Checker | None = None, scale: float = 1.0, kernels: Mapping[str, Handler] = MappingProxyType({}),
    alike: AbstractSet[str] = frozenset(),
) -> Outcome:  # fmt: skip
    """Run a well-typed program whole and on devices, on inputs that are given by name (an array, or what each device
    holds of it) or drawn with the seed. checker: the one of the door that it came in by. scale: of the floats that are
    drawn, a power of two. kernels, alike: of the machines."""
    checker = checker or Checker(meshes)
    checked = checker.check(program)
    if checker.refusals:
        raise ValueError("only what is well typed is run")
    scope = checker.scope
    outcome = Outcome(0, scope.mesh)
    try:
        counts = [_count(mesh) for mesh in scope.meshes]
        outcome.devices = max(counts)
        if outcome.devices > MOST_DEVICES:
            raise CannotRun(f"{outcome.devices} devices are too many to be run here: make the mesh smaller")
        random = np.random.default_rng(seed)
        whole = Machine(checker, True, 1, random, kernels, alike)
        local = Machine(checker, False, outcome.devices, random, kernels)
        pairs = [
            _input(name, type, (whole, local), scope, random, given or {}, scale) for name, type in _inputs(program)
        ]
    except CannotRun as error:
        outcome.problems.append(Problem(str(error), unrunnable=True))
        return outcome
    outcome.inputs = [shown for shown, _, _ in pairs if shown is not None]
    used = frozenset(range(len(program.outputs)))
    entered = local.cancelled

    def again(rounding: Rounding) -> dict[str, Array]:
        """The program run whole once more, with every result moved."""
        moved = Machine(checker, True, 1, np.random.default_rng(seed), kernels, alike)
        moved.rounding = rounding
        try:
            moved.run(checked, scope, [copied(value) for value in given_whole], used, watch=True)
        except Failed:
            return {}
        return {name: value for name, (value, _, _) in moved.watched.items()}

    given_whole = [copied(value) for _, value, _ in pairs]
    try:
        expected = whole.run(checked, scope, [value for _, value, _ in pairs], used, watch=True)
    except Failed as failed:
        outcome.problems.append(_failed(failed, "whole"))
        return outcome
    try:
        found = local.run(checked, scope, [value for _, _, value in pairs], used, watch=True)
    except Failed as failed:
        outcome.problems.append(_failed(failed, "on devices"))
        return outcome
    outcome.values = {one.name: one for one in outcome.inputs} | {
        name: Shown(name, type, value, blocks) for name, (value, type, blocks) in local.watched.items()
    }
    outcome.allowed = local.roundoff * local.growth * local.cancelled
    least = max(local.lost, whole.lost)
    before = {name: value for name, (value, _, _) in whole.watched.items()}
    spread = Spread(again, before, entered, least, local.cancelled)
    outcome.spread = spread
    outcome.problems += _first_difference(program, whole, local, outcome.allowed, spread)
    for index, (one, other, type) in enumerate(zip(expected, found, checked.types, strict=True)):
        if not isinstance(one, list) or not isinstance(other, list):
            continue
        atom = program.outputs[index]
        shown_type = type if isinstance(type, ArrayType) else atom.type if isinstance(atom, Literal) else None
        if not isinstance(shown_type, ArrayType):
            continue
        wanted, value = whole.checked_value(one, shown_type, scope), local.checked_value(other, shown_type, scope)
        assert wanted is not None
        assert value is not None
        outcome.results.append(Shown(str(atom), shown_type, value, other))
        difference = "" if outcome.problems else _difference(wanted, value, outcome.allowed, spread, str(atom))
        if difference:
            outcome.problems.append(Problem(f"result {index}, {shown_type}: {difference}", differs=True))
    outcome.lines = compared(charges(checked), local.account)
    outcome.problems += [
        Problem(f"{_of(line)}: {line.problem}", line.equation) for line in outcome.lines if line.problem
    ]
    return outcome


def on_one_line(problem: Problem) -> str:
    """What devices hold where copies differ, on one line, of few small arrays."""
    if sum(array.size for _, array in problem.held) > _ON_ONE_LINE:
        return ""
    return "".join(
        f"{', ' if at else ': '}{name} holds {array.tolist()}" for at, (name, array) in enumerate(problem.held)
    )


_ON_ONE_LINE: Final = 32


def _of(line: Line) -> str:
    return f"{line.collective.kind} over {', '.join(line.collective.axes)}"


def _count(mesh: Mesh) -> int:
    found = mesh.size(mesh.by_name)
    if found is None:
        unknown = ", ".join(axis.name for axis in mesh.axes if axis.size is None)
        raise CannotRun(f"the sizes of {unknown} are not known: give --mesh {unknown.split(', ')[0]}=…")
    return found


def _failed(failed: Failed, where: str) -> Problem:
    while isinstance(failed.cause, Failed):
        failed = failed.cause
    differs = isinstance(failed.cause, Disagreement)
    held = failed.cause.held if isinstance(failed.cause, Disagreement) else ()
    return Problem(f"{where}: {failed.cause}", failed.equation, isinstance(failed.cause, CannotRun), held, differs)


def _inputs(program: Program) -> list[tuple[str, Type | None]]:
    names = (*program.constants, *program.inputs)
    return list(zip(names, (*program.constant_types, *program.input_types), strict=True))


def _input(
    name: str,
    type: Type | None,
    machines: tuple[Machine, Machine],
    scope: Scope,
    random: np.random.Generator,
    given: Mapping[str, Array | Blocks],
    scale: float,
) -> tuple[Shown | None, Value, Value]:
    """An input of both runs. What is pending is split at random, and is what its pieces then add up to."""
    whole, local = machines
    inner = held(type)
    if not isinstance(inner, ArrayType):
        return None, None, None
    grid = local.grid_of(inner, scope)
    value = given.get(name)
    if value is None:
        varying = tuple(grid.mesh.size((axis,)) or 1 for axis in grid.mesh.in_order(inner.varying))
        value = drawn(inner, random, varying, scale)
    if isinstance(value, list):
        blocks = value
        value = read_back(dict(zip(grid.places, blocks, strict=True)), stored(inner), grid.mesh)
    else:
        blocks = _placed(value, inner, grid, random)
    if inner.unreduced:
        value = read_back(dict(zip(grid.places, blocks, strict=True)), stored(inner), grid.mesh)
    local.checked_value(blocks, inner, scope)
    shown = Shown(name, inner, value, blocks, name in given)
    one = _placed(value, whole.seen(inner, scope.mesh), whole.grid_of(inner, scope), random)
    if isinstance(type, RefType):
        return shown, Cell(one), Cell(list(blocks))
    return shown, one, blocks


def whole_input(value: Array, type: Type | None, machine: Machine, scope: Scope, random: np.random.Generator) -> Value:
    """An array as an input of a machine that runs a program whole."""
    inner = held(type)
    if not isinstance(inner, ArrayType):
        return None
    blocks = _placed(value, machine.seen(inner, scope.mesh), machine.grid_of(inner, scope), random)
    return Cell(blocks) if isinstance(type, RefType) else blocks


def _placed(value: Array, type: ArrayType, grid: Grid, random: np.random.Generator) -> Blocks:
    family = place(np.asarray(value), stored(type), grid.mesh, random)
    return [family[at] for at in grid.places]


def _difference(one: Array, other: Array, allowed: float, spread: Spread, name: str) -> str:
    """How two computations of what a name stands for differ, beyond what roundings do."""
    difference = apart(one, other, allowed)
    if not difference:
        return ""
    turned = spread.turned(name)
    if turned is not None and turned.shape == other.shape:
        other = np.where(turned, one, other)
    return apart(one, other, allowed, spread.of(name))


def _first_difference(
    program: Program, whole: Machine, local: Machine, allowed: float, spread: Spread
) -> list[Problem]:
    """The first equation of the program whose value differs between the runs."""
    for equation in program.equations:
        for name in equation.binders:
            if name in whole.watched and name in local.watched and name != "_":
                (one, type, _), (other, _, _) = whole.watched[name], local.watched[name]
                difference = _difference(one, other, allowed, spread, name)
                if difference:
                    return [Problem(f"{name}, {type}: {difference}", equation, differs=True)]
    return []
