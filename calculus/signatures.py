"""Linearity signatures: in which operands a primitive is linear, and how.

    signature ::= [groups] ["/" names] [";" names] ["~" names]         groups ::= names ("|" names)*

Operands named in one group are *jointly* linear (f(x+x′, y+y′) = f(x,y) + f(x′,y′)), groups are *separately* linear
(the others held fixed); after `/` stand operands that are differentiable but not linear, after `;` those that have no
derivative: indices, predicates, keys. Linear means additive in the arithmetic of the dtype at hand.

Of several results each has a signature of its own; after `~` stand operands that it does not depend on at all.

    add: x y      mul: x | y      div: x / y      cos: / x      select_n: x y ; which      gt: ; x y      iota: (empty)

One operand may be variadic: `xs...` stands for any number of operands, all in the place where it is named;
`Signature.of(count)` says how many. *Joins* say where f commutes with a maximum or minimum over devices, which is
where it is total and monotone, coordinate by coordinate, with the other operands the same on every device and finite:

    joins ::= join ("|" join)*        join ::= ["-"] name | names | ("max" | "min") "(" names ")"

    exp: x      neg: -x      sub: x | -y      select_n: x y      max: max(x y) | x | y

`-x` is antitone in x and swaps the two kinds. Several names in one join commute jointly: with both kinds when the
result is a choice of coordinates, with one kind (`max(x y)`) for that operation itself. Never declare a sum here, a
cumulated sum, or a map that is undefined somewhere (log): those do not commute.

What is pending is numpy's `maximum` or `minimum`, over the whole dtype. The infinities are its ends, false is below
true, -0.0 and 0.0 are one number, and NaN absorbs: a maximum is NaN if the piece of any device is, and a minimum too.
So a map of floats must take NaN to NaN, which a comparison does not, and nothing else to NaN, which logarithms and
square roots do; with one kind some of these commute all the same (`min(x)`: what is NaN below a point is so at the
least piece). Integers wrap, so adding to them is not monotone. Complex numbers and keys have no order; moving them
commutes all the same. A function that rounds is taken for monotone, as its library means it to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from calculus.refusals import refuse

_JOIN = re.compile(r"(?P<sign>-?)\s*(?:(?P<kind>max|min)\((?P<inside>[^()]*)\)|(?P<names>[^()]*))")


COTANGENT = "the cotangent"
"""The operand that stands in the operand's place in a transpose."""


@dataclass(frozen=True, slots=True)
class Join:
    """Operands in which the primitive commutes with a pending maximum or minimum, jointly. `kinds`: with which of
    the two. `antitone`: it turns the one into the other."""

    operands: tuple[int, ...]
    kinds: tuple[str, ...] = ("max", "min")
    antitone: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """A linearity signature by operand position. Build it with `parse`.

    names: the operands' names, for messages. groups: jointly linear operands. nonlinear: differentiable, not linear.
    index: no derivative. unseen: nothing depends on them. variadic: the position of the operand that stands for any
    number, or `None`.
    """

    names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    nonlinear: tuple[int, ...] = ()
    index: tuple[int, ...] = ()
    joins: tuple[Join, ...] = ()
    variadic: int | None = None
    unseen: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str, operands: str | Iterable[str] | None = None, join: str = "") -> Signature:
        """Read the notation above. `operands` gives the operands' order where it is not the order of appearance; a
        variadic one is written `xs...` in the text. Raises `ValueError` on a name that is missing, unknown or
        repeated."""
        seen, _, unseen = text.partition("~")
        linear, _, index = seen.partition(";")
        linear, _, nonlinear = linear.partition("/")
        groups = [names for group in linear.split("|") if (names := group.split())]
        sections = [*groups, nonlinear.split(), index.split(), unseen.split()]
        mentioned = [name for names in sections for name in names]
        plain = [name.removesuffix("...") for name in mentioned]
        order = operands.split() if isinstance(operands, str) else list(mentioned if operands is None else operands)
        order = [name.removesuffix("...") for name in order]
        if sorted(plain) != sorted(set(order)) or len(order) != len(plain):
            raise ValueError(f"signature {text!r} must place each of the operands {' '.join(order)} once")
        many = [name for name in mentioned if name.endswith("...")]
        if len(many) > 1:
            raise ValueError(f"signature {text!r} has more than one variadic operand")
        where = {name: position for position, name in enumerate(order)}

        def positions(names: Iterable[str]) -> tuple[int, ...]:
            try:
                return tuple(sorted(where[name.removesuffix("...")] for name in names))
            except KeyError as error:
                raise ValueError(f"{error.args[0]!r} is not an operand of {text!r}") from None

        joins = []
        for part in filter(None, (part.strip() for part in join.split("|"))):
            found = _JOIN.fullmatch(part)
            names = (found["inside"] or found["names"] or "").split() if found else []
            if found is None or not names or (found["sign"] and len(names) > 1):
                raise ValueError(f"{part!r} is not a join")
            kinds = (found["kind"],) if found["kind"] else ("max", "min")
            joins.append(Join(positions(names), kinds, bool(found["sign"])))
        return cls(
            tuple(order),
            tuple(positions(group) for group in groups),
            positions(nonlinear.split()),
            positions(index.split()),
            tuple(joins),
            positions(many)[0] if many else None,
            positions(unseen.split()),
        )

    @property
    def arity(self) -> int:
        """The number of operands, a variadic one counted once."""
        return len(self.names)

    @property
    def differentiable(self) -> bool:
        """Whether the primitive has a derivative with respect to any operand."""
        return bool(self.groups or self.nonlinear)

    def of(self, count: int) -> Signature:
        """This signature for `count` operands, the variadic one spread out. Refuses `arity` where that is impossible:
        a variadic operand stands for one or more, beside others for any number."""
        return _spread(self, count)

    def linear_operands(self) -> Iterator[tuple[int, int]]:
        """Each linear operand with the number of its group."""
        for number, group in enumerate(self.groups):
            for operand in group:
                yield operand, number

    def sections(self) -> tuple[int, ...]:
        """Where each operand stands: the number of its group, -1 for nonlinear, -2 for no derivative."""
        places = dict(self.linear_operands()) | dict.fromkeys(self.nonlinear, -1)
        return tuple(places.get(operand, -2) for operand in range(self.arity))

    def transposed(self, operand: int, kept: tuple[int, ...]) -> Signature:
        """The signature of the transpose with respect to a linear operand, which alone is left of its group: the
        cotangent in its place. `kept` lists the operands that stay."""
        new = {old: position for position, old in enumerate(kept)}

        def renamed(operands: Iterable[int]) -> tuple[int, ...]:
            return tuple(new[old] for old in operands if old in new)

        return Signature(
            tuple(COTANGENT if old == operand else self.names[old] for old in kept),
            tuple(renamed(group) for group in self.groups),
            renamed(self.nonlinear),
            renamed(self.index),
            unseen=renamed(self.unseen),
        )

    def joined(self, operands: set[int], kind: str) -> set[str]:
        """The kinds of the result when these operands are pending a `kind` and all others are the same on every
        device, by each join that covers them. Operands that are not pending are idempotent, so a subset will do."""
        other = "min" if kind == "max" else "max"
        return {
            other if join.antitone else kind
            for join in self.joins
            if kind in join.kinds and operands <= set(join.operands)
        }


@cache
def _spread(signature: Signature, count: int) -> Signature:
    extra = count - signature.arity
    none = extra == -1 and signature.variadic is not None and signature.arity > 1
    if (extra < 0 and not none) or (extra and signature.variadic is None):
        bound = "at least " if signature.variadic is not None else ""
        raise refuse(
            "arity",
            f"{count} operands where {bound}{signature.arity} are declared: {', '.join(signature.names)}",
            because="a primitive takes the operands that it is declared with",
        )
    at = signature.variadic
    if at is None:
        return signature

    def spread(operands: Iterable[int]) -> tuple[int, ...]:
        found: list[int] = []
        for operand in operands:
            if operand == at:
                found.extend(range(at, at + extra + 1))
            else:
                found.append(operand if operand < at else operand + extra)
        return tuple(found)

    name = signature.names[at]
    many = [f"{name}{number}" for number in range(extra + 1)]
    return Signature(
        (*signature.names[:at], *many, *signature.names[at + 1 :]),
        tuple(filter(None, map(spread, signature.groups))),
        spread(signature.nonlinear),
        spread(signature.index),
        tuple(
            Join(spread(join.operands), join.kinds, join.antitone)
            for join in signature.joins
            if join.operands != (at,) or not none
        ),
        unseen=spread(signature.unseen),
    )
