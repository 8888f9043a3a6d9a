"""Which equations of two programs are the same ones: those that stand in one order in both, and compute results of the
same shapes by the same primitive, whatever their types say about placement. Bodies are aligned inside equations that
are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final

from calculus.programs import Atom, Equation, Literal, Program, bodies
from calculus.types import ArrayType, Type, same

_RENAMED: Final = {"pjit": "jit", "remat2": "checkpoint"}
"""Names of one construct in several releases."""


@dataclass(frozen=True, slots=True)
class Change:
    """An equation that is in both programs, with a result whose type is another one. first: whether its operands have
    the types that they had, so that the change is made here."""

    old: Equation
    new: Equation
    before: Type
    after: Type
    first: bool


@dataclass(slots=True)
class Aligned:
    """What two programs have in common. partners: of each equation of the old one, by identity, that of the new one.
    changed: those whose types changed. added, removed: the others."""

    partners: dict[int, Equation] = field(default_factory=dict)
    changed: list[Change] = field(default_factory=list)
    added: list[Equation] = field(default_factory=list)
    removed: list[Equation] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set, repr=False)


def align(old: Program, new: Program) -> Aligned:
    """Align two programs, with their bodies."""
    found = Aligned()
    _align(old, new, found)
    return found


def _align(old: Program, new: Program, found: Aligned) -> None:
    if (id(old), id(new)) in found.seen:  # a body that is called from several places
        return
    found.seen.add((id(old), id(new)))
    mine, theirs = (list(map(_key, program.equations)) for program in (old, new))
    before, after = _types(old), _types(new)
    matcher: SequenceMatcher[Hashable] = SequenceMatcher(None, mine, theirs, autojunk=False)
    for tag, low, high, start, stop in matcher.get_opcodes():
        if tag != "equal":
            found.removed += old.equations[low:high]
            found.added += new.equations[start:stop]
            continue
        for one, other in zip(old.equations[low:high], new.equations[start:stop], strict=True):
            found.partners[id(one)] = other
            _compare(one, other, before, after, found)
            inner = [[body for _, body in bodies(equation.parameters)] for equation in (one, other)]
            if len(inner[0]) == len(inner[1]):
                for body, twin in zip(*inner, strict=True):
                    _align(body, twin, found)


def _compare(
    one: Equation, other: Equation, before: dict[Atom, Type | None], after: dict[Atom, Type | None], found: Aligned
) -> None:
    given = [
        _same(_type(atom, before), _type(twin, after)) for atom, twin in zip(one.inputs, other.inputs, strict=False)
    ]  # fmt: skip
    for type, twin in zip(one.types, other.types, strict=True):
        if type is not None and twin is not None and not same(type, twin):
            found.changed.append(Change(one, other, type, twin, all(given)))


def _key(equation: Equation) -> Hashable:
    shapes = tuple((type.dtype, type.shape) if isinstance(type, ArrayType) else str(type) for type in equation.types)
    return _RENAMED.get(equation.primitive, equation.primitive), shapes


def _types(program: Program) -> dict[Atom, Type | None]:
    names: Sequence[Atom] = (*program.constants, *program.inputs)
    found: dict[Atom, Type | None] = dict(zip(names, (*program.constant_types, *program.input_types), strict=True))
    for equation in program.equations:
        found.update(zip(equation.binders, equation.types, strict=True))
    return found


def _type(atom: Atom, types: dict[Atom, Type | None]) -> Type | None:
    return atom.type if isinstance(atom, Literal) else types.get(atom)


def _same(one: Type | None, other: Type | None) -> bool:
    return one is None or other is None or same(one, other)
