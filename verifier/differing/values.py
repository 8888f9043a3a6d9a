"""Whether two programs compute the same: their results and gradients, run whole on the same inputs.

Types do not say it: a mean of means is well typed, and is the mean only where all devices count alike. Inputs are of
several families, from ones and zeros on: of one element, of the same block on every device (where what only depends on
how things are spread agrees), of small integers, of drawn numbers, of zeros, of large ones. What is found different is
made smaller. That two programs are equal on all of them proves nothing of others.

Different is what roundings do not explain: a share of the largest element, by the terms that were added and the unit
roundoff of what a result goes through, or what `verifier.execution.rounding` measures. Where it can be, both programs
are run also with all floats as float64, in which hardly anything is explained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from calculus.checking import Checker
from calculus.programs import Program
from calculus.types import ArrayType, Type
from verifier.devices import Array
from verifier.differing.inputs import FAMILIES, binary, ones, seed, smaller
from verifier.differing.showing import elements, text, together
from verifier.differing.sides import Side
from verifier.differing.widening import moves_numbers, units, widened
from verifier.execution.arithmetic import CannotRun, dtype_of
from verifier.execution.comparing import apart, comparable, size_of, unit
from verifier.execution.machine import Failed, Machine, Value
from verifier.execution.rounding import Rounding, Spread
from verifier.execution.run import whole_input
from verifier.report import count
from verifier.ways import BACKWARD, FORWARD, Made, each_way

USUAL: Final = 24
"""How many inputs are tried, where nobody says."""
MOST_SIMPLE: Final = 60
"""How often ones and zeros are tried anew, where something else differs."""
_COARSE: Final = 8
_ROUNDED: Final = 2
"""By how many units of a dtype narrower than float32 a result may be off, beside its terms in float32."""
_SINGLE: Final = float(np.finfo(np.float32).eps)
_GROSS: Final = 0.01
"""What share of all that is met no roundings come to; and in float64, where numbers are written out in float32."""
_GROSS_WIDE: Final = 1e-4
_MOVES: Final = 3
"""How often the numbers written out are moved."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a comparison of values finds. tried: of each family of inputs, how many were equal, and how many there were.
    why: the reason where nothing could be compared. gradients: the inputs whose gradients were compared. inputs: those
    of the smallest counterexample, by name. found: there, by what it is, both values. shares: by how much of its
    largest element a result may be off and be equal, the most of all, by the floats that it is computed in."""

    tried: dict[str, tuple[int, int]] = field(default_factory=dict)
    why: str = ""
    gradients: tuple[str, ...] = ()
    inputs: dict[str, Array] = field(default_factory=dict)
    found: tuple[tuple[str, Array, Array], ...] = ()
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether the values were compared, and nothing is different."""
        return not self.why and not self.found

    def lines(self, old: str, new: str) -> Iterator[str]:
        """As people read it."""
        total = sum(each for _, each in self.tried.values())
        if self.why:
            yield f"  values: not compared: {self.why}"
            return
        what = f"results and gradients of {', '.join(self.gradients)}" if self.gradients else "results"
        if not self.found:
            yield f"  values: equal on {count(total, 'input')}, {what}; of others this proves nothing"
            within = ", ".join(f"{share:.1e} {how}" for how, share in self.shares.items())
            yield f"    equal to within this share of the largest element: {within}; more only where terms cancel"
            return
        off = total - sum(equal for equal, _ in self.tried.values())
        agreeing = [f"{family} ({each})" for family, (equal, each) in self.tried.items() if equal == each]
        yield f"  values: different on {off} of {count(total, 'input')}, {what}"
        if agreeing:
            yield f"    equal on all that are {', '.join(agreeing)}"
        yield "    the smallest that was found:"
        yield from (f"      {name} = {text(value)}" for name, value in self.inputs.items())
        for name, one, two in self.found:
            yield f"    {name} {together(one, two, old, new)}"

    def data(self) -> dict[str, object]:
        """As plain data."""
        return {
            "equal": self.equal,
            "not_compared": self.why or None,
            "tried": {family: {"equal": equal, "inputs": each} for family, (equal, each) in self.tried.items()},
            "gradients": list(self.gradients),
            "tolerance": dict(self.shares),
            "counterexample": {name: str(value.tolist()) for name, value in self.inputs.items()},
            "different": [
                {"what": name, "old": str(one.tolist()), "new": str(two.tolist()), "elements": elements(one, two)}
                for name, one, two in self.found
            ],
        }


def compare_values(old: Side, new: Side, number: int = USUAL, seed: int = 0) -> Values:
    """Compare the results of two programs, and, where both are differentiable, their gradients."""
    try:
        names, pairs = _paired(old, new)
        with_gradients = [_subject(side, True) for side in (old, new)]
        derived = all(one is not None for one in with_gradients)
        sides = with_gradients if derived else [_subject(side, False) for side in (old, new)]
        mine, theirs = (one for one in sides if one is not None)
        if derived and [pairs[at] for at in mine.wrt] != list(theirs.wrt):
            raise CannotRun("other inputs of theirs have gradients")
        seeds = mine.types[len(names) :]
        if [_form(type) for type in seeds] != [_form(type) for type in theirs.types[len(names) :]]:
            raise CannotRun("their results have other shapes")
        return _search(mine, theirs, names, pairs, number, np.random.default_rng(seed))
    except CannotRun as error:
        return Values(why=str(error))


@dataclass(frozen=True, slots=True)
class _Computed:
    """What a program computes: the arrays; by what share roundings may change each; the size of what was met; and what
    roundings do to one of them where terms cancel."""

    arrays: list[Array]
    shares: list[float]
    met: float
    spread: Callable[[int], float]


class _Subject:
    """A program as it is evaluated: its results, and then its gradients. results: how many those are."""

    def __init__(self, side: Side, made: Made, results: int) -> None:
        assert made.program is not None
        self.wrt = made.wrt
        self.results = results
        self.types = made.program.input_types
        self.named = [name for name, _ in side.outputs] if len(side.outputs) == results else []
        self._of_program(side, made.program)
        self.wide: _Subject | None = None
        wide = widened(made.program)
        if wide is not None:
            again = object.__new__(_Subject)
            again.wrt, again.results, again.named, again.wide = made.wrt, results, self.named, None
            again.types = wide.input_types
            again._of_program(side, wide)
            if not again._checker.refusals:
                self.wide = again
                again._before = made.program
                again.gross = _GROSS if max(self._units, default=0.0) > _SINGLE else _GROSS_WIDE

    def _of_program(self, side: Side, program: Program) -> None:
        self.program = program
        self._before: Program | None = None
        self._others: list[_Subject] | None = None
        self.gross = _GROSS
        self._checker = Checker(side.checker.scope.meshes)
        self._checked = self._checker.check(program)
        self._units = units(program)

    def of(self, values: Sequence[Array]) -> _Computed:
        """What it computes of these inputs."""
        scope = self._checker.scope
        random = np.random.default_rng(0)
        machine = Machine(self._checker, True, 1, random)
        try:
            found = self._run(machine, values)
        except Failed as failed:
            raise CannotRun(str(failed.cause)) from failed
        arrays = [machine.checked_value(one, self._checked_type(at), scope) for at, one in enumerate(found)]
        met = max((size_of(value) for value, _, _ in machine.watched.values()), default=0.0)
        terms = _COARSE * machine.growth
        shares = [terms * min(one, _SINGLE) + (_ROUNDED * one if one > _SINGLE else 0) for one in self._units]
        plain = {name: value for name, (value, _, _) in machine.watched.items()}

        def again(rounding: Rounding) -> dict[str, Array]:
            moved = Machine(self._checker, True, 1, np.random.default_rng(0))
            moved.rounding = rounding
            try:
                self._run(moved, values)
            except Failed:
                return {}
            return {name: value for name, (value, _, _) in moved.watched.items()}

        spread = Spread(again, plain, 1.0, 0.0)
        literals: list[dict[str, float]] = []

        def of(at: int) -> float:
            atom = str(self.program.outputs[at])
            if not literals:
                literals.append(self._by_literals(values, plain))
            return spread.of(atom) + literals[0].get(atom, 0.0)

        return _Computed([one for one in arrays if one is not None], shares, met, of)

    def _run(self, machine: Machine, values: Sequence[Array]) -> list[Value]:
        scope = self._checker.scope
        given = [
            whole_input(value.astype(dtype_of(type.dtype)) if isinstance(type, ArrayType) else value, type, machine,
                        scope, machine.random)
            for value, type in zip(values, self.types, strict=True)
        ]  # fmt: skip
        return machine.run(self._checked, scope, given, frozenset(range(len(self.program.outputs))), watch=True)

    def _by_literals(self, values: Sequence[Array], plain: dict[str, Array]) -> dict[str, float]:
        """How far the rounding of the numbers that are written out moves what names stand for."""
        farthest: dict[str, float] = {}
        for other in self._with_others():
            machine = Machine(other._checker, True, 1, np.random.default_rng(0))
            try:
                other._run(machine, values)
            except Failed:
                continue
            for name, (value, _, _) in machine.watched.items():
                if name in plain and plain[name].shape == value.shape and unit(value.dtype):
                    with np.errstate(all="ignore"):
                        off = np.abs(comparable(value) - comparable(plain[name]))
                    most = 2 * float(np.max(off, where=np.isfinite(off), initial=0))
                    farthest[name] = max(farthest.get(name, 0.0), most)
        return farthest

    def _with_others(self) -> list[_Subject]:
        """The program with its numbers moved; none where all are exact."""
        if self._others is None:
            self._others = []
            for number in range(_MOVES) if self._before is not None else ():
                assert self._before is not None
                program = widened(self._before, np.random.default_rng(number))
                if program is None or not moves_numbers(self._before):
                    break
                other = object.__new__(_Subject)
                other.types, other.program = self.types, program
                other._checker = Checker(self._checker.scope.meshes)
                other._checked = other._checker.check(program)
                self._others.append(other)
        return self._others

    def _checked_type(self, at: int) -> Type | None:
        type = self._checked.types[at]
        return type if isinstance(type, ArrayType) else getattr(self.program.outputs[at], "type", None)


def _subject(side: Side, backward: bool) -> _Subject | None:
    """A side with its gradients, or alone; `None` where it has none."""
    ways = {one.way: one for one in each_way(side.forward, side.checker, backward)}
    made = ways.get(BACKWARD if backward else FORWARD)
    return None if made is None or made.program is None else _Subject(side, made, len(side.forward.outputs))


def _paired(old: Side, new: Side) -> tuple[list[str], list[int]]:
    """What people call the inputs of the old one, and the place of each among the new one's: by name where both have
    the same, else in order. Raises `CannotRun` where they do not fit."""
    sides = []
    for side in (old, new):
        program = side.forward
        known = [f"constant {at}" for at in range(len(program.constants))]
        types = (*program.constant_types, *program.input_types)
        sides.append(([*known, *side.called], [_form(type) for type in types]))
    (names, forms), (others, their_forms) = sides
    by_name = len(set(names)) == len(names) and sorted(names) == sorted(others)
    places = [others.index(name) if by_name else at for at, name in enumerate(names)]
    if len(names) != len(others) or any(forms[at] != their_forms[place] for at, place in enumerate(places)):
        raise CannotRun("their inputs have other shapes or dtypes")
    if len(old.forward.outputs) != len(new.forward.outputs):
        raise CannotRun("they have another number of results")
    return names, places


def _form(type: Type | None) -> object:
    return (type.dtype, type.shape) if isinstance(type, ArrayType) else str(type)


def _search(
    mine: _Subject, theirs: _Subject, names: Sequence[str], pairs: Sequence[int], number: int,
    random: np.random.Generator,
) -> Values:  # fmt: skip
    order = [pairs.index(at) for at in range(len(pairs))]

    def both(values: Sequence[Array]) -> list[tuple[int, Array, Array]]:
        """The values that differ, by their place."""
        count = len(names)
        swapped = [values[at] for at in order] + list(values[count:])
        if mine.wide is not None and theirs.wide is not None:
            try:
                found = _differences(mine.wide, theirs.wide, values, swapped, shares, "as float64")
            except CannotRun:  # what ends by rounding does not end there
                mine.wide = theirs.wide = None
                shares.clear()
            else:
                if found:
                    return found
        return _differences(mine, theirs, values, swapped, shares, "as written")

    shares: dict[str, float] = {}
    tried: dict[str, tuple[int, int]] = {}
    best: tuple[tuple[bool, bool, int], list[Array]] | None = None
    families = list(FAMILIES.items())
    for at in range(number + MOST_SIMPLE):
        family, make = families[at % len(families)] if at < number else ("", binary)
        if not family and (best is None or best[0][2] == 0):
            break  # nothing differs, or already where there are ones and zeros alone
        values = [
            make(type, random) if position < len(names) else seed(type, at if family else 0, random)
            for position, type in enumerate(mine.types)
        ]
        off = both(values)
        if family:
            equal, each = tried.get(family, (0, 0))
            tried[family] = equal + (not off), each + 1
        if off:
            grade = _finite(off), off[0][0] < mine.results, -sum(map(_odd, values))
            if best is None or grade > best[0]:
                best = grade, values
    gradients = tuple(names[at] for at in mine.wrt)
    if best is None:
        return Values(tried, gradients=gradients, shares=shares)
    (finite, in_results, _), first = best

    def fails(values: list[Array]) -> bool:
        off = both(values)
        return bool(off) and _finite(off) >= finite and (off[0][0] < mine.results) >= in_results

    plain = [*first[: len(names)], *(ones(type, random) for type in mine.types[len(names) :])]
    first = plain if fails(plain) else first
    smallest = smaller(first, len(names), fails)
    shown = tuple((_what(mine, at, names), one, two) for at, one, two in both(smallest))
    return Values(tried, "", gradients, dict(zip(names, smallest, strict=False)), shown, shares)


def _differences(
    mine: _Subject, theirs: _Subject, values: Sequence[Array], swapped: Sequence[Array], shares: dict[str, float],
    how: str,
) -> list[tuple[int, Array, Array]]:  # fmt: skip
    one, two = mine.of(values), theirs.of(swapped)
    if len(one.arrays) != len(two.arrays):
        raise CannotRun("they have another number of results")
    found = []
    for at, (a, b) in enumerate(zip(one.arrays, two.arrays, strict=True)):
        allowed = max(one.shares[at], two.shares[at])
        shares[how] = max(shares.get(how, 0.0), allowed)
        if not apart(a, b, allowed):
            continue
        gross = max(mine.gross, theirs.gross, allowed)
        if not apart(a, b, gross, gross * max(one.met, two.met)) and not apart(
            a, b, allowed, one.spread(at) + two.spread(at)
        ):
            continue  # terms cancel, or numbers are written out rounded
        found.append((at, a, b))
    return found


def _what(mine: _Subject, at: int, names: Sequence[str]) -> str:
    if at < mine.results:
        return mine.named[at] if mine.named else f"result {at}"
    return f"the gradient of {names[mine.wrt[at - mine.results]]}"


def _finite(off: Sequence[tuple[int, Array, Array]]) -> bool:
    """Whether what differs is numbers."""
    return bool(off) and all(np.isfinite(comparable(value)).all() for _, *both in off for value in both)


def _odd(value: Array) -> int:
    """How many elements are neither zero nor one."""
    return int(np.sum((value != 0) & (value != 1))) if value.dtype.kind in "fiub" else 0
