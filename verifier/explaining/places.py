"""Values whose place is not told: JAX hands XLA the type of nearly every value, and XLA puts it there. Of a few it does
not: what some primitives make, what a loop carries, and of what a while loop closes over that it is pending. Those lie
where their uses are, if one asks for a finer cut, or for pieces of a sum, and every other use of them is then paid for.
Measured in `agree --communication`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from calculus.checking import Checker
from calculus.loops import scan_parts
from calculus.primitives import TABLE
from calculus.primitives.declaration import Site
from calculus.programs import Atom, Equation, Program, bodies
from calculus.refusals import Refused
from calculus.types import ArrayType, Type

UNTOLD: Final = frozenset({"sign", "round", "exp2", "square", "eq", "ne", "lt", "le", "gt", "ge"})
"""Those of the table whose results JAX 0.12 lowers without their types (read off what it lowers)."""


def placed_elsewhere(checker: Checker) -> frozenset[str]:
    """The axes along which a value is cut, or pending, in a use, and not in its own type, of values that may lie where
    they are used."""
    places = _Places()
    for program, _ in checker.walked():
        if program.uses(UNTOLD | BETWEEN):
            places.body(program, frozenset())
    return frozenset(places.axes)


class _Places:
    """Walks bodies, each once for the inputs of it that are not told."""

    def __init__(self) -> None:
        self.axes: set[str] = set()
        self._known: dict[tuple[int, frozenset[int]], frozenset[_Made]] = {}

    def body(self, program: Program, untold: frozenset[int]) -> frozenset[_Made]:
        """The results of a body whose place is not told. untold: its inputs, constants first, of which it is not."""
        key = id(program), untold
        found = self._known.get(key)
        if found is None:
            self._known[key] = frozenset()
            found = self._known[key] = self._walk(program, untold)
        return found

    def _walk(self, program: Program, untold: frozenset[int]) -> frozenset[_Made]:
        names, given = (*program.constants, *program.inputs), (*program.constant_types, *program.input_types)
        types: dict[Atom, Type | None] = {names[index]: given[index] for index in untold if index < len(names)}
        unused: set[Atom] = set()
        reads = Counter(atom for equation in program.equations for atom in {*equation.inputs})
        within = {atom for equation in program.equations if equation.primitive in BETWEEN for atom in equation.inputs}
        within.update(program.outputs)
        for equation in program.equations:
            self.axes.update(_uses(equation, types))
            if equation.primitive == "while":
                self.axes.update(_closed_over(equation))
            for index, no_other_use in self._made(equation, [atom in types for atom in equation.inputs]):
                name = equation.binders[index]
                if no_other_use and reads[name] == 1 and name not in within:
                    continue  # it lies where its one use is, and nothing else is paid for
                if no_other_use and not reads[name]:
                    unused.add(name)
                types[name] = equation.types[index]
            types.pop("_", None)
        return frozenset(
            _Made(index, atom in unused and program.outputs.count(atom) == 1)
            for index, atom in enumerate(program.outputs)
            if atom in types
        )

    def _made(self, equation: Equation, untold: Sequence[bool]) -> Iterable[_Made]:
        """The results of an equation whose place is not told; of a loop or a choice that is none's."""
        every = range(len(equation.binders))
        if equation.primitive in UNTOLD:
            return [_Made(index, True) for index in every]
        if equation.primitive not in BETWEEN:
            return ()
        found: set[_Made] = set()
        for name, inner in bodies(equation.parameters):
            count = len(inner.constants) + len(inner.inputs)
            first, carried = _carries(equation, name)
            shift = len(untold) - count if not name.startswith("cond_") else 0
            at = (
                index
                for index in range(count)
                if index in range(first, first + carried)
                or (0 <= index + shift < len(untold) and untold[index + shift])
            )
            found |= self.body(inner, frozenset(at))
        if equation.primitive in _CHOICES:
            return [_Made(index, False) for index in every]
        return [one for one in found if one.at in every]


class _Made(NamedTuple):
    """A result whose place is not told, and whether nothing reads it where it is made."""

    at: int
    no_other_use: bool


_CHOICES: Final = frozenset({"scan", "while", "cond"})
BETWEEN: Final = _CHOICES | {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2",
                             "checkpoint"}  # fmt: skip
"""What hands values to bodies, and on from them, without telling their places."""


def _carries(equation: Equation, name: str) -> tuple[int, int]:
    """The first carry among the inputs of a loop's body, and how many there are."""
    try:
        if equation.primitive == "scan":
            return scan_parts(equation.parameters, len(equation.inputs), len(equation.binders))
    except Refused:
        return 0, 0
    held = equation.parameters.get("cond_nconsts" if name.startswith("cond_") else "body_nconsts")
    return (held, len(equation.binders)) if equation.primitive == "while" and isinstance(held, int) else (0, 0)


def _closed_over(equation: Equation) -> Iterator[str]:
    """The axes along which what a while loop reads in every iteration is pending: at its edge JAX does not say that it
    is, and it may be made whole there (difference 144)."""
    for name, inner in bodies(equation.parameters):
        held, _ = _carries(equation, name)
        for type in (*inner.constant_types, *inner.input_types)[:held]:
            if isinstance(type, ArrayType):
                yield from type.unreduced


def _uses(equation: Equation, types: Mapping[Atom, Type | None]) -> Iterator[str]:
    """The axes that one equation asks for beyond the types of these values, dim by dim."""
    for atom in equation.inputs:
        own = types.get(atom)
        for after in equation.types:
            if not isinstance(own, ArrayType) or not isinstance(after, ArrayType) or own.shape != after.shape:
                continue
            fresh = {axis for dim, had in zip(after.axes, own.axes, strict=True) for axis in {*dim} - {*had}}
            fresh |= {*after.unreduced} - {*own.unreduced}
            if fresh and (equation.primitive == "reshard" or _in_place(equation, own)):
                yield from fresh


def _in_place(equation: Equation, operand: ArrayType) -> bool:
    """Whether an equation computes each element from those in its place; all its operands that are no scalars are then
    of one shape."""
    declared = TABLE.get(equation.primitive)
    if declared is None:
        return False
    shapes, dtypes = (operand.shape,) * len(equation.inputs), (operand.dtype,) * len(equation.inputs)
    try:
        return declared.scheme(Site(equation.parameters, shapes, dtypes, equation.types)).elementwise
    except Refused:
        return False
