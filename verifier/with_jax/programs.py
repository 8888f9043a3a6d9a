"""One program through every engine: the checker, the reference executor, JAX's types, and JAX's devices."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.cotangents import cotangent
from calculus.gradients import vjp
from calculus.linearization import differentiable, floating
from calculus.meshes import Mesh
from calculus.naming import tidy
from calculus.programs import Equation, Literal, Program
from calculus.refusals import Refused
from calculus.types import ArrayType, Type, same
from verifier.backward_agreement import Comparison, Side
from verifier.cells import Cell, Refusal, Verdict
from verifier.equation_cells import cell_of
from verifier.execution.run import Outcome, run
from verifier.findings import (
    EXECUTOR,
    FAILS,
    GRADIENT,
    VALUES,
    VERDICT,
    Compared,
    Finding,
    arrays,
    modes_of,
    uses,
)
from verifier.generated import MANY_MESHES, drawn
from verifier.generated.growing import Grown, Miss
from verifier.generated.pruning import distinct, without
from verifier.generated.shrinking import shrunk
from verifier.ledger import WRONG, Entry, ledger
from verifier.patterns import Difference
from verifier.with_jax.blocks import difference
from verifier.with_jax.python import Path, Watched, as_python, bodies_of, mesh_within
from verifier.with_jax.python_values import Unwritten
from verifier.with_jax.running import VERSION, Function, Says, answer, devices_of, first_difference, of_program

MOST_DIFFERENCES = 60
"""The most equations that are taken out of one program."""
MOST_TRIALS = 60
"""The most programs that are tried to make one smaller."""
GUESTS: Final = (0, 1, 2, 2, 3)
"""How many operations of a program come by their sample calls."""
INFINITE: Final = re.compile(r"\b(inf|nan)\b")
"""In what is said of two values: one is infinite, or no number, which pieces of a finite sum may be too."""


def drawn_for(seed: int) -> Grown:
    """The program of a seed, on a mesh of one to three axes, with guests."""
    random = Random(seed)
    return drawn(seed, mesh=random.choice(MANY_MESHES), guests=random.choice(GUESTS))


class Comparing:
    """What comparisons share: the entries of the ledger that speak of this release. running: is told what is about to
    be compiled and run."""

    version = VERSION

    def __init__(self, running: Callable[[Program, Mesh], None] = lambda program, mesh: None) -> None:
        every = ledger()
        self.entries: Sequence[Entry] = [entry for entry in every if VERSION in entry.versions] or every
        self.running = running

    def devices_of(self, platform: str) -> int | str:
        """How many devices of a platform there are; or why there are none."""
        return devices_of(platform)

    def drawn(self, seed: int) -> Compared:
        """Draw a program, and compare it."""
        grown = drawn_for(seed)
        found = self.compared(grown.program, grown.mesh, seed)
        if grown.tally.misses:
            self._missed(Random(seed).choice(grown.tally.misses), found)
        return found

    def _missed(self, miss: Miss, found: Compared) -> None:
        """What JAX says of an equation that we refuse."""
        (equation,) = miss.program.equations
        found.missed = f"{equation.primitive}: {miss.code}"
        where = Watched(((0, 0),), equation, miss.mesh)
        try:
            says = answer(miss.program, miss.mesh)
        except Unwritten as error:
            found.missed, found.unwritten = "", str(error)
            return
        if says.types is None:
            return
        difference = cell_of(
            where.equation, types_of(miss.program), where.mesh, says, Verdict(None, Refusal(miss.code, miss.message))
        )
        entry = next((entry.number for entry in self.entries if entry.covers(difference)), 0)
        finding = Finding(VERDICT, str(difference), miss.program, miss.mesh, difference, entry, found.seed)
        finding.entry = self.entry(finding)
        found.findings.append(finding)

    def compared(self, program: Program, mesh: Mesh, seed: int = 0) -> Compared:
        """Compare. What one side refuses is taken out, so that the rest is compared too."""
        found = Compared(seed, mesh, Counter(uses(program)), modes(program, mesh))
        found.size_one = any(axis.size == 1 for axis in mesh.axes)
        try:
            ours = distinct(program)
            program = self._typed_alike(ours, mesh, found)
            if program is not ours:
                self._alone(ours, mesh, found)
            program = self._running(program, mesh, found)
            self._run(program, mesh, found)
        except Unwritten as error:
            found.unwritten = str(error)
        return found

    @staticmethod
    def _alone(program: Program, mesh: Mesh, found: Compared) -> None:
        """Run what is well typed here, and not in JAX, with its gradient: whole and on devices it is the same."""
        wrt = floating(program.input_types)
        with contextlib.suppress(Refused):
            program = _pulled_back(program, mesh, wrt) if wrt else program
        wrong = [one.message for one in run(program, [mesh], found.seed).problems if not one.unrunnable]
        if wrong and not INFINITE.search(wrong[0]):
            found.findings.append(Finding(EXECUTOR, wrong[0], program, mesh, seed=found.seed))

    # --- types --------------------------------------------------------------------------------------------------------

    def _typed_alike(self, program: Program, mesh: Mesh, found: Compared) -> Program:
        """The program without the equations on which the two sides differ."""
        refusals: Counter[int] = Counter()
        for _ in range(MOST_DIFFERENCES):
            says = first_difference(program, mesh)
            if says is None:
                break
            path = says.where.path
            refusals[path[0][0]] += 1
            if refusals[path[0][0]] > 12:
                path = path[:1]
            else:
                found.findings.append(self._verdict(says, program, found.seed))
            if len(path) == 1:
                refusals = Counter()
            program = without(program, path, mesh)
        return program

    def _running(self, program: Program, mesh: Mesh, found: Compared) -> Program:
        """The program without the equations that are known to go wrong when JAX runs them."""
        for _ in range(MOST_DIFFERENCES):
            finding, path = self._spoilt(program, mesh)
            if finding is None:
                break
            found.findings.append(finding)
            program = without(program, path, mesh)
        return program

    def _spoilt(self, program: Program, mesh: Mesh) -> tuple[Finding | None, Path]:
        for where, cell in self._cells(program, mesh):
            both = (cell, *_transposed(cell))
            entry = next((entry.number for entry in self.entries if any(map(entry.spoils, both))), 0)
            if entry:
                one = alone(where.equation, cell.cell)
                return Finding(FAILS, str(cell), one, where.mesh, cell, entry), where.path
        return None, ()

    def _cells(self, program: Program, mesh: Mesh) -> Iterator[tuple[Watched, Difference]]:
        """Each equation, in bodies too, and its cell, which both sides type alike."""
        for where in as_python(program, mesh, watch=True).watched:
            theirs = Verdict(tuple(type for type in where.equation.types if type is not None))
            yield where, cell_of(where.equation, self._types_at(program, where), where.mesh, theirs)

    def _verdict(self, says: Says, program: Program, seed: int) -> Finding:
        where = says.where
        difference = cell_of(where.equation, self._types_at(program, where), where.mesh, says.verdict)
        entry = next((entry.number for entry in self.entries if entry.covers(difference)), 0)
        one = alone(where.equation, difference.cell)
        finding = Finding(VERDICT, str(difference), one, where.mesh, difference, entry, seed)
        finding.entry = self.entry(finding)
        return finding

    @staticmethod
    def _types_at(program: Program, where: Watched) -> dict[str, Type | None]:
        """The types of the names of the body in which an equation stands."""
        for (at, number), _ in zip(where.path, where.path[1:], strict=False):
            program = bodies_of(program.equations[at])[number]
        return types_of(program)

    # --- runs ---------------------------------------------------------------------------------------------------------

    def _run(self, program: Program, mesh: Mesh, found: Compared) -> None:
        findings = self.runs(program, mesh, found.seed, found)
        for finding in findings:
            self._smaller(finding, found.seed)
        found.findings += findings

    def _smaller(self, finding: Finding, seed: int) -> None:
        """Look for an entry that says how such a thing shows in whatever program, else make the program of a finding
        smaller, and look for one that says in which."""
        finding.entry = finding.entry or next((one.number for one in self.entries if one.shows(finding, True)), 0)
        if finding.entry:
            return
        trials = 0
        last = finding

        def shows(program: Program) -> bool:
            nonlocal trials, last
            trials += 1
            if trials > MOST_TRIALS:
                return False
            try:
                if first_difference(program, finding.mesh) is not None:
                    return False
                again = [one for one in self.runs(program, finding.mesh, seed) if one.shows == finding.shows]
            except Exception:  # noqa: BLE001  # another error is another finding
                return False
            last = again[0] if again else last
            return bool(again)

        shrunk(finding.program, shows, finding.mesh)
        finding.program, finding.message = tidy(last.program).program, last.message
        finding.entry = self.entry(finding)

    def entry(self, finding: Finding) -> int:
        """The entry that covers a finding, 0 where none does."""
        return (
            finding.entry
            or next((one.number for one in self.entries if one.shows(finding)), 0)
            or (self._foreseen(finding) if finding.shows == VALUES else 0)
        )

    def _foreseen(self, finding: Finding) -> int:
        """The entry by which an equation of the program, or its derivative, has other values."""
        wrong = [one for one in self.entries if one.defect in WRONG]
        for _, cell in self._cells(finding.program, finding.mesh):
            for entry in wrong:
                if any(pattern.fits(cell, "") for pattern in entry.equations):
                    return entry.number
        return 0

    def runs(self, program: Program, mesh: Mesh, seed: int, found: Compared | None = None) -> list[Finding]:
        """Run a program that both sides type alike, with its gradient where both have one."""

        def finding(shows: str, message: str) -> list[Finding]:
            return [Finding(shows, message, program, mesh, seed=seed)]

        checker = Checker([mesh])
        checker.check(program)
        if checker.refusals:
            return finding(EXECUTOR, f"no longer well typed: {checker.refusals[0][0].message}")
        wrt = floating(program.input_types)
        ours, theirs, mine, other = program, None, Side(), Side()
        types = checker.check(program).types
        made: Program | None = None
        findings: list[Finding] = []
        if wrt:
            try:
                made = _pulled_back(program, mesh, wrt)
                mine = Side(types=tuple(_outputs(made)), program=made)
            except Refused as refused:
                mine = Side(refusal=Refusal(refused.refusal.code, refused.refusal.message))
            seeds = _seeds(types)
            try:
                theirs = of_program(program, mesh, [*arrays(program.input_types), *seeds], wrt)
                other = Side(types=theirs.types)
            except Unwritten:
                raise
            except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
                other = Side(
                    refusal=Refusal(type(error).__name__, " ".join(str(error).partition("\n---")[0].split())[:400])
                )
            comparison = Comparison("", mine, other)
            if not comparison.agree:
                (one,) = findings = finding(GRADIENT, _gradients(mine, other))
                one.entry = next((entry.number for entry in self.entries if entry.explains(comparison)), 0)
        if made is not None and theirs is not None and not findings:
            ours = made
            if found is not None:
                found.differentiated = True
        else:
            try:
                theirs = of_program(program, mesh, arrays(program.input_types), None)
            except Unwritten:
                raise
            except Exception as error:  # noqa: BLE001
                return [*findings, *finding(FAILS, f"{type(error).__name__}: {error}"[:400])]
        self.running(program, mesh)
        outcome = run(ours, [mesh], seed)
        wrong = [problem.message for problem in outcome.problems if not problem.unrunnable]
        if wrong and INFINITE.search(wrong[0]):
            if found is not None:
                found.unwritten = "sums of pieces that are infinite"
            return findings
        if wrong:
            return [*findings, *finding(EXECUTOR, wrong[0])]
        if outcome.problems:
            if found is not None:
                found.unwritten = outcome.problems[0].message
            return findings
        if found is not None:
            found.moved += sum(line.executed for line in outcome.lines)
        count = len(program.outputs)
        try:
            message = self._apart(theirs, outcome, count, found)
            if message and self._apart(
                theirs, run(ours, [mesh], seed + 1), count, None
            ):  # not where a rounding decides
                findings += finding(VALUES, message)
        except Exception as error:  # noqa: BLE001
            findings += finding(FAILS, f"{type(error).__name__}: {error}"[:400])
        return findings

    @staticmethod
    def _apart(function: Function, outcome: Outcome, results: int, found: Compared | None) -> str:
        """How the devices of JAX and ours differ. results: how many are the program's own; the others are gradients."""
        ran = function.run([shown.blocks for shown in outcome.inputs])
        for index, (shown, blocks) in enumerate(zip(outcome.results, ran.blocks, strict=True)):
            if found is not None:
                found.blocks += len(blocks)
            said = difference(shown, blocks, outcome, gradient=index >= results)
            if said:
                return f"result {index}, {said}"
        return ""


def _gradients(ours: Side, theirs: Side) -> str:
    parts = []
    for who, side in (("we", ours), ("JAX", theirs)):
        if side.refusal is not None:
            parts.append(f"{who} refuse{'s' if who == 'JAX' else ''}: {side.refusal.code}: {side.refusal.message}")
    if not parts:
        parts = [
            f"result {at}: we say {mine}, JAX {other}"
            for at, (mine, other) in enumerate(zip(ours.types, theirs.types, strict=False))
            if not same(mine, other)
        ]
    return "; ".join(parts)


def _seeds(types: Sequence[object]) -> list[ArrayType]:
    found = [type.type if isinstance(type, Literal) else type for type in types]
    return arrays([cotangent(type) for type in found if isinstance(type, ArrayType) and differentiable(type)])


def _pulled_back(program: Program, mesh: Mesh, wrt: Sequence[int]) -> Program:
    """A program with its gradient, as ours derives it. Refuses where it has none."""
    return tidy(vjp(program, Workbench(Checker([mesh])), wrt)).program


def _outputs(program: Program) -> list[Type]:
    types = types_of(program)
    found = [atom.type if isinstance(atom, Literal) else types[atom] for atom in program.outputs]
    return [type for type in found if type is not None]


def types_of(program: Program) -> dict[str, Type | None]:
    """The type of each name of a body."""
    found: dict[str, Type | None] = dict(
        zip((*program.constants, *program.inputs), (*program.constant_types, *program.input_types), strict=True)
    )
    for equation in program.equations:
        found.update(zip(equation.binders, equation.types, strict=True))
    return found


def _transposed(difference: Difference) -> tuple[Difference, ...]:
    """The cell of the transpose of a reshard."""
    target, operands = difference.cell.target, difference.cell.operands
    if difference.call.primitive != "reshard" or target is None:
        return ()
    cell = Cell(tuple(arrays([cotangent(target)])), arrays([cotangent(operands[0])])[0])
    return (Difference(difference.call, difference.mesh, cell, difference.ours, difference.theirs),)


def alone(equation: Equation, cell: Cell) -> Program:
    """A program of one equation."""
    names = [atom for atom in equation.inputs if not isinstance(atom, Literal)]
    kept = dict(zip(names, cell.operands, strict=False))
    return Program((), (), tuple(kept), tuple(kept.values()), (equation,), equation.binders)


def modes(program: Program, mesh: Mesh) -> frozenset[str]:
    """The modes of the meshes around a program and the bodies in it, as words."""
    found, waiting = set(), [(program, mesh)]
    while waiting:
        one, around = waiting.pop()
        found.add(modes_of(around))
        for equation in one.equations:
            inner = mesh_within(equation, around)
            waiting += [(each, inner) for each in bodies_of(equation)]
    return frozenset(found)
