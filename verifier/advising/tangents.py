"""What is gone into of a program, what of a body is alive, and which of its values have a tangent: nothing of which
depends on where values lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.checking import Checked
from calculus.effects import EFFECTFUL
from calculus.linearization import differentiable
from calculus.loops import scan_parts
from calculus.programs import Atom, Equation, Literal, Program, bodies

CALLS: Final = frozenset({"jit", "closed_call", "core_call", "remat2", "checkpoint"})
"""Forms that give their operands to a body, and back what it gives."""

REMADE: Final = frozenset({"remat2", "checkpoint"})
"""Those of them whose body the backward pass runs again."""


class Flow:
    """Which values have a tangent, found once for each body and the inputs of it that have."""

    def __init__(self) -> None:
        self._flows: dict[tuple[int, tuple[bool, ...]], tuple[list[bool], dict[str, bool]]] = {}

    def of(self, program: Program, flags: tuple[bool, ...]) -> tuple[list[bool], dict[str, bool]]:
        """Which results of a body have a tangent where these inputs (constants first) have, and which names."""
        key = (id(program), flags)
        found = self._flows.get(key)
        if found is None:
            names = dict(zip((*program.constants, *program.inputs), flags, strict=True))
            for equation in program.equations:
                given = [not isinstance(atom, Literal) and names[atom] for atom in equation.inputs]
                after = [any(given)] * len(equation.binders)
                inner = body_of(equation)
                if inner is not None and any(given):
                    held, carried = 0, 0
                    if equation.primitive == "scan":
                        held, carried = scan_parts(equation.parameters, len(given), len(after))
                    after = self.of(inner, self.grown(equation, inner, given, held, carried))[0]
                for name, type, flows in zip(equation.binders, equation.types, after, strict=True):
                    names[name] = flows and type is not None and differentiable(type)
            outputs = [not isinstance(atom, Literal) and names[atom] for atom in program.outputs]
            found = self._flows[key] = outputs, names
        return found

    def grown(
        self, equation: Equation, inner: Program, given: Sequence[bool], held: int, carried: int
    ) -> tuple[bool, ...]:
        """Which inputs of a body have one: of what a loop carries, those that have after some iteration."""
        flags = list(given)
        while equation.primitive == "scan":
            after = self.of(inner, tuple(flags))[0]
            grown = [flag or (held <= at < held + carried and after[at - held]) for at, flag in enumerate(flags)]
            if grown == flags:
                break
            flags = grown
        return tuple(flags)


def body_of(equation: Equation) -> Program | None:
    """The body of an equation that is gone into: of a plain call, or a scan; `None` where there is none."""
    if equation.primitive not in CALLS and equation.primitive != "scan":
        return None
    rows = equation.parameters
    if any(rows.get(name) is not None and _asks(rows[name]) for name in ("in_shardings", "out_shardings")):
        return None
    found = [program for _, program in bodies(rows)]
    if len(found) != 1 or found[0].constants or len(found[0].inputs) != len(equation.inputs):
        return None
    if None in found[0].input_types:
        return None
    return found[0]


def closed(sites: Sequence[tuple[Checked, int]]) -> str:
    """The outermost equation on the way to a collective whose body is not gone into, by its primitive: inside of it
    nothing is changed. Nothing where there is none."""
    for body, at in sites:
        one = body.program.equations[at]
        if one.primitive not in ("scan", "cond") and any(bodies(one.parameters)) and body_of(one) is None:
            return one.primitive
    return ""


def branches_of(equation: Equation) -> list[Program]:
    """The branches of a cond that are gone into; none where they are not."""
    if equation.primitive != "cond":
        return []
    found = [program for _, program in bodies(equation.parameters)]
    fits = all(
        not one.constants and len(one.inputs) == len(equation.inputs) - 1 and None not in one.input_types
        for one in found
    )
    return found if fits else []


def _asks(value: object) -> bool:
    return isinstance(value, tuple) and any("Unspecified" not in str(one) and one is not None for one in value)


def alive(program: Program) -> set[int]:
    """The equations that some result of a body needs."""
    needed: set[Atom] = set(program.outputs)
    found: set[int] = set()
    for index in range(len(program.equations) - 1, -1, -1):
        equation = program.equations[index]
        if not needed.isdisjoint(equation.binders) or equation.primitive in EFFECTFUL or not equation.binders:
            found.add(index)
            needed.update(equation.inputs)
    return found
