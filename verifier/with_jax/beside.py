"""Programs in JAX, beside our runs of them: what every device holds of the results, and of the gradients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from calculus.meshes import Mesh
from calculus.programs import Literal, Program
from calculus.refusals import Refused
from calculus.types import ArrayType, Type, same
from verifier.backward_agreement import Comparison, Side
from verifier.cells import Refusal
from verifier.execution.run import Outcome
from verifier.factories import made_by
from verifier.findings import FAILS, GRADIENT, Finding
from verifier.ledger import Entry, ledger
from verifier.ways import BACKWARD, DIFFERENT, EQUAL, FORWARD, LEDGER, NONE, NOT_RUN, Job, Made, Way, executed, made
from verifier.with_jax.blocks import difference
from verifier.with_jax.gradients import flattened, of_constants
from verifier.with_jax.python_values import Unwritten
from verifier.with_jax.running import VERSION, Function, callable_of, inputs_of

SMALL: Final = 1 / 16
"""How much smaller the inputs are where the usual ones tell the sides apart."""


class Beside:
    """Runs programs every way. running: is told what is about to be compiled and run."""

    version = VERSION

    def __init__(self, running: Callable[[Program, Mesh], None] = lambda program, mesh: None) -> None:
        every = ledger()
        self.entries: Sequence[Entry] = [entry for entry in every if VERSION in entry.versions] or every
        self.running = running

    def ways(self, job: Job, seed: int, backward: bool) -> list[Way]:
        """What becomes of a program, each way."""
        checker, each = made(job, backward)
        call = self._function(job, each[0])
        ran = [executed(one, job.meshes, seed, checker) for one in each]
        mesh = job.meshes[0] if job.meshes else Mesh(())
        if job.program is not None:
            self.running(job.program, mesh)
        ways = [way for way, _ in ran]
        for one, (way, outcome) in reversed(list(zip(each, ran, strict=True))):
            if way.way == FORWARD and ways[-1].jax == EQUAL:  # its results stood before the gradients
                way.jax = EQUAL
                continue
            self._beside(way, one, outcome, each[0], call, mesh, seed, job.meshes)
        return ways

    @staticmethod
    def _function(job: Job, forward: Made) -> Callable[[], Callable[..., Any]]:
        """What makes JAX's function of a job, constants first. forward: its program, which takes them first."""
        mesh, others = (job.meshes[0], job.meshes[1:]) if job.meshes else (Mesh(()), ())
        if job.program is not None:
            program = job.program
            return lambda: callable_of(program, mesh, others)
        function, args, kwargs = made_by(job.name)
        flat, arrays = flattened(lambda args, kwargs: function(*args, **kwargs), (args, kwargs))
        assert forward.program is not None
        constants = len(forward.program.inputs) - len(arrays)
        return lambda: of_constants(flat, constants) if constants else flat

    def _beside(
        self, way: Way, one: Made, outcome: Outcome | None, forward: Made, call: Callable[[], Callable[..., Any]],
        mesh: Mesh, seed: int, meshes: Sequence[Mesh],
    ) -> None:  # fmt: skip
        """Ask JAX, and say what it does."""
        assert forward.program is not None
        own = len(forward.program.outputs)
        if not one.wrt and one.way == BACKWARD:
            way.jax = NONE
            return
        started = time.monotonic()
        try:
            inputs = inputs_of(one.program or _seeded(forward.program))
            wrt = one.wrt if one.way == BACKWARD else None
            theirs = Function(call(), mesh, inputs, wrt, len(forward.program.inputs), meshes[1:])
        except Unwritten as error:
            way.jax, way.says = NOT_RUN, str(error)
            return
        except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
            if isinstance(error, Refused) and way.ours == NOT_RUN:  # it is we who cannot hand it to JAX
                way.jax, way.says = NOT_RUN, f"ours: {way.why}"
                return
            self._refused(way, one, forward.program, mesh, _said(error))
            return
        if way.ours == NONE:
            self._judged(way, Side(refusal=Refusal("", way.why)), Side(types=theirs.types), forward.program, mesh)
        elif outcome is None:
            way.jax, way.says = NOT_RUN, f"ours: {way.why}"
        else:
            self._compared(way, one, outcome, theirs, own, seed, meshes)
        way.seconds += time.monotonic() - started

    def _refused(self, way: Way, one: Made, program: Program, mesh: Mesh, refusal: Refusal) -> None:
        if way.ours == NONE:
            way.jax, way.says = NONE, f"{refusal.code}: {refusal.message}"
        elif one.entry:  # it refuses the function, by an entry that its check has found
            self._explained(way, one.entry, f"{refusal.code}: {refusal.message}")
        elif one.refused:
            way.jax, way.says = NOT_RUN, f"it refuses the function, as the check says: {refusal.code}"
        elif one.way == BACKWARD:
            self._judged(way, Side(types=()), Side(refusal=refusal), program, mesh)
        else:
            self._failed(way, program, mesh, refusal)

    def _failed(self, way: Way, program: Program, mesh: Mesh, refusal: Refusal) -> None:
        """JAX traces, compiles or runs it not."""
        finding = Finding(FAILS, f"{refusal.code}: {refusal.message}", program, mesh)
        number = next((entry.number for entry in self.entries if entry.shows(finding)), 0)
        self._explained(way, number, finding.message)

    def _judged(self, way: Way, ours: Side, theirs: Side, program: Program, mesh: Mesh) -> None:
        """Of derivatives of which one side has none, or that have other types."""
        comparison = Comparison("", ours, theirs)
        entry = next((entry.number for entry in self.entries if entry.explains(comparison)), 0)
        refusal = theirs.refusal
        said = f"{refusal.code}: {refusal.message}" if refusal else "JAX has a derivative"
        if refusal and not entry:  # as in a drawn program
            finding = Finding(GRADIENT, f"JAX refuses: {said}", program, mesh)
            entry = next((entry.number for entry in self.entries if entry.shows(finding)), 0)
        self._explained(way, entry, said)

    @staticmethod
    def _explained(way: Way, entry: int, says: str) -> None:
        way.jax, way.entry, way.says = LEDGER if entry else DIFFERENT, entry, says

    def _compared(
        self, way: Way, one: Made, outcome: Outcome, theirs: Function, own: int, seed: int, meshes: Sequence[Mesh]
    ) -> None:
        """Types, and the blocks of every device."""
        assert one.program is not None
        mine = _outputs(one.program)
        for at, (ours, other) in enumerate(zip(mine, theirs.types, strict=True)):
            if ours is not None and not same(ours, other):
                way.jax, way.says = DIFFERENT, f"result {at}: we say {ours}, JAX {other}"
                return
        try:
            said = _apart(theirs, outcome, own)
            if said:  # not where a rounding decides, as where numbers have grown large
                _, again = executed(one, meshes, seed + 1, scale=SMALL)
                said = _apart(theirs, again, own) if again is not None else said
        except Exception as error:  # noqa: BLE001  # whatever JAX raises is its answer
            self._failed(way, one.program, meshes[0] if meshes else Mesh(()), _said(error))
            return
        way.jax, way.says = (DIFFERENT, said) if said else (EQUAL, "")


def _apart(function: Function, outcome: Outcome, own: int) -> str:
    """How the devices of JAX and ours differ. own: how many results are no gradients."""
    ran = function.run([shown.blocks for shown in outcome.inputs])
    for at, (shown, blocks) in enumerate(zip(outcome.results, ran.blocks, strict=True)):
        said = difference(shown, blocks, outcome, gradient=at >= own)
        if said:
            return f"result {at}, {said}"
    return ""


def _outputs(program: Program) -> list[Type | None]:
    types: dict[str, Type | None] = dict(zip(program.inputs, program.input_types, strict=True))
    for equation in program.equations:
        types.update(zip(equation.binders, equation.types, strict=True))
    return [atom.type if isinstance(atom, Literal) else types[atom] for atom in program.outputs]


def _seeded(program: Program) -> Program:
    """A program that takes, after its inputs, a cotangent for each result that has one."""
    from calculus.cotangents import cotangent
    from calculus.linearization import differentiable

    seeds = [cotangent(type) for type in _outputs(program) if isinstance(type, ArrayType) and differentiable(type)]
    names = [f"cotangent{at}" for at in range(len(seeds))]
    types = (*program.input_types, *seeds)
    return Program((), (), (*program.inputs, *names), types, program.equations, program.outputs)


def _said(error: Exception) -> Refusal:
    return Refusal(type(error).__name__, " ".join(str(error).partition("\n---")[0].split())[:400])
