"""A gradient that JAX makes inside a shard_map with check_vma=False, beside the one that it makes with check_vma=True.

Without tracking, no type says which values devices share, and JAX transposes a sum to a sum and a use of a shared value
to nothing: right where each device differentiates its own part of a loss in its own copy, and wrong elsewhere. With it,
a value that all devices share has one gradient, which is summed where they use it. Both programs run on the same
inputs; where they differ, so do the two readings of what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from calculus.checking import Checker
from calculus.collectives import COLLECTIVES
from calculus.copies import Copies
from calculus.meshes import Mesh
from calculus.parameters import names, sequence, spec
from calculus.programs import Equation, Program, bodies
from calculus.types import ArrayType, Type
from verifier.devices import Array
from verifier.execution.comparing import apart
from verifier.execution.run import Outcome, Problem, run

_SHOWN: Final = 64
"""The most elements of a value that is shown."""


class Twin(NamedTuple):
    """The same function with check_vma=True. doubtful: whether somebody sums equal copies there, so that it is the
    untracked one that may be meant. places: of an equation here, and there, the author's line."""

    program: Program
    meshes: Sequence[Mesh]
    doubtful: bool
    places: tuple[Callable[[Equation], str], Callable[[Equation], str]]


def compared(program: Program, outcome: Outcome, twin: Twin, seed: int, paths: Sequence[str] = ()) -> None:
    """Run the twin on the inputs of a run, and add to it what differs: as a problem, or as a note where the twin is
    doubtful. paths: what people call the results."""
    inputs = (*twin.program.constants, *twin.program.inputs)
    known = {one.name: one.value for one in outcome.inputs}
    pairs = zip(inputs, (*program.constants, *program.inputs), strict=True)
    given = {name: known[mine] for name, mine in pairs if mine in known}
    beside = run(twin.program, twin.meshes, seed, given)
    if not beside.equal:
        return
    allowed = max(outcome.allowed, beside.allowed)
    where = first_apart(program, twin)
    if not outcome.results:  # copies disagree, and no array is what devices hold
        if any(problem.held for problem in outcome.problems):
            shown = tuple((_called(paths, at), one.value) for at, one in enumerate(beside.results) if _small(one.value))
            outcome.problems.append(Problem(f"with check_vma=True all hold the same{where}", held=shown))
        return
    for at, (mine, right) in enumerate(zip(outcome.results, beside.results, strict=False)):
        difference = apart(right.value, mine.value, allowed) if mine.value.shape == right.value.shape else ""
        if not difference:
            continue
        said = difference.replace(" whole, ", " with check_vma=True, ").replace(" on devices", " here")
        path = _called(paths, at)
        if twin.doubtful:
            outcome.notes.append(
                f"with check_vma=True {path} is another: {said}; there equal copies are summed, so what is here may be "
                "right"
            )
        else:
            message = f"check_vma=False: {path} is not what it is with check_vma=True: {said}{where}"
            held = ((path, mine.value), (f"{path} with check_vma=True", right.value))
            outcome.problems.append(Problem(message, held=held if _small(mine.value) else ()))
        return


def split_otherwise(program: Program, outcome: Outcome, checker: Checker, seed: int, paths: Sequence[str] = ()) -> None:
    """Where something pending goes into a shard_map with check_vma=False: run once more on the same inputs, in other
    pieces, and add a note to a run that is right where a result is another then. No type says that it must not be.
    paths: what people call the results."""
    if not outcome.equal or not any(_pending(one) for one in untracked(program)):
        return
    given = {one.name: one.value if _is_pending(one.type) else one.blocks for one in outcome.inputs}
    beside = run(program, checker.scope.meshes, seed + 1, given, checker)
    if not beside.equal:
        return
    allowed = max(outcome.allowed, beside.allowed)
    for at, (mine, other) in enumerate(zip(outcome.results, beside.results, strict=False)):
        difference = apart(mine.value, other.value, allowed)
        if difference:
            said = difference.replace(" whole, ", ", ").replace(" on devices", " in other pieces")
            outcome.notes.append(
                f"check_vma=False: {paths[at] if at < len(paths) else mine.name} depends on how what is pending is "
                f"split into pieces, and not on their sum alone: {said}"
            )
            return


def _is_pending(type: Type) -> bool:
    return isinstance(type, ArrayType) and bool(type.unreduced)


def _pending(equation: Equation) -> bool:
    """Whether something pending goes into a shard_map."""
    asked = (spec(one, "in_specs") for one in sequence(equation.parameters["in_specs"], "in_specs"))
    return any(one is not None and one.unreduced for one in asked)


def untracked(program: Program) -> Iterator[Equation]:
    """The shard_maps of a program, at any depth, with check_vma=False."""
    for equation in _all(program, set()):
        if equation.primitive == "shard_map" and equation.parameters.get("check_vma") is False:
            yield equation


def doubtful(charged: Sequence[object], transposed: Callable[[Equation], bool]) -> bool:
    """Whether somebody, and not JAX, sums equal copies."""
    from calculus.effects import Charge

    copies = Copies()
    return any(
        isinstance(one, Charge) and not transposed(one.equation) and copies.summed(one).multiplies for one in charged
    )


def first_apart(program: Program, twin: Twin) -> str:
    """Where collectives begin to differ, in words; empty where they do not."""
    mine, theirs = (list(_compared(one)) for one in (program, twin.program))
    matcher = SequenceMatcher(None, [key for key, _ in mine], [key for key, _ in theirs], autojunk=False)
    for tag, low, high, start, stop in matcher.get_opcodes():
        if tag == "equal":
            continue
        for _, equation in mine[low:high]:
            if _moves(equation):
                return f"; first, {_words(equation, twin.places[0])} is there with check_vma=False alone"
        for _, equation in theirs[start:stop]:
            if _moves(equation):
                return f"; first, {_words(equation, twin.places[1])} is missing with check_vma=False"
    return ""


def _words(equation: Equation, placed: Callable[[Equation], str]) -> str:
    row = COLLECTIVES[equation.primitive]
    along = ", ".join(names(equation.parameters[row.axes], row.axes))
    place = placed(equation)
    return f"{_plain(equation.primitive)} over {along}{f' at {place}' if place else ''}"


def _compared(program: Program) -> Iterator[tuple[object, Equation]]:
    for equation in _all(program, set()):
        if equation.primitive in ("pvary", "shard_map"):
            continue
        shapes = tuple((type.dtype, type.shape) if isinstance(type, ArrayType) else "" for type in equation.types)
        yield (_plain(equation.primitive), shapes), equation


def _moves(equation: Equation) -> bool:
    row = COLLECTIVES.get(equation.primitive)
    return row is not None and bool(row.kind)


def _plain(primitive: str) -> str:
    return primitive.removesuffix("_invariant")


def _all(program: Program, seen: set[int]) -> Iterator[Equation]:
    """The equations of a program, each before those inside it; a body that is shared, once."""
    for equation in program.equations:
        yield equation
        for _, inner in bodies(equation.parameters) if equation.parameters.holding else ():
            if id(inner) not in seen:
                seen.add(id(inner))
                yield from _all(inner, seen)


def _called(paths: Sequence[str], at: int) -> str:
    return paths[at] if at < len(paths) else f"result {at}"


def _small(value: Array) -> bool:
    return value.size <= _SHOWN
