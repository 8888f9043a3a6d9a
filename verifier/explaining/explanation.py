"""What a program communicates, forward and backward, and why: of a printed text, or of a function.

    print(verifier.explain(step, params, batch))
    verifier.check(loss, params, batch).explain()

Of a function that JAX has differentiated (a training step), what JAX transposed is the backward pass. Of any other the
backward program is derived: that of its gradient where its result is one floating number, else of its vjp.
"""

from __future__ import annotations

import gc
import linecache
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from calculus.checking import Checked, Checker
from calculus.effects import Charge, charges
from calculus.gradients import gradient, vjp
from calculus.linearization import differentiable
from calculus.meshes import Mesh
from calculus.programs import Atom, Equation, Program, bodies
from calculus.refusals import Family, Refusal, Refused
from calculus.types import ArrayType, Axes, Type
from grammar.read import read
from verifier.backward import KINDS, Derive, Made, made, point, positions_of, within
from verifier.examine import Examined, counted
from verifier.explaining.entries import BACKWARD, FORWARD, UPDATE, Direction, Entry, Forward, beside_entry, entries
from verifier.explaining.hardware import FORMULA, Hardware
from verifier.explaining.text_lines import TextLines
from verifier.explaining.underivable import NO_DERIVATIVE, equation_at, sentence
from verifier.explaining.warnings import Warned, warnings
from verifier.report import Report, Verdict, refusal_as_json, verdict_on
from verifier.texts import check_text, meshes_of
from verifier.wording import Lines, Words

if TYPE_CHECKING:
    from verifier.functions import FunctionReport, Source
    from verifier.with_jax.lines import Lines as FunctionLines

STEP: Final = "a step with its gradient in it"


@dataclass(slots=True)
class Explanation:
    """entries: the rows, in the order of the author's lines. meshes: those in scope, the one in context first. what:
    what the rows of the backward pass are those of. lines: the author's lines that rows stand at, by place. hardware:
    what seconds are computed from. refused: the refusals as people read them, where they are that already. text: what
    their places point into. source: of a function; then positions are those of the inputs that it was differentiated in
    here. checkers: those that have checked the program of each pass. none: why there is no backward pass, where there
    is none."""

    name: str
    verdict: Verdict
    meshes: tuple[Mesh, ...]
    entries: list[Entry] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    equations: int = 0
    assumed: int = 0
    what: str = ""
    lines: dict[str, str] = field(default_factory=dict)
    hardware: Hardware | None = None
    refused: str = field(default="", repr=False)
    text: str = field(default="", repr=False)
    source: Source | None = field(default=None, repr=False, compare=False)
    positions: tuple[int, ...] = ()
    none: str = ""
    checkers: dict[Direction, Checker] = field(default_factory=dict, repr=False, compare=False)

    def of(self, direction: Direction) -> list[Entry]:
        """The rows of one pass."""
        return [one for one in self.entries if one.direction == direction]

    @property
    def totals(self) -> list[Total]:
        """What each pass moves along each list of axes, in the order of the mesh."""
        found: dict[Axes, dict[Direction, list[Entry]]] = {}
        for one in self.entries:
            found.setdefault(one.row.axes, {}).setdefault(one.direction, []).append(one)
        order = {axis.name: place for mesh in reversed(self.meshes) for place, axis in enumerate(mesh.axes)}
        lists = sorted(found, key=lambda axes: [order.get(axis, len(order)) for axis in axes])
        return [
            Total(axes, {one: found[axes][one] for one in (FORWARD, BACKWARD, UPDATE) if one in found[axes]})
            for axes in lists
        ]

    def data(self) -> dict[str, object]:
        """All of it as plain data."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "mesh": [str(mesh) for mesh in self.meshes],
            "backward_of": self.what,
            **({"no_backward": self.none} if self.none else {}),
            "equations": self.equations,
            "assumed": self.assumed,
            "communication": [{**one.data(), **self._seconds(one)} for one in self.entries],
            "totals": [one.data() for one in self.totals],
            "refusals": [refusal_as_json(one) for one in self.refusals],
            "warnings": [one.data() for one in self.warnings],
            "notes": self.notes,
            **({} if self.hardware is None else {"seconds": self.seconds(self.entries), "seconds_by": FORMULA}),
            "not_modelled": list(NOT_MODELLED),
        }

    def seconds(self, those: Iterable[Entry]) -> float | None:
        """What these take one after the other; `None` where a size is not known, or no hardware is given."""
        found = self.hardware
        return None if found is None else known(found.seconds(one.row, one.group) for one in those)

    def _seconds(self, one: Entry) -> dict[str, object]:
        return {} if self.hardware is None else {"seconds": self.seconds([one])}

    def __str__(self) -> str:
        from verifier.explaining.shown import lines

        return "\n".join(lines(self))

    def _repr_html_(self) -> str:
        from verifier.explaining.shown import as_html

        return as_html(self)


NOT_MODELLED: Final = ("peak memory", "overlap of communication with computation")


class Total(NamedTuple):
    """What each pass moves along some axes."""

    axes: Axes
    passes: dict[Direction, list[Entry]]

    def data(self) -> dict[str, object]:
        """The sums; `None` where one of the numbers is not known."""
        return {
            "axes": list(self.axes),
            **{
                direction: {
                    "collectives": len(those),
                    "runs": known(one.row.times for one in those),
                    "bytes": known(one.row.total for one in those),
                    "wire_bytes": _float(known(one.row.wire_total for one in those)),
                }
                for direction, those in self.passes.items()
            },
        }


def known(numbers: Iterable[Any]) -> Any:
    """The sum; `None` where one is not known."""
    every = list(numbers)
    return None if None in every else sum(every)


def _float(number: Any) -> Any:
    return number if number is None or isinstance(number, int) else float(number)


def explain_function(report: FunctionReport, wrt: Any = None) -> Explanation:
    """Of a function that was checked. wrt: as `FunctionReport.backward` takes it. Raises `UnknownInput`."""
    collecting = gc.isenabled()
    gc.disable()  # much is made and nothing dropped: collections would only walk JAX's program
    try:
        return _of_function(report, wrt)
    finally:
        if collecting:
            gc.enable()


def _of_function(report: FunctionReport, wrt: Any) -> Explanation:
    source = report.source
    if source is None:
        return _begun(report, (), report.notes)
    program, lines = source.program, source.lines
    words = source.words
    assert words is not None, "a report that was not made by `check` has no words"
    checked = source.checker.body(program, source.checker.scope)
    found = _begun(report, source.meshes, report.notes)
    found.source = source
    if report.verdict != "ok":
        return found
    priced, told = source.charges, report.communication
    if _has_gradient(program, lines):
        found.what = STEP

        step = _Traced(lines)
        after = _After(step.transposed)

        def direction(charge: Charge) -> Direction:
            if any(step.transposed(body.program.equations[at]) for body, at in charge.sites):
                return BACKWARD
            return UPDATE if any(after.of(body.program, at) for body, at in charge.sites) else FORWARD

        found.entries = entries(priced, words, Forward(program, words, step), direction, told)
        found.checkers = dict.fromkeys((FORWARD, BACKWARD, UPDATE), source.checker)
        found.warnings = warnings(checked, words, found.entries, differentiated=True, step=step)
        return _finished(found, lines)
    from verifier.function_backward import chosen, floating, names

    make = gradient if _lone(report.types.get(path) for path in source.outputs) else vjp
    first = floating(source) if wrt is None else 0
    forward = Forward(program, words)
    found.entries = entries(priced, words, forward, lambda charge: FORWARD, told)
    found.checkers = {FORWARD: source.checker.until_now()}
    if first is None:
        return _without(found, "no input is floating", checked, words)
    positions = chosen(source, first if wrt is None else wrt)
    if first:
        found.notes = [
            *found.notes,
            f"differentiated in {source.arguments[first]}, the first argument that is floating",
        ]
    found.positions = tuple(positions)
    try:
        derived = made(program, source.checker, make, positions, printed=False)
    except Refused as refused:
        refusal = refused.refusal
        reason = source.undifferentiated() if refusal.family is Family.UNMODELLED else ""
        if reason:
            return _without(found, f"{sentence(refusal)}; JAX has none either ({reason})", checked, words)
        refusal.message = f"{within(make)}{refusal.message}"
        refusal = words.refusal(refusal, equation_at(program, refusal.line))
        found.refusals, found.verdict = [refusal], verdict_on([refusal])
        return _finished(found, lines)
    inputs, outputs, _ = names(report, source, make, positions, derived.document.program)
    theirs = Words(derived.document.program, derived.examined, inputs, outputs, lines, derived=True)
    found = _derived(found, derived, theirs, forward, make)
    found.warnings = warnings(checked, words, found.entries, differentiated=True)
    return found


def _without(found: Explanation, why: str, checked: Checked, words: Words) -> Explanation:
    """With its forward pass alone, as there is no other."""
    found.none = why
    found.warnings = warnings(checked, words, found.entries, differentiated=False)
    return _finished(found, words.lines)


def _derived(found: Explanation, derived: Made, words: Words, forward: Forward, make: Derive) -> Explanation:
    """With the rows of a backward pass that was derived."""
    found.what = KINDS[make]
    beyond = derived.beyond([one.charge for one in found.entries])
    found.entries += [beside_entry(one, words) for one in beyond if not derived.backward(one)]
    backward = [one for one in beyond if derived.backward(one)]
    found.entries += entries(backward, words, forward, lambda charge: BACKWARD)
    found.checkers[BACKWARD] = derived.examined.checker
    found.notes += derived.notes
    found.assumed += len(derived.assumed)
    found.refusals += counted(derived.examined.refusals)
    found.verdict = verdict_on(found.refusals)
    return _finished(found, words.lines)


def explain_text(
    text: str, meshes: Sequence[Mesh], file: str, wrt: Sequence[str] | None = None, step: bool = False
) -> Explanation:
    """Of a printed program. wrt: the inputs to differentiate, by name; by default all that can change. step: whether
    it has its backward pass in it, which the text of a program does not tell: then nothing is derived. Raises
    `UnknownInput`."""
    report = check_text(text, meshes, file)
    found = _begun(report, (), report.notes)
    found.text = text
    if report.verdict != "ok":
        return found
    document = read(text)
    program = document.program
    checker = Checker(list(meshes) or meshes_of(document))
    checked = checker.check(program)
    found.meshes = checker.scope.meshes
    lines = TextLines(file, text)
    names = [*program.constants, *program.inputs]
    outputs = ["result"] if len(program.outputs) == 1 else [f"result[{at}]" for at in range(len(program.outputs))]
    words = Words(program, Examined(checker, checked, []), names, outputs, lines)
    forward = Forward(program, words)
    found.entries = entries(charges(checked), words, forward, lambda charge: FORWARD)
    found.checkers = {FORWARD: checker.until_now()}
    if step:
        found.warnings = warnings(checked, words, found.entries, differentiated=True)
        return _finished(found, lines)
    positions = positions_of(program, wrt)
    found.positions = tuple(positions)
    make = gradient if _lone(words.types) else vjp
    if not positions and wrt is None:
        return _without(found, "no input is floating", checked, words)
    try:
        derived = made(program, checker, make, positions, printed=False)
    except Refused as refused:
        if refused.refusal.message in NO_DERIVATIVE:
            reason = f"JAX has none either ({NO_DERIVATIVE[refused.refusal.message]})"
            return _without(found, f"{sentence(refused.refusal)}; {reason}", checked, words)
        point(refused.refusal, document, text, make)
        found.refusals, found.verdict = [refused.refusal], verdict_on([refused.refusal])
        return _finished(found, lines)
    moving = [
        path for path, type in zip(outputs, words.types, strict=True) if type is not None and differentiable(type)
    ]
    gradients = [f"gradient of {program.inputs[position]}" for position in positions]
    inputs = [*names, *(f"cotangent of {path}" for path in moving if make is vjp)]
    made_words = Words(
        derived.document.program, derived.examined, inputs, [*(outputs if make is vjp else ()), *gradients], lines,
        derived=True,
    )  # fmt: skip
    found = _derived(found, derived, made_words, forward, make)
    found.warnings = warnings(checked, words, found.entries, differentiated=True)
    return found


def explain_refused(report: Report, text: str) -> Explanation:
    """Of a program that is refused, or could not be read: the refusals."""
    found = _begun(report, (), report.notes)
    found.text, found.refused = text, report.explained(text, len(report.refusals))
    return found


def _begun(report: Report, meshes: tuple[Mesh, ...], said: Sequence[str]) -> Explanation:
    return Explanation(
        report.file, report.verdict, meshes, [], [*said], [*report.refusals], [], report.equations, report.assumed
    )


def _lone(types: Iterable[Type | None]) -> bool:
    """Whether this is one floating number."""
    every = list(types)
    return len(every) == 1 and isinstance(every[0], ArrayType) and not every[0].shape and differentiable(every[0])


class _Traced:
    """What JAX tells of the equations of a step, as `verifier.explaining.entries.Step`."""

    def __init__(self, lines: FunctionLines) -> None:
        self._lines = lines

    def transposed(self, equation: Equation) -> bool:
        """Whether JAX made it by transposing another."""
        return self._lines.transposed(equation.line)

    def differentiated(self, equation: Equation) -> bool:
        """Whether JAX has differentiated it."""
        return self._lines.differentiated(equation.line)

    def remade(self, equation: Equation) -> bool:
        """Whether JAX computes there what it has computed before."""
        return self._lines.remade(equation.line)

    def same_line(self, one: int, other: int) -> bool:
        """Whether two places are one line of the author's."""
        places = [self._lines.at(place)[0].user for place in (one, other)]
        return places[0] is not None and places[0] == places[1]

    def same_call(self, one: int, other: int) -> bool:
        """Whether two places are one expression on a line of the author's."""
        spots = [self._lines.spot(place) for place in (one, other)]
        return spots[0] is not None and spots[0] == spots[1]


class _After:
    """Which equations of a body read, at one remove or more, what its transposed equations give."""

    def __init__(self, transposed: Callable[[Equation], bool]) -> None:
        self._transposed = transposed
        self._known: dict[int, set[int]] = {}

    def of(self, program: Program, at: int) -> bool:
        """Whether the equation at a place does."""
        found = self._known.get(id(program))
        if found is None:
            found = self._known[id(program)] = set()
            made: set[Atom] = set()
            for place, equation in enumerate(program.equations):
                if not made.isdisjoint(equation.inputs):
                    found.add(place)
                    made.update(equation.binders)
                elif self._gives(equation):
                    made.update(equation.binders)
        return at in found

    def _gives(self, equation: Equation) -> bool:
        """Whether an equation is transposed, or holds one that is."""
        return self._transposed(equation) or any(
            self._gives(one)
            for _, inner in (bodies(equation.parameters) if equation.parameters.holding else ())
            for one in inner.equations
        )


def _has_gradient(program: Program, lines: FunctionLines) -> bool:
    """Whether JAX has transposed part of a program."""
    seen: set[int] = set()
    waiting = [program]
    for one in waiting:  # grows while it is read
        if lines.some_transposed(one.equations):
            return True
        for equation in one.equations:
            for _, inner in bodies(equation.parameters) if equation.parameters.holding else ():
                if id(inner) not in seen:
                    seen.add(id(inner))
                    waiting.append(inner)
    return False


def _finished(found: Explanation, lines: Lines) -> Explanation:
    """The rows in the order of the author's lines, with what stands on those."""
    places: dict[str, tuple[str, int]] = {}
    for one in found.entries:
        frame = lines.at(one.charge.equation.line)[0].user
        if frame is not None and one.row.where not in places:
            places[one.row.where] = frame.file, frame.line
            read = lines.source(frame) if isinstance(lines, TextLines) else linecache.getline(frame.file, frame.line)
            found.lines[one.row.where] = read.strip()
    found.entries.sort(key=lambda one: (*places.get(one.row.where, ("", 0)), one.direction != FORWARD))
    return found
