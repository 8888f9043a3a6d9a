"""What vanishes: the results of a program that are zero, whatever else it is given, where some of its inputs are zero.

A function that is linear in an operand is zero where that operand is; of operands in which it is jointly linear, where
all of them are. What is neither is not told to vanish, also where it does (sin 0): "no" means "not seen". A linear map
takes zero to zero, which a constant that is added to it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.building import Workbench
from calculus.evaluation import Use
from calculus.formulas import ZERO
from calculus.loops import scan_parts
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.programs import Atom, Equation, Literal, Program, Programs, Variable, body
from calculus.refusals import Refused
from calculus.types import ArrayType, Type, array_type

_CALLS: Final = frozenset(
    {"jit", "pjit", "closed_call", "core_call", "compute_on", "remat", "remat2", "checkpoint", "shard_map"}
)
"""Forms whose one body has the equation's operands for inputs, and its results for outputs."""

_IDENTITIES: Final = frozenset({"name", "optimization_barrier", "device_put"})
"""Forms each of whose results is the operand beside it."""


def vanishing(bench: Workbench, program: Program, zero: Sequence[bool]) -> tuple[bool, ...]:
    """Which results of a program vanish where these inputs do (constants first); told once of each body. The types of
    all its equations are known."""
    return bench.once("vanishing", program, tuple(zero), lambda: _results(bench, program, zero))


class Vanishing:
    """One walk. zero: the names that vanish."""

    def __init__(self, bench: Workbench, program: Program, zero: Sequence[bool]) -> None:
        names = (*program.constants, *program.inputs)
        self.bench = bench
        self.types: dict[Variable, Type | None] = dict(
            zip(names, (*program.constant_types, *program.input_types), strict=True)
        )
        self.zero: set[Variable] = {name for name, one in zip(names, zero, strict=True) if one}

    def has(self, atom: Atom) -> bool:
        """Whether a value vanishes."""
        return atom.zero if isinstance(atom, Literal) else atom in self.zero

    def equation(self, equation: Equation) -> bool:
        """Take an equation in; whether all its results vanish."""
        flags = self._results_of(equation)
        self.types.update(zip(equation.binders, equation.types, strict=True))
        self.zero.update(binder for binder, one in zip(equation.binders, flags, strict=False) if one)
        return all(flags)

    def _results_of(self, equation: Equation) -> Sequence[bool]:
        given = [self.has(atom) for atom in equation.inputs]
        none = [False] * len(equation.binders)
        if equation.cell is not None or not any(given):
            return none
        primitive = TABLE.get(equation.primitive)
        if primitive is not None:
            return self._table(primitive, equation, given) or none
        from calculus.derivatives import FORMS
        from calculus.derivatives.rules import linear

        form = FORMS.get(equation.primitive)
        if (form is not None and form.linearize is linear) or equation.primitive in _IDENTITIES:
            return given
        inner = next((one for name in ("jaxpr", "call_jaxpr") if (one := body(equation.parameters.get(name)))), None)
        if inner is not None and inner.constants:
            return none
        if equation.primitive in _CALLS and inner is not None and len(inner.inputs) == len(given):
            return vanishing(self.bench, inner, given)
        if equation.primitive == "scan" and inner is not None:
            return self._scan(equation, inner, given)
        if equation.primitive == "cond":
            return self._cond(equation, given) or none
        return none

    def _table(self, primitive: Primitive, equation: Equation, given: Sequence[bool]) -> Sequence[bool] | None:
        operands = [atom if isinstance(atom, Literal) else self.types[atom] for atom in equation.inputs]
        results = [type for type in equation.types if isinstance(type, ArrayType)]
        try:
            use = Use.of(primitive, equation.parameters, [one or array_type("f32") for one in operands], results)
        except Refused:
            return None
        return [_vanishes(use.of_result(number), given) for number in range(len(results))]

    def _scan(self, equation: Equation, inner: Program, given: Sequence[bool]) -> Sequence[bool]:
        """A carry vanishes if it starts so and every iteration keeps it so."""
        held, count = scan_parts(equation.parameters, len(given), len(equation.binders))
        flags = [*given]
        while True:
            found = vanishing(self.bench, inner, flags)
            kept = [one and after for one, after in zip(flags[held : held + count], found[:count], strict=True)]
            if kept == flags[held : held + count]:
                return [*kept, *found[count:]]
            flags[held : held + count] = kept

    def _cond(self, equation: Equation, given: Sequence[bool]) -> Sequence[bool] | None:
        value = equation.parameters.get("branches")
        branches = [body(one) for one in value.items] if isinstance(value, Programs) else [None]
        found = [
            vanishing(self.bench, branch, given[1:])
            for branch in branches
            if branch is not None and not branch.constants and len(branch.inputs) == len(given) - 1
        ]
        if len(found) < len(branches):
            return None
        return [all(flags) for flags in zip(*found, strict=True)]


def _vanishes(use: Use, given: Sequence[bool]) -> bool:
    """Whether a result is linear in operands all of which vanish, and not only by a gradient that is stopped."""
    rows = use.primitive.derivatives_at(use.site)
    groups = [group for group in use.signature.groups if group and all(given[one] for one in group)]
    return any(all(rows.get(use.names[one]) != ZERO for one in group) for group in groups)


def _results(bench: Workbench, program: Program, zero: Sequence[bool]) -> tuple[bool, ...]:
    walk = Vanishing(bench, program, zero)
    for equation in program.equations:
        walk.equation(equation)
    return tuple(walk.has(atom) for atom in program.outputs)
