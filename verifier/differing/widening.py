"""A program with all its floats as wide as numpy has them: what differs there beyond its roundings differs as
mathematics, whatever the program rounds to.

Numbers that it writes out are rounded already, to the dtype that they are written in: how far that moves the results is
measured, by moving them.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

import numpy as np

from calculus.programs import Equation, Literal, Parameters, Program, Reference, Word
from calculus.types import DTYPES, ArrayType, FutureType, RefType, Type, array_type, dtype_class
from verifier.execution.arithmetic import CannotRun, dtype_of
from verifier.execution.comparing import unit

_WIDEST: Final = {"f": "f64", "c": "c128"}
_OF_BITS: Final = frozenset({"bitcast_convert_type", "reduce_precision", "nextafter"})
"""What reads or sets the bits of a float."""


def widened(program: Program, moved: np.random.Generator | None = None) -> Program | None:
    """The program with float64 and complex128 only; `None` where it has bits of floats in its hands, or is so already.
    moved: draws by how much of their rounding the numbers written out are moved, up or down."""
    widening = _Widening(moved)
    found = widening.program(program)
    return found if widening.changed and not widening.bits else None


def moves_numbers(program: Program) -> bool:
    """Whether there are numbers written out in it that are rounded."""
    widening = _Widening(np.random.default_rng(0))
    widening.program(program)
    return widening.moves


class _Widening:
    def __init__(self, moved: np.random.Generator | None) -> None:
        self.moved = moved
        self.changed = self.bits = self.moves = False
        self._references: dict[int, Reference] = {}

    def dtype(self, dtype: str) -> str:
        wide = _WIDEST.get(dtype_class(dtype), dtype)
        self.changed |= wide != dtype
        return wide

    def type(self, type: Any) -> Any:
        if isinstance(type, RefType):
            return RefType(self.type(type.inner), type.space)
        if isinstance(type, FutureType):
            return FutureType(self.type(type.inner))
        if not isinstance(type, ArrayType) or dtype_class(type.dtype) not in _WIDEST:
            return type
        return array_type(
            self.dtype(type.dtype), type.shape, type.axes, type.varying, type.unreduced, type.reduced, type.kind,
            type.memory, type.weak,
        )  # fmt: skip

    def atom(self, atom: Any) -> Any:
        if not isinstance(atom, Literal):
            return atom
        text = atom.text
        if self.moved is not None and isinstance(atom.type, ArrayType) and dtype_class(atom.type.dtype) == "f":
            try:
                value = float(text)
                share = unit(dtype_of(atom.type.dtype)) / 2
            except (ValueError, CannotRun):
                share, value = 0.0, 0.0
            if share and np.isfinite(value) and not _exact(value, share):
                self.moves = True
                text = repr(float(value * (1 + share * self.moved.choice([-1, 1]) * self.moved.uniform(0.5, 1))))
        return Literal(text, self.type(atom.type))

    def program(self, program: Program) -> Program:
        return Program(
            program.constants,
            tuple(map(self.type, program.constant_types)),
            program.inputs,
            tuple(map(self.type, program.input_types)),
            tuple(map(self.equation, program.equations)),
            tuple(map(self.atom, program.outputs)),
            program.effects,
            program.line,
        )

    def equation(self, equation: Equation) -> Equation:
        self.bits |= equation.primitive in _OF_BITS
        items = equation.parameters.items_in_order
        return Equation(
            equation.primitive,
            Parameters(tuple([(name, self.value(value)) for name, value in items])),
            tuple(map(self.atom, equation.inputs)),
            equation.binders,
            tuple(map(self.type, equation.types)),
            equation.line,
            equation.comment,
            equation.cell,
        )

    def value(self, value: Any) -> Any:
        """A parameter."""
        if isinstance(value, Program):
            return self.program(value)
        if isinstance(value, Reference):
            made = self._references.get(id(value))
            if made is None:
                made = self._references[id(value)] = Reference(value.name)
                made.program = None if value.program is None else self.program(value.program)
            return made
        if type(value) is Word:
            return Word(DTYPES[self.dtype(_SHORT[value])][0]) if value in _SHORT else value
        if isinstance(value, (tuple, list)):
            return type(value)([self.value(one) for one in value])
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{one.name: self.value(getattr(value, one.name)) for one in fields(value)})
        return value


_SHORT: Final = {long: short for short, (long, _, kind) in DTYPES.items() if kind in _WIDEST}


def _exact(value: float, share: float) -> bool:
    """Whether somebody wrote just this number: a whole one, or one with fewer bits than fit by three."""
    fraction, _ = np.frexp(value)
    return value == int(value) or bool((fraction / share / 8) % 1 == 0)


def units(program: Program) -> list[float]:
    """Of each result of a typed program: the unit roundoff of the coarsest dtype that it is computed in."""
    seen: dict[str, float] = {}
    everywhere = 0.0
    changing = any(isinstance(type, RefType) for type in program.input_types)
    for equation in program.equations:
        changing = changing or any(isinstance(type, RefType) for type in equation.types)
        found = max([_unit(type) for type in equation.types] + [_inside(equation, set())], default=0.0)
        everywhere = max(everywhere, found)
        before = (seen.get(one, 0.0) for one in equation.inputs if isinstance(one, str))
        found = max(found, *before, 0.0)
        seen.update(dict.fromkeys(equation.binders, found))
    return [everywhere if changing else seen.get(one, 0.0) if isinstance(one, str) else 0.0 for one in program.outputs]


def _inside(equation: Equation, known: set[int]) -> float:
    def of(value: Any) -> float:
        if isinstance(value, Reference):
            value = value.program
        if isinstance(value, Program):
            if id(value) in known:
                return 0.0
            known.add(id(value))
            return max(
                (max([_inside(one, known), *map(_unit, one.types)]) for one in value.equations),
                default=0.0,
            )
        held = getattr(value, "items", value)
        return max(map(of, held), default=0.0) if isinstance(held, (tuple, list)) else 0.0

    return max((of(value) for _, value in equation.parameters.holding), default=0.0)


def _unit(type: Type | None) -> float:
    if not isinstance(type, ArrayType) or dtype_class(type.dtype) not in _WIDEST:
        return 0.0
    return unit(dtype_of(type.dtype))
