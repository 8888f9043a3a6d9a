"""Constructs that pass a value on beside another, look at values and give none back, or count what is the same on every
device; and the solution of a linear system whose solver somebody else brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calculus.bodies import Formed, unchanged
from calculus.judgments import need, rule
from calculus.parameters import dim_number, integer, required
from calculus.programs import Call, Equation
from calculus.refusals import Place, refuse
from calculus.rules import Typing, agreeing
from calculus.types import ArrayType, Type, array_type
from calculus.uses import Operand, operand_type

if TYPE_CHECKING:
    from calculus.checking import Checker, Scope

KEPT: Final = {"tie": 1, "add_dependency": 0}
"""Which of two operands the result is."""


@rule
def beside(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ x : σ      Γ ⊢ y : τ
        ───────────────────────── beside
        Γ ⊢ tie x y : τ

    One value is computed after the other, and is what it is.
    """
    need(
        len(operands) == 2 and len(equation.types) == 1,
        "arity",
        lambda: f"{equation.primitive} has {len(operands)} operands and {len(equation.types)} results",
        because="it passes one value on beside another",
    )
    type = operand_type(operands[KEPT[equation.primitive]], equation.types[0])
    if type is None:
        raise refuse("choose-type", f"neither {equation.primitive} nor its literal prints a type")
    unchanged(equation, type, "a dependency changes nothing that a type says")
    return Typing((type,)), (), True


@rule
def observe(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        what is asserted is a truth value, whole on every device
        ──────────────────────────────────────────────────────── observe
        Γ ⊢ check p x₁ … xₙ

    Nothing comes of looking at a value.
    """
    need(
        not equation.types,
        "arity",
        lambda: f"{equation.primitive} has {len(equation.types)} results",
        because="it looks at values and gives none back",
        place=Place("binder", 0),
    )
    if equation.primitive in _ASSERTS:
        type = operand_type(operands[0], array_type("bool")) if operands else None
        if not isinstance(type, ArrayType) or type.dtype != "bool":
            raise refuse(
                "dtype",
                f"{equation.primitive} asserts {type}",
                because="what is asserted is a truth value",
                place=Place("operand", 0) if operands else None,
            )
        need(
            not type.unreduced,
            "state",
            lambda: f"{equation.primitive} asserts {type}, still unreduced",
            because="each device would look at its own piece",
            help="reshard it first",
            place=Place("operand", 0),
        )
    return Typing(()), (), True


_ASSERTS: Final = ("check", "shape_assertion")


@rule
def count(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        x has a dim d
        ──────────────────────────────────── count
        Γ ⊢ dimension_size[dimension=d] x : i

    A size, whatever x holds, is one number on all devices; so is what a symbolic size stands for, and which of several
    platforms a program runs on.
    """
    name = equation.primitive
    need(
        len(operands) == (name == "dimension_size") and len(equation.types) == 1,
        "arity",
        lambda: f"{name} has {len(operands)} operands and {len(equation.types)} results",
        because="it makes one number",
    )
    if operands:
        type = operand_type(operands[0])
        dim_number(equation.parameters, "dimension", type.rank if isinstance(type, ArrayType) else 0)
    printed = equation.types[0]
    dtype = printed.dtype if isinstance(printed, ArrayType) and printed.dtype in ("i32", "i64") else "i32"
    return Typing((agreeing(array_type(dtype), printed, 0),)), (), True


@rule
def linear_solve(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ b : τ      nothing is pending or reduced      a varies at most over what b varies over
        ────────────────────────────────────────────────────────────────────────────────────────── linear-solve
        Γ ⊢ custom_linear_solve[…] a b : τ, and what else the solver finds

    The solution lies where b does. The functions that apply the system and solve it are printed as text inside of text;
    that they take b's type to it, and what they communicate, is assumed.
    """
    lengths = required(equation.parameters, "const_lengths")
    held = sum(integer(number, "const_lengths") for _, number in lengths.keywords) if isinstance(lengths, Call) else -1
    sides = len(operands) - held
    need(
        held >= 0 and 0 < sides <= len(equation.types),
        "arity",
        lambda: f"const_lengths hold {held} of {len(operands)} operands, for {len(equation.types)} results",
        because="what the functions close over stands first, and each right side has a solution",
        place=Place("parameter", name="const_lengths"),
    )
    found: list[Type] = []
    system = [type for operand in operands[:held] if isinstance(type := operand_type(operand), ArrayType)]
    for index, (operand, printed) in enumerate(zip(operands[held:], equation.types, strict=False)):
        type = operand_type(operand, printed)
        if not isinstance(type, ArrayType):
            raise refuse("dtype", f"a right side is {type}, not an array", place=Place("operand", held + index))
        need(
            not type.marked and not any(one.marked for one in system),
            "unmodelled-construct",
            lambda type=type: f"custom_linear_solve of {type}",  # type: ignore[misc]
            because="whether a solver that is not read commutes with what is pending is not known",
            help="reshard what is unreduced or reduced first",
            place=Place("operand", held + index),
        )
        hidden = sorted({axis for one in system for axis in one.varying if axis not in type.varying})
        if hidden:
            raise refuse(
                "hidden-variation",
                f"the system varies over {', '.join(hidden)}, and the right side is {type}",
                because="devices that solve different systems have different solutions",
                help=f"cast the right side with pvary over {', '.join(hidden)}",
                place=Place("operand", held + index),
            )
        found.append(agreeing(type, printed, index))
    for index, printed in enumerate(equation.types[sides:], sides):
        if printed is None:
            raise refuse("choose-type", "what else a solver finds has no type", place=Place("binder", index))
        found.append(printed)
    checker.assume(equation.primitive)
    return Typing(tuple(found)), (), False
