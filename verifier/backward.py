"""The backward program of a text, or of a program that a function was traced to: derived, printed, priced, and held
against the forward program.

A derived equation stands where the forward equation does that it comes from, so that what the backward pass refuses or
communicates points into the text that was handed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.copied import size_of
from calculus.effects import Charge
from calculus.gradients import gradient, jvp, vjp
from calculus.linear_programs import linearization, transposed
from calculus.linearization import differentiable, linearize
from calculus.meshes import Mesh
from calculus.naming import tidy
from calculus.programs import Document, Equation, Literal, Program, Variable
from calculus.recalling import Recalling
from calculus.refusals import Place, Refusal, Refused
from calculus.typed import typed
from calculus.types import Type
from grammar.meshes import parse_meshes
from grammar.print import print_document
from grammar.read import read
from grammar.source import Source, locate
from verifier.examine import Examined, counted, examine, notes, row
from verifier.report import Derived, Report, verdict_on
from verifier.texts import check_text, first_line, meshes_of, programs_of

Derive = Callable[[Program, Workbench, Sequence[int]], Program]
"""`gradient`, `vjp`, `transposed`, or one of the three of a linearization."""


def linearized(program: Program, bench: Workbench, wrt: Sequence[int]) -> Program:
    """A program with tangents beside: it calls the forward program, and the linear one with the residuals."""
    return linearization(program, bench, wrt).whole


def forward_part(program: Program, bench: Workbench, wrt: Sequence[int]) -> Program:
    """The forward program of a linearization, which gives back the residuals after its results."""
    return linearization(program, bench, wrt).forward


def linear_part(program: Program, bench: Workbench, wrt: Sequence[int]) -> Program:
    """The linear program of a linearization, which takes the residuals and then the tangents."""
    return linearization(program, bench, wrt).linear


KINDS: dict[Derive, str] = {
    gradient: "gradient",
    vjp: "vjp",
    jvp: "jvp",
    transposed: "transpose",
    linearized: "linearization",
    forward_part: "forward, with residuals",
    linear_part: "linear",
}
"""What each derived program is called."""


class Backward(NamedTuple):
    """forward: the report about the program itself. backward: that about the derived program, forward equations
    included; `None` where the program is refused already. text: the derived program, empty where there is none."""

    forward: Report
    backward: Derived | None = None
    text: str = ""


class UnknownInput(ValueError):
    """A name that is no input of the program. The message says which are."""


class Made(NamedTuple):
    """A derived program, examined. assumed: what is trusted about code that is not printed, a sentence each.
    forward: how many of its equations are the forward pass; `None` where it is no forward pass and then a backward
    one."""

    document: Document
    examined: Examined
    assumed: tuple[str, ...]
    forward: int | None

    @property
    def notes(self) -> list[str]:
        """What was assumed."""
        return [f"assumed: {sentence}" for sentence in self.assumed]

    def backward(self, charge: Charge) -> bool:
        """Whether a charge is of an equation that was transposed."""
        return self.forward is not None and charge.sites[0][1] >= self.forward

    def beyond(self, forward: Sequence[Charge]) -> list[Charge]:
        """The charges that the program itself does not have: of equations that were transposed, and of what is computed
        for them beside the program, such as how often a maximum occurs. forward: the charges of the program."""
        left = Counter[tuple[object, ...]]()
        for one in forward:
            left[_moved(one)] += one.times or 1
        lines = {one.equation.line for one in forward}
        before = [one for one in self.examined.charges if not self.backward(one)]
        theirs = set[int]()
        for one in sorted(before, key=lambda one: one.equation.line not in lines):
            if left[_moved(one)] >= (one.times or 1):
                left[_moved(one)] -= one.times or 1
                theirs.add(id(one))
        return [one for one in self.examined.charges if id(one) not in theirs]


def _moved(charge: Charge) -> tuple[object, ...]:
    """What one charge says of each of its runs."""
    one = charge.collective
    return one.kind, one.axes, one.payload, str(one.volume), charge.exactness, charge.times is None


def made(
    program: Program, checker: Checker, make: Derive, positions: Sequence[int], printed: bool = True
) -> Made:  # fmt: skip
    """A well-typed program's derived program, with respect to the inputs at these positions, with the names that JAX
    would print. checker: the one that has checked the program. printed: whether it is to be printed; else its names are
    those of its making, and its judgments are those it was made by. Raises `Refused` where there is none."""
    meshes = checker.scope.meshes
    program = typed(checker.body(program, checker.scope))
    bench = Workbench(checker)
    derived = make(program, bench, positions)
    if printed:
        again: Checker = Checker(meshes)
        document = tidy(derived)
        document.mesh = _first_line(meshes)
    else:
        again = Recalling(meshes)
        document, again.scope = Document((), derived), checker.scope
    examined = examine(document.program, again)
    count = None
    if make is transposed:
        count = 0
    elif make in (gradient, vjp):
        held, chosen = len(program.constants), frozenset(positions)
        flags = [index - held in chosen for index in range(held + len(program.inputs))]
        count = size_of(linearize(bench, checker.scope, program, flags).forward)
    return Made(document, examined, tuple(sorted(bench.assumed)), count)


def derive(
    text: str, meshes: Sequence[Mesh], file: str, make: Derive = gradient, wrt: Sequence[str] | None = None
) -> Backward:
    """The derived program of a text, with respect to the inputs that are named: by default to all that can change.
    Raises `UnknownInput`."""
    forward = check_text(text, meshes, file)
    if forward.verdict != "ok":
        return Backward(forward)
    document = read(text)
    given = list(meshes) or meshes_of(document)
    program = document.program
    positions = positions_of(program, wrt)
    checker = Checker(given)
    checker.check(program)
    try:
        found = made(program, checker, make, positions)
    except Refused as refused:
        point(refused.refusal, document, text, make)
        verdict = verdict_on([refused.refusal])
        return Backward(forward, Derived(file, verdict, checker.equations, [refused.refusal], kind=KINDS[make]))
    examined = found.examined
    refusals = counted(examined.refusals)
    for refusal in refusals:
        point(refusal, document, text, make)
    facts = Facts(document)
    rows = [
        row(one, one.equation.line, forward=facts.of(one) if found.backward(one) else "") for one in examined.charges
    ]
    said = notes(examined, lambda sizes: f"give --mesh {sizes}", lambda equation: f"line {equation.line}")
    report = Derived(
        file, verdict_on(refusals), examined.checker.equations, refusals, sorted(rows, key=lambda one: one.line),
        [*said, *found.notes], examined.assumed + len(found.assumed), KINDS[make],
    )  # fmt: skip
    return Backward(forward, report, print_document(found.document))


class Facts:
    """The equations of a document by their place, each with its types."""

    def __init__(self, document: Document) -> None:
        self._found: dict[int, tuple[Equation, Program] | None] = {}
        self._types: dict[int, dict[Variable, Type | None]] = {}
        for program in programs_of(document):
            for equation in program.equations:
                self._found[equation.line] = None if equation.line in self._found else (equation, program)

    def equation(self, line: int) -> Equation | None:
        """The equation at a place; `None` where there are several."""
        found = self._found.get(line)
        return None if found is None else found[0]

    def of(self, charge: Charge) -> str:
        """The equation that a charge of a derived program comes from, in a few words: `reshard f32[4] -> f32[4]{R:X}`;
        nothing where several stand at its place. It is computed again where a rematerialised body has it as it was."""
        derived = charge.equation
        found = self._found.get(derived.line)
        if found is None:
            return ""
        remade = any(label.startswith(("remat", "checkpoint")) for label in charge.inside)
        same = derived.primitive == found[0].primitive and derived.types == found[0].types
        return f"{self._words(*found)}{', again' if remade and same else ''}"

    def _words(self, equation: Equation, program: Program) -> str:
        types = self._types.get(id(program))
        if types is None:
            names, given = (*program.constants, *program.inputs), (*program.constant_types, *program.input_types)
            types = self._types[id(program)] = dict(zip(names, given, strict=True))
            for one in program.equations:
                types.update(zip(one.binders, one.types, strict=True))
        operands = [atom.type if isinstance(atom, Literal) else types.get(atom) for atom in equation.inputs]
        before, after = (", ".join(map(str, filter(None, some))) for some in (operands, equation.types))
        return f"{equation.primitive} {before} -> {after}"


def _first_line(given: Sequence[Mesh]) -> str | None:
    """What the first line of a text says of its meshes; `None` where they cannot be read from there again."""
    written = "; ".join(map(str, given))
    try:
        return written if parse_meshes(written) == list(given) else None
    except Refused:
        return None


def positions_of(program: Program, wrt: Sequence[str] | None) -> list[int]:
    """The positions of the inputs that are named, by default of all that can change. Raises `UnknownInput`."""
    names = {name: position for position, name in enumerate(program.inputs)}
    if wrt is None:
        types = program.input_types
        return [position for position, type in enumerate(types) if type is not None and differentiable(type)]
    unknown = [name for name in wrt if name not in names]
    if unknown:
        said = ", ".join(name or "nothing" for name in unknown)
        raise UnknownInput(f"{said} is no input of the program, whose inputs are {', '.join(names) or 'none'}")
    return list(dict.fromkeys(names[name] for name in wrt))


def point(refusal: Refusal, document: Document, text: str, make: Derive) -> None:
    """Let a refusal of a derived program point at the forward equation that it comes from."""
    refusal.message = f"{within(make)}{refusal.message}"
    if not refusal.line:
        if refusal.place.part in ("input", "output"):
            refusal.line, refusal.column = locate(Source(text), document.program, refusal.place)
        first_line(refusal)
        return
    sites = [one for one in _equations(document) if one.line == refusal.line]
    if sites:
        site = next((one for one in sites if one.primitive in refusal.message.split()), sites[0])
        refusal.line, refusal.column = locate(Source(text), site, Place("primitive"))


def within(make: Derive) -> str:
    """Where a refusal of a derived program comes up."""
    return "in the backward pass: " if make in (gradient, vjp) else ""


def _equations(document: Document) -> list[Equation]:
    return [equation for program in programs_of(document) for equation in program.equations]
