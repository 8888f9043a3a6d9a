"""What a loop does not change is computed before it, as JAX does: whole equations, and the part of a called body that
depends on nothing else. So a gather of what no iteration changes runs once, wherever in the body it stands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from calculus.building import fresh
from calculus.derivatives.rules import types_bound, types_in
from calculus.effects import EFFECTFUL
from calculus.loops import scan_parts, stacked
from calculus.parameters import sequence
from calculus.programs import Atom, Equation, Parameters, Program, Value, Variable, body
from calculus.types import Type

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


def parted(program: Program, fixed: Collection[Variable], outermost: bool = False) -> Parts:
    """A body taken apart. What an equation does beside its results, it does in every iteration. outermost: whether
    types of what is carried may be left to be inferred."""
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
            split = _loop if equation.primitive == "scan" else _call
            first, second = (
                _boundary(equation, known)
                if outermost and equation.primitive == "shard_map"
                else split(equation, known)
            )
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
    fixed = {
        name
        for name, atom in zip(program.inputs, equation.inputs, strict=True)
        if not isinstance(atom, str) or atom in known
    }
    parts = parted(program, fixed)
    if not parts.before:
        return whole
    types = types_in(program) | types_bound((*parts.before, *parts.inside))
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


def _loop(equation: Equation, known: Collection[Variable]) -> tuple[list[Equation], list[Equation]]:
    """A loop as two: one of what is known in every iteration, which stacks what the other needs of it; and before both,
    what no iteration changes."""
    from calculus.derivatives.loops import scan_rows

    whole: tuple[list[Equation], list[Equation]] = ([], [equation])
    program = body(equation.parameters.get("jaxpr"))
    if program is None or program.constants:
        return whole
    held, count = scan_parts(equation.parameters, len(equation.inputs), len(equation.binders))
    names = program.inputs
    operands: dict[Atom, Atom] = dict(zip(names, equation.inputs, strict=True))
    given = [name for name in names if _all_known((operands[name],), known)]
    still = parted(program, [name for name in names[:held] if name in given])
    new: dict[Atom, Variable] = {name: fresh() for one in still.before for name in one.binders}
    outside = [
        Equation(
            one.primitive, one.parameters, tuple(new.get(atom) or operands.get(atom, atom) for atom in one.inputs),
            tuple(new[name] for name in one.binders), one.types, one.line,
        )
        for one in still.before
    ]  # fmt: skip
    types = types_in(program) | types_bound((*still.before, *still.inside))
    bound = (*(name for name in still.carried), *names)
    operands.update((name, new[name]) for name in still.carried)
    inner = Program((), (), bound, tuple(types[name] for name in bound), still.inside, program.outputs)
    fixed = {*given, *still.carried}
    while True:
        parts = parted(inner, fixed)
        done = [
            not isinstance(atom, str) or atom in fixed or any(atom in one.binders for one in parts.before)
            for atom in program.outputs
        ]
        wrong = {name for name, one in zip(names[held : held + count], done, strict=False) if name in fixed and not one}
        if not wrong:
            break
        fixed -= wrong
    types |= types_bound((*parts.before, *parts.inside))
    constants = [*still.carried, *names[:held]]
    carries = names[held : held + count]
    ended = [done[index] and carries[index] in fixed if index < count else done[index] for index in range(len(done))]
    used = {atom for one in parts.inside for atom in one.inputs}
    used.update(atom for atom, one in zip(program.outputs, ended, strict=True) if not one and isinstance(atom, str))
    made = {name for one in parts.before for name in one.binders}
    saved = [name for name in (*carries, *made) if name in used and name in (made | fixed)]
    if not outside and not made:
        return whole
    length = equation.parameters["length"]
    reverse = bool(equation.parameters.get("reverse"))

    def loop(
        one: Sequence[Variable], two: Sequence[Variable], three: Sequence[Variable], equations: Sequence[Equation],
        outputs: Sequence[Atom], binders: Sequence[Variable],
    ) -> Equation:  # fmt: skip
        inputs = (*one, *two, *three)
        made = Program((), (), inputs, tuple(types[name] for name in inputs), tuple(equations), tuple(outputs))
        of = [types[atom] if isinstance(atom, str) else atom.type for atom in outputs]
        bound = [type if index < len(two) or type is None else stacked(type, length) for index, type in enumerate(of)]
        rows = scan_rows(equation.parameters, made, len(one), len(two), reverse)
        atoms = tuple(operands[name] for name in inputs)
        return Equation("scan", rows, atoms, tuple(binders), tuple(bound), equation.line)

    xs = names[held + count :]
    ends = list(zip(equation.binders, program.outputs, ended, strict=True))
    stacks = {name: fresh() for name in saved}
    first = loop(
        [name for name in constants if name in fixed], [name for name in carries if name in fixed],
        [name for name in xs if name in fixed], parts.before,
        [*(atom for _, atom, one in ends[:count] if one), *(atom for _, atom, one in ends[count:] if one), *saved],
        [*(name for name, _, one in ends[:count] if one), *(name for name, _, one in ends[count:] if one),
         *stacks.values()],
    )  # fmt: skip
    if all(ended):
        return [*outside, first], []
    operands.update(stacks)
    second = loop(
        [name for name in constants if name in used], [name for name in carries if name not in fixed],
        [*(name for name in xs if name in used), *saved], parts.inside,
        [atom for _, atom, one in ends if not one], [name for name, _, one in ends if not one],
    )  # fmt: skip
    return [*outside, first], [second]


def _boundary(equation: Equation, known: Collection[Variable]) -> tuple[list[Equation], list[Equation]]:
    """A shard_map as two. What varies crosses on its first dim; a lone number that varies stays, and all with it."""
    from calculus.derivatives.boundaries import crossing

    whole: tuple[list[Equation], list[Equation]] = ([], [equation])
    rows = dict(equation.parameters.items_in_order)
    program = body(rows.get("jaxpr"))
    if program is None or program.constants:
        return whole
    ins, outs = (sequence(rows[name], name) for name in ("in_specs", "out_specs"))
    names = program.inputs
    fixed = {name for name, atom in zip(names, equation.inputs, strict=True) if _all_known((atom,), known)}
    parts = parted(program, fixed)
    types = types_in(program) | types_bound((*parts.before, *parts.inside))
    used = {atom for one in parts.inside for atom in one.inputs}
    made = [name for one in parts.before for name in one.binders]
    done = [not isinstance(atom, str) or atom in fixed or atom in made for atom in program.outputs]
    used.update(atom for atom, one in zip(program.outputs, done, strict=True) if not one and isinstance(atom, str))
    saved = [name for name in made if name in used]
    specs = [crossing(equation, types[name]) for name in saved]
    crossed = [spec for spec in specs if spec is not None]
    if not made or len(crossed) < len(saved):
        return whole
    atoms = dict(zip(names, equation.inputs, strict=True)) | {name: fresh() for name in saved}
    asked = dict(zip(names, ins, strict=True)) | dict(zip(saved, crossed, strict=True))
    ends = list(zip(equation.binders, program.outputs, outs, equation.types, done, strict=True))

    def mapped(
        inputs: Sequence[Variable], equations: Sequence[Equation], outputs: Sequence[Atom], wanted: Sequence[Value],
        binders: Sequence[Variable], bound: Sequence[Type | None],
    ) -> Equation:  # fmt: skip
        made = Program((), (), tuple(inputs), tuple(types[name] for name in inputs), tuple(equations), tuple(outputs))
        said: dict[str, Value] = {
            **rows, "jaxpr": made, "in_specs": tuple(asked[name] for name in inputs), "out_specs": tuple(wanted),
        }  # fmt: skip
        given = tuple(atoms[name] for name in inputs)
        return Equation(
            "shard_map", Parameters(tuple(said.items())), given, tuple(binders), tuple(bound), equation.line
        )

    first = mapped(
        [name for name in names if name in fixed], parts.before,
        [*saved, *(atom for _, atom, _, _, one in ends if one)],
        [*(asked[name] for name in saved), *(spec for _, _, spec, _, one in ends if one)],
        [*(str(atoms[name]) for name in saved), *(name for name, _, _, _, one in ends if one)],
        [*(None for _ in saved), *(type for _, _, _, type, one in ends if one)],
    )  # fmt: skip
    rest = [end for end in ends if not end[4]]
    if not rest:
        return [first], []
    second = mapped(
        [name for name in (*names, *saved) if name in used], parts.inside, [atom for _, atom, _, _, _ in rest],
        [spec for _, _, spec, _, _ in rest], [name for name, _, _, _, _ in rest], [type for _, _, _, type, _ in rest],
    )  # fmt: skip
    return [first], [second]
