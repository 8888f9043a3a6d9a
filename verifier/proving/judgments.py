"""The judgments on one mesh axis of a sample call: every combination of operand states, and what Local says of it.

N and R are the same blocks, `C` here (copies), so one obligation stands for several cells of the matrix. A factor may
be cut where it is the major one of its dim in every array that has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from calculus.cotangents import State
from calculus.linearity import Relation
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.schemes import Scheme
from calculus.states import relation_of
from calculus.types import dtype_class
from verifier.samples import Sample
from verifier.trials.claims import cut_factor
from verifier.trials.executions import DimState

WORDS: Final = {"C": "copy", "U": "unreduced", "Umax": "max", "Umin": "min"}
FEW: Final = 4000
"""The most combinations of states of one call."""


class Judgment(NamedTuple):
    """States of the operands, and of the result; `C` for copies. cells: how many judgments of N and R it stands for."""

    given: tuple[State, ...]
    result: State
    cells: int

    @property
    def cut(self) -> int | None:
        """The factor that is cut, if one is."""
        return next((int(state[1]) for state in (*self.given, self.result) if isinstance(state, tuple)), None)

    def __str__(self) -> str:
        return f"{'_'.join(map(word, self.given)) or 'nothing'}.{word(self.result)}"


def word(state: State) -> str:
    """A state in a name: a factor by its letter."""
    return WORDS[state] if isinstance(state, str) else f"cut{state[1]}"


@cache
def of_call(sample: Sample, number: int) -> tuple[Scheme, Relation]:
    """The scheme and the relation Q of one result."""
    return of_declaration(TABLE[sample.primitive], sample, number)


def of_declaration(primitive: Primitive, sample: Sample, number: int) -> tuple[Scheme, Relation]:
    """The same, of another declaration than the table's."""
    scheme = primitive.scheme(sample.site)
    return scheme, relation_of(primitive, sample.site, scheme, number)


def cut_factors(scheme: Scheme, number: int) -> list[int]:
    """The factors that a device may have a block of."""
    arrays = [*scheme.operands, scheme.results[number]]
    found = []
    for factor, size in enumerate(scheme.sizes):
        places = [dim for indices in arrays for dim in indices if factor in dim]
        major = all(all(scheme.sizes[one] == 1 for one in dim[: dim.index(factor)]) for dim in places)
        if places and major and size != 1:
            found.append(factor)
    return found


def _states(factors: Sequence[int], dtype: str, seen: bool) -> list[State]:
    """The states of an array: truth values and keys have no sums, complex numbers and keys no order."""
    kind = dtype_class(dtype)
    if not seen:
        return ["C"]
    pending: list[State] = [*(["U"] if kind in "fiuc" else []), *(["Umax", "Umin"] if kind in "fiub" else [])]
    return ["C", *pending, *(("S", factor) for factor in factors)]


def combinations(sample: Sample, primitive: Primitive, number: int) -> Iterator[tuple[State, ...]]:
    """Operand states in which one factor is cut, or one kind is pending, or nothing. Of very many those in which
    operands of one place in the signature are alike."""
    scheme, q = of_declaration(primitive, sample, number)
    factors = cut_factors(scheme, number)
    own = [[factor for factor in factors if any(factor in dim for dim in indices)] for indices in scheme.operands]
    each = [
        _states(mine, type.dtype, position not in q.signature.unseen)
        for position, (mine, type) in enumerate(zip(own, sample.operands, strict=True))
    ]
    sections = q.signature.sections() if math.prod(map(len, each)) > FEW else ()
    yield from _chosen(each, sections, ())


def _chosen(
    each: Sequence[Sequence[State]], sections: Sequence[object], given: tuple[State, ...]
) -> Iterator[tuple[State, ...]]:
    """All that begin with these states: what cannot be completed is not begun."""
    position = len(given)
    if position == len(each):
        yield given
        return
    cut = next((state for state in given if isinstance(state, tuple)), None)
    alike = [state for at, state in enumerate(given) if sections and sections[at] == sections[position]]
    pending = next((state for state in alike if state != "C"), None)
    for state in each[position]:
        if isinstance(state, tuple) and cut not in (None, state):
            continue
        if state == "C" or pending in (None, state):
            yield from _chosen(each, sections, (*given, state))


def accepted(sample: Sample, number: int, primitive: Primitive | None = None) -> list[Judgment]:
    """The judgments that Local allows."""
    primitive = primitive or TABLE[sample.primitive]
    scheme, q = of_declaration(primitive, sample, number)
    dtype = primitive.dtypes(sample.site)[number]
    legal = set(_states(cut_factors(scheme, number), dtype, True)) | {"N"}
    seen = [position for position in range(len(scheme.operands)) if position not in q.signature.unseen]
    found = []
    for given in combinations(sample, primitive, number):
        copies = sum(given[position] == "C" for position in seen)
        for result in q.local_results(tuple("N" if state == "C" else state for state in given)):
            if result in legal:
                cells = 2**copies * (2 if result == "N" else 1)
                found.append(Judgment(given, "C" if result == "N" else result, cells))
    return sorted(found, key=str)


def of_dims(
    primitive: Primitive, sample: Sample, number: int, judgment: Judgment
) -> tuple[tuple[DimState, ...], DimState] | None:
    """The states of a judgment as those of dims; `None` where no dim can be cut in two so."""
    scheme, _ = of_declaration(primitive, sample, number)
    found: list[DimState] = []
    for indices, state in zip(
        (*scheme.operands, scheme.results[number]), (*judgment.given, judgment.result), strict=True
    ):
        if not isinstance(state, tuple):
            found.append(state)
            continue
        dims = [dim for dim in range(len(indices)) if cut_factor(scheme, indices, dim) == state[1]]
        if not dims:
            return None
        found.append(("S", dims[0]))
    return tuple(found[:-1]), found[-1]
