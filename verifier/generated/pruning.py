"""Take one equation out of a program: at the top its results become inputs, in a body zeros of their types."""

from __future__ import annotations

from collections.abc import Sequence

from calculus.building import Builder, Workbench
from calculus.checking import Checker, Scope
from calculus.meshes import AxisMode, Mesh
from calculus.naming import tidy
from calculus.programs import Braces, Call, Equation, Parameters, Program, Programs, Value, body
from calculus.refusals import Refused
from calculus.types import ArrayType, Type

Path = tuple[tuple[int, int], ...]
"""Where an equation stands: of each equation around it, and then of itself, the number in its body, and the number of
the body that is gone into (0 for itself)."""


def without(program: Program, path: Path, mesh: Mesh) -> Program:
    """The program without the equation that stands there. What is in a body becomes zeros there; where that cannot be,
    the equation around it all goes."""
    if len(path) > 1:
        checker = Checker([mesh])
        try:
            return _zeros(program, path, Workbench(checker), checker.scope)
        except Refused:
            path = path[:1]
    ((at, _),) = path
    gone = program.equations[at]
    return _with_inputs(program, (*program.equations[:at], *program.equations[at + 1 :]), gone)


def _with_inputs(program: Program, equations: Sequence[Equation], gone: Equation) -> Program:
    used = {atom for one in equations for atom in one.inputs} | set(program.outputs)
    given = [(name, type) for name, type in zip(gone.binders, gone.types, strict=True) if name in used]
    names = (*program.inputs, *(name for name, _ in given))
    types: tuple[Type | None, ...] = (*program.input_types, *(type for _, type in given))
    return Program(program.constants, program.constant_types, names, types, tuple(equations), program.outputs)


def _zeros(program: Program, path: Path, bench: Workbench, scope: Scope) -> Program:
    (at, number), *rest = path
    equation = program.equations[at]
    if rest:
        mesh = scope.mesh
        if equation.primitive == "shard_map":
            axes = equation.parameters["newly_manual_axes"]
            assert isinstance(axes, Call)
            (braces,) = axes.arguments
            assert isinstance(braces, Braces)
            mesh = mesh.with_modes(dict.fromkeys(map(str, braces.items), AxisMode.MANUAL), True)
        inner = bench.checker.scope_on(mesh, scope)
        made: list[Equation] = [_exchanged(equation, number, tuple(rest), bench, inner)]
    else:
        builder = Builder(bench, scope)
        for name, type in zip(equation.binders, equation.types, strict=True):
            assert isinstance(type, ArrayType)
            atom = builder.full(0, type)
            builder.items.append(Equation("copy", Parameters(), (atom,), (name,), (type,)))
        made = [*builder.equations]
    equations = (*program.equations[:at], *made, *program.equations[at + 1 :])
    return Program(
        program.constants, program.constant_types, program.inputs, program.input_types, equations, program.outputs
    )


def _exchanged(equation: Equation, number: int, rest: Path, bench: Workbench, scope: Scope) -> Equation:
    """The equation with one of its bodies changed."""
    count = -1
    rows: list[tuple[str, Value]] = []

    def changed(value: Value) -> Value:
        nonlocal count
        inner = body(value)
        if inner is None:
            return value
        count += 1
        return _zeros(inner, rest, bench, scope) if count == number else value

    for key, value in equation.parameters.items_in_order:
        if isinstance(value, Programs):
            rows.append((key, Programs(tuple(changed(one) for one in value.items))))  # type: ignore[misc]
        else:
            rows.append((key, changed(value)))
    return Equation(
        equation.primitive, Parameters(tuple(rows)), equation.inputs, equation.binders, equation.types, equation.line
    )


def distinct(program: Program) -> Program:
    """The program with the names that JAX would print, but that what nothing uses has a name of its own too."""
    count = 0

    def named(one: Program) -> Program:
        nonlocal count
        equations = []
        for equation in one.equations:
            binders = []
            for binder in equation.binders:
                count += binder == "_"
                binders.append(f"_{count}" if binder == "_" else binder)
            rows = tuple((key, inside(value)) for key, value in equation.parameters.items_in_order)
            parameters = Parameters(rows) if any(map(_holds_bodies, equation.parameters.values())) else None
            equations.append(
                Equation(
                    equation.primitive, parameters or equation.parameters, equation.inputs, tuple(binders),
                    equation.types, equation.line,
                )
            )  # fmt: skip
        return Program(one.constants, one.constant_types, one.inputs, one.input_types, tuple(equations), one.outputs)

    def inside(value: Value) -> Value:
        if isinstance(value, Programs):
            return Programs(tuple(inside(one) for one in value.items))  # type: ignore[misc]
        inner = body(value)
        return value if inner is None else named(inner)

    return named(tidy(program).program)


def _holds_bodies(value: Value) -> bool:
    return isinstance(value, Programs) or body(value) is not None
