"""Unfolding: an equation differentiated as a few others that compute the same.

Of a product along a dim, or of what is written where updates meet, no formula of one operand says the derivative. The
table unfolds them: it computes them anew, from values that carry their tangents, by equations whose derivatives are
known. What those give takes the place of the equation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from calculus.evaluation import Evaluation, Use
from calculus.fitting import uncut
from calculus.formulas import TANGENT, read_row
from calculus.parameters import dims
from calculus.programs import Atom, Equation, Literal, Parameters, Program, Value
from calculus.types import ArrayType, Type

if TYPE_CHECKING:
    from calculus.linearization import Linearizer


class Dual(NamedTuple):
    """A value, and its tangent; `None` is zero."""

    value: Atom
    tangent: Atom | None = None


Given: TypeAlias = "Dual | int | float"
"""A number has the dtype of what stands beside it."""


class Unfolding:
    """One equation in the course of being unfolded. use: the equation. operands: what it is given."""

    def __init__(self, walk: Linearizer, use: Use, operands: Sequence[Dual]) -> None:
        self.walk = walk
        self.use = use
        self.operands = tuple(operands)

    @property
    def parameters(self) -> Parameters:
        """The equation's parameters."""
        return self.use.site.parameters

    def type(self, dual: Dual) -> ArrayType:
        """The type of a value."""
        found = self.walk.known.type_of(dual.value)
        assert isinstance(found, ArrayType)
        return found

    def sizes(self, dual: Dual) -> tuple[int, ...]:
        """The shape of a value, which must be numbers. Refuses as the table does what it has no row for."""
        shape = self.type(dual).shape
        return dims(Parameters((("shape", shape),)), "shape")  # type: ignore[return-value]

    def all(
        self, primitive: str, operands: Sequence[Given], types: Sequence[Type | None] = (None,), /, **parameters: Value
    ) -> tuple[Dual, ...]:
        """The results of a primitive, with their tangents."""
        dtype = next((self.type(one).dtype for one in operands if isinstance(one, Dual)), "f32")
        duals = [one if isinstance(one, Dual) else Dual(self.walk.known.literal(one, dtype)) for one in operands]
        rows = Parameters(tuple(parameters.items()))
        equation = Equation(primitive, rows, (), ("",) * len(types), tuple(types), self.walk.known.line)
        results, tangents = self.walk.push(equation, [one.value for one in duals], [one.tangent for one in duals])
        return tuple(map(Dual, results, tangents))

    def one(self, primitive: str, /, *operands: Given, to: Type | None = None, **parameters: Value) -> Dual:
        """The result of a primitive that has one; `to` is the type that is asked of it."""
        if primitive == "reshard" and isinstance(operands[0], Dual) and to == self.type(operands[0]):
            return operands[0]
        (found,) = self.all(primitive, operands, (to,), **parameters)
        return found

    def result(self, number: int) -> ArrayType:
        """The type of a result of the equation."""
        found = self.use.site.printed[number]
        assert isinstance(found, ArrayType)
        return found

    def known(self, dual: Dual) -> Dual:
        """A value without its tangent."""
        return Dual(dual.value)

    def full(self, number: float, type: ArrayType) -> Dual:
        """A number everywhere, at a type."""
        return Dual(self.walk.known.full(number, type))

    def apply(self, program: Program, operands: Sequence[Dual]) -> list[Dual]:
        """A function of numbers, element by element."""
        found: dict[Atom, Dual] = dict(zip(program.inputs, operands, strict=True))

        def read(atom: Atom) -> Dual:
            return Dual(atom) if isinstance(atom, Literal) else found[atom]

        for equation in program.equations:
            pairs = [read(atom) for atom in equation.inputs]
            types = (None,) * len(equation.binders)
            made = Equation(
                equation.primitive, equation.parameters, (), ("",) * len(types), types, self.walk.known.line
            )
            pushed = self.walk.push(made, [one.value for one in pairs], [one.tangent for one in pairs])
            found.update(zip(equation.binders, map(Dual, *pushed), strict=True))
        return [read(atom) for atom in program.outputs]

    def whole(self, dual: Dual, along: Sequence[int]) -> Dual:
        """A value some of whose dims are whole on every device."""
        type = self.type(dual)
        wanted = uncut(type, [dim in along for dim in range(type.rank)])
        return self.one("reshard", dual, to=wanted)

    def tangent(self, dual: Dual) -> Dual:
        """A tangent, zeros where it is zero, as a value that flows."""
        return Dual(self.walk.instantiated(dual.tangent, dual.value))

    def formula(self, text: str, /, **names: Dual) -> Atom:
        """The value of a formula (calculus/formulas.py) about these values: names, then what they come to."""
        found = {name: (dual.value,) for name, dual in names.items()}
        evaluation = Evaluation(lambda: found, self.walk.known, self.walk.linear)
        return evaluation.value(read_row(text, (TANGENT,))[TANGENT])
