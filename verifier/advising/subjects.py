"""What advice is asked about: a printed program, or a function by name, as a program with the words for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from calculus.checking import Checker
from calculus.linearization import differentiable, floating
from calculus.meshes import Mesh
from calculus.programs import Program
from calculus.typed import typed
from calculus.types import ArrayType, Type
from verifier.advising.microbatches import repeated
from verifier.backward import UnknownInput

if TYPE_CHECKING:
    from verifier.functions import FunctionReport


Again: TypeAlias = "Callable[[Mapping[str, ArrayType]], FunctionReport]"


@dataclass(frozen=True, slots=True)
class Subject:
    """name: as it was asked for. program: well typed. inputs: what people call its inputs, constants aside. wrt: those
    that it is differentiated in; none where it is a whole step. where: the words for an equation's place.
    named: whether values have names that people see. microbatches: how often it is run, in a loop around it.
    transposed: whether JAX has made the equation on a line by transposing
    another. again: traces the function of its author at other types of its inputs; raises what JAX raises."""

    name: str
    program: Program
    meshes: tuple[Mesh, ...]
    inputs: tuple[str, ...]
    wrt: tuple[int, ...]
    where: Callable[[int], str]
    named: bool = True
    microbatches: int = 1
    again: Again | None = None
    transposed: Callable[[int], bool] = lambda line: False

    def results(self, program: Program) -> tuple[Type, ...]:
        """The types of a program's results."""
        return Checker(self.meshes).check(program).types  # type: ignore[return-value]


def of_text(
    name: str, text: str, meshes: Sequence[Mesh], wrt: Sequence[str] | None, step: bool, microbatches: int
) -> Subject:  # fmt: skip
    """Of a well-typed text. wrt: the inputs to differentiate in, by name; where none is named, all floating ones where
    the program's result is one floating number. step: whether it is a whole step whatever its result. Raises
    `UnknownInput`."""
    from grammar.read import read
    from verifier.texts import meshes_of

    document = read(text)
    given = tuple(meshes) or tuple(meshes_of(document))
    checker = Checker(given)
    checked = checker.check(document.program)
    program = typed(checked)
    names = {name: position for position, name in enumerate(program.inputs)}
    unknown = [one for one in wrt or () if one not in names]
    if unknown:
        raise UnknownInput(f"{', '.join(unknown)} is no input of the program, whose inputs are {', '.join(names)}")
    if wrt is not None:
        chosen = [names[one] for one in wrt]
    else:
        lone = not step and is_loss(checked.types)
        chosen = list(floating(program.input_types)) if lone else []
    program = repeated(program, microbatches, chosen) if microbatches > 1 else program
    return Subject(
        name, program, given, program.inputs, tuple(chosen), lambda line: f"line {line}" if line else "at the end",
        microbatches=microbatches,
    )  # fmt: skip


def of_function(
    name: str, report: FunctionReport, wrt: Sequence[int | str] | None, step: bool, microbatches: int,
    again: Again | None = None,
) -> Subject:  # fmt: skip
    """Of a function whose report is `ok`: differentiated as `FunctionReport.backward` does it, where its result is one
    floating number or inputs are named. Raises `UnknownInput`."""
    from verifier.function_backward import chosen

    source = report.source
    assert source is not None
    checked = source.checker.body(source.program, source.checker.scope)
    loss = wrt is not None or (not step and is_loss(checked.types))
    positions = chosen(source, wrt) if loss else []
    program = typed(checked)
    program = repeated(program, microbatches, positions) if microbatches > 1 else program

    lines = source.lines

    def where(line: int) -> str:
        user = lines.at(line)[0].user if line > 0 else None
        return str(user) if user is not None else "at the end" if not line else "inside a library"

    return Subject(
        name,
        program,
        source.meshes,
        source.inputs,
        tuple(positions),
        where,
        False,
        microbatches,
        again,
        lines.transposed,
    )


def is_loss(types: Sequence[object]) -> bool:
    """Whether these results are one floating number."""
    return (
        len(types) == 1 and isinstance(types[0], ArrayType) and not types[0].shape and differentiable(types[0])
    )  # fmt: skip
