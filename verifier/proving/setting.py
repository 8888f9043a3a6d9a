"""One judgment of one call, in terms: what its operands are, of the whole and of a device, and what is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from calculus.elements import Call, Fold, NotDefined
from calculus.linearity import PENDING
from calculus.primitives.declaration import Primitive
from calculus.schemes import Indices
from calculus.types import dtype_class
from verifier.proving import extended
from verifier.proving.judgments import Judgment, of_declaration
from verifier.proving.terms import Pair, Terms, Value
from verifier.proving.tracing import traced
from verifier.samples import Sample
from verifier.solver import INTEGERS, And, Function, Integer, Sort, Term, integer, is_term, simplified

COUNT: Final = Integer("n")
BLOCK: Final = Integer("m")
DEVICE: Final = Integer("d")
OWN: Final = Integer("j")
"""Devices, the elements of a block, a device, and an element of its block."""

PIECES: Final = {state: monoid for monoid, state in PENDING.items()}
"""What is pending, by state."""


class Array:
    """An operand as a function of digits. view: the whole, or what one device holds of it."""

    def __init__(self, read: Callable[..., Value], factors: Sequence[int], indices: Indices, size: Any) -> None:
        self.read, self.factors, self.indices, self.of_factor = read, factors, indices, size

    def __call__(self, digits: Mapping[int, Any]) -> Value:
        """The element at these digits."""
        return self.read(*(_term(digits[factor]) for factor in self.factors))

    def size(self, dim: int) -> Any:
        """The size of a dim."""
        found: Any = 1
        for factor in self.indices[dim]:
            found = self.of_factor(factor) if isinstance(found, int) and found == 1 else found * self.of_factor(factor)
        return found


def _term(digit: Any) -> Term:
    return digit if is_term(digit) else integer(int(digit))


class Setting:
    """One judgment of one call, in terms. Raises `NeedsExtended` where a number is no real number. blind: the kernel
    is not looked into, as it is made of functions of which nothing is known."""

    def __init__(
        self,
        primitive: Primitive,
        sample: Sample,
        number: int,
        judgment: Judgment,
        extended: bool,
        finite: bool,
        blind: bool = False,
    ) -> None:
        self.primitive, self.sample, self.number, self.judgment = primitive, sample, number, judgment
        self.scheme, self.q = of_declaration(primitive, sample, number)
        self.dtype = primitive.dtypes(sample.site)[number]
        self.terms = Terms(extended)
        self.finite = finite
        self.cut = judgment.cut
        self.opaque: list[str] = []
        self.rounded: list[str] = []
        self.blind, self.seen = blind, True
        self.sorts = [self._sort(factor) for factor in range(len(self.scheme.sizes))]
        self.results = [factor for dim in self.scheme.results[number] for factor in dim]

    def _sort(self, factor: int) -> Any:
        """A factor that is only passed along may stand for any number of dims."""
        counted = factor == self.cut or factor in self.scheme.roles or self.scheme.sizes[factor] == 1
        return INTEGERS if counted else Sort(f"place{factor}")

    def size(self, factor: int, local: bool) -> Any:
        """The size of a factor, of a block or of the whole."""
        if factor == self.cut:
            return BLOCK if local else COUNT * BLOCK
        if self.scheme.sizes[factor] == 1:
            return 1
        name = f"size{factor}"

        def make() -> Term:
            self.terms.facts.append((f"{name} is a size", Integer(name) >= 1))
            return Integer(name)

        return self.terms.known(("size", factor), make)

    def digit(self, factor: int, local: bool, over: bool = False, size: Any = None) -> Term:
        """The index of the element that is asked for, or of one that is folded. size: of what is no factor."""
        if factor == self.cut:
            return OWN if local else DEVICE * BLOCK + OWN
        name = f"{'k' if over else 'i'}{factor}"

        def make() -> Term:
            sort = INTEGERS if size is not None else self.sorts[factor]
            found = Function(name, sort)()
            if sort == INTEGERS:
                within = And(found >= 0, found < (self.size(factor, local) if size is None else size))
                self.terms.facts.append((f"{name} is an index", within))
            return found

        return self.terms.known(("digit", factor, over), make)

    def array(self, position: int, name: str, local: bool, pending: bool = False) -> Array:
        """An operand whose elements nobody knows. A device with a block of it reads its own, and anything outside.
        pending: whether it is pieces, which may be infinite where other operands are supposed to be finite."""
        indices = self.scheme.operands[position]
        factors = [factor for dim in indices for factor in dim]
        dtype = self.sample.operands[position].dtype
        sorts = [self.sorts[factor] for factor in factors]
        whole = self.terms.function(name, sorts, dtype)
        if not local or self.cut not in factors:
            read = whole
        else:
            outside = self.terms.function(f"{name} outside", sorts, dtype)
            at = factors.index(self.cut)

            def read(*digits: Term) -> Value:
                own = digits[at]
                moved = (*digits[:at], DEVICE * BLOCK + own, *digits[at + 1 :])
                if own.eq(OWN):
                    return whole(*moved)
                return self.terms.where(And(own >= 0, own < BLOCK), whole(*moved), outside(*digits))

        if self.finite and not pending and self.terms.extended and dtype_class(dtype) == "f":
            read = partial(self._finite, read)
        return Array(read, factors, indices, partial(self.size, local=local))

    def _finite(self, read: Callable[..., Value], *digits: Term) -> Value:
        found = read(*digits)
        self.terms.facts.append((f"{found} is finite", extended.is_finite(found)))
        return found

    def computed(self, arrays: Sequence[Any], local: bool) -> Value | Fold:
        """The element of the result, as the definition says."""
        digits = {factor: self.digit(factor, local) for factor in self.results}
        sizes = {factor: self.size(factor, local) for factor in range(len(self.scheme.sizes))}
        call = Call(self.sample.site, self.scheme, tuple(arrays), digits, sizes, self.dtype, self.number)
        primitive = self.primitive
        if primitive.element is not None:
            try:
                return primitive.element(self.terms, call)
            except NotDefined:
                return self._opaque(arrays, digits, local)
        has = {factor for array in arrays for factor in array.factors}
        if not self.scheme.roles and has <= set(self.results) and len(set(self.scheme.results)) == 1:
            seen = replace(primitive, kernel=None) if self.blind else primitive
            found = traced(self.terms, seen, self.sample.site, [array(digits) for array in arrays], self.dtype,
                           self.number)  # fmt: skip
            self.opaque += found.looked
            self.rounded += found.rounded
            self.seen = self.seen and found.seen
            return found.value
        return self._opaque(arrays, digits, local)

    def _opaque(self, arrays: Sequence[Any], digits: Mapping[int, Any], local: bool) -> Value:
        """Some function of what lies along the dims that it looks along, for each index along the others."""
        self.opaque.append(self.primitive.name)
        self.seen = False
        looked = {factor: Integer(f"along{factor}") for factor in self.scheme.roles}
        own = [digits[factor] for factor in self.results if self.scheme.roles.get(factor)]
        arguments = []
        for position, array in enumerate(arrays):
            if position not in self.q.signature.unseen:
                at = {factor: looked.get(factor, digits.get(factor)) for factor in array.factors}
                missing = [factor for factor, digit in at.items() if digit is None]
                at |= {factor: Integer(f"along{factor}") for factor in missing}
                arguments.append(array(at))
        keep = [simple(part) for one in arguments for part in (one if isinstance(one, Pair) else (one,))]
        sizes = tuple(str(simplified(_term(self.size(factor, local)))) for factor in sorted(self.scheme.roles))
        self.terms.known(("kept", len(self.opaque), local), lambda: keep)
        name = self.terms.known(
            ("opaque", tuple(part.get_id() for part in keep), sizes),
            lambda: f"{self.primitive.name} of these {len(self.opaque)}",
        )
        return self.terms.opaque(name, own, self.dtype) if own else self.terms.function(name, [], self.dtype)()


def simple(term: Term) -> Term:
    """The term as a sum of products."""
    return simplified(term, som=True)
