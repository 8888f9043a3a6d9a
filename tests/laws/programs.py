"""Programs that the laws about backward programs run over: drawn once, with what is derived of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.gradients import vjp
from calculus.linearization import differentiable
from calculus.programs import Equation, Literal, Program, body
from calculus.refusals import Refused
from calculus.types import ArrayType, Type
from verifier.examine import examine
from verifier.generated import drawn
from verifier.generated.growing import Grown

COUNT = 160
FIRST = 200

#: why a well-typed program may have no backward program
ALLOWED = {"no-cotangent", "unmodelled-construct", "unmodelled-primitive"}


class Case(NamedTuple):
    """seed: draws it again. wrt: the inputs that can change. made: the program of results and cotangents, or `None`,
    and the code of the refusal."""

    seed: int
    grown: Grown
    wrt: list[int]
    made: Program | None
    refused: str = ""

    @property
    def program(self) -> Program:
        return self.grown.program


@cache
def cases() -> tuple[Case, ...]:
    return tuple(case(seed, drawn(seed)) for seed in range(FIRST, FIRST + COUNT))


def case(seed: int, grown: Grown) -> Case:
    wrt = [number for number, type in enumerate(grown.program.input_types) if type is not None and differentiable(type)]
    try:
        return Case(seed, grown, wrt, vjp(grown.program, Workbench(Checker([grown.mesh])), wrt))
    except Refused as refused:
        return Case(seed, grown, wrt, None, refused.refusal.code)


def derived() -> Iterator[tuple[Case, Program]]:
    """Those that have a backward program, with it."""
    for one in cases():
        if one.made is not None:
            yield one, one.made


def types_of(program: Program) -> dict[str, Type]:
    """The type of each name of a body."""
    found = dict(
        zip((*program.constants, *program.inputs), (*program.constant_types, *program.input_types), strict=True)
    )
    for equation in program.equations:
        found.update(zip(equation.binders, equation.types, strict=True))
    return {name: type for name, type in found.items() if type is not None}


def type_of(atom: Any, types: dict[str, Type]) -> Type | None:
    return atom.type if isinstance(atom, Literal) else types[atom]


def bodies(program: Program) -> Iterator[tuple[Program, int]]:
    """A program and every one inside it, with how deep it stands."""
    waiting = [(program, 0)]
    while waiting:
        one, depth = waiting.pop()
        yield one, depth
        for equation in one.equations:
            waiting += [(inner, depth + 1) for inner in inside(equation)]


def inside(equation: Equation) -> list[Program]:
    found = []
    for value in equation.parameters.values():
        for item in getattr(value, "items", (value,)):
            inner = body(item)
            if inner is not None:
                found.append(inner)
    return found


def communication(program: Program, grown: Grown) -> list[tuple[object, ...]]:
    """Every collective of a program: kind, axes, payload, how often; in no order."""
    examined = examine(program, Checker([grown.mesh]))
    assert not examined.refusals, [refusal.message for refusal in examined.refusals]
    return priced(examined.charges)


def priced(charges: Sequence[Any]) -> list[tuple[object, ...]]:
    return sorted(
        ((one.collective.kind, one.collective.axes, one.collective.payload, one.times) for one in charges), key=str
    )


def numbers(types: Sequence[Type | None], seed: int) -> list[Any]:
    """Random arrays of these types, whole."""
    random = np.random.default_rng(seed)
    found: list[Any] = []
    for type in types:
        assert isinstance(type, ArrayType)
        shape: Any = type.shape
        if type.dtype_class == "f":
            found.append(random.normal(size=shape))
        elif type.dtype == "bool":
            found.append(random.integers(0, 2, shape).astype(bool))
        else:
            found.append(random.integers(0, 2, shape).astype(np.int32))
    return found
