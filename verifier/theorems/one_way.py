"""What is right forward and refused: the judgments in Local and not in Q, each with the transpose that it fails by.

The calculus follows demands from a judgment until one is not Local (`calculus.blame.way_out`): a transpose, or the
transpose of a tangent. There the cotangent comes out in a state from which the one that is wanted has to be paid for,
or which would count it once per device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from calculus.blame import way_out
from calculus.cotangents import State
from calculus.linearity import Demand, States
from verifier.solver import Number, Query
from verifier.theorems.communication import collective_between
from verifier.theorems.prices import array_bytes, devices, price, steps
from verifier.theorems.sums import induction, total
from verifier.theorems.table import judgments, rows

COUNTED: Final = "counts once per device"


class OneWay(NamedTuple):
    """A judgment that is right forward only. primitives: that make it. chain: the demands that lead out. comes: the
    state in which the last of them comes out. pays: the collective that takes it to the one that is wanted; empty where
    copies would have to be pieces: what every device adds counts once per device."""

    primitives: tuple[str, ...]
    states: States
    result: State
    chain: tuple[Demand, ...]
    comes: State
    pays: str

    @property
    def wanted(self) -> State:
        """The state that the last demand asks for."""
        return self.chain[-1].result

    def __str__(self) -> str:
        given = ", ".join(map(_word, self.states))
        way = " of the tangent" if len(self.chain) > 1 else ""
        came = f"comes out in {_word(self.comes)}, and {_word(self.wanted)} is wanted"
        return (
            f"({given}) → {_word(self.result)} of {_few(self.primitives)}: the transpose{way} in operand "
            f"{self.chain[0].operand} {came}: {self.pays or COUNTED}"
        )


def _word(state: State) -> str:
    return f"S{state[1]}" if isinstance(state, tuple) else state


def _few(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


@cache
def one_way() -> tuple[OneWay, ...]:
    """Every one of the table's relations. Raises `ValueError` where none of the ways out is understood."""
    return tuple(_one_way())


def _one_way() -> Iterator[OneWay]:
    for row in rows():
        for states, result in judgments(row.relation):
            aligned = row.relation.scheme.aligned(states)
            if row.relation.contains(aligned, result):
                continue
            said = f"{row.name} of {states} → {result}"
            chain = way_out(row.relation, aligned, result)
            if not chain:
                raise ValueError(f"{said} is Local and not in Q, and every judgment that it leads to is Local")
            last = chain[-1]
            comes = sorted(last.relation.local_results(last.relation.scheme.aligned(last.states)), key=str)
            if not comes or last.result in comes:
                raise ValueError(f"{said}: the last transpose comes out in {comes}, and {last.result} is wanted")
            found = {collective_between(one, last.result): one for one in comes}
            pays = min(found)
            yield OneWay(row.primitives, states, result, chain, found[pays], pays)


def objection() -> str:
    """Why the list is not what the page says; nothing where it is."""
    try:
        found = one_way()
    except ValueError as error:
        return str(error)
    for one in found:
        if {"R", "U"}.isdisjoint((*one.states, one.result)):
            return f"{one}: it mentions neither R nor U"
        if one.pays and (one.comes, one.wanted) != ("U", "N"):
            return f"{one}: it is not a sum that is to be finished"
        if not one.pays and not (one.comes in ("N", "R") and one.wanted == "U"):
            return f"{one}: nothing is paid, and nothing is counted twice"
    return "" if found else "there is none"


def shown() -> tuple[str, ...]:
    """All of them, line by line."""
    return tuple(map(str, one_way()))


def queries() -> Sequence[Query]:
    """The all-reduce costs something, for every number of devices but one; copies that are read as pieces are n times
    the value."""
    value = Number("x")
    copies = total("Σ x", lambda d: value)
    several, something = ("there are several devices", devices() > 1), ("there is something to send", array_bytes() > 0)
    return (
        Query("U → N is paid for", (several, something), price(steps("U", "N")) > 0),
        *induction("copies that are added count n times", (copies,), lambda n: copies(n) == n * value),
    )
