"""What a loop does not change is computed before it, as JAX does: whole equations, and the part of a called body that
depends on nothing else. So a gather of what no iteration changes runs once, wherever in the body it stands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from calculus.building import fresh
from calculus.derivatives.rules import types_in
from calculus.effects import EFFECTFUL
from calculus.programs import Atom, Equation, Parameters, Program, Value, Variable, body

_CALLS: Final = frozenset({"jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint"})
_BODIES: Final = ("jaxpr", "call_jaxpr")
_SPLIT: Final = frozenset({
    *_BODIES, "name", "ctx_mesh", "inline", "keep_unused", "differentiated", "policy", "prevent_cse",
})  # fmt: skip
"""Parameters of a call that is taken apart: of others it is not said which part they would be about."""


class Parts(NamedTuple):
    """before: the equations that depend on fixed inputs alone. inside: the others. carried: what the others use of the
    former, and results that are among them."""

    before: tuple[Equation, ...]
    inside: tuple[Equation, ...]
    carried: tuple[Variable, ...]


def parted(program: Program, fixed: Collection[Variable]) -> Parts:
    """A body taken apart. What an equation does beside its results, it does in every iteration."""
    known = set(fixed)
    before: list[Equation] = []
    inside: list[Equation] = []
    for equation in program.equations:
        if equation.primitive in EFFECTFUL:
            inside.append(equation)
        elif _all_known(equation.inputs, known):
            before.append(equation)
            known.update(equation.binders)
        else:
            first, second = _call(equation, known)
            before += first
            inside += second
            known.update(binder for one in first for binder in one.binders)
    bound = [binder for equation in before for binder in equation.binders]
    used = {atom for equation in inside for atom in equation.inputs} | set(program.outputs)
    return Parts(tuple(before), tuple(inside), tuple(name for name in bound if name in used))


def _all_known(atoms: Sequence[Atom], known: Collection[Variable]) -> bool:
    return all(not isinstance(atom, str) or atom in known for atom in atoms)


def _call(equation: Equation, known: Collection[Variable]) -> tuple[list[Equation], list[Equation]]:
    """A call as two: of the part that is known, and of the rest, which takes what it needs of the former."""
    whole: tuple[list[Equation], list[Equation]] = ([], [equation])
    rows = dict(equation.parameters.items_in_order)
    key = next((name for name in _BODIES if body(rows.get(name)) is not None), "")
    program = body(rows.get(key))
    if equation.primitive not in _CALLS or program is None or program.constants or not rows.keys() <= _SPLIT:
        return whole
    if rows.get("differentiated"):  # what is computed again is computed where that is
        return whole
    fixed = {
        name
        for name, atom in zip(program.inputs, equation.inputs, strict=True)
        if not isinstance(atom, str) or atom in known
    }
    parts = parted(program, fixed)
    if not parts.before:
        return whole
    types = types_in(program) | types_in(Program((), (), (), (), (*parts.before, *parts.inside), ()))
    names = dict(zip(program.inputs, equation.inputs, strict=True))
    done = [atom in fixed or atom in parts.carried or not isinstance(atom, str) for atom in program.outputs]

    def called(inputs: Sequence[Variable], equations: tuple[Equation, ...], outputs: Sequence[Atom]) -> Program:
        return Program((), (), tuple(inputs), tuple(types[name] for name in inputs), equations, tuple(outputs))

    def call(inputs: Sequence[Atom], program: Program, binders: Sequence[Variable], of: Sequence[Atom]) -> Equation:
        row: dict[str, Value] = {**rows, key: program}
        bound = tuple(types[atom] if isinstance(atom, str) else atom.type for atom in of)
        return Equation(
            equation.primitive, Parameters(tuple(row.items())), tuple(inputs), tuple(binders), bound, equation.line
        )

    first_inputs = [name for name in program.inputs if name in fixed]
    over = {name: fresh() for name in parts.carried}
    first_outputs: list[Atom] = [*over, *(atom for atom, one in zip(program.outputs, done, strict=True) if one)]
    first_binders = [
        *over.values(), *(name for name, one in zip(equation.binders, done, strict=True) if one)
    ]  # fmt: skip
    first = call(
        [names[name] for name in first_inputs],
        called(first_inputs, parts.before, first_outputs), first_binders, first_outputs,
    )  # fmt: skip
    rest = [(name, atom) for name, atom, one in zip(equation.binders, program.outputs, done, strict=True) if not one]
    if not rest:
        return [first], []
    used = {atom for one in parts.inside for atom in one.inputs} | {atom for _, atom in rest}
    second_inputs = [name for name in (*over, *program.inputs) if name in used]
    second = call(
        [over[name] if name in over else names[name] for name in second_inputs],
        called(second_inputs, parts.inside, [atom for _, atom in rest]), [name for name, _ in rest],
        [atom for _, atom in rest],
    )  # fmt: skip
    return [first], [second]
