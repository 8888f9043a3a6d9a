"""The text of a program, run: what is said of it, as data and as the command prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from calculus.checking import Checker
from calculus.communication import EXACT
from calculus.meshes import Mesh
from calculus.programs import Equation
from calculus.types import ArrayType, held
from grammar.read import read
from verifier.devices import Array
from verifier.execution.account import Line
from verifier.execution.arithmetic import CannotRun, dtype_of
from verifier.execution.instances import Sizes, instance
from verifier.execution.run import Outcome, Problem, Shown, run
from verifier.report import Report, as_json, count
from verifier.texts import check_text, meshes_of
from verifier.wording import where

if TYPE_CHECKING:
    from verifier.functions import FunctionReport

SMALL: Final = 64
"""The most elements of a block that is shown, and of an array in JSON times its devices."""
FEW: Final = 16
"""The most devices whose blocks are shown."""


class Ran(NamedTuple):
    """What came of a program: the report of the check, and, where it is well typed, the outcome of the runs. place: of
    a function, the user's line of an equation. sizes: what symbolic sizes stood for."""

    report: Report
    outcome: Outcome | None
    place: Callable[[Equation], str] | None = None
    sizes: Sizes = MappingProxyType({})

    @property
    def verdict(self) -> str:
        """`equal`, `different`, `not run`, or the verdict of a check that did not let it run."""
        if self.outcome is None:
            return self.report.verdict
        if self.outcome.equal:
            return "equal"
        return "not run" if all(problem.unrunnable for problem in self.outcome.problems) else "different"

    @property
    def status(self) -> int:
        """The exit status: 0 where the runs agree, 2 where the text is malformed, else 1."""
        return {"equal": 0, "malformed": 2}.get(self.verdict, 1)


class BadInput(ValueError):
    """Values that no input of the program takes. The message says why."""


def run_text(
    text: str, meshes: Sequence[Mesh], file: str, seed: int = 0, given: Mapping[str, Any] | None = None
) -> Ran:
    """Check a text, and run it where it is well typed. given: values of inputs by name, nested lists of numbers. Raises
    `BadInput`."""
    report = check_text(text, meshes, file)
    if report.verdict != "ok":
        return Ran(report, None)
    document = read(text)
    try:
        program, sizes = instance(document.program)
    except CannotRun as error:
        return Ran(report, Outcome(0, Mesh(()), problems=[Problem(str(error), unrunnable=True)]))
    names = (*program.constants, *program.inputs)
    types = dict(zip(names, (*program.constant_types, *program.input_types), strict=True))
    arrays = {name: _array(name, values, held(types.get(name)), names) for name, values in (given or {}).items()}
    checker = Checker(list(meshes) or meshes_of(document))
    outcome = run(program, list(checker.scope.meshes), seed, arrays, checker)
    from verifier.execution.tracked import split_otherwise

    split_otherwise(program, outcome, checker, seed)
    return Ran(report, outcome, sizes=sizes)


def run_function(report: FunctionReport, seed: int = 0, given: Mapping[str, Any] | None = None) -> Ran:
    """Run a function that was checked, where it is well typed. given: values of inputs by path. Raises `BadInput`."""
    source = report.source
    if report.verdict != "ok" or source is None:
        return Ran(report, None)
    program = source.program
    names = (*program.constants, *program.inputs)
    types = dict(zip(names, (*program.constant_types, *program.input_types), strict=True))
    paths = {path: name for path, name in zip(source.known, names, strict=True) if path is not None}
    arrays = {
        paths.get(path, path): _array(path, values, held(types.get(paths.get(path, ""))), tuple(paths))
        for path, values in (given or {}).items()
    }
    outcome = run(program, list(source.meshes), seed, arrays, source.checker)
    twin = source.twin() if source.twin is not None else None
    from verifier.execution.tracked import compared, split_otherwise

    if twin is not None:
        compared(program, outcome, twin, seed, source.outputs)
    split_otherwise(program, outcome, source.checker, seed, source.outputs)
    called = {name: path for path, name in paths.items()}
    outcome.inputs = [one._replace(name=called.get(one.name, one.name)) for one in outcome.inputs]
    if len(outcome.results) == len(source.outputs):
        outcome.results = [one._replace(name=path) for one, path in zip(outcome.results, source.outputs, strict=True)]
    return Ran(report, outcome, lambda equation: where(source.lines, equation.line)[0])


def _array(name: str, values: Any, type: object, names: Sequence[str]) -> Array:
    if name not in names or not isinstance(type, ArrayType):
        raise BadInput(f"{name} is no input of the program, whose inputs are {', '.join(names) or 'none'}")
    try:
        whole = np.asarray(values)
        with np.errstate(all="ignore"):
            found = whole.astype(dtype_of(type.dtype))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{name} is {type}, and its values are no array of numbers: {error}") from error
    if type.dtype_class in "iub" and not np.array_equal(found, whole):
        raise BadInput(f"{name} is {type}, and not all of its values are numbers of {type.dtype}")
    if found.shape == () and type.shape:
        found = np.broadcast_to(found, [int(size) for size in type.shape])
    if not type.varying and found.shape != type.shape:
        raise BadInput(f"{name} is {type}, and its values have the shape {list(found.shape)}")
    return found


# --- as text ----------------------------------------------------------------------------------------------------------


def told(ran: Ran, text: str, seed: int) -> Iterator[str]:
    """What the command prints of a program that was let run."""
    outcome = ran.outcome
    assert outcome is not None
    parts = [ran.verdict, f"whole and on {count(outcome.devices, 'device')}"]
    if outcome.mesh.axes:
        parts[1] += f" ({outcome.mesh})"
    if ran.sizes:
        parts.append(f"at {', '.join(f'{name} = {size}' for name, size in ran.sizes.items())}")
    if any(not one.given for one in outcome.inputs):
        parts.append(f"inputs drawn with seed {seed}")
    if outcome.equal:
        executed = sum(line.executed for line in outcome.lines)
        parts.append(f"{count(executed, 'collective')} as derived" if executed else "no communication")
    yield f"{ran.report.name}: {' · '.join(parts)}"
    yield from (f"  note: {note}" for note in (*ran.report.known_notes, *outcome.notes))
    lines = text.splitlines()
    for problem in outcome.problems:
        if ran.place is None:
            yield from _problem(problem, lines)
        else:
            at = ran.place(problem.equation) if problem.equation is not None else ""
            yield f"  {at}: {problem.message}" if at else f"  {problem.message}"
            yield from _held(problem)
    if outcome.problems and ran.report.assumed and ran.verdict == "different":
        yield f"  the check rests on {count(ran.report.assumed, 'assumption')}, which this run may have refuted"
    if outcome.lines:
        yield ""
        yield from _table(outcome.lines, ran.place or (lambda equation: str(equation.line)))
    for what, each in (("input", outcome.inputs), ("result", outcome.results)):
        for one in each:
            yield from _blocks(what, one, outcome)


def _problem(problem: Problem, lines: Sequence[str]) -> Iterator[str]:
    at = problem.equation.line if problem.equation is not None else 0
    yield f"  line {at}: {problem.message}" if at else f"  {problem.message}"
    if 0 < at <= len(lines):
        yield f"    {at} │ {lines[at - 1].strip()}"
    yield from _held(problem)


def _held(problem: Problem) -> Iterator[str]:
    """What devices hold where copies differ."""
    if len(problem.held) > FEW or any(array.size > SMALL for _, array in problem.held):
        return
    for name, array in problem.held:
        first, *rest = _lines(array)
        yield f"    {name}: {first}"
        yield from (" " * (len(name) + 6) + line for line in rest)


def _table(lines: Sequence[Line], place: Callable[[Equation], str]) -> Iterator[str]:
    rows = [("line", "primitive", "collective", "over", "derived", "executed", "")]
    for line in lines:
        note = line.problem or ("" if line.exactness == EXACT else line.exactness)
        rows.append(
            (
                place(line.equation), line.equation.primitive, line.collective.kind, ",".join(line.collective.axes),
                _times(line.derived, line.expected), _times(line.executed, line.moved), note,
            )
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if not index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def _times(times: int | None, size: int | None) -> str:
    if times == 0:
        return "never"
    shown = "? bytes" if size is None else count(size, "byte")
    return shown if times == 1 else f"{'?' if times is None else times} x {shown}"


def _blocks(what: str, one: Shown, outcome: Outcome) -> Iterator[str]:
    """Every device's block of a small array."""
    if max(block.size for block in one.blocks) > SMALL or outcome.devices > FEW:
        return
    yield ""
    yield f"{what} {one.name}: {one.type}"
    if isinstance(one.type, ArrayType) and not one.type.sharded and not one.type.unreduced and not one.type.varying:
        yield from [] if len(one.blocks) == 1 else ["each device:"]
        yield from _lines(one.blocks[0])
        return
    for number, block in enumerate(one.blocks):
        yield f"device {number}:"
        yield from _lines(block)


def _lines(block: Array) -> list[str]:
    return np.array2string(block, max_line_width=100, threshold=SMALL).splitlines() or ["[]"]


# --- as data ----------------------------------------------------------------------------------------------------------


def ran_as_json(ran: Ran, seed: int) -> dict[str, object]:
    """The same as plain data for `--json`: the report of the check, and what the runs add to it. Values of small arrays
    only; floats as JSON's numbers, NaN and infinities as text."""
    found = as_json(ran.report) | {"verdict": ran.verdict}
    outcome = ran.outcome
    if outcome is None:
        return found
    return found | {
        "seed": seed,
        "devices": outcome.devices,
        "mesh": str(outcome.mesh),
        "sizes": dict(ran.sizes),
        "tolerance": outcome.allowed,
        "notes": outcome.notes,
        "problems": [
            {
                "line": problem.equation.line if problem.equation else 0,
                "message": problem.message,
                "cannot_run": problem.unrunnable,
                "held": {name: _plain(array) for name, array in problem.held if array.size <= SMALL},
            }
            for problem in outcome.problems
        ],
        "executed": [
            {
                "line": line.equation.line,
                "primitive": line.equation.primitive,
                "kind": line.collective.kind,
                "axes": list(line.collective.axes),
                "exactness": line.exactness,
                "derived_times": line.derived,
                "executed_times": line.executed,
                "derived_bytes": line.expected,
                "executed_bytes": line.moved,
                "problem": line.problem,
            }
            for line in outcome.lines
        ],
        "inputs": [_shown(one, outcome) for one in outcome.inputs],
        "results": [_shown(one, outcome) for one in outcome.results],
    }


def _shown(one: Shown, outcome: Outcome) -> dict[str, object]:
    found: dict[str, object] = {"name": one.name, "type": str(one.type)}
    if max(block.size for block in one.blocks) <= SMALL and outcome.devices <= FEW:
        found |= {"value": _plain(one.value), "blocks": [_plain(block) for block in one.blocks]}
    return found


def _plain(array: Array) -> Any:
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    if array.ndim:
        return [_plain(part) for part in array]
    value = array.item()
    return str(value) if isinstance(value, complex) or not np.isfinite(value) else value
