"""Linearization: of a program and the inputs to differentiate, the program with its residuals, and the linear program.

Walk the program once. Each equation is emitted as it is; what its tangent is, in terms of the tangents of its operands
and of values that are known, becomes equations of the linear program. Known values that those use are the residuals:
which ones they are follows JAX (a gathered weight is one where its product uses it; of an elementwise function, the
factor that the row in the table computes). A tangent that is zero is no value at all, and nothing is emitted for it.

The tangent of a value has the value's type. Integers, truth values and keys have none (`float0`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from calculus.adjoints import rearranged, unwritten
from calculus.building import Builder, Workbench, memory_of
from calculus.checking import Scope
from calculus.copied import Copied, assembled, items_of
from calculus.cotangents import cotangent
from calculus.differentiable import differentiable, differentiable_inputs, floating
from calculus.evaluation import Evaluation, Use, met, named
from calculus.formulas import ZERO, Formula
from calculus.pieces import Made, Piece, about
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.programs import Atom, Equation, Literal, Program, Variable
from calculus.refusals import Place, Refused, refuse
from calculus.repeats import Run, stretches
from calculus.types import ArrayType, Type


class Linearized(NamedTuple):
    """forward: the program, its results followed by the residuals. residuals: the names of those in `forward`. linear:
    from the residuals and the tangents of the inputs that have one, the tangents of the results that have one. nonzero:
    which results those are."""

    forward: Program
    residuals: tuple[Variable, ...]
    linear: Program
    nonzero: tuple[bool, ...]


MOST_SAVED: Final = 16384
"""The most residuals of one body: a text of n lines may call for 2^n."""

Tangent: TypeAlias = "Atom | None"
"""`None` is zero."""
Pushed: TypeAlias = "tuple[Sequence[Atom], Sequence[Tangent]]"
"""Results of an equation, and their tangents."""


_Value: TypeAlias = "tuple[Atom, Tangent, object]"


class _Values(dict["Atom", "_Value"]):
    """What the names of a program stand for; a literal stands for itself."""

    def __missing__(self, atom: Atom) -> _Value:
        if not isinstance(atom, Literal):
            raise KeyError(atom)
        found = self[atom] = atom, None, atom
        return found


def _come(names: Sequence[Variable], piece: Piece, here: Sequence[Atom], values: _Values) -> None:
    """Let names stand for what comes out of a piece."""
    results, kinds, count = piece.results, piece.kinds, len(names)
    for at, name in enumerate(names):
        first, second = results[at], results[at + count]
        values[name] = here[first], None if second is None else here[second], kinds[at]  # type: ignore[index]


class Linearizer:
    """One walk. known: the program as it is, in the making. linear: what becomes of tangents."""

    def __init__(self, bench: Workbench, scope: Scope, known: Builder | None = None) -> None:
        self.bench = bench
        self.scope = scope
        self.known = known or Builder(bench, scope)
        self.linear = Builder(bench, scope, self.known)

    def walk(self, program: Program, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
        """The results of a program on known values with these tangents, and their tangents."""
        from calculus.derivatives.cells import has_cells, without_cells

        if has_cells(program):
            program = without_cells(self.bench, self.scope, program)
        values = _Values()
        for name, primal, tangent in zip((*program.constants, *program.inputs), primals, tangents, strict=True):
            values[name] = self._value(primal, tangent)
        for one in stretches(program):
            if isinstance(one, Run):
                self._run(one, values)
            else:
                self._each(one, values)
        ends = [(atom, None, None) if isinstance(atom, Literal) else values[atom] for atom in program.outputs]
        return [one for one, _, _ in ends], [one for _, one, _ in ends]

    def _run(self, run: Run, values: _Values) -> None:
        """A run of equations. What was derived of a run like it is not derived again."""
        given = [*map(values.__getitem__, run.externals)]
        key = "linear", self.scope.memory, run.shape, *[kind for _, _, kind in given]
        here = [one for one, _, _ in given]
        here += [one for _, one, _ in given if one is not None]
        names = [run.binders[place] for place in run.shape.results]
        piece = self.bench.piece(key)
        if piece is None:
            made: list[Made] = []
            trusted = self.bench.trusted
            self._each(run.equations, values, made)
            if self.bench.trusted == trusted:  # what is trusted is counted at each use
                results = [values[name] for name in names]
                came = (*[one for one, _, _ in results], *[one for _, one, _ in results])
                self.bench.remember(key, tuple(here), made, came, tuple([kind for _, _, kind in results]))
            return
        here += piece.held
        self.known.lay(piece.known, here, run.line)
        self.linear.lay(piece.linear, here, run.line)
        _come(names, piece, here, values)

    def _each(self, equations: Sequence[Equation], values: _Values, made: list[Made] | None = None) -> None:
        """Equations one by one. made: to be told what each contributes."""
        value, kept, known, linear = values.__getitem__, self.bench.piece, self.known, self.linear
        memory = self.scope.memory
        for equation in equations:
            if "_" in equation.inputs:
                raise refuse(
                    "unmodelled-construct",
                    "the derivative of a program that reads a value called _",
                    because="several values may be called so, and the text does not say which is read",
                    help="give the value a name of its own",
                )
            given = [*map(value, equation.inputs)]
            key = (
                "linear", memory, equation.primitive, equation.parameters, equation.types,
                *[kind for _, _, kind in given],
            )  # fmt: skip
            piece = kept(key)
            line = equation.line
            before = len(known.items), len(linear.items)
            if piece is None:
                known.line = linear.line = line
                try:
                    pushed = self._pushed(equation, [one for one, _, _ in given], [one for _, one, _ in given], key)
                except Refused as refused:
                    refused.refusal.line = refused.refusal.line or line
                    raise
                for binder, primal, tangent in zip(equation.binders, *pushed, strict=True):
                    values[binder] = self._value(primal, tangent)
            else:
                here = [one for one, _, _ in given]
                here += [one for _, one, _ in given if one is not None]
                here += piece.held
                known.copy(piece.known, here, line)
                if piece.linear.steps:
                    linear.copy(piece.linear, here, line)
                _come(equation.binders, piece, here, values)
            if made is not None:
                made.append(Made(line, known.since(before[0]), linear.since(before[1])))

    def push(self, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
        """The results of one equation, and their tangents. What was derived of an equation like it is not derived
        again."""
        key = (
            "linear", self.scope.memory, equation.primitive, equation.parameters, equation.types,
            *[self._value(*pair)[2] for pair in zip(primals, tangents, strict=True)],
        )  # fmt: skip
        piece = self.bench.piece(key)
        if piece is None:
            return self._pushed(equation, primals, tangents, key)
        here = [*primals, *[atom for atom in tangents if atom is not None], *piece.held]
        self.known.copy(piece.known, here, self.known.line)
        self.linear.copy(piece.linear, here, self.linear.line)
        found = [None if place is None else here[place] for place in piece.results]
        count = len(equation.binders)
        return found[:count], found[count:]  # type: ignore[return-value]

    def _value(self, primal: Atom, tangent: Tangent) -> _Value:
        """A value with its tangent, and what of the two an equation's derivation depends on: their types, of a literal
        which it is."""
        kind = primal if isinstance(primal, Literal) else self.known.type_of(primal)
        moving = self.linear.type_of(tangent) if isinstance(tangent, str) else tangent
        return primal, tangent, kind if moving is None else (kind, moving)

    def _pushed(
        self, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent], key: Hashable
    ) -> Pushed:
        """The same, derived, and remembered under `key`."""
        known, linear = self.known, self.linear
        before = len(known.items), len(linear.items)
        pushed: Pushed
        if tangents.count(None) == len(tangents):
            results = known.emit(equation.primitive, primals, equation.parameters, equation.types)
            pushed = results, [None] * len(results)
            primitive = TABLE.get(equation.primitive)
            if primitive is None or primitive.trusted:  # what is trusted is counted at each use
                return pushed
        else:
            pushed = self.derived(equation, primals, tangents)
        made = Made(equation.line, known.since(before[0]), linear.since(before[1]))
        names = (*primals, *[atom for atom in tangents if atom is not None])
        kinds = tuple([self._value(*pair)[2] for pair in zip(*pushed, strict=True)])
        memory = memory_of(self.scope, equation)
        self.bench.remember(key, names, (made,), (*pushed[0], *pushed[1]), kinds, memory)
        return pushed

    def derived(self, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
        """The results of one equation and their tangents, by its row or its rule."""
        primitive = TABLE.get(equation.primitive)
        if primitive is not None:
            return self.table(primitive, equation, primals, tangents)
        from calculus.derivatives import FORMS

        form = FORMS.get(equation.primitive)
        if form is None:
            if equation.types and not any(type is None or differentiable(type) for type in equation.types):
                results = self.known.emit(equation.primitive, primals, equation.parameters, equation.types)
                return results, [None] * len(results)
            raise unwritten(equation.primitive, "derivative")
        pushed = form.linearize(self, equation, primals, tangents)
        for result, tangent in zip(*pushed, strict=True):
            if tangent is not None:
                cotangent(self.known.type_of(result))  # there is one: nothing pends by max or min
        return pushed

    def table(
        self, primitive: Primitive, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]
    ) -> Pushed:
        """An equation of a declared primitive: in operands in which it is linear, itself; in others, its row."""
        known, linear = self.known, self.linear
        if primitive.unfold is not None and (unfolded := self.unfolded(primitive, equation, primals, tangents)):
            return unfolded
        results = known.emit(primitive.name, primals, equation.parameters, equation.types)
        types = [known.type_of(result) for result in results]
        arrays = [type for type in types if isinstance(type, ArrayType)]
        if not any(differentiable(type) for type in types):
            return results, [None] * len(results)
        for type in types:
            cotangent(type)
        operands = [atom if isinstance(atom, Literal) else known.type_of(atom) for atom in primals]
        use = Use.kept(self.bench, primitive, equation.parameters, operands, arrays)
        primals, tangents = self.sliced(use, primals, tangents)
        evaluations: dict[int, Evaluation] = {}
        applied: dict[tuple[Atom, ...], tuple[Atom, ...]] = {}

        def evaluated(formula: Formula, operand: int, type: ArrayType) -> Atom:
            if operand not in evaluations:
                evaluations[operand] = Evaluation(
                    lambda: named(use, primals, (tangents[operand],), results), known, linear
                )
            line, linear.line = linear.line, about(linear.line, operand)
            try:
                return evaluations[operand].value(formula, type)
            finally:
                linear.line = line

        def itself(group: Sequence[int]) -> tuple[Atom, ...]:
            inputs = tuple(
                primal if operand not in group else self.instantiated(tangents[operand], primal)
                for operand, primal in enumerate(primals)
            )
            if inputs not in applied:
                applied[inputs] = linear.emit(primitive.name, inputs, equation.parameters, types)
            return applied[inputs]

        pushed: list[Tangent] = []
        for number, type in enumerate(types):
            total: Tangent = None
            if differentiable(type):
                for term in self.terms(use.of_result(number), tangents, evaluated, itself):
                    total = term if total is None else linear.one("add_any", (total, term))
            pushed.append(total)
        return results, pushed

    def sliced(
        self, use: Use, primals: Sequence[Atom], tangents: Sequence[Tangent]
    ) -> tuple[list[Atom], list[Tangent]]:
        """Operands and their tangents, those that are reduced where results are cut as the slices that are met."""
        known, linear = self.known, self.linear
        operands = [atom if isinstance(atom, Literal) else known.type_of(atom) for atom in primals]
        results = [type for type in use.site.printed if isinstance(type, ArrayType)]
        slices = met(use, operands, results)
        if slices.count(None) == len(slices):
            return [*primals], [*tangents]
        return (
            [known.at(atom, type) if type else atom for atom, type in zip(primals, slices, strict=True)],
            [
                linear.at(atom, type) if type and atom is not None else atom
                for atom, type in zip(tangents, slices, strict=True)
            ],
        )

    def unfolded(
        self, primitive: Primitive, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]
    ) -> Pushed | None:
        """An equation of a declared primitive that is differentiated as others that compute the same; `None` where a
        row says its derivative."""
        from calculus.unfolding import Dual, Unfolding

        typing = self.known.judged(primitive.name, primals, equation.parameters, equation.types)
        types = [type for type in typing if isinstance(type, ArrayType)]
        operands = [atom if isinstance(atom, Literal) else self.known.type_of(atom) for atom in primals]
        use = Use.kept(self.bench, primitive, equation.parameters, operands, types)
        for type in types:
            cotangent(type)
        primals, tangents = self.sliced(use, primals, tangents)
        assert primitive.unfold is not None
        found = primitive.unfold(Unfolding(self, use, list(map(Dual, primals, tangents))))
        if found is None:
            return None
        results = [self.known.at(one.value, type) for one, type in zip(found, types, strict=True)]
        pushed = [
            None if one.tangent is None or not differentiable(type) else self.linear.at(one.tangent, type)
            for one, type in zip(found, types, strict=True)
        ]
        return results, pushed

    def terms(
        self, use: Use, tangents: Sequence[Tangent], evaluated: Callable[[Formula, int, ArrayType], Atom],
        itself: Callable[[Sequence[int]], tuple[Atom, ...]],
    ) -> Iterator[Atom]:  # fmt: skip
        """What the tangents of operands give to one result of an equation. evaluated: the value of a formula for the
        tangent of an operand, at a type. itself: the primitive applied to the tangents of operands in which it is
        linear."""
        rows = use.primitive.derivatives_at(use.site)
        number, scheme = use.site.number, use.scheme
        alone: list[int] = [*use.signature.nonlinear]
        for group in use.signature.groups:
            flowing = [one for one in group if tangents[one] is not None and rows.get(use.names[one]) != ZERO]
            if len(flowing) < len(group) and all(use.names[operand] in rows for operand in flowing):
                alone += flowing
            elif flowing:
                yield itself(group)[number]
        type = use.site.printed[number]
        assert isinstance(type, ArrayType)
        for operand in sorted(alone):
            tangent = tangents[operand]
            if tangent is None:
                continue
            formula = rows.get(use.names[operand])
            if formula is None:
                raise unwritten(use.primitive.name, "derivative")
            if formula == ZERO:
                continue
            value = evaluated(formula, operand, type)
            made = self.linear.type_of(value)
            if made != type:
                assert isinstance(made, ArrayType)
                stretched = use.elementwise and (value == tangent or made.shape != type.shape)
                before = scheme.operands[operand] if stretched else scheme.results[number]
                value = rearranged(self.linear, value, scheme, before, scheme.results[number], type)
            yield value

    def instantiated(self, tangent: Tangent, primal: Atom) -> Atom:
        """A tangent as a value, zero included."""
        if tangent is not None:
            return tangent
        type = self.known.type_of(primal)
        assert isinstance(type, ArrayType)
        return self.linear.full(0, type)


def linearize(bench: Workbench, scope: Scope, program: Program, nonzero: Sequence[bool]) -> Linearized:
    """A program linearized in the inputs that have a tangent (constants first); done once for each body. Refuses what
    has no derivative that is written, `no-cotangent` where a pending maximum or minimum is on the way."""
    return bench.once("linear", program, (scope, tuple(nonzero)), lambda: _linearized(bench, scope, program, nonzero))


def _linearized(bench: Workbench, scope: Scope, program: Program, nonzero: Sequence[bool]) -> Linearized:
    walk = Linearizer(bench, scope)
    names = (*program.constants, *program.inputs)
    types = [_bound(type, index) for index, type in enumerate((*program.constant_types, *program.input_types))]
    inputs = [walk.known.input(type) for type in types]
    tangents = [
        walk.linear.input(type) if flows and differentiable(type) else None
        for flows, type in zip(nonzero, types, strict=True)
    ]
    assert len(names) == len(tangents)
    results, pushed = walk.walk(program, inputs, tangents)
    return finish(walk, inputs, results, tangents, pushed)


def finish(
    walk: Linearizer, inputs: Sequence[Atom], results: Sequence[Atom], tangents: Sequence[Tangent],
    pushed: Sequence[Tangent],
) -> Linearized:  # fmt: skip
    """Cut what a walk has emitted into the two programs."""
    given = [tangent for tangent in tangents if isinstance(tangent, str)]
    wanted = [tangent for tangent in pushed if tangent is not None]
    linear = walk.linear.program(given, wanted)
    items = items_of(linear)
    bound = {*given, *chain.from_iterable([one.names if isinstance(one, Copied) else one.binders for one in items])}
    used = dict.fromkeys(chain.from_iterable([one.reads if isinstance(one, Copied) else one.inputs for one in items]))
    used.update(dict.fromkeys(wanted))
    residuals = tuple([atom for atom in used if atom not in bound and isinstance(atom, str)])
    if len(residuals) > MOST_SAVED:
        raise refuse(
            "unmodelled-construct",
            f"a backward pass for which one body saves more than {MOST_SAVED} values",
            because="a body that is called from many places, which are called from many, saves its values for each",
            help="loop over the calls with a scan, or rematerialise the body",
        )
    known = walk.known.types
    saved = tuple([known.get(residual) or walk.linear.type_of(residual) for residual in residuals])
    inputs_of_linear = (*residuals, *given), (*saved, *linear.input_types)
    linear = assembled(Program((), (), *inputs_of_linear, (), linear.outputs), items)
    names = tuple(atom for atom in inputs if isinstance(atom, str))
    forward = walk.known.program(names, (*results, *residuals), keep=len(walk.known.items))
    return Linearized(forward, residuals, linear, tuple(tangent is not None for tangent in pushed))


def _bound(type: Type | None, index: int) -> Type:
    if type is None:
        raise refuse(
            "choose-type",
            f"input {index} has no type",
            because="types are inferred from the inputs on",
            help="write its type after its name",
            place=Place("input", index),
        )
    return type


Rule: TypeAlias = Callable[[Linearizer, Equation, Sequence[Atom], Sequence[Tangent]], Pushed]

__all__: Final = [
    "Linearized",
    "Linearizer",
    "Pushed",
    "Rule",
    "Tangent",
    "differentiable",
    "differentiable_inputs",
    "finish",
    "floating",
    "linearize",
]
