"""A checker that takes programs at their word: what it refuses has the type that is printed, and moves nothing.

So a typing of somebody else's can be run: each device computes on its own blocks, and what it then holds is read back
at the type that was claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.checking import Checker, Scope
from calculus.effects import Inner
from calculus.meshes import Mesh
from calculus.primitives import TABLE
from calculus.programs import Equation, Program, Programs
from calculus.refusals import Refusal, Refused
from calculus.rules import Typing
from calculus.types import ArrayType
from calculus.uses import Operand, operand_type

_OFFSETS: Final = {"cond": 1}
"""The first operand that is an input of a body, where it is not the first of all."""


class Trusting(Checker):
    """trusted: what was refused of equations, and is taken at its word. Of primitives whose operands or results are
    cut nothing is: what devices send each other there, no type says."""

    def __init__(self, meshes: Sequence[Mesh]) -> None:
        super().__init__(meshes)
        self.trusted: list[Refusal] = []

    def judge(
        self, equation: Equation, operands: Sequence[Operand], scope: Scope, key: tuple[object, ...]
    ) -> tuple[Typing, tuple[Inner, ...]]:
        """The judgment; or, where there is none, the printed types. Raises `Refused` where none are printed."""
        try:
            return super().judge(equation, operands, scope, key)
        except Refused as refused:
            types = [*map(operand_type, operands), *equation.types]
            cut = any(isinstance(one, ArrayType) and one.sharded for one in types)
            if None in equation.types or (cut and equation.primitive in TABLE):
                raise
            self.trusted.append(refused.refusal)
            for type in equation.types:
                if type is not None:
                    scope.chosen.setdefault(type, scope.mesh)
            return Typing(equation.types), tuple(self._bodies_of(equation, scope))  # type: ignore[arg-type]

    def _bodies_of(self, equation: Equation, scope: Scope) -> list[Inner]:
        """The bodies inside an equation, at their own types: of a loop the condition, then what it does."""
        found: list[Inner] = []
        parameters = sorted(equation.parameters.items_in_order, key=lambda item: item[0] == "body_jaxpr")
        for name, value in parameters:
            programs = value.items if isinstance(value, Programs) else (value,)
            for program in programs:
                if isinstance(program, Program):
                    offset = _OFFSETS.get(equation.primitive, 0)
                    found.append(Inner(self.body(program, scope), None, name, every=True, offset=offset))
        return found
