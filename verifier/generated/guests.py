"""Operations by their sample calls: a program has a few of them as guests, and arrays of their operands' shapes.

So every primitive is drawn that has a sample call on floats, but for those that the moves know better, and those of
which results cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Final

from calculus.primitives import TABLE
from calculus.programs import Atom, Literal
from calculus.types import ArrayType, array_type
from verifier.generated.growing import Grower
from verifier.samples import NARROW, NoSample, Sample, samples

# fmt: off
SEVERAL: Final = frozenset((
    "approx_top_k", "cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu", "ormqr",
    "qr", "schur", "svd", "tridiagonal",
))
"""Of which there are several answers, or none for most arrays."""
FAR: Final = frozenset((
    "acosh", "bessel_i0e", "bessel_i1e", "cholesky_update", "digamma", "erf_inv", "igamma", "igamma_grad_a",
    "igammac", "lgamma", "nextafter", "polygamma", "random_gamma_grad", "regularized_incomplete_beta", "rem", "round",
    "tan", "tridiagonal_solve", "zeta",
))
"""Which are computed in other ways, to other roundings, or carry roundings far."""
UNWRITTEN: Final = frozenset((
    "bitcast_convert_type", "broadcast_in_dim", "broadcast_to", "conj", "copy_p", "empty", "empty2", "eq_to",
    "expand_dims", "le_to", "lt_to", "mulhi", "population_count", "ragged_dot_general", "reduce", "reduce_window",
    "scaled_dot",
    "select_and_gather_add", "select_and_scatter", "select_and_scatter_add", "stop_gradient", "symmetric_product",
    "tile",
))
"""Which take programs, leave memory as it is, or have no one primitive of JAX's in every release."""
# fmt: on


@cache
def guests() -> tuple[Sample, ...]:
    """The sample calls that programs have as guests: each primitive's, on floats."""
    found: list[Sample] = []
    for name in sorted(TABLE.keys() - SEVERAL - FAR - UNWRITTEN):
        try:
            each = samples(name, NARROW)
        except NoSample:
            continue
        found += [one for one in each if one.kind == "f" and all(map(_simple, one.operands)) and not _divides(one)]
    return tuple(found)


def _divides(sample: Sample) -> bool:
    """A solve that divides by what may be next to nothing."""
    return sample.parameters.get("unit_diagonal") is False


def _simple(type: ArrayType) -> bool:
    return type.dtype in ("f32", "i32")


def some(random: Random, seed: int, number: int) -> list[Sample]:
    """So many of them, for programs of seeds in a row of each primitive as many as of another."""
    names = sorted({one.primitive for one in guests()})
    chosen = [names[(3 * seed + place) % len(names)] for place in range(number)]
    return [random.choice([one for one in guests() if one.primitive == name]) for name in chosen]


def move(sample: Sample) -> Callable[[Grower], None]:
    """Proposes a call like this one, on values that are there; places in an array are numbers that are written."""

    def proposed(grower: Grower) -> None:
        operands: list[Atom] = []
        for type, within in zip(sample.operands, sample.ranges, strict=True):
            atom: Atom | None
            if within is not None or type.dtype != "f32":
                low, high = within or (0, 2)
                atom = grower.builder.full(grower.random.randrange(max(low, 0), high), array_type("i32", type.shape))
            elif not type.shape and sample.primitive == "pad":
                atom = grower.builder.literal(0, "f32")
            else:
                atom = _like(grower, type, grower.type(operands[0]) if operands else None)
            if atom is None:
                return
            operands.append(atom)
        types = (None,) * len(sample.results)
        if not grower.propose(sample.primitive, operands, sample.parameters, types) and not grower.manual:
            copies = [_copied(grower, one) for one in operands]
            grower.propose(sample.primitive, copies, sample.parameters, types)

    return proposed


def _copied(grower: Grower, atom: Atom) -> Atom:
    """The value, the same on every device."""
    type = grower.builder.type_of(atom)
    if isinstance(atom, Literal) or not isinstance(type, ArrayType) or type.plain:
        return atom
    made = grower.propose("reshard", (atom,), None, (array_type(type.dtype, type.shape),))
    return made[0] if made else atom


def _like(grower: Grower, type: ArrayType, beside: ArrayType | None) -> Atom | None:
    """A value of this shape; mostly one in the states of the first operand."""

    def alike(other: ArrayType) -> bool:
        if other.shape != type.shape:
            return False
        if beside is None or grower.random.random() < 0.2:
            return True
        return (other.varying, other.unreduced, other.reduced) == (beside.varying, beside.unreduced, beside.reduced)

    return grower.pick(alike)


def shapes(chosen: list[Sample]) -> list[tuple[int, ...]]:
    """The shapes of their floating operands."""
    found = [type.shape for one in chosen for type in one.operands if type.dtype == "f32" and type.shape]
    return [tuple(int(size) for size in shape) for shape in dict.fromkeys(found)]
