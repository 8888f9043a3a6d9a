"""What a primitive computes, element by element: a definition to reason with.

A kernel says what a primitive computes of whole arrays, and runs. A *definition* says which elements of the operands
each element of a result is made of, as a function of its index, so that a solver can unfold it. Linearity, monotony and
locality are then consequences. Each definition is held against its kernel (tests/verifier/proving).

Arrays are functions of *digits*: an array has one for each factor of its index list in the scheme, so that a dim which
a reshape groups has several. A digit of a factor that is only passed along may stand for any number of dims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from calculus.programs import Parameters
from calculus.schemes import Factor, Scheme

if TYPE_CHECKING:
    from calculus.primitives.declaration import Site

Digit: TypeAlias = Any
"""An index along a factor: an integer, or a term that stands for one."""
Term: TypeAlias = Any
"""An element of an array, or a term that stands for one."""
Condition: TypeAlias = Any


class NotDefined(Exception):
    """A use of a primitive that its definition does not say: then it is opaque."""


class Array(Protocol):
    """An operand."""

    def __call__(self, digits: Mapping[Factor, Digit]) -> Term:
        """The element at these digits, one for each factor that the array has."""

    def size(self, dim: int) -> Digit:
        """The size of a dim."""


class Arithmetic(Protocol):
    """What definitions are written in: numbers that compute, or terms of a solver."""

    def where(self, condition: Condition, then: Term, otherwise: Term) -> Term:
        """A choice."""

    def all(self, conditions: Iterable[Condition]) -> Condition:
        """Whether all of them hold."""

    def some(self, name: str, value: int, least: int | None = None) -> Digit:
        """A number that a parameter says: proofs hold for every such number, of at least `least`."""

    def divided(self, digit: Digit, by: Digit) -> tuple[Digit, Digit]:
        """Quotient and remainder."""

    def mapped(
        self, name: str, count: int, digits: Sequence[Digit], function: Callable[..., Sequence[int]]
    ) -> Sequence[Digit]:
        """So many digits that are some function of digits: `function` says which, and proofs hold for every one."""

    def before(self, name: str, digit: Digit, term: Callable[[Digit], Term]) -> Digit:
        """The sum of what stands below a digit: some function of it and of all terms."""

    def ranked(
        self, name: str, digit: Digit, size: Digit, keys: Sequence[Callable[[Digit], Term]], least: bool
    ) -> Digit:
        """Where the element stands that comes to this place in the order of the keys, the least or the greatest first;
        of equal ones the first."""

    def extreme(
        self, name: str, sizes: Sequence[Digit], greatest: bool, seen: Callable[..., tuple[Condition, Term]]
    ) -> tuple[Condition, Sequence[Digit]]:
        """Whether anything is seen below these sizes, and where the first of the greatest (or least) stands."""

    def find(
        self, name: str, sizes: Sequence[Digit], holds: Callable[..., Condition]
    ) -> tuple[Condition, Sequence[Digit]]:
        """Whether there are digits below these sizes for which it holds, and the first such."""

    def combine(self, monoid: str, left: Term, right: Term) -> Term:
        """By `sum`, `prod`, `max`, `min`, `and`, `or`, `xor`."""

    def negative(self, element: Term) -> Term:
        """-x."""

    def identity(self, monoid: str, dtype: str) -> Term:
        """What changes nothing when it is combined."""

    def constant(self, value: complex, dtype: str) -> Term:
        """A number as an element."""

    def counted(self, digit: Digit, dtype: str) -> Term:
        """An index as an element."""


class Fold(NamedTuple):
    """Elements gathered up by a monoid, in whatever order. over: the factors that are gone through. term: of their
    digits, in that order. start: what is combined with it once, if anything is. sizes: of what is gone through that is
    no factor of the scheme: the elements of a window that is no array."""

    monoid: str
    over: tuple[Factor, ...]
    term: Callable[..., Term]
    start: Term | None = None
    sizes: Mapping[Factor, Digit] = {}


class Call(NamedTuple):
    """One use of a primitive, as `site` says it at the sizes of a sample.

    digits: of the element that is asked for, one for each factor of the result. sizes: of all factors. result: its
    dtype. number: which one.
    """

    site: Site
    scheme: Scheme
    arrays: tuple[Array, ...]
    digits: Mapping[Factor, Digit]
    sizes: Mapping[Factor, Digit]
    result: str
    number: int = 0

    @property
    def parameters(self) -> Parameters:
        """As the sample prints them."""
        return self.site.parameters

    def digit(self, dim: int) -> Digit:
        """The index along a dim of the result that is not grouped; 0 along one without a factor."""
        factors = self.scheme.results[self.number][dim]
        return self.digits[factors[0]] if factors else 0

    def read(self, position: int, *index: Digit) -> Term:
        """An operand's element at an index along each dim, none of which is grouped."""
        digits = {
            factors[0]: one for factors, one in zip(self.scheme.operands[position], index, strict=True) if factors
        }
        return self.arrays[position](digits)


Element: TypeAlias = Callable[[Arithmetic, Call], "Term | Fold"]
"""The element at `call.digits`."""
