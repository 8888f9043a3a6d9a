"""Whether two programs compute the same: their results and gradients, run whole on the same inputs.

Types do not say it: a mean of means is well typed, and is the mean only where all devices count alike. Inputs are of
several families, from ones and zeros on: of one element, of the same block on every device (where what only depends on
how things are spread agrees), of small integers, of drawn numbers. What is found different is made smaller. That two
programs are equal on all of them proves nothing of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from calculus.checking import Checker
from calculus.types import ArrayType, Type, dtype_class
from verifier.devices import Array
from verifier.differing.sides import Side
from verifier.execution.arithmetic import CannotRun, dtype_of
from verifier.execution.comparing import apart, comparable, size_of, unit
from verifier.execution.drawing import drawn
from verifier.execution.machine import Failed, Machine
from verifier.execution.run import whole_input
from verifier.report import count
from verifier.ways import BACKWARD, FORWARD, Made, each_way

USUAL: Final = 24
"""How many inputs are tried, where nobody says."""
MOST_SMALLER: Final = 200
"""How often a smaller input is tried."""
MOST_SIMPLE: Final = 60
"""How often ones and zeros are tried anew, where something else differs."""
_SHOWN: Final = 16
_SIMPLE: Final = (0, 1, 2)
_COARSE: Final = 8


@dataclass(frozen=True, slots=True)
class Values:
    """What a comparison of values finds. tried: of each family of inputs, how many were equal, and how many there were.
    why: the reason where nothing could be compared. gradients: the inputs whose gradients were compared. inputs: those
    of the smallest counterexample, by name. found: there, by what it is, both values."""

    tried: dict[str, tuple[int, int]] = field(default_factory=dict)
    why: str = ""
    gradients: tuple[str, ...] = ()
    inputs: dict[str, Array] = field(default_factory=dict)
    found: tuple[tuple[str, Array, Array], ...] = ()

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
            return
        off = total - sum(equal for equal, _ in self.tried.values())
        agreeing = [f"{family} ({each})" for family, (equal, each) in self.tried.items() if equal == each]
        yield f"  values: different on {off} of {count(total, 'input')}, {what}"
        if agreeing:
            yield f"    equal on all that are {', '.join(agreeing)}"
        yield "    the smallest that was found:"
        yield from (f"      {name} = {_text(value)}" for name, value in self.inputs.items())
        for name, one, two in self.found:
            yield f"    {name} is {_text(one)} by {old}, and {_text(two)} by {new}"

    def data(self) -> dict[str, object]:
        """As plain data."""
        return {
            "equal": self.equal,
            "not_compared": self.why or None,
            "tried": {family: {"equal": equal, "inputs": each} for family, (equal, each) in self.tried.items()},
            "gradients": list(self.gradients),
            "counterexample": {name: _text(value) for name, value in self.inputs.items()},
            "different": [{"what": name, "old": _text(one), "new": _text(two)} for name, one, two in self.found],
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


class _Subject:
    """A program as it is evaluated: its results, and then its gradients. results: how many those are."""

    def __init__(self, side: Side, made: Made, results: int) -> None:
        assert made.program is not None
        self.program = made.program
        self.wrt = made.wrt
        self.results = results
        self.types = self.program.input_types
        self.named = [name for name, _ in side.outputs] if len(side.outputs) == results else []
        self._checker = Checker(side.checker.scope.meshes)
        self._checked = self._checker.check(self.program)

    def of(self, values: Sequence[Array]) -> tuple[list[Array], float, float]:
        """What it computes of these inputs; by what share roundings may change it, and the size of what was met."""
        random = np.random.default_rng(0)
        machine = Machine(self._checker, True, 1, random)
        scope = self._checker.scope
        given = [
            whole_input(value, type, machine, scope, random) for value, type in zip(values, self.types, strict=True)
        ]
        try:
            found = machine.run(self._checked, scope, given, frozenset(range(len(self.program.outputs))), watch=True)
        except Failed as failed:
            raise CannotRun(str(failed.cause)) from failed
        arrays = [machine.checked_value(one, self._checked_type(at), scope) for at, one in enumerate(found)]
        met = max((size_of(value) for value, _, _ in machine.watched.values()), default=0.0)
        return [one for one in arrays if one is not None], machine.roundoff * machine.growth, met

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
        (one, share, met), (two, other, met_there) = mine.of(values), theirs.of(swapped)
        if len(one) != len(two):
            raise CannotRun("they have another number of results")
        allowed, beside = _COARSE * max(share, other), max(share, other) * max(met, met_there)
        return [
            (at, a, b)
            for at, (a, b) in enumerate(zip(one, two, strict=True))
            if apart(a, b, max(allowed, _rough(a)), beside)
        ]

    tried: dict[str, tuple[int, int]] = {}
    best: tuple[tuple[bool, bool, int], list[Array]] | None = None
    families = list(_FAMILIES.items())
    for at in range(number + MOST_SIMPLE):
        family, make = families[at % len(families)] if at < number else ("", _binary)
        if not family and (best is None or best[0][2] == 0):
            break  # nothing differs, or already where there are ones and zeros alone
        values = [
            make(type, random) if position < len(names) else _seed(type, at if family else 0, random)
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
        return Values(tried, gradients=gradients)
    (finite, in_results, _), first = best

    def fails(values: list[Array]) -> bool:
        off = both(values)
        return bool(off) and _finite(off) >= finite and (off[0][0] < mine.results) >= in_results

    plain = [*first[: len(names)], *(_ones(type, random) for type in mine.types[len(names) :])]
    first = plain if fails(plain) else first
    smallest = _smaller(first, len(names), fails)
    shown = tuple((_what(mine, at, names), one, two) for at, one, two in both(smallest))
    return Values(tried, "", gradients, dict(zip(names, smallest, strict=False)), shown)


def _smaller(values: list[Array], count: int, fails: Callable[[list[Array]], bool]) -> list[Array]:
    """Inputs of zeros, ones and twos, as far as they still fail."""
    left = MOST_SMALLER
    for at in range(count):
        for simple in _SIMPLE:
            trial = [*values[:at], np.full_like(values[at], simple), *values[at + 1 :]]
            if left and values[at].dtype.kind in "fiub" and not np.array_equal(trial[at], values[at]):
                left -= 1
                if fails(trial):
                    values = trial
                    break
    for at in range(count):
        for place in np.ndindex(values[at].shape) if values[at].size <= MOST_SMALLER else ():
            for simple in _SIMPLE:
                if not left or values[at].dtype.kind not in "fiub" or values[at][place] == simple:
                    break
                left -= 1
                changed = values[at].copy()
                changed[place] = simple
                trial = [*values[:at], changed, *values[at + 1 :]]
                if fails(trial):
                    values = trial
                    break
    return values


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


def _rough(value: Array) -> float:
    """A share that no mistake is smaller than, and roundings are: the square root of the unit roundoff."""
    return float(np.sqrt(unit(value.dtype)))


def _text(value: Array) -> str:
    if value.size > _SHOWN:
        return f"{value.dtype}{list(value.shape)}, from {value.ravel()[:4].tolist()} on"
    return str(value.tolist())


# --- inputs -----------------------------------------------------------------------------------------------------------


def _shape(type: ArrayType) -> tuple[int, ...]:
    if any(isinstance(size, str) for size in type.shape):
        raise CannotRun(f"an input is {type}, whose sizes are symbolic")
    return tuple(int(size) for size in type.shape)


def _made(type: Type | None, random: np.random.Generator, numbers: Callable[[tuple[int, ...]], Array]) -> Array:
    """An array of a type; keys and the like as they are drawn."""
    if not isinstance(type, ArrayType):
        raise CannotRun(f"an input is {type}, which is no array")
    drawn(type, np.random.default_rng(0))  # what is too large, or has no values, is told there
    if dtype_class(type.dtype) not in "fiubc" or type.dtype == "float0":
        return drawn(type, random)
    return numbers(_shape(type)).astype(dtype_of(type.dtype))


def _ones(type: Type | None, random: np.random.Generator) -> Array:
    return _made(type, random, np.ones)


def _binary(type: Type | None, random: np.random.Generator) -> Array:
    return _made(type, random, lambda shape: random.integers(0, 2, shape))


def _single(type: Type | None, random: np.random.Generator) -> Array:
    def one(shape: tuple[int, ...]) -> Array:
        found = np.zeros(shape)
        found[tuple(int(random.integers(size)) for size in shape)] = 1
        return found

    return _made(type, random, lambda shape: one(shape) if 0 not in shape else np.zeros(shape))


def _integers(type: Type | None, random: np.random.Generator) -> Array:
    low = -3 if isinstance(type, ArrayType) and dtype_class(type.dtype) in "fic" else 0
    return _made(type, random, lambda shape: random.integers(low, 4, shape))


def _drawn(type: Type | None, random: np.random.Generator) -> Array:
    return _made(type, random, lambda shape: random.integers(-16, 16, shape) / 8 + 1 / 16)


def _alike(type: Type | None, random: np.random.Generator) -> Array:
    """The halves, quarters and so on of every dim are alike, however many devices cut it."""

    def tiled(shape: tuple[int, ...]) -> Array:
        cuts = [bool(axes) for axes in type.axes] if isinstance(type, ArrayType) else []
        block = tuple(1 if cut else size for size, cut in zip(shape, cuts, strict=True))
        return np.broadcast_to(random.integers(1, 4, block), shape)

    return _made(type, random, tiled)


_FAMILIES: Final[dict[str, Callable[[Type | None, np.random.Generator], Array]]] = {
    "ones": _ones,
    "alike on every device": _alike,
    "zeros and ones": _binary,
    "small integers": _integers,
    "one element": _single,
    "drawn": _drawn,
}


def _seed(type: Type | None, at: int, random: np.random.Generator) -> Array:
    """A cotangent: ones, and from the second round on small integers."""
    return _ones(type, random) if at < len(_FAMILIES) else _integers(type, random)
