"""Counterexamples to typings that the solver finds, in blocks of two devices, computed and read back. Where it cannot
look into a kernel, a search finds them (`verifier.proving.searching`).

The arrays have the sizes of the program, and every index is a number, so a model of the solver is an array for each
operand. Whatever it says, the kernel runs on the blocks: only what reads back wrong is a counterexample.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from calculus.cotangents import State
from calculus.elements import Fold
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.types import dtype_class
from verifier.devices import NotAFamily, devices, numpy_dtype, part, read_back
from verifier.kernels import compute, on_blocks
from verifier.ledger import Entry
from verifier.proving.blocks import written
from verifier.proving.concrete import Concrete, Loose
from verifier.proving.equations import VARIES, Claim
from verifier.proving.judgments import Judgment
from verifier.proving.obligations import Obligation
from verifier.proving.setting import PIECES, Array, Setting
from verifier.proving.terms import NeedsExtended, Pair, Terms, Value
from verifier.samples import Sample
from verifier.solver import (
    INTEGERS,
    And,
    Formula,
    IllSorted,
    Not,
    Query,
    Term,
    ToInteger,
    ToNumber,
    instance,
    integer,
    number,
)
from verifier.trials.executions import MESH, state_type

BOUND: Final = 4
"""The largest numbers that the solver is asked for first."""
MOST: Final = 64
"""The most elements that a fold is unfolded to."""


class Held(NamedTuple):
    """An operand: what each device holds of it, and its value; `None` where devices hold values of their own."""

    blocks: tuple[Any, ...]
    value: Any


class Counterexample(NamedTuple):
    """What goes wrong, in a sentence; what each device holds and computes, line by line; and the operands."""

    says: str
    lines: tuple[str, ...]
    operands: tuple[Held, ...]


def refutations(entry: Entry) -> Iterator[Obligation]:
    """Of each typing in an entry's counterexample that is not Local, that it is not."""
    from verifier.proving.ledger import NAME, Names, Read

    assert entry.counterexample is not None
    names = Names(f"{NAME}.{entry.number}.not")
    for claim in Read(entry.counterexample.program).claims(direct=True):
        cut = any(isinstance(state, tuple) for state in (*claim.given, claim.result))
        if claim.judgment is None and not cut:  # what is cut may be brought together, which no type says
            yield _refuted(names.next(f"{claim.sample.primitive}.{claim.states}"), claim)
    if not names:
        yield Obligation(f"{NAME}.{entry.number}.claim", NAME, "a typing of its program is not Local",
                         check=lambda: "each typing in it is")  # fmt: skip


def _refuted(name: str, claim: Claim) -> Obligation:
    question, found = _asked(claim)
    query: tuple[Query, ...] = ()
    if question is not None and found is not None:
        query = (Query("a counterexample", question.given, Not(question.goal), possible=True),)
    says = f"{claim} reads back wrong" + (f": {found.says}; {'; '.join(found.lines)}" if found else "")
    return Obligation(
        name, name.partition(".")[0], says, queries=lambda: query, check=partial(_again, claim, found),
        domain="two devices, at the sizes of the program",
    )  # fmt: skip


def _again(claim: Claim, found: Counterexample | None) -> str:
    """Why it is no counterexample."""
    if found is None:
        return f"the solver does not refute {claim}"
    return "" if tried(claim, found.operands) else "what the devices compute reads back right"


def tried(claim: Claim, operands: Sequence[Held]) -> Counterexample | None:
    """Run the call on two devices that hold these operands. `None` where it reads back right, or does not run."""
    sample, at = claim.sample, claim.number
    primitive, site = TABLE[sample.primitive], sample.site
    scheme = primitive.scheme(site)
    shape, dtype = scheme.shape(scheme.results[at]), primitive.dtypes(site)[at]
    type = state_type(dtype, shape, "C" if claim.result in ("N", "R") else str(claim.result))
    held, lines = {}, []
    try:
        for device in devices(MESH):
            blocks = [one.blocks[device[0]] for one in operands]
            local = tuple(one.stop - one.start for one in part(type, MESH, device))
            held[device] = np.asarray(compute(primitive, on_blocks(primitive, site, blocks, local), blocks)[at])
            has = f" holds {'; '.join(map(written, blocks))} and" if blocks else ""
            lines.append(f"device {claim.axis}={device[0]}{has} computes {written(held[device])}")
        values = [one.value for one in operands]
        wanted = None if any(one is None for one in values) else compute(primitive, site, values)[at]
    except (ValueError, IndexError, TypeError, ArithmeticError):
        return None
    try:
        value = read_back(held, type, MESH)
    except NotAFamily:
        return Counterexample(f"the devices hold no {type}: they hold different ones", tuple(lines), tuple(operands))
    if wanted is None:
        return None
    wrong = ~np.isclose(value, wanted, 1e-3, 1e-3, equal_nan=True)
    if not wrong.any():
        return None
    where = tuple(int(one) for one in np.argwhere(wrong)[0])
    place = f"at {list(where)} " if where else ""
    says = f"{place}the value is {wanted[where]:g}, and {value[where]:g} is read back"
    return Counterexample(says, tuple(lines), tuple(operands))


class _Whole(Setting):
    """A call at the sizes of its sample, at every index."""

    def __init__(self, primitive: Primitive, sample: Sample, at: int) -> None:
        super().__init__(primitive, sample, at, Judgment(("C",) * len(sample.operands), "C", 1), False, False)
        self.terms: Terms = Concrete()

    def _sort(self, factor: int) -> Any:
        return INTEGERS

    def size(self, factor: int, local: bool) -> Any:
        return self.scheme.sizes[factor]

    def value(self, made: Value | Fold) -> Value:
        """An element, folded. Raises `NotImplementedError` where that is too much."""
        if not isinstance(made, Fold):
            return made
        sizes = [made.sizes.get(factor, self.scheme.sizes[factor] if factor in range(len(self.scheme.sizes)) else None)
                 for factor in made.over]  # fmt: skip
        if not all(isinstance(size, int) for size in sizes) or np.prod(sizes) > MOST:
            raise NotImplementedError
        terms = [made.term(*map(integer, digits)) for digits in itertools.product(*map(range, sizes))]
        found = terms[0] if made.start is None else made.start
        for term in terms[made.start is None :]:
            found = self.terms.combine(made.monoid, found, term)
        return found


class _Question(NamedTuple):
    """That a typing reads back right. arrays: of each operand what each device holds and, last, its value, where it has
    one."""

    given: tuple[tuple[str, Formula], ...]
    goal: Formula
    arrays: tuple[tuple[Array, ...], ...]


def _asked(claim: Claim) -> tuple[_Question | None, Counterexample | None]:
    """The question, and the solver's answer to it, in blocks that read back wrong."""
    try:
        question = _question(claim)
        if question is None:
            return None, None
        found = _answer(claim, question)
        return question, None if found is None else tried(claim, found)
    except (NeedsExtended, NotImplementedError, IllSorted, Loose):
        return None, None


def _question(claim: Claim) -> _Question | None:
    """`None` where the kernel does what the solver knows nothing of: there a counterexample is searched for."""
    if any(dtype_class(one.dtype) == "c" for one in claim.sample.operands) and {"Umax", "Umin"} & {*claim.given}:
        return None  # complex numbers have no order that the solver knows
    here = _Whole(TABLE[claim.sample.primitive], claim.sample, claim.number)
    arrays = [_arrays(here, at, state) for at, state in enumerate(claim.given)]
    first, second = (here.value(here.computed([one[device] for one in arrays], False)) for device in range(2))
    whole = None
    if all(len(one) == 3 for one in arrays):
        whole = here.value(here.computed([one[2] for one in arrays], False))
    if here.opaque:
        return None
    terms = here.terms
    if isinstance(claim.result, str) and claim.result in PIECES:
        assert whole is not None, "what varies makes nothing pending"
        goal = terms.same(terms.combine(PIECES[claim.result], first, second), whole)
    else:
        goal = terms.same(first, second)
        if whole is not None:
            goal = And(goal, terms.same(first, whole))
    given = [*terms.facts]
    for at, text in enumerate(claim.written):
        if text and dtype_class(claim.sample.operands[at].dtype) in "fiu":
            given.append((f"operand {at} is {text}", arrays[at][0].read() == number(text)))
    return _Question(tuple(given), goal, tuple(arrays))


def _arrays(here: _Whole, at: int, state: State) -> tuple[Array, ...]:
    if isinstance(state, str) and state in PIECES:
        one, other = (here.array(at, f"{name}{at}", False) for name in ("one", "other"))

        def read(*digits: Term) -> Value:
            return here.terms.combine(PIECES[state], one.read(*digits), other.read(*digits))

        return one, other, Array(read, one.factors, one.indices, one.of_factor)
    if state == VARIES:
        return here.array(at, f"one{at}", False), here.array(at, f"other{at}", False)
    copy = here.array(at, f"x{at}", False)
    return copy, copy, copy


def _answer(claim: Claim, question: _Question) -> list[Held] | None:
    """The solver's arrays: of small numbers, if there are such."""
    flat: list[Term] = []
    for array in itertools.chain(*question.arrays):
        for digits in itertools.product(*(range(array.of_factor(factor)) for factor in array.factors)):
            term = array.read(*map(integer, digits))
            flat += term if isinstance(term, Pair) else (term,)
    formulas = [*(fact for _, fact in question.given), Not(question.goal)]
    ordered = [term for term in flat if str(term.sort()) in ("Int", "Real")]
    small = [And(term >= -BOUND, term <= BOUND) for term in ordered]
    whole = [ToNumber(ToInteger(term)) == term for term in ordered if str(term.sort()) == "Real"]
    found = instance([*formulas, *small, *whole], flat) or instance([*formulas, *small], flat)
    if found is None or None in found:
        return None
    values = iter(found)
    made = []
    for at, arrays in enumerate(question.arrays):
        type = claim.sample.operands[at]
        pair = 2 if dtype_class(type.dtype) == "c" else 1
        read = []
        for array in arrays:
            count = int(np.prod([array.of_factor(factor) for factor in array.factors], dtype=int))
            parts = np.array([next(values) for _ in range(count * pair)]).reshape(count, pair)
            flat_value = parts[:, 0] + 1j * parts[:, 1] if pair == 2 else parts[:, 0]
            read.append(flat_value.astype(numpy_dtype(type.dtype)).reshape([int(size) for size in type.shape]))
        made.append(Held((read[0], read[1]), read[2] if len(read) == 3 else None))
    return made
