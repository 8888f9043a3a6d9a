"""Why a changed type may be well typed all the same: each reason of `well_typed_changes.toml` as a test of the change.

A reason looks at the program and at the two types only. It shares no rule with the calculus.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from calculus.programs import Equation, Literal
from calculus.types import ArrayType, Type
from tests.laws.changes import Binder

LIST = Path(__file__).with_name("well_typed_changes.toml")

#: their target is a parameter that is not printed, so their printed type says it
HIDDEN_TARGET = ("reshard", "dot_general", "broadcast_in_dim")
ELEMENTWISE = ("mul", "add", "sub", "max", "add_any")

Reason: TypeAlias = "Callable[[Binder, ArrayType, ArrayType], bool]"


def frozen() -> dict[str, Any]:
    return tomllib.loads(LIST.read_text(encoding="utf-8"))


def placement_only(before: ArrayType, after: ArrayType) -> bool:
    return (before.shape, before.dtype, before.memory) == (after.shape, after.dtype, after.memory)


def same_value(before: ArrayType, after: ArrayType) -> bool:
    """Placement only, and no kind of pending but a sum."""
    return placement_only(before, after) and after.kind == "sum"


def free(binder: Binder) -> bool:
    """Whether nothing but its printed type says how the value is placed."""
    return (not binder.primitive and not binder.callers) or binder.primitive in HIDDEN_TARGET


def first_user(binder: Binder) -> str:
    users = binder.users()
    return users[0].primitive if users else ""


def copy_along_changes(before: ArrayType, after: ArrayType) -> bool:
    """Along every axis where the two differ, the new type is the same on every device."""
    axes = {*before.mentioned, *after.mentioned}
    return all(before.state(axis) == after.state(axis) or after.state(axis) in ("N", "R") for axis in axes)


def returned(binder: Binder, before: ArrayType, after: ArrayType) -> bool:
    return (
        binder.primitive in HIDDEN_TARGET
        and not binder.users()
        and binder.returned()
        and not binder.callers
        and placement_only(before, after)
    )


def dead(binder: Binder, before: ArrayType, after: ArrayType) -> bool:
    return (
        binder.primitive == "broadcast_in_dim"
        and not binder.users()
        and not binder.returned()
        and (before.dtype, before.memory) == (after.dtype, after.memory)
        and (not after.unreduced or zero(binder.holder))
    )


def zero(holder: object) -> bool:
    return isinstance(holder, Equation) and isinstance(holder.inputs[0], Literal) and holder.inputs[0].zero


def resharded(binder: Binder, before: ArrayType, after: ArrayType) -> bool:
    pending = after.unreduced and binder.primitive == "broadcast_in_dim" and not zero(binder.holder)
    return free(binder) and first_user(binder) == "reshard" and placement_only(before, after) and not pending


def contracted(binder: Binder, before: ArrayType, after: ArrayType) -> bool:
    return free(binder) and first_user(binder) == "dot_general" and same_value(before, after) and not after.unreduced


def widened(binder: Binder, before: ArrayType, after: ArrayType) -> bool:
    user = binder.users()[0] if binder.users() else None
    return (
        not binder.primitive
        and not binder.callers
        and user is not None
        and user.primitive == "dot_general"
        and str(user.parameters.get("preferred_element_type")) == "float32"
        and before.dtype == "f32"
        and after.dtype in ("bf16", "f64")
        and before.axes == after.axes
        and before.shape == after.shape
    )


def sliced(binder: Binder, before: ArrayType, after: ArrayType) -> bool:
    return (
        free(binder)
        and first_user(binder) in (*ELEMENTWISE, "broadcast_in_dim")
        and same_value(before, after)
        and copy_along_changes(before, after)
    )


def stretched(binder: Binder, before: ArrayType, after: ArrayType) -> bool:
    return (
        free(binder)
        and first_user(binder) in ELEMENTWISE
        and before.dtype == after.dtype
        and before.rank == after.rank
        and before.shape != after.shape
        and all(new in (old, 1) for old, new in zip(before.shape, after.shape, strict=True))
        and copy_along_changes(before, after)
    )


def summed(binder: Binder, before: ArrayType, after: ArrayType) -> bool:
    user = binder.users()[0] if binder.users() else None
    return (
        free(binder)
        and user is not None
        and user.primitive == "reduce_sum"
        and user.parameters.get("axes") == tuple(range(before.rank))
        and same_value(before, after)
        and not after.marked
    )


REASONS: dict[str, Reason] = {
    reason.__name__: reason for reason in (returned, dead, resharded, contracted, widened, sliced, stretched, summed)
}


def holds(name: str, binder: Binder, after: Type) -> bool:
    before = binder.type
    if not isinstance(before, ArrayType) or not isinstance(after, ArrayType):
        return False
    return REASONS[name](binder, before, after)
