"""The catalogue of refusals: every way in which the calculus says no, and the one exception that carries it.

A refusal is data. It names a *code* (one row of `CATALOGUE`), the *place* it points at, what is wrong,
*because* (one sentence of mathematics) and *help* (a repair). The family says what kind of no it is; the five
families are never mixed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field


class Family(enum.Enum):
    """What a refusal means for the person who reads it."""

    MALFORMED = "malformed"  # not the language: no verdict about the program
    UNSOUND = "unsound"  # the result would read back wrong
    ONE_WAY = "one-way"  # right forward, but its transpose would communicate
    AMBIGUOUS = "ambiguous"  # several answers; say which
    UNMODELLED = "unmodelled"  # the calculus has no rule for this construct yet


CATALOGUE: dict[str, tuple[Family, str]] = {
    # the language
    "syntax": (Family.MALFORMED, "the text is not a program or a type"),
    "too-deep": (Family.MALFORMED, "the text nests deeper than the reader follows"),
    "not-text": (Family.MALFORMED, "the input is not readable text"),
    "no-function": (Family.MALFORMED, "the name leads to no function that can be traced"),
    "cyclic-definition": (Family.MALFORMED, "a hoisted definition refers to itself"),
    "unknown-definition": (Family.MALFORMED, "a parameter names a definition that does not exist"),
    "bad-parameter": (Family.MALFORMED, "a parameter is missing or has no meaning for its primitive"),
    "bad-mesh": (Family.MALFORMED, "the mesh is not well formed"),
    # names and scopes
    "unbound-variable": (Family.MALFORMED, "a variable is used before it is bound"),
    "rebound-variable": (Family.MALFORMED, "a variable is bound twice in one scope"),
    "arity": (Family.MALFORMED, "the number of operands, results or arguments is wrong"),
    # types against a mesh
    "unknown-axis": (Family.MALFORMED, "a type mentions an axis that no mesh has"),
    "repeated-axis": (Family.MALFORMED, "a type mentions a mesh axis more than once"),
    "hidden-axis": (Family.MALFORMED, "a type mentions an axis whose mode hides it from types"),
    "manual-axis-on-dim": (Family.MALFORMED, "a dim is sharded on an axis that is manual"),
    "not-manual": (Family.MALFORMED, "per-device code names an axis that is not manual"),
    "varying-outside-manual": (Family.MALFORMED, "a type varies over an axis that is not manual"),
    "varying-and-reduced": (Family.MALFORMED, "an axis is both varying and reduced or unreduced"),
    "reduced-and-unreduced": (Family.MALFORMED, "an axis is both reduced and unreduced"),
    "two-kinds": (Family.MALFORMED, "a type has two kinds of unreduced"),
    "indivisible": (Family.MALFORMED, "a dim is not divisible by the axes that shard it"),
    "too-large": (Family.MALFORMED, "a type has more dims or elements than any machine counts"),
    # disagreements
    "shape": (Family.UNSOUND, "the shapes do not fit the operation"),
    "dtype": (Family.UNSOUND, "the element types do not fit the operation"),
    "memory": (Family.UNSOUND, "arrays in different memories meet"),
    "sharding": (Family.UNSOUND, "the result's sharding is not the one that the operands determine"),
    "misaligned": (Family.UNSOUND, "dims that travel together are cut in different places"),
    "state": (Family.UNSOUND, "the operation does not commute with what is still pending"),
    "result-state": (Family.UNSOUND, "the result's state is not the one that the operands determine"),
    "inconsistent-type": (Family.UNSOUND, "a value is used at a type that is not its own"),
    "branch-types": (Family.UNSOUND, "the branches of a conditional have different types"),
    "carry-type": (Family.UNSOUND, "a loop's carry changes type from one iteration to the next"),
    "hidden-variation": (Family.UNSOUND, "a value that differs between devices is declared the same"),
    "ended-cell": (Family.UNSOUND, "a cell is used after it has ended"),
    "divergent-collective": (Family.UNSOUND, "devices that must meet in a collective may take different ways"),
    "boundary-spec": (Family.UNSOUND, "a boundary spec does not match the type that crosses it"),
    "no-cast": (Family.UNSOUND, "no cast or collective leads from the one state to the other"),
    "no-cotangent": (Family.UNSOUND, "the value is not differentiable in its state"),
    "not-linear": (Family.UNSOUND, "only a linear program has a transpose"),
    # right forward, not backward
    "transpose-communicates": (Family.ONE_WAY, "right forward, but the transpose would have to communicate"),
    "mixed-variation": (Family.ONE_WAY, "a varying and an invarying operand meet without a cast"),
    # several answers
    "contraction-target": (Family.AMBIGUOUS, "a sharded contraction has several results"),
    "conflicting-sharding": (Family.AMBIGUOUS, "operands disagree on how a dim is sharded"),
    "mixed-meshes": (Family.AMBIGUOUS, "arrays on different meshes meet"),
    "axis-used-twice": (Family.AMBIGUOUS, "the result would be sharded twice on one axis"),
    "whole-dim-sharded": (Family.AMBIGUOUS, "the operation needs a whole dim that is sharded"),
    "choose-state": (Family.AMBIGUOUS, "the operands allow several states of the result"),
    "choose-type": (Family.AMBIGUOUS, "the result type is not determined and not printed"),
    # not written
    "unmodelled-primitive": (Family.UNMODELLED, "the table has no declaration for this primitive"),
    "unmodelled-construct": (Family.UNMODELLED, "the calculus has no rule for this construct"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """What a refusal points at, inside one equation (or one type): resolved to a column only when it is shown.

    `part` is one of `primitive`, `operand`, `binder`, `parameter`, `output` (of the program), `input`
    (of the program), `type`. `index` counts from 0 where there are several; `name` is a parameter's name. Where the
    type of a binder or an input is wrong, `axis` or `dim` (from 0) says what in it.
    """

    part: str = "primitive"
    index: int = 0
    name: str = ""
    axis: str = ""
    dim: int | None = None

    def of(self, part: str, index: int) -> Place:
        """The same axis or dim, in the type of a binder or an input."""
        return Place(part, index, axis=self.axis, dim=self.dim)


@dataclass(slots=True)
class Refusal:
    """One refusal, as it is reported.

    `line` and `column` count from 1; 0 means not known. `trail` names the enclosing constructs, innermost first.
    `repair` is the help, or makes it when it is read: that takes longer than to refuse.
    """

    code: str
    message: str
    because: str = ""
    repair: str | Callable[[], str] = field(default="", compare=False)
    place: Place = field(default_factory=Place)
    line: int = 0
    column: int = 0
    trail: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """A repair, in words."""
        if not isinstance(self.repair, str):
            self.repair = self.repair()
        return self.repair

    @help.setter
    def help(self, words: str) -> None:
        self.repair = words

    @property
    def family(self) -> Family:
        """The family of this refusal's code."""
        return CATALOGUE[self.code][0]

    @property
    def rule(self) -> str:
        """The catalogue's sentence for this refusal's code."""
        return CATALOGUE[self.code][1]


class Refused(Exception):
    """The one way in which a rule says no. It carries a `Refusal`."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def refuse(
    code: str, message: str, *, because: str = "", help: str | Callable[[], str] = "", place: Place | None = None
) -> Refused:
    """The exception for one refusal; `raise refuse(...)`. Raises `KeyError` for a code outside the catalogue."""
    CATALOGUE[code]
    return Refused(Refusal(code, message, because, help, place or Place()))
