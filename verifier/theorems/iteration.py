"""The relation Q computed a second time, from nothing but what the states mean: an iteration that shares no code with
`calculus.linearity`.

Two devices; a factor has one entry on each where it is cut, and two where it is whole. Values are polynomials in
unknowns, so that a judgment holds for all numbers or is refused. An operation is an einsum: a sum of products.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, TypeAlias

Polynomial: TypeAlias = "frozenset[tuple[tuple[str, ...], int]]"
"""Monomials, each a sorted tuple of unknowns, with their coefficients."""
Index: TypeAlias = "tuple[int, ...]"
Value: TypeAlias = "Mapping[Index, Polynomial]"
Einsum: TypeAlias = "tuple[tuple[str, ...], str]"
Judgment: TypeAlias = "tuple[tuple[str, ...], str]"
"""A state for each operand, and that of the result: `N`, `R`, `U`, or `S` and the factor that is cut, `Sb`."""

FAMILY: Final[tuple[Einsum, ...]] = (
    (("i", "i"), "i"),
    (("bk", "kj"), "bj"),
    (("", "i"), "i"),
    (("ij",), "j"),
    (("j",), "ij"),
    (("i",), "i"),
    (("bk", "bk"), "b"),
)
"""A product, a contraction of two arrays, a scalar times a vector, a sum, a broadcast, a copy, a batched dot."""

_SWAPPED: Final = {"R": "U", "U": "R"}
_SIZE: Final = 2


def _sum(values: Iterator[Polynomial]) -> Polynomial:
    found: dict[tuple[str, ...], int] = {}
    for value in values:
        for monomial, count in value:
            found[monomial] = found.get(monomial, 0) + count
    return frozenset((monomial, count) for monomial, count in found.items() if count)


def _product(one: Polynomial, other: Polynomial) -> Polynomial:
    pairs = itertools.product(one, other)
    return _sum(frozenset({(tuple(sorted((*left, *right))), m * n)}) for (left, m), (right, n) in pairs)


_ONE: Final[Polynomial] = frozenset({((), 1)})


def _indices(letters: str, sizes: Mapping[str, int]) -> Iterator[Index]:
    return itertools.product(*(range(sizes[letter]) for letter in letters))


def _computed(einsum: Einsum, values: tuple[Value, ...], sizes: Mapping[str, int]) -> dict[Index, Polynomial]:
    """What an einsum makes of its operands, its factors having these sizes."""
    operands, result = einsum
    summed = "".join(sorted(set("".join(operands)) - set(result)))
    found: dict[Index, list[Polynomial]] = {index: [] for index in _indices(result, sizes)}
    for index in found:
        for rest in _indices(summed, sizes):
            at = dict(zip(result + summed, (*index, *rest), strict=True))
            term = _ONE
            for letters, value in zip(operands, values, strict=True):
                term = _product(term, value[tuple(at[letter] for letter in letters)])
            found[index].append(term)
    return {index: _sum(iter(terms)) for index, terms in found.items()}


def _unknowns(name: str, letters: str) -> dict[Index, Polynomial]:
    sizes = dict.fromkeys(letters, _SIZE)
    return {index: frozenset({((f"{name}{index}",), 1)}) for index in _indices(letters, sizes)}


def _negated(value: Polynomial) -> Polynomial:
    return frozenset((monomial, -count) for monomial, count in value)


def _blocks(name: str, letters: str, state: str) -> tuple[dict[Index, Polynomial], dict[Index, Polynomial]]:
    """What the two devices hold of an operand whose value is unknown: of a sum, an unknown piece and the rest."""
    value = _unknowns(name, letters)
    if state in ("N", "R"):
        return value, value
    if state == "U":
        piece = _unknowns(f"{name}'", letters)
        return piece, {index: _sum(iter((one, _negated(piece[index])))) for index, one in value.items()}
    at = letters.index(state[1])
    return tuple(  # type: ignore[return-value]
        {(*index[:at], 0, *index[at + 1 :]): one for index, one in value.items() if index[at] == device}
        for device in range(2)
    )


def local(einsum: Einsum, judgment: Judgment) -> bool:
    """Whether running the einsum on each device's own blocks gives blocks of the result's state and value."""
    operands, result = einsum
    states, after = judgment
    names = "xyz"
    values = tuple(_unknowns(name, letters) for name, letters in zip(names, operands, strict=False))
    wanted = _computed(einsum, values, dict.fromkeys("".join((*operands, result)), _SIZE))
    sizes: dict[str, int] = {}
    for letters, state in zip(operands, states, strict=True):
        for letter in letters:
            size = 1 if state == f"S{letter}" else _SIZE
            if sizes.setdefault(letter, size) != size:
                return False  # blocks of two shapes
    for letter in result:  # what only the result has is broadcast, at the local size
        sizes.setdefault(letter, 1 if after == f"S{letter}" else _SIZE)
    held = [_blocks(name, letters, state) for name, letters, state in zip(names, operands, states, strict=False)]
    found = [_computed(einsum, tuple(blocks[device] for blocks in held), sizes) for device in range(2)]
    cut = after[1:]
    if any(sizes[letter] != (1 if letter == cut else _SIZE) for letter in result):
        return False
    if after in ("N", "R"):
        return found[0] == wanted and found[1] == wanted
    if after == "U":
        return all(_sum(iter((found[0][index], found[1][index]))) == one for index, one in wanted.items())
    at = result.index(cut)
    return all(found[index[at]][(*index[:at], 0, *index[at + 1 :])] == one for index, one in wanted.items())


def states_of(letters: str) -> list[str]:
    """The states of an array with these factors."""
    return ["N", "R", "U", *(f"S{letter}" for letter in letters)]


def transposed(einsum: Einsum, judgment: Judgment, operand: int) -> tuple[Einsum, Judgment]:
    """The transpose in an operand, and its judgment: index lists and states are exchanged."""
    (operands, result), (states, after) = einsum, judgment
    swapped = tuple(result if place == operand else letters for place, letters in enumerate(operands))
    given = tuple(_SWAPPED.get(after, after) if place == operand else one for place, one in enumerate(states))
    return (swapped, operands[operand]), (given, _SWAPPED.get(states[operand], states[operand]))


@cache
def judgments() -> dict[Einsum, frozenset[Judgment]]:
    """Local, of the family and all its transposes."""
    todo, found = list(FAMILY), {}
    while todo:
        einsum = todo.pop()
        if einsum in found:
            continue
        operands, result = einsum
        found[einsum] = frozenset(
            (states, after)
            for states in itertools.product(*map(states_of, operands))
            for after in states_of(result)
            if local(einsum, (states, after))
        )
        some = (("N",) * len(operands), "N")
        todo += [transposed(einsum, some, operand)[0] for operand in range(len(operands))]
    return found


def marked(judgment: Judgment) -> bool:
    """Whether a judgment mentions reduced or unreduced."""
    return not {"R", "U"}.isdisjoint((*judgment[0], judgment[1]))


def greatest(strict: bool = False, exempt: str = "") -> dict[Einsum, set[Judgment]]:
    """The greatest subset of Local that is closed: start from Local and throw out what leads out of it, until nothing
    does. strict: unmarked judgments have to be closed too. exempt: the state of operands that are not asked about."""
    q = {einsum: set(found) for einsum, found in judgments().items()}
    changed = True
    while changed:
        changed = False
        for einsum, members in q.items():
            for judgment in sorted(members):
                if not (strict or marked(judgment)):
                    continue
                asked = [place for place, state in enumerate(judgment[0]) if state != exempt]
                led = (transposed(einsum, judgment, place) for place in asked)
                if any(other not in q[other_einsum] for other_einsum, other in led):
                    members.discard(judgment)
                    changed = True
    return q
