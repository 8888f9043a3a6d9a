"""What constants decide: which branch is taken, whether a loop runs, which side a selection takes, that an array has no
elements.

A compiler may see such a thing before it partitions the program, and leave out what is then not needed, or it may not:
that goes by its passes, and by what stands between. (Measured in `agree --communication`: what a `shard_map` is given
for a branch that is never taken is computed; the branch itself is left out.) So a program is read in two ways besides
the one in which it is priced: as it is `whole`, where what is never entered still reads its operands, and as it is
`folded`, where all is left out that may be. What communicates in one and not in the other is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from calculus.checking import Checked, Checker
from calculus.copied import typed_names
from calculus.effects import Charge, Effect, Inner, charges
from calculus.programs import Atom, Equation, Literal, Program
from calculus.types import ArrayType, Type

Row: TypeAlias = "tuple[Equation, int, object]"
"""A collective: its equation, which of its collectives it is, and what it is."""


class Readings:
    """Both readings of the program of a checker, each made when it is first asked for."""

    def __init__(self, checker: Checker) -> None:
        self._main = checker.main

    @cached_property
    def kept(self) -> AbstractSet[Row] | None:
        """What communicates where all is left out that constants may decide; `None` where they decide nothing."""
        main = self._main
        found = main if main is None else _Folding().body(main, frozenset(range(len(main.program.constants))))
        return None if found is main or found is None else {row(one) for one in charges(found)}

    @cached_property
    def beyond(self) -> Sequence[Charge]:
        """What communicates because something that is never entered reads it, and is not priced."""
        main = self._main
        found = main if main is None else _Whole().body(main)
        if main is None or found is None or found is main:
            return ()
        priced = {row(one) for one in charges(main)}
        return [one for one in charges(found) if row(one) not in priced]


def row(charge: Charge) -> Row:
    """By what a collective of one reading is found in another."""
    return charge.equation, charge.slot, charge.collective


def _made_of(checked: Checked, program: Program, effects: Sequence[Effect]) -> Checked:
    found = Checked(program, checked.types, tuple(effects))
    found.ended = checked.ended
    return found


class _Whole:
    """Bodies in which what is never entered reads what it would read, and communicates nothing itself."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, bool], Checked] = {}

    def body(self, checked: Checked, silent: bool = False) -> Checked:
        """The body; itself where nothing in it is decided. silent: whether it is never entered."""
        found = self._made.get((id(checked), silent))
        if found is None:
            effects = [self._effect(one, silent) for one in checked.effects]
            same = all(one == before for one, before in zip(effects, checked.effects, strict=True))
            found = checked if same else _made_of(checked, checked.program, effects)
            self._made[id(checked), silent] = found
        return found

    def _effect(self, effect: Effect, silent: bool) -> Effect:
        inner = tuple(self._inner(one, silent) for one in effect.inner)
        return Effect(effect.at, () if silent else effect.collectives, inner)

    def _inner(self, inner: Inner, silent: bool) -> Inner:
        silent = silent or inner.times == 0
        until = None if inner.until is None else self.body(inner.until, silent)
        times = 1 if inner.times == 0 else inner.times
        return inner._replace(body=self.body(inner.body, silent), times=times, until=until)


@dataclass
class _Body:
    """A body that is read through. constants: the names of what depends on no input. reads: what each equation that is
    changed reads in the end. silent: the equations that do nothing then."""

    program: Program
    constants: set[Atom]
    reads: dict[int, tuple[Atom, ...]] = field(default_factory=dict)

    @cached_property
    def types(self) -> dict[str, Type | None]:
        """The types of its names."""
        return typed_names(self.program)

    def constant(self, atoms: Iterable[Atom]) -> bool:
        """Whether these depend on no input."""
        return all(isinstance(atom, Literal) or atom in self.constants for atom in atoms)

    def shape(self, atom: Atom) -> object:
        """The shape of a value, where that is known."""
        type = atom.type if isinstance(atom, Literal) else self.types.get(atom)
        return type.shape if isinstance(type, ArrayType) else None


class _Folding:
    """Bodies without what constants may decide that is not needed."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, frozenset[int]], Checked] = {}

    def body(self, checked: Checked, constant: frozenset[int]) -> Checked:
        """The body, of which these inputs (constants first) are known to the compiler; itself where nothing folds."""
        found = self._made.get((id(checked), constant))
        if found is None:
            found = self._made[id(checked), constant] = self._fold(checked, constant)
        return found

    def _fold(self, checked: Checked, constant: frozenset[int]) -> Checked:
        program = checked.program
        names = (*program.constants, *program.inputs)
        known = _Body(program, {names[index] for index in constant if index < len(names)})
        inner_of = {effect.at: effect.inner for effect in checked.effects if effect.inner}
        made: dict[int, tuple[Inner, ...]] = {}
        for at, equation in enumerate(program.equations):
            inner = inner_of.get(at, ())
            reads = _reads(known, equation, inner)
            if reads is not None:
                known.reads[at] = reads
            elif inner:
                made[at] = tuple(self._inner(known, equation, one) for one in inner)
            if known.constant(equation.inputs):
                known.constants.update(equation.binders)
        if not known.reads and all(inner == inner_of[at] for at, inner in made.items()):
            return checked
        effects = [
            one._replace(inner=made.get(one.at, one.inner)) for one in checked.effects if one.at not in known.reads
        ]
        changed = [
            equation if at not in known.reads else _reading(equation, known.reads[at])
            for at, equation in enumerate(program.equations)
        ]
        copy = program.of(tuple(changed))
        return _made_of(checked, copy, effects)

    def _inner(self, known: _Body, equation: Equation, inner: Inner) -> Inner:
        constant = frozenset[int]()
        if equation.primitive == "cond":  # its branches see what stands around it
            given = len(inner.body.program.constants) + len(inner.body.program.inputs)
            operands = equation.inputs[-given:] if given else ()
            constant = frozenset(index for index, atom in enumerate(operands) if known.constant((atom,)))
        body = self.body(inner.body, constant)
        until = body if inner.until is inner.body else inner.until and self.body(inner.until, frozenset())
        return inner._replace(body=body, until=until)


def _reading(equation: Equation, reads: tuple[Atom, ...]) -> Equation:
    return Equation(
        equation.primitive, equation.parameters, reads, equation.binders, equation.types, equation.line,
        equation.comment,
    )  # fmt: skip


def _reads(known: _Body, equation: Equation, inner: Sequence[Inner]) -> tuple[Atom, ...] | None:
    """What an equation reads where a constant decides what it gives; `None` where none does."""
    if equation.types and all(isinstance(type, ArrayType) and 0 in type.shape for type in equation.types):
        return ()
    rule = _RULES.get(equation.primitive)
    return None if rule is None else rule(known, equation, inner)


def _selection(known: _Body, equation: Equation, inner: Sequence[Inner]) -> tuple[Atom, ...] | None:
    """One by a constant, or from cases that are all one value."""
    which, *cases = equation.inputs
    return () if known.constant((which,)) else (cases[0],) if len({*cases}) == 1 else None


def _choice(known: _Body, equation: Equation, inner: Sequence[Inner]) -> tuple[Atom, ...] | None:
    """One whose branch is known is priced so; the number may be computed, which is not done here."""
    decided = any(one.times == 0 for one in inner) or len(inner) == 1
    return () if known.constant(equation.inputs[:1]) and not decided else None


def _loop(known: _Body, equation: Equation, inner: Sequence[Inner]) -> tuple[Atom, ...] | None:
    """A loop that never runs: its condition is false, or a carry that is false at first and stays as it is."""
    condition, body = (next((one.body.program for one in inner if one.label == what), None) for what in _PARTS)
    if condition is None or body is None or len(condition.outputs) != 1:
        return None
    count = len(equation.binders)
    begun = equation.inputs[len(equation.inputs) - count :]
    (asked,) = condition.outputs
    if isinstance(asked, str):
        names = (*condition.constants, *condition.inputs)
        index = names.index(asked) - len(names) + count if asked in names else -1
        if index < 0:
            return None
        asked = begun[index]
    return begun if isinstance(asked, Literal) and asked.text == "False" else None


_PARTS: Final = ("while condition", "while")


def _update(known: _Body, equation: Equation, inner: Sequence[Inner]) -> tuple[Atom, ...] | None:
    """What is put over all of an array leaves nothing of it."""
    array, update, *starts = equation.inputs
    same = known.shape(array) is not None and known.shape(array) == known.shape(update)
    return (update,) if same and known.constant(starts) else None


def _power(known: _Body, equation: Equation, inner: Sequence[Inner]) -> tuple[Atom, ...] | None:
    return () if equation.parameters.get("y") == 0 else None


def _of_itself(known: _Body, equation: Equation, inner: Sequence[Inner]) -> tuple[Atom, ...] | None:
    """A whole number less itself, or compared with itself."""
    if len({*equation.inputs}) != 1 or not isinstance(name := equation.inputs[0], str):
        return None
    type = known.types.get(name)
    return () if isinstance(type, ArrayType) and type.dtype_class in "iub" else None


_RULES: Final[dict[str, Callable[[_Body, Equation, Sequence[Inner]], tuple[Atom, ...] | None]]] = {
    "select_n": _selection, "cond": _choice, "while": _loop, "dynamic_update_slice": _update, "integer_pow": _power,
    **dict.fromkeys(("sub", "xor", "eq", "ne", "lt", "le", "gt", "ge"), _of_itself),
}  # fmt: skip
"""What XLA and JAX fold before programs are partitioned, read off what they leave."""
