"""Where cells begin and end: Refs that are made of a value, made empty, read for the last time, and those that last for
one body. What is done to them in between: `calculus.cells`. Seed A40."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calculus.bodies import Formed, agree
from calculus.cells import held
from calculus.judgments import need, rule
from calculus.programs import Equation
from calculus.refusals import Place, refuse
from calculus.rules import Typing, agreeing
from calculus.types import ArrayType, RefType, array_type
from calculus.uses import Operand, operand_type

if TYPE_CHECKING:
    from calculus.checking import Checker, Scope


@rule
def new_ref(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ x : τ
        ─────────────────────── new-ref
        Γ ⊢ new_ref x : Ref{τ}

    The cell says which memory it is in: its own, or that of x.
    """
    _counts(equation, operands, 1)
    printed = equation.types[0]
    type = operand_type(operands[0], printed.inner if isinstance(printed, RefType) else None)
    need(
        isinstance(type, ArrayType),
        "dtype",
        lambda: f"a cell of {type or operands[0]}, which is not an array",
        because="a cell holds one array",
        place=Place("operand", 0),
    )
    assert isinstance(type, ArrayType)
    inner = array_type(type.dtype, type.shape, type.axes, type.varying, type.unreduced, type.reduced, type.kind)
    return Typing((_cell(equation, inner, type.memory),)), (), True


@rule
def empty_ref(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        the printed cell holds τ
        ───────────────────────────── empty-ref
        Γ ⊢ empty_ref[ty] : Ref{τ}

    That it is written before it is read is assumed: what it holds before is no value.
    """
    _counts(equation, operands, 0)
    printed = equation.types[0]
    need(
        isinstance(printed, RefType) and isinstance(printed.inner, ArrayType),
        "choose-type",
        lambda: "the type of an empty cell is printed nowhere else",
        because="it holds nothing yet that would say it",
        help="write the cell's type after its name",
        place=Place("binder", 0),
    )
    assert isinstance(printed, RefType)
    assert isinstance(printed.inner, ArrayType)
    checker.assume("empty_ref")
    return Typing((_cell(equation, printed.inner, ""),)), (), False


def _cell(equation: Equation, inner: ArrayType, memory: str) -> RefType:
    """The one result: a cell of this type, in the memory that the parameter names, else in that of its value."""
    printed = equation.types[0]
    asked = equation.parameters.get("memory_space")
    space = str(asked) if asked is not None else f"MemorySpace.{memory.capitalize()}" if memory else ""
    found = RefType(inner, space)
    if printed is None or agree(found, printed):
        return found
    raise refuse(
        "memory" if isinstance(printed, RefType) and agree(printed.inner, inner) else "inconsistent-type",
        f"the cell is printed as {printed}, and what it is made of makes it {found}",
        because="a cell has the type of what it holds, in every state",
        help=f"bind it at {found}",
        place=Place("binder", 0),
    )


@rule
def freeze(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ a : Ref{τ}
        ────────────────── freeze
        Γ ⊢ freeze a : τ

    So is what a cell held when it is freed, which nothing reads.
    """
    need(
        len(operands) == 1 and len(equation.types) == (equation.primitive == "freeze"),
        "arity",
        lambda: f"{equation.primitive} has {len(operands)} operands and {len(equation.types)} results",
        because="it ends one cell",
    )
    inner = held(operands, equation.primitive)
    types = (agreeing(inner, equation.types[0], 0),) if equation.types else ()
    return Typing(types), (), True


def _counts(equation: Equation, operands: Sequence[Operand], count: int) -> None:
    need(
        len(operands) == count and len(equation.types) == 1,
        "arity",
        lambda: f"{equation.primitive} has {len(operands)} operands and {len(equation.types)} results",
        because="it makes one cell",
    )
