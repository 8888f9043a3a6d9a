"""Where cells begin and end: Refs that are made of a value, made empty, read for the last time, and those that last for
one body. What is done to them in between: `calculus.cells`. Seed A40."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calculus.bodies import Formed, agree, enter, leave, program_of
from calculus.cells import held
from calculus.effects import Inner
from calculus.judgments import need, rule
from calculus.programs import Equation
from calculus.refusals import Place, refuse
from calculus.rules import Typing, agreeing
from calculus.types import ArrayType, OpaqueType, RefType, array_type
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

    So is what a cell held when it is freed, which nothing reads. That nothing uses the cell afterwards:
    `calculus.endings`.
    """
    need(
        len(operands) == 1 and len(equation.types) == (equation.primitive == "freeze"),
        "arity",
        lambda: f"{equation.primitive} has {len(operands)} operands and {len(equation.types)} results",
        because="it ends one cell",
    )
    inner = held(operands, equation.primitive)
    types = (agreeing(inner, equation.types[0], 0),) if equation.types else ()
    checker.ending = True
    return Typing(types), (), False


def _counts(equation: Equation, operands: Sequence[Operand], count: int) -> None:
    need(
        len(operands) == count and len(equation.types) == 1,
        "arity",
        lambda: f"{equation.primitive} has {len(operands)} operands and {len(equation.types)} results",
        because="it makes one cell",
    )


@rule
def run_state(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        a₁ : Ref{τ₁} … aₙ : Ref{τₙ} ⊢ body ▷ κ
        ────────────────────────────────────────────────── run-state
        Γ ⊢ run_state[jaxpr=body] x₁ … xₙ : τ₁ … τₙ ▷ κ

    Cells that last for one body: they hold the operands before, and the results after.
    """
    program = program_of(equation, "jaxpr")
    given = equation.parameters.get("is_initialized")
    need(
        not isinstance(given, (tuple, list)) or all(one is True for one in given),
        "unmodelled-construct",
        lambda: "a run_state with cells that hold nothing at first",
        because="what a cell holds before it is written is no value",
        help="give each cell a value",
        place=Place("parameter", name="is_initialized"),
    )
    types = [operand_type(operand) for operand in operands]
    for index, type in enumerate(types):
        need(
            isinstance(type, ArrayType),
            "dtype",
            lambda index=index, type=type: f"operand {index} of run_state is {type}",  # type: ignore[misc]
            because="a cell holds one array",
            place=Place("operand", index),
        )
    cells = [RefType(type) for type in types if type is not None]
    checked = enter(checker, program, scope, cells, "run_state")
    results = leave(checker, equation, types, "run_state")
    return Typing(results), (Inner(checked, 1, "run_state", every=True),), False  # type: ignore[arg-type]


@rule
def pin(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        Γ ⊢ x : τ
        ───────────────────────── pin
        Γ ⊢ unpin (pin x) : τ

    A pinned array stays where it is in memory, and nothing reads it until it is unpinned.
    """
    taken = operand_type(operands[0]) if len(operands) == 1 else None
    made = equation.types[0] if len(equation.types) == 1 else None
    pinned, array = (made, taken) if equation.primitive == "pin" else (taken, made)
    pinned = pinned if isinstance(pinned, OpaqueType) else None
    inner = array if isinstance(array, ArrayType) else None
    held_so = pinned is not None and inner is not None and pinned.text.startswith(
        f"AbstractLinVal(inner_aval=ShapedArray({inner.long})"
    )  # fmt: skip
    need(
        held_so,
        "inconsistent-type",
        lambda: f"{equation.primitive} takes {taken} to {made}",
        because="what is pinned is an array, and keeps its type",
        help="print the pinned type as JAX does",
        place=Place("binder", 0) if equation.types else None,
    )
    return Typing((made,)), (), True  # type: ignore[arg-type]


@rule
def create_linear(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        the result is printed as pinned
        ──────────────────────────────────────── create-linear
        Γ ⊢ create_linear[ty] : a pinned array

    That it is written before it is read is assumed.
    """
    _counts(equation, operands, 0)
    made = equation.types[0]
    need(
        isinstance(made, OpaqueType) and made.text.startswith("AbstractLinVal("),
        "choose-type",
        lambda: f"create_linear makes {made}",
        because="its type is printed nowhere else",
        help="print the pinned type as JAX does",
        place=Place("binder", 0),
    )
    checker.assume("create_linear")
    return Typing((made,)), (), False  # type: ignore[arg-type]
