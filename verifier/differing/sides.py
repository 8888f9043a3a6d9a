"""One of two programs that are compared: a printed program, or a function by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calculus.checking import Checker
from calculus.communication import Collective, move
from calculus.effects import Charge, charges
from calculus.gradients import gradient, vjp
from calculus.linearization import differentiable
from calculus.meshes import Mesh
from calculus.programs import Program
from calculus.typed import typed
from calculus.types import ArrayType, Type
from verifier.advising.subjects import is_loss
from verifier.backward import made
from verifier.differing.replacing import replaced

if TYPE_CHECKING:
    from verifier.functions import FunctionReport


@dataclass(frozen=True, slots=True)
class Side:
    """name: as it was asked for. program: well typed. charges: what it communicates. inputs, outputs: what people call
    them, with their types. where: the words for an equation's place. forward: the program as it was given, checker:
    that has checked it, called: what people call its inputs; of a gradient too."""

    name: str
    program: Program
    mesh: Mesh
    charges: list[Charge]
    inputs: tuple[tuple[str, Type | None], ...]
    outputs: tuple[tuple[str, Type | None], ...]
    where: Callable[[int], str]
    forward: Program
    checker: Checker
    called: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stuck:
    """A result that is to be an input of the next step, and whose cast to that input's type is not free."""

    output: str
    type: Type
    input: str
    wanted: Type
    moved: tuple[Collective, ...]


def of_text(name: str, text: str, meshes: Sequence[Mesh], backward: bool) -> Side:
    """Of a well-typed text; or, with `backward`, of its gradient or vjp. Raises `Refused` where there is none."""
    from grammar.read import read
    from verifier.texts import meshes_of

    document = read(text)
    given = list(meshes) or meshes_of(document)
    checker = Checker(given)
    program = typed(checker.check(document.program))
    wrt = [at for at, type in enumerate(program.input_types) if type is not None and differentiable(type)]
    outputs = [str(atom) for atom in program.outputs]
    return _side(
        name, program, checker, wrt if backward else None, program.inputs, outputs, lambda line: f"line {line}"
    )  # fmt: skip


def of_function(name: str, report: FunctionReport, backward: bool) -> Side:
    """Of a function whose report is `ok`; or of its gradient or vjp, with respect to its first argument."""
    from verifier.function_backward import chosen

    source = report.source
    assert source is not None
    lines = source.lines

    def where(line: int) -> str:
        user = lines.at(line)[0].user if line > 0 else None
        return "inside a library" if user is None else str(user)

    wrt = chosen(source, None) if backward else None
    checked = source.checker.body(source.program, source.checker.scope)
    return _side(name, typed(checked), source.checker, wrt, source.inputs, source.outputs, where)


def _side(
    name: str, program: Program, checker: Checker, wrt: Sequence[int] | None, inputs: Sequence[str],
    outputs: Sequence[str], where: Callable[[int], str],
) -> Side:  # fmt: skip
    forward, called = program, tuple(inputs)
    if wrt is not None:
        checked = checker.body(program, checker.scope)
        make = gradient if is_loss(checked.types) else vjp
        program = made(program, checker, make, wrt).document.program
        outputs = [f"result {number}" for number in range(len(program.outputs))]
        inputs = [*inputs, *program.inputs[len(inputs) :]]
    fresh = Checker(checker.scope.meshes)
    checked = fresh.check(program)
    types = [type if isinstance(type, ArrayType) else None for type in checked.types]
    return Side(
        name, program, fresh.scope.mesh, charges(checked),
        tuple(zip(inputs, program.input_types, strict=True)), tuple(zip(outputs, types, strict=True)), where,
        forward, checker, called,
    )  # fmt: skip


def stuck(side: Side) -> list[Stuck]:
    """The results of a training step that go into the next one, and cannot be cast back to the types of what they
    replace for free (`verifier.differing.replacing`)."""
    found: list[Stuck] = []
    for at, position in replaced(side.program, [name for name, _ in side.inputs], [name for name, _ in side.outputs]):
        (output, type), (name, wanted) = side.outputs[at], side.inputs[position]
        if isinstance(type, ArrayType) and isinstance(wanted, ArrayType) and type is not wanted:
            moved = move(type, wanted, side.mesh)
            if moved:
                found.append(Stuck(output, type, name, wanted, moved))
    return found
