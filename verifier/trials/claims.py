"""What a declaration claims of a sample call, in the terms of `verifier.trials.executions`: states of dims, two
devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from calculus.cotangents import State
from calculus.linearity import Relation
from calculus.primitives import TABLE
from calculus.primitives.declaration import Primitive
from calculus.schemes import Indices, Scheme
from calculus.states import relation_of
from calculus.types import dtype_class
from verifier.samples import Sample
from verifier.trials.executions import COUNT, DimState, ignored


def q_of(primitive: Primitive, sample: Sample, number: int) -> tuple[Scheme, Relation]:
    """The scheme of a call and the relation Q of one of its results."""
    scheme = primitive.scheme(sample.site)
    return scheme, relation_of(primitive, sample.site, scheme, number)


def cut_factor(scheme: Scheme, indices: Indices, dim: int) -> int | None:
    """The factor that is cut where a dim is cut in two: the major one, if it divides."""
    for factor in indices[dim]:
        size = scheme.sizes[factor]
        if size != 1:
            return factor if isinstance(size, int) and size % COUNT == 0 else None
    return None


def claimed(scheme: Scheme, q: Relation, number: int, given: Sequence[DimState]) -> frozenset[DimState]:
    """The states of a result that Local allows, when the operands are in these states. What is the same on every device
    is a pending maximum and minimum too, which Local leaves to casts."""
    states: list[State] = []
    for position, (indices, state) in enumerate(zip(scheme.operands, given, strict=True)):
        if position in q.signature.unseen:
            states.append("N")  # cut like the others, or in any state at all
        elif isinstance(state, tuple):
            factor = cut_factor(scheme, indices, state[1])
            if factor is None:
                return frozenset()
            states.append(("S", factor))
        else:
            states.append("N" if state == "C" else state)
    return frozenset(_of_dims(scheme, scheme.results[number], q.local_results(states)))


def _of_dims(scheme: Scheme, indices: Indices, found: frozenset[State]) -> Iterator[DimState]:
    for state in found:
        if isinstance(state, tuple):
            for dim in range(len(indices)):
                if cut_factor(scheme, indices, dim) == state[1]:
                    yield ("S", dim)
        elif state == "N":
            yield from ("C", "Umax", "Umin")
        elif state != "R":
            yield state


#: what is sound here, and not declared: it holds only where nothing is undefined or overflows, or cannot be said
UNDEFINED: Final = {
    ("shift_right_logical", "u", 1): "a shift by more than the bits there are",
    ("is_finite", "f", 0): "a sum of finite pieces that is too large is not finite",
    ("symmetric_product", "f", 1): "c is where a sum over a dim of a begins, which is written as one that is whole",
    ("iota_2x32_shape", "u", 0): "the high words are 0, and so pieces of a sum, in arrays of a usual size",
    ("polynomial", "f", 1): "the constant term alone commutes, and the coefficients are one operand",
}


@cache
def _alone(sample: Sample, position: int, dim: int) -> bool:
    """Whether a dim of an operand has its factors to itself."""
    scheme = TABLE[sample.primitive].scheme(sample.site)
    arrays = [*scheme.operands, *scheme.results]
    if position >= len(scheme.operands):
        return False
    shared = {one for at, indices in enumerate(arrays) if at != position for factors in indices for one in factors}
    return shared.isdisjoint(scheme.operands[position][dim])


def arguable(
    sample: Sample, given: Sequence[DimState], result: DimState, dtype: str, unseen: Sequence[int] = ()
) -> bool:
    """Whether a refusal needs no counterexample, since the states say nothing here that anyone could want:

    * truth values have no sum of their own, and complex numbers no order;
    * an operand that this call does not look at (the start of a window that is entire), or that this result does not
      depend on (`unseen`), is in any state at all;
    * along one axis one kind is pending: what has a maximum pending beside a minimum is refused without being judged.
    """
    kinds = {state for state in given if state in ("U", "Umax", "Umin")}
    if len(kinds) > 1:
        return True
    dtypes = (*(type.dtype for type in sample.operands), dtype)
    for position, (state, one) in enumerate(zip((*given, result), dtypes, strict=True)):
        if state == "C":
            continue
        if (state == "U" and one == "bool") or (state in ("Umax", "Umin") and dtype_class(one) == "c"):
            return True
        own = not isinstance(state, tuple) or _alone(sample, position, state[1])
        if own and (position in unseen or position in ignored(sample)):
            return True
        if isinstance(state, str) and (sample.primitive, sample.kind, position) in UNDEFINED:
            return True
    return False
