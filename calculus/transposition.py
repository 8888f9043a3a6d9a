"""Transposition: of a linear program, the program from cotangents of its results to cotangents of its inputs.

Walk the linear equations backward. A value that is used in several places gets the sum of what comes from each
(`add_any`): the summands always agree in type, because the type of a cotangent is a function of the primal's
(statement A11). A cotangent that nothing contributes to is a symbolic zero, no value at all; where a value is wanted it
is zeros at the one type that a cotangent there has (A12). What does not depend on the linear inputs is computed as it
stands, before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple, TypeAlias

from calculus.adjoints import adjoint, unwritten
from calculus.building import Builder, Workbench, memory_of
from calculus.checking import Scope
from calculus.cotangents import cotangent
from calculus.evaluation import Evaluation, Use, met, named
from calculus.linearization import differentiable
from calculus.pieces import Made, Unmade, about
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.programs import Atom, Equation, Literal, Program, Variable
from calculus.refusals import Refused
from calculus.repeats import Run, stretches
from calculus.types import ArrayType, Type


class Transposed(NamedTuple):
    """program: from the inputs that are not linear, and the cotangents of the results that have one, to the cotangents
    of the linear inputs that have one. nonzero: of the linear inputs, which those are."""

    program: Program
    nonzero: tuple[bool, ...]


class _Kinds(dict["Atom", object]):
    """What of an operand the transpose of an equation depends on: its type, and whether it is linear; of a literal,
    which it is. To be asked when it is settled which names are linear."""

    def __init__(self, builder: Builder, linear: set[Variable]) -> None:
        super().__init__()
        self._types, self._type_of, self._linear = builder.types, builder.type_of, linear

    def __missing__(self, atom: Atom) -> object:
        type = atom if isinstance(atom, Literal) else self._types.get(atom) or self._type_of(atom)
        found = self[atom] = (type,) if atom in self._linear else type
        return found


class Transposer:
    """One walk. builder: the transposed program in the making. linear: the names that depend on the linear inputs."""

    def __init__(self, bench: Workbench, scope: Scope, builder: Builder | None = None) -> None:
        self.bench = bench
        self.scope = scope
        self.builder = builder or Builder(bench, scope)
        self.linear: set[Variable] = set()
        self.cotangents: dict[Variable, Atom] = {}
        self._all_move: set[tuple[object, ...]] = set()

    def walk(self, program: Program, linear: Sequence[Variable], flowing: Sequence[Atom | None]) -> None:
        """Transpose a program: `flowing` are the cotangents of its results, `None` where zero. What comes to the inputs
        is in `cotangents`. Names of inputs that are not linear, and their types, are the builder's already."""
        self.linear.update(linear)
        moving: list[Run | Equation] = []
        for stretch in stretches(program):
            moving += self._moving_run(stretch) if isinstance(stretch, Run) else self._moving(stretch)
        for atom, ct in zip(program.outputs, flowing, strict=True):
            if ct is not None:
                self.add(atom, ct)
        kinds = _Kinds(self.builder, self.linear)
        for one in reversed(moving):
            if isinstance(one, Run):
                self._run(one, kinds)
            else:
                self._one(one, kinds)

    def _moving(self, equations: Sequence[Equation]) -> list[Equation]:
        """Those of some equations that depend on the linear inputs; the others are computed."""
        builder = self.builder
        apart, join, types = self.linear.isdisjoint, self.linear.add, builder.types
        moving: list[Equation] = []
        for equation in equations:
            if apart(equation.inputs):
                builder.line = equation.line
                builder.again((equation,))
                continue
            moving.append(equation)
            for binder, type in zip(equation.binders, equation.types):  # noqa: B905  # of judged equations
                join(binder)
                types[binder] = type  # type: ignore[assignment]  # known of what is never computed, all the same
        return moving

    def _moving_run(self, run: Run) -> Sequence[Run | Equation]:
        """The same of a run: itself where all of it depends on them."""
        key = run.shape, *map(self.linear.__contains__, run.externals)
        if key in self._all_move:
            self.linear.update(run.binders)
            self.builder.types.update(zip(run.binders, run.shape.types, strict=True))  # type: ignore[arg-type]
            return (run,)
        moving = self._moving(run.equations)
        if len(moving) < len(run.equations):
            return moving
        self._all_move.add(key)
        return (run,)

    def _run(self, run: Run, kinds: _Kinds) -> None:
        """Bring the cotangents of a run's results to what it reads. How is remembered of runs like it."""
        builder, cotangents, shape = self.builder, self.cotangents, run.shape
        cts = [cotangents.pop(run.binders[place], None) for place in shape.results]
        if cts.count(None) == len(cts):
            return
        before = [cotangents.get(atom) for atom in run.externals]
        came = [atom for atom in (*cts, *before) if atom is not None]
        names = (*run.externals, *came)
        twice = len({*names}) < len(names)
        key = (
            "transposed", self.scope.memory, shape, *map(kinds.__getitem__, run.externals),
            *[builder.types.get(ct, ct) for ct in (*cts, *before)],  # type: ignore[arg-type]
            *(map(names.index, came) if twice else ()),
        )  # fmt: skip
        piece = self.bench.piece(key)
        if piece is None:
            cotangents.update((run.binders[place], ct) for place, ct in zip(shape.results, cts, strict=True) if ct)
            made: list[Made] = []
            for equation in reversed(run.equations):
                done = len(builder.items)
                self._one(equation, kinds)
                made.append(Made(equation.line, builder.since(done)))
            self.bench.pieces[key] = Unmade(names, made, [cotangents.get(atom) for atom in run.externals])
            return
        here = [*names, *piece.held]
        builder.lay(piece.known, here, run.line_from_the_end)
        builder.line = run.line(0)
        for atom, place in zip(run.externals, piece.results, strict=True):
            if place is not None:
                cotangents[atom] = here[place]

    def _one(self, equation: Equation, kinds: _Kinds) -> None:
        """Bring the cotangents of an equation's results to its operands."""
        builder, cotangents, types = self.builder, self.cotangents, self.builder.types
        binders = equation.binders
        cts: list[Atom | None]
        if len(binders) == 1:  # nearly all have one result
            one = cotangents.pop(binders[0], None)
            if one is None:
                return
            cts, some = [one], [one]
        else:
            cts = [cotangents.pop(binder, None) for binder in binders]
            some = [ct for ct in cts if ct is not None]
            if not some:
                return
        inputs, line = equation.inputs, equation.line
        key = (
            "transposed", self.scope.memory, equation.primitive, equation.parameters, equation.types,
            *map(kinds.__getitem__, inputs), *[types.get(ct, ct) for ct in cts],  # type: ignore[arg-type]
        )  # fmt: skip
        builder.line = line
        piece = self.bench.piece(key)
        if piece is None:
            try:
                self.pull(equation, cts, key)
            except Refused as refused:
                refused.refusal.line = refused.refusal.line or line
                raise
            return
        here = [*inputs, *some, *piece.held]
        builder.copy(piece.known, here, line)
        for atom, place in zip(inputs, piece.results):  # noqa: B905  # of one equation
            if place is None:
                continue
            if atom in cotangents:
                self._sum(atom, here[place])
            else:
                cotangents[atom] = here[place]  # type: ignore[index]

    def add(self, atom: Atom, ct: Atom | None) -> None:
        """Add to the cotangent of a value, if it is linear."""
        if ct is None or isinstance(atom, Literal) or atom not in self.linear:
            return
        self._sum(atom, self.builder.at(ct, cotangent(self.builder.type_of(atom))))

    def _sum(self, atom: Variable, ct: Atom) -> None:
        before = self.cotangents.get(atom)
        self.cotangents[atom] = ct if before is None else self.builder.one("add_any", (before, ct))

    def pull(self, equation: Equation, cts: Sequence[Atom | None], key: Hashable) -> None:
        """Bring the cotangents of an equation's results to its operands, and remember under `key` how."""
        builder = self.builder
        before = len(builder.items)
        walk = Transposer(self.bench, self.scope, builder)
        walk.linear = self.linear
        walk.derived(equation, cts)
        came = [None if isinstance(atom, Literal) else walk.cotangents.pop(atom, None) for atom in equation.inputs]
        names = (*equation.inputs, *[ct for ct in cts if ct is not None])
        memory = memory_of(self.scope, equation)
        self.bench.remember(key, names, (Made(equation.line, builder.since(before)),), came, memory=memory)
        for atom, ct in zip(equation.inputs, came, strict=True):
            if ct is not None:
                self._sum(atom, ct)  # type: ignore[arg-type]

    def derived(self, equation: Equation, cts: Sequence[Atom | None]) -> None:
        """Bring the cotangents of an equation's results to its operands, by its declaration or its rule."""
        primitive = TABLE.get(equation.primitive)
        if primitive is not None:
            self.table(primitive, equation, cts)
            return
        from calculus.derivatives import FORMS

        form = FORMS.get(equation.primitive)
        if form is None:
            raise unwritten(equation.primitive, "transpose")
        form.transpose(self, equation, cts)

    def table(self, primitive: Primitive, equation: Equation, cts: Sequence[Atom | None]) -> None:
        """An equation of a declared primitive, operand by operand."""
        builder = self.builder
        operands = [atom if isinstance(atom, Literal) else builder.type_of(atom) for atom in equation.inputs]
        results = [type for type in equation.types if isinstance(type, ArrayType)]
        flowing = [
            self.instantiated(ct, binder) if differentiable(type) else None
            for ct, binder, type in zip(cts, equation.binders, results, strict=True)
        ]
        use = Use.kept(self.bench, primitive, equation.parameters, operands, results)
        inputs = [
            atom if type is None else builder.input(type) if atom in self.linear else builder.at(atom, type)
            for atom, type in zip(equation.inputs, met(use, operands, results, beside=True), strict=True)
        ]
        targets = [cotangent(builder.type_of(atom)) for atom in inputs]
        evaluation = Evaluation(lambda: named(use, inputs, flowing), builder, builder, targets)
        for position, atom in enumerate(equation.inputs):
            if isinstance(atom, str) and atom in self.linear:
                builder.line = about(equation.line, position)
                found = adjoint(builder, use, equation.parameters, inputs, position, flowing, evaluation)
                self.add(atom, found)
        builder.line = equation.line

    def instantiated(self, ct: Atom | None, primal: Atom) -> Atom:
        """A cotangent as a value, zero included."""
        if ct is not None:
            return ct
        type = cotangent(self.builder.type_of(primal))
        assert isinstance(type, ArrayType)
        return self.builder.full(0, type)


def transpose(
    bench: Workbench, scope: Scope, program: Program, linear: Sequence[bool], flowing: Sequence[bool],
    instantiate: bool = False,
) -> Transposed:  # fmt: skip
    """A program transposed in the inputs in which it is linear, given the cotangents of the results that have one; done
    once for each body. instantiate: give a cotangent to every linear input, zeros where nothing comes."""
    key = scope, tuple(linear), tuple(flowing), instantiate
    return bench.once(
        "transposed", program, key, lambda: _transposed(bench, scope, program, linear, flowing, instantiate)
    )


def _transposed(
    bench: Workbench, scope: Scope, program: Program, linear: Sequence[bool], flowing: Sequence[bool], instantiate: bool
) -> Transposed:
    walk = Transposer(bench, scope)
    builder = walk.builder
    for name, type in zip(program.inputs, program.input_types, strict=True):
        assert type is not None
        builder.types[name] = type
    known = [name for name, one in zip(program.inputs, linear, strict=True) if not one]
    wanted = [name for name, one in zip(program.inputs, linear, strict=True) if one]
    types = {
        name: type
        for equation in program.equations
        for name, type in zip(equation.binders, equation.types, strict=True)
    }
    types.update(zip(program.inputs, program.input_types, strict=True))
    cts: list[Variable | None] = []
    for atom, flows in zip(program.outputs, flowing, strict=True):
        type = types[atom] if isinstance(atom, str) else atom.type
        assert type is not None
        cts.append(builder.input(cotangent(type)) if flows else None)
    walk.walk(program, wanted, cts)
    found = [walk.cotangents.get(name) for name in wanted]
    if instantiate:
        found = [walk.instantiated(ct, name) for ct, name in zip(found, wanted, strict=True)]
    inputs = (*known, *(ct for ct in cts if ct is not None))
    made = builder.program(inputs, [ct for ct in found if ct is not None])
    return Transposed(made, tuple(ct is not None for ct in found))


Rule: TypeAlias = Callable[[Transposer, Equation, Sequence["Atom | None"]], None]

__all__: Final = ["Rule", "Transposed", "Transposer", "Type", "transpose"]
