"""Make a program smaller that shows something, while it still shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from calculus.meshes import Mesh
from calculus.programs import Atom, Equation, Literal, Parameters, Program, Programs, Value, Variable, body
from calculus.types import Type
from verifier.generated.pruning import Path, without


def shrunk(program: Program, shows: Callable[[Program], bool], mesh: Mesh | None = None) -> Program:
    """The smallest that is found, one change at a time: a result less; equations less, many first, whose results become
    inputs; no equation or input that nothing uses, unless it takes them to show it. With a mesh, an equation of a body
    becomes zeros too; without one, bodies inside stay as they are."""
    seen: set[Program] = set()
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(program, mesh):
            if smaller in seen or not smaller.outputs or not _size(smaller) < _size(program):
                continue
            seen.add(smaller)
            if shows(smaller):
                program, changed = smaller, True
                break
    return program


def _size(program: Program) -> tuple[int, int, int]:
    return _weight(program), len(program.outputs), len(program.inputs)


def _weight(program: Program) -> int:
    """How many equations there are, in bodies too; zeros weigh nothing."""
    return sum(
        (not _zeros(equation)) + sum(_weight(inner) for inner in _bodies(equation)) for equation in program.equations
    )


def _zeros(equation: Equation) -> bool:
    written = equation.primitive == "broadcast_in_dim" and isinstance(equation.inputs[0], Literal)
    return written or equation.primitive in ("copy", "pvary", "preduced")


def _bodies(equation: Equation) -> Iterator[Program]:
    for _, value in equation.parameters.items_in_order:
        for item in value.items if isinstance(value, Programs) else (value,):
            inner = body(item)
            if inner is not None:
                yield inner


def _smaller(program: Program, mesh: Mesh | None) -> Iterator[Program]:
    count = len(program.equations)
    yield _made(program)
    if len(program.outputs) > 1:
        for end in program.outputs:
            yield _made(program, outputs=(end,))
    several = count // 2
    while several > 1:
        for start in range(0, count, several):
            yield _apart(program, range(start, min(start + several, count)))
        several //= 2
    for position in range(len(program.outputs)):
        if len(program.outputs) > 1:
            yield _made(program, outputs=(*program.outputs[:position], *program.outputs[position + 1 :]))
    for number in reversed(range(count)):
        yield _apart(program, range(number, number + 1))
    for number, equation in enumerate(program.equations):  # end there
        yield _made(program, program.equations[: number + 1], outputs=equation.binders)
    if mesh is not None:
        for path in _paths(program):
            if len(path) > 1:
                made = without(program, path, mesh)
                yield Program(
                    made.constants, made.constant_types, made.inputs, made.input_types,
                    tuple(map(_pruned, made.equations)), made.outputs,
                )  # fmt: skip
    live = {atom for one in program.equations for atom in one.inputs} | set(program.outputs)
    if not live.issuperset(program.inputs):
        yield _made(program, unused=True, inputs=tuple(name for name in program.inputs if name in live))
    for number in reversed(range(count)):  # what nothing uses stays
        yield _apart(program, range(number, number + 1), unused=True)


def _apart(program: Program, gone: range, unused: bool = False) -> Program:
    """The program without some of its equations."""
    left = [one for number, one in enumerate(program.equations) if number not in gone]
    given = {
        name: type
        for number in gone
        for name, type in zip(program.equations[number].binders, program.equations[number].types, strict=True)
    }
    return _made(program, tuple(left), given, unused=unused)


def _paths(program: Program, around: Path = ()) -> Iterator[Path]:
    """Where every equation stands that is no zero, those around others first."""
    for at, equation in enumerate(program.equations):
        if not _zeros(equation):
            yield (*around, (at, 0))
        for number, inner in enumerate(_bodies(equation)):
            yield from _paths(inner, (*around, (at, number)))


def _pruned(equation: Equation) -> Equation:
    """The equation, in whose bodies nothing is left that nothing uses."""
    rows = []
    for key, value in equation.parameters.items_in_order:
        if isinstance(value, Programs):
            rows.append((key, Programs(tuple(_live(one) for one in value.items))))  # type: ignore[misc]
        else:
            rows.append((key, _live(value)))  # type: ignore[arg-type]
    if not any(True for _ in _bodies(equation)):
        return equation
    return Equation(
        equation.primitive, Parameters(tuple(rows)), equation.inputs, equation.binders, equation.types, equation.line
    )


def _live(value: Value) -> Value:
    inner = body(value)
    if inner is None:
        return value
    kept, live = [], {one for one in inner.outputs if isinstance(one, str)}
    for equation in reversed(inner.equations):
        if not live.isdisjoint(equation.binders):
            kept.append(_pruned(equation))
            live.update(one for one in equation.inputs if isinstance(one, str))
    return Program(
        inner.constants, inner.constant_types, inner.inputs, inner.input_types, tuple(reversed(kept)), inner.outputs
    )


def _made(
    program: Program, equations: Sequence[Equation] | None = None, given: Mapping[Variable, Type | None] | None = None,
    outputs: tuple[Atom, ...] | None = None, unused: bool = False, inputs: tuple[Variable, ...] | None = None,
) -> Program:  # fmt: skip
    """A program with other equations and results, these names among its inputs, and, but for `unused`, nothing that is
    not used."""
    ends = program.outputs if outputs is None else outputs
    kept: list[Equation] = []
    live = {one for one in ends if isinstance(one, str)}
    for equation in reversed(program.equations if equations is None else equations):
        if unused or not live.isdisjoint(equation.binders):
            kept.append(equation)
            live.update(one for one in equation.inputs if isinstance(one, str))
    types = {**dict(zip(program.inputs, program.input_types, strict=True)), **(given or {})}
    names = tuple(name for name in types if name in live or (unused and inputs is None and name not in (given or {})))
    names = names if inputs is None else inputs
    return Program((), (), names, tuple(types[name] for name in names), tuple(reversed(kept)), ends)
