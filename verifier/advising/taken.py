"""What else has a say in a proposal: a release of JAX, which does not take all that is sound. It is asked about the
cells that the solver chose, one by one, each as a program of one equation; what it refuses is not chosen again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from calculus.programs import NO_PARAMETERS, Equation, Literal, Program
from calculus.types import Type
from calculus.uses import Operand
from verifier.advising.cells import alone, cell_key, same_types
from verifier.advising.network import Network, Node, Step, steps
from verifier.advising.rewriting import Cast, chosen

Says: TypeAlias = "Callable[[Program, Sequence[int]], str]"
"""What somebody says against a program and its backward pass, with respect to some of its inputs; nothing where it is
taken at the types that it has."""


@dataclass(slots=True)
class Refusal:
    """A cell that is not taken: its equation, on a line, in words, and why."""

    line: int
    cell: str
    reason: str


@dataclass(slots=True)
class Taken:
    """Somebody who is asked, and what was said so far, by cells."""

    says: Says
    known: dict[Hashable, str] = field(default_factory=dict)

    def refused(self, network: Network, values: Sequence[float], casts: Sequence[Cast]) -> dict[Hashable, Refusal]:
        """What is not taken of an answer."""
        found: dict[Hashable, Refusal] = {}
        for step in steps(network.root):
            cell = chosen(step, values)
            if cell is None or (step.equation.primitive != "reshard" and _own(step, cell.operands, cell.results)):
                continue
            given: list[Operand] = [
                atom if isinstance(atom, Literal) else type  # type: ignore[misc]
                for atom, type in zip(step.equation.inputs, cell.operands, strict=True)
            ]
            active = [_active(node) and any(map(_active, step.results)) for node in step.operands]
            made = alone(step.equation, given, cell.parameters, cell.results, active, cell.wide)
            self._ask(found, cell_key(step.equation, cell), step.equation, *made)
        for cast in casts:
            equation = Equation("reshard", NO_PARAMETERS, ("x",), ("y",), (cast.target,), cast.line)
            made = alone(equation, [cast.source], NO_PARAMETERS, [cast.target], [cast.active])  # type: ignore[list-item]
            self._ask(found, ("reshard", cast.source, cast.target), equation, *made)
        return found

    def _ask(
        self, found: dict[Hashable, Refusal], key: Hashable, equation: Equation, program: Program, wrt: Sequence[int]
    ) -> None:
        asked = (key, tuple(wrt))
        if asked not in self.known:
            self.known[asked] = self.says(program, wrt)
        if self.known[asked]:
            given, made = (", ".join(map(str, some)) for some in (program.input_types, program.equations[-1].types))
            words = f"{equation.primitive} of {given} to {made}"
            found[key] = Refusal(equation.line, words, self.known[asked])


def _active(node: Node | None) -> bool:
    return node is not None and node.active


def _own(step: Step, operands: Sequence[Type | None], results: Sequence[Type | None]) -> bool:
    """Whether the types are those of the program that was handed in, which somebody has taken."""
    own = [None if node is None else node.type for node in step.operands]
    return all(map(same_types, operands, own)) and all(map(same_types, results, step.equation.types))
