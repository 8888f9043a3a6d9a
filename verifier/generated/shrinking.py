"""Make a program smaller that shows something, while it still shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from calculus.programs import Program, Variable
from calculus.types import Type


def shrunk(program: Program, shows: Callable[[Program], bool]) -> Program:
    """The smallest that is found, one change at a time: a result less; an equation less, whose results become inputs;
    no equation or input that nothing uses. Bodies inside stay as they are."""
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(program):
            if _size(smaller) < _size(program) and smaller.outputs and shows(smaller):
                program, changed = smaller, True
                break
    return program


def _size(program: Program) -> tuple[int, int, int]:
    return len(program.equations), len(program.outputs), len(program.inputs)


def _smaller(program: Program) -> Iterator[Program]:
    for position in range(len(program.outputs)):
        if len(program.outputs) > 1:
            yield _made(program, outputs=(*program.outputs[:position], *program.outputs[position + 1 :]))
    for number in reversed(range(len(program.equations))):
        equation = program.equations[number]
        rest = (*program.equations[:number], *program.equations[number + 1 :])
        yield _made(program, rest, dict(zip(equation.binders, equation.types, strict=True)))
    for number, equation in enumerate(program.equations):  # end there
        yield _made(program, program.equations[: number + 1], outputs=equation.binders)


def _made(
    program: Program,
    equations: tuple[object, ...] | None = None,
    given: dict[Variable, Type | None] | None = None,
    outputs: tuple[object, ...] | None = None,
) -> Program:
    """A program with other equations and results, these names among its inputs, and nothing that is not used."""
    ends = program.outputs if outputs is None else outputs
    kept, live = [], {one for one in ends if isinstance(one, str)}
    for equation in reversed(program.equations if equations is None else equations):
        if not live.isdisjoint(equation.binders):  # type: ignore[attr-defined]
            kept.append(equation)
            live.update(one for one in equation.inputs if isinstance(one, str))  # type: ignore[attr-defined]
    types = {**dict(zip(program.inputs, program.input_types, strict=True)), **(given or {})}
    inputs = tuple(name for name in types if name in live)
    return Program((), (), inputs, tuple(types[name] for name in inputs), tuple(reversed(kept)), ends)  # type: ignore[arg-type]
