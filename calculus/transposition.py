"""Transposition: of a linear program, the program from cotangents of its results to cotangents of its inputs.

Walk the linear equations backward. A value that is used in several places gets the sum of what comes from each
(`add_any`): the summands always agree in type, because the type of a cotangent is a function of the primal's
(statement A11). A cotangent that nothing contributes to is a symbolic zero, no value at all; where a value is wanted it
is zeros at the one type that a cotangent there has (A12). What does not depend on the linear inputs is computed as it
stands, before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from calculus.adjoints import adjoint, unwritten
from calculus.building import Builder, Workbench, about
from calculus.checking import Scope
from calculus.cotangents import cotangent
from calculus.evaluation import Evaluation, Use, met, named
from calculus.linearization import differentiable
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.programs import Atom, Equation, Literal, Program, Variable
from calculus.refusals import Refused
from calculus.types import ArrayType, Type


class Transposed(NamedTuple):
    """program: from the inputs that are not linear, and the cotangents of the results that have one, to the cotangents
    of the linear inputs that have one. nonzero: of the linear inputs, which those are."""

    program: Program
    nonzero: tuple[bool, ...]


class Transposer:
    """One walk. builder: the transposed program in the making. linear: the names that depend on the linear inputs."""

    def __init__(self, bench: Workbench, scope: Scope, builder: Builder | None = None) -> None:
        self.bench = bench
        self.scope = scope
        self.builder = builder or Builder(bench, scope)
        self.linear: set[Variable] = set()
        self.cotangents: dict[Variable, Atom] = {}

    def walk(self, program: Program, linear: Sequence[Variable], flowing: Sequence[Atom | None]) -> None:
        """Transpose a program: `flowing` are the cotangents of its results, `None` where zero. What comes to the inputs
        is in `cotangents`. Names of inputs that are not linear, and their types, are the builder's already."""
        builder = self.builder
        self.linear.update(linear)
        for equation in program.equations:
            if self.linear.isdisjoint(equation.inputs):
                builder.line = equation.line
                builder.again(equation)
            else:
                self.linear.update(equation.binders)
        for equation in program.equations:  # the types of what is never computed are known all the same
            if not self.linear.isdisjoint(equation.binders):
                builder.types.update(zip(equation.binders, equation.types, strict=True))  # type: ignore[arg-type]
        for atom, ct in zip(program.outputs, flowing, strict=True):
            if ct is not None:
                self.add(atom, ct)
        for equation in reversed(program.equations):
            if self.linear.isdisjoint(equation.binders):
                continue
            cts = [self.cotangents.pop(binder, None) for binder in equation.binders]
            if cts.count(None) == len(cts):
                continue
            builder.line = equation.line
            try:
                self.pull(equation, cts)
            except Refused as refused:
                refused.refusal.line = refused.refusal.line or equation.line
                raise

    def add(self, atom: Atom, ct: Atom | None) -> None:
        """Add to the cotangent of a value, if it is linear."""
        if ct is None or isinstance(atom, Literal) or atom not in self.linear:
            return
        self._sum(atom, self.builder.at(ct, cotangent(self.builder.type_of(atom))))

    def _sum(self, atom: Variable, ct: Atom) -> None:
        before = self.cotangents.get(atom)
        self.cotangents[atom] = ct if before is None else self.builder.one("add_any", (before, ct))

    def pull(self, equation: Equation, cts: Sequence[Atom | None]) -> None:
        """Bring the cotangents of an equation's results to its operands. What was derived of an equation like it is not
        derived again."""
        builder, linear = self.builder, self.linear
        types, type_of = builder.types, builder.type_of
        key = (
            "transposed", self.scope, equation.primitive, equation.parameters, equation.types,
            *[
                (types.get(atom) or type_of(atom), atom in linear) if isinstance(atom, str) else atom
                for atom in equation.inputs
            ],
            *[(types.get(ct) or type_of(ct)) if isinstance(ct, str) else ct for ct in cts],
        )  # fmt: skip
        names = (*equation.inputs, *[ct for ct in cts if ct is not None])
        piece = self.bench.pieces.get(key)
        if piece is not None:
            new = dict(zip(piece.names, names, strict=True))
            builder.copy(piece.known, new, piece.line)
            came = [None if ct is None else new.get(ct, ct) for ct in piece.results]
        else:
            before = len(builder.equations)
            walk = Transposer(self.bench, self.scope, builder)
            walk.linear = linear
            walk.derived(equation, cts)
            came = [None if isinstance(atom, Literal) else walk.cotangents.pop(atom, None) for atom in equation.inputs]
            self.bench.remember(key, names, builder.equations[before:], (), came, equation.line)
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
