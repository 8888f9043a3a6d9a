"""Linear programs at inputs that vary over more axes: what devices that go different ways compute of a value, each its
own part. What was the same on every device was cast where it met what varies; now it is cast before the program, and
where it was cast in the program nothing is done. Its cotangents leave the program as they are, each device with its
own, and are summed outside, where all devices are (seeds A42, A46)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.adjoints import unwritten
from calculus.bodies import program_of
from calculus.building import Builder, Workbench
from calculus.checking import Scope
from calculus.derivatives.rules import closed, results_of, types_in
from calculus.forms import context
from calculus.loops import scan_parts, stacked
from calculus.parameters import names
from calculus.primitives import TABLE
from calculus.programs import Atom, Equation, Program, Programs, Variable, body
from calculus.types import ArrayType, Axes, Type, array_type, same

_CASTS: Final = {"N": "pvary", "R": "reduced_vary_cast"}


def castable(type: Type, axes: Axes) -> Axes:
    """The axes among these over which a value does not vary, and over which it can be cast to vary, free."""
    if not isinstance(type, ArrayType):
        return ()
    return tuple(axis for axis in axes if type.state(axis) in _CASTS)


def at(type: Type, axes: Axes) -> Type:
    """A type that varies over these axes too, where a cast takes a value there."""
    over = castable(type, axes)
    if not over:
        return type
    assert isinstance(type, ArrayType)
    reduced = tuple(axis for axis in type.reduced if axis not in over)
    return array_type(
        type.dtype, type.shape, type.axes, (*type.varying, *over), type.unreduced, reduced, type.kind, type.memory,
        weak=type.weak,
    )  # fmt: skip


def cast(builder: Builder, atom: Atom, axes: Axes) -> Atom:
    """A value that varies over these axes too, where it can."""
    type = builder.type_of(atom)
    for state, name in _CASTS.items():
        over = tuple(axis for axis in castable(type, axes) if isinstance(type, ArrayType) and type.state(axis) == state)
        if over:
            atom = builder.one(name, (atom,), {"axes": over})
    return atom


def varied(
    bench: Workbench, scope: Scope, program: Program, inputs: Sequence[bool], axes: Axes, outputs: Sequence[bool] = ()
) -> Program:
    """A program of which these inputs vary over these axes too, and what depends on them; and these results besides.
    Refuses what has no type so: a collective over one of the axes, a pending sum beside what varies."""
    key = scope, tuple(inputs), axes, tuple(outputs)
    return bench.once("varied", program, key, lambda: _Walk(bench, scope, axes).program(program, inputs, outputs))


class _Walk:
    """One body. axes: those over which its inputs are to vary."""

    def __init__(self, bench: Workbench, scope: Scope, axes: Axes) -> None:
        self.bench = bench
        self.scope = scope
        self.axes = axes
        self.builder = Builder(bench, scope)

    def program(self, program: Program, inputs: Sequence[bool], outputs: Sequence[bool]) -> Program:
        """The body at inputs of which these vary; of its results, these do besides."""
        if program.constants:
            raise unwritten("a body that carries constants along, at operands that vary,", "derivative")
        before = types_in(program)
        known: dict[Variable, Variable] = {}
        for name, flows in zip(program.inputs, inputs, strict=True):
            known[name] = self.builder.input(at(before[name], self.axes) if flows else before[name])
        bound = tuple(known.values())
        for equation in program.equations:
            self.builder.line = equation.line
            atoms = [known[atom] if isinstance(atom, str) else atom for atom in equation.inputs]
            grown = [
                isinstance(atom, str) and not same(before[atom], self.builder.type_of(known[atom]))
                for atom in equation.inputs
            ]
            made = (
                self.equation(equation, atoms, grown)
                if any(grown)
                else self.builder.emit(equation.primitive, atoms, equation.parameters, equation.types)
            )
            known.update(zip(equation.binders, made, strict=True))
        ends: list[Atom] = [known[atom] if isinstance(atom, str) else atom for atom in program.outputs]
        for position, flows in enumerate(outputs):
            ends[position] = cast(self.builder, ends[position], self.axes) if flows else ends[position]
        return self.builder.program(bound, ends)

    def equation(self, equation: Equation, atoms: Sequence[Atom], grown: Sequence[bool]) -> Sequence[Variable]:
        """The results of an equation on these values, of which some vary over more than they did."""
        name, rows, types = equation.primitive, equation.parameters, equation.types
        if name in _CASTS.values():
            (atom,) = atoms
            type = self.builder.type_of(atom)
            assert isinstance(type, ArrayType)
            left = tuple(axis for axis in names(rows["axes"], "axes") if axis not in type.varying)
            found = self.builder.one(name, (atom,), {"axes": left}) if left else atom
            assert isinstance(found, str)
            return (found,)
        if name in _BODIES_OF:
            return _BODIES_OF[name](self, equation, atoms, grown)
        if name in TABLE:
            atoms = [cast(self.builder, atom, self.axes) for atom in atoms]
            grown = (True,) * len(types)
        elif len(atoms) != len(types):
            raise unwritten(f"{name} at operands that vary", "derivative")
        wanted = [
            at(type, self.axes) if more and type is not None else type for type, more in zip(types, grown, strict=True)
        ]
        return self.builder.emit(name, atoms, rows, wanted)

    def call(self, equation: Equation, atoms: Sequence[Atom], grown: Sequence[bool]) -> Sequence[Variable]:
        """A call of the body at these operands."""
        program, key = closed(equation, "jaxpr", "call_jaxpr")
        scope = self.builder.checker.scope_on(context(equation, self.scope), self.scope)
        found = varied(self.bench, scope, program, grown, self.axes)
        rows = dict(equation.parameters.items_in_order) | {key: found}
        return self.builder.emit(equation.primitive, atoms, rows, results_of(found))

    def rule(self, equation: Equation, atoms: Sequence[Atom], grown: Sequence[bool]) -> Sequence[Variable]:
        """A rule of one's own, from values and cotangents: cotangents that vary come, and leave."""
        back = program_of(equation, "bwd")
        held = len(back.inputs) - len(equation.types)
        flags = (*grown[:held], *(True,) * len(equation.types))
        found = varied(self.bench, self.scope, back, flags, self.axes, (True,) * len(back.outputs))
        rows = dict(equation.parameters.items_in_order) | {"bwd": found}
        tangents = [cast(self.builder, atom, self.axes) for atom in atoms[held:]]
        wanted = [at(type, self.axes) for type in equation.types if type is not None]
        return self.builder.emit(equation.primitive, [*atoms[:held], *tangents], rows, wanted)

    def cond(self, equation: Equation, atoms: Sequence[Atom], grown: Sequence[bool]) -> Sequence[Variable]:
        """A choice between branches at these operands; a result that varies after one of them varies after all."""
        value = equation.parameters["branches"]
        items = value.items if isinstance(value, Programs) else (value,)
        branches = [program for item in items if (program := body(item)) is not None]
        outputs = (False,) * len(equation.types)
        for branch in branches:
            found = varied(self.bench, self.scope, branch, grown[1:], self.axes)
            outputs = tuple(one or more for one, more in zip(outputs, _grown(branch, found), strict=True))
        made = [varied(self.bench, self.scope, branch, grown[1:], self.axes, outputs) for branch in branches]
        rows = dict(equation.parameters.items_in_order) | {"branches": Programs(tuple(made))}
        return self.builder.emit("cond", atoms, rows, results_of(made[0]))

    def scan(self, equation: Equation, atoms: Sequence[Atom], grown: Sequence[bool]) -> Sequence[Variable]:
        """A loop at these operands; a carry that comes to vary does from the start."""
        program, _ = closed(equation, "jaxpr")
        held, count = scan_parts(equation.parameters, len(atoms), len(equation.types))
        flags = [*grown]
        while True:
            carries = (*flags[held : held + count], *(False,) * (len(program.outputs) - count))
            found = varied(self.bench, self.scope, program, flags, self.axes, carries)
            after = [one or more for one, more in zip(carries[:count], _grown(program, found), strict=False)]
            if after == flags[held : held + count]:
                break
            flags[held : held + count] = after
        atoms = [
            cast(self.builder, atom, self.axes) if flows else atom for atom, flows in zip(atoms, flags, strict=True)
        ]
        types = results_of(found)
        length = equation.parameters["length"]
        rows = dict(equation.parameters.items_in_order) | {"jaxpr": found}
        wanted = [*types[:count], *(stacked(type, length) for type in types[count:])]
        return self.builder.emit("scan", atoms, rows, wanted)


def _grown(before: Program, after: Program) -> list[bool]:
    """Which results of a body have another type than before: they vary over more."""
    return [not same(one, other) for one, other in zip(results_of(before), results_of(after), strict=True)]


_BODIES_OF: Final = {
    **dict.fromkeys(
        ("jit", "pjit", "closed_call", "core_call", "compute_on", "remat", "remat2", "checkpoint"), _Walk.call
    ),
    "custom_lin": _Walk.rule,
    "cond": _Walk.cond,
    "scan": _Walk.scan,
}
