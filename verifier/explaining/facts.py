"""What of the forward program decides a collective of the backward pass.

The type of a cotangent is a function of its primal's type alone (theorem `types-are-a-function`), and what an equation
contributes to the backward pass is one of the equation and the types around it (theorem `local`). So the type of one
value, where it is used, decides whether its cotangent is summed, gathered or left pending: that is the fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from calculus.collectives import PLACING
from calculus.communication import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, PERMUTE, REDUCE_SCATTER, UNKNOWN
from calculus.cotangents import cotangent
from calculus.effects import Charge
from calculus.programs import Equation
from calculus.refusals import Refused
from calculus.types import ArrayType, Axes, Type

CAST: Final = "cast"
REPLICATED: Final = "replicated"
SHARDED: Final = "sharded"
REDUCED: Final = "reduced"
AGAIN: Final = "again"
BESIDE: Final = "beside"
UNTRACKED: Final = "untracked"
RULE: Final = "rule"
OTHER: Final = "other"
OWN: Final = ("custom_vjp_call", "custom_vjp_call_jaxpr")
"""The calls whose backward pass is code of somebody's own."""


class Use(NamedTuple):
    """A value where the forward program uses it. equation: that uses it. operand: which of its operands it is; `None`
    where that is not known. name: what people call the value, empty where nobody does. types: of the operands."""

    equation: Equation
    operand: int | None
    name: str
    types: tuple[Type | None, ...]

    @property
    def type(self) -> Type | None:
        """The type of the value."""
        return None if self.operand is None else self.types[self.operand]


class Fact(NamedTuple):
    """A fact of the forward program. state: of the value along the axes: `replicated`, `sharded`, `reduced`; `cast`
    where the equation changes its placement; `again` where it is moved in the forward pass and moved again;
    `beside` where no cotangent is moved, but what the derivative is computed from; `untracked` where no type tells;
    `rule` where a rule of somebody's own moves it; `other`. value: what people call it (`params['w']`), empty where
    nobody does. type: its type, where it is used. use: where that is; `None` where that is not known. says: all of it
    in a sentence."""

    state: str
    value: str
    type: Type | None
    use: Use | None
    says: str

    def data(self) -> dict[str, object]:
        """The fact as plain data."""
        return {
            "state": self.state,
            "value": self.value,
            "type": None if self.type is None else str(self.type),
            "primitive": None if self.use is None else self.use.equation.primitive,
            "says": self.says,
        }


def fact(charge: Charge, use: Use | None, moved: str = "") -> Fact:
    """What decides a collective of the backward pass. use: the value whose cotangent it makes, where the forward
    program uses it. moved: what people call the forward value that it moves, where it moves none that is a cotangent.
    """
    kind, axes = charge.collective.kind, charge.collective.axes
    along = ", ".join(axes)
    if moved:
        told = f"{moved} is sharded along {along}, and the backward pass needs it whole: it is gathered again"
        return Fact(AGAIN, moved, None, use, told)
    if use is not None and use.equation.primitive in PLACING:
        return _cast(charge, use)
    if use is not None and use.equation.parameters.get("check_vma") is False:
        name = use.name or "an input"
        told = (
            f"with check_vma=False no type tells what varies: {name} enters whole along {along}, so its cotangent is "
            "summed, needed or not"
        )
        return Fact(UNTRACKED, use.name, use.type, use, told)
    if use is not None and use.equation.primitive in OWN:
        return _own(charge, use)
    type = _primal(charge, use)
    name = use.name if use is not None and use.name else _unnamed(use)
    value = use.name if use is not None else ""
    shown = f"{name} {type}" if type is not None and not value else name
    state = _state(type, axes)
    gradient = "gradient" if value else "cotangent"
    if kind in (ALL_REDUCE, REDUCE_SCATTER) and state == REPLICATED:
        where = " in every iteration" if _loops(charge) else ""
        return Fact(state, value, type, use, f"{shown} is replicated along {along}: its {gradient} is summed{where}")
    if kind in (ALL_REDUCE, REDUCE_SCATTER) and state == SHARDED:
        told = (
            f"{shown} is sharded along {along} and used whole: its {gradient} is summed, and each device keeps a part"
        )
        return Fact(state, value, type, use, told)
    if kind == ALL_GATHER and state == REPLICATED:
        told = (
            f"{shown} is replicated along {along} and meets a value that is sharded there: its {gradient} is gathered"
        )
        return Fact(state, value, type, use, told)
    what = f"the transpose of {use.equation.primitive}" if use is not None else "the backward pass"
    said = {
        ALL_TO_ALL: f"exchanges the blocks of its {gradient} back",
        PERMUTE: f"sends the blocks of its {gradient} the way back",
        UNKNOWN: "leaves communication to the compiler",
    }
    told = f"{shown} is moved along {along}: {what} {said.get(kind, f'moves its {gradient}')}"
    return Fact(OTHER, value, type, use, told)


def _cast(charge: Charge, use: Use) -> Fact:
    """A change of placement, which the backward pass undoes between the types of cotangents."""
    before, after = use.types[use.operand or 0], use.equation.types[0]
    name = use.name or "a value"
    gradient = "gradient" if use.name else "cotangent"
    along = ", ".join(charge.collective.axes)
    if isinstance(after, ArrayType) and set(charge.collective.axes) <= set(after.reduced):
        often = " in every iteration" if _loops(charge) else " once"
        told = (
            f"{name} is cast to reduced along {along} here: its {gradient} stays a pending sum up to here, and is "
            f"summed{often}"
        )
    elif use.equation.primitive == "pvary":
        told = (
            f"{name} is the same along {along} and each device uses its own copy from here on: its {gradient} is summed"
        )
    elif before == after:
        told = (
            f"with check_vma=False no type tells what varies: the transpose of {use.equation.primitive} is one over "
            f"{along} again"
        )
        return Fact(UNTRACKED, use.name, before, use, told)
    else:
        told = (
            f"{name} goes from {before} to {after} here: its {gradient} goes back, from {_ct(after)} to {_ct(before)}"
        )
    return Fact(CAST, use.name, before, use, told)


def _own(charge: Charge, use: Use) -> Fact:
    """What the backward rule of a custom_vjp does itself."""
    one, along = charge.equation, ", ".join(charge.collective.axes)
    rule = f"the backward rule of {use.equation.parameters.get('name') or 'a function'} (custom_vjp)"
    return Fact(RULE, use.name, use.type, use, f"{rule} communicates along {along} itself: its {one.primitive} does")


def remade(equation: Equation) -> Fact:
    """Of what the forward pass communicates, computed again in the backward pass."""
    told = f"{equation.primitive} is part of what the backward pass computes again (rematerialisation)"
    return Fact(AGAIN, "", None, None, told)


def beside(equation: Equation) -> Fact:
    """Of what is computed beside the forward pass."""
    told = f"{equation.primitive} is computed beside the forward pass, for the derivative alone"
    return Fact(BESIDE, "", None, None, told)


def finished(charge: Charge, use: Use) -> Fact:
    """What decides that a pending sum is finished where a step has its gradients. use: the cast to reduced."""
    along = ", ".join(charge.collective.axes)
    often = " in every iteration" if _loops(charge) else " once"
    name = use.name or "a value"
    told = f"{name} is used as reduced along {along}: its gradient is a pending sum, which is finished here,{often}"
    return Fact(CAST, use.name, use.types[0], use, told)


def cotangent_or_none(type: Type | None) -> Type | None:
    """The type of a cotangent; `None` where there is none."""
    try:
        return None if type is None else cotangent(type)
    except Refused:
        return None


def _ct(type: Type | None) -> str:
    found = cotangent_or_none(type)
    return "?" if found is None else str(found)


def _primal(charge: Charge, use: Use | None) -> Type | None:
    """The type of the value whose cotangent a collective makes: as it is used, else what the cotangent's type says."""
    if use is not None and use.type is not None:
        return use.type
    return cotangent_or_none(next(iter(charge.equation.types), None))


def _state(type: Type | None, axes: Axes) -> str:
    """The state of a value along axes, where it is one state along all."""
    if not isinstance(type, ArrayType):
        return OTHER
    cut = {axis for dim in type.axes for axis in dim}
    for state, those in ((SHARDED, cut), (REDUCED, {*type.reduced}), (OTHER, {*type.unreduced, *type.varying})):
        if not those.isdisjoint(axes):
            return state if those.issuperset(axes) else OTHER
    return REPLICATED


def _loops(charge: Charge) -> bool:
    return any(label.startswith(("scan", "while")) and not label.endswith(" x1") for label in charge.inside)


def _unnamed(use: Use | None) -> str:
    return "a value" if use is None or use.operand is None else f"operand {use.operand} of {use.equation.primitive}"


def types_match(one: Type | None, other: Type | None) -> bool:
    """Whether two types are of one array, up to the order of its dims."""
    if not isinstance(one, ArrayType) or not isinstance(other, ArrayType):
        return False
    dims: list[Sequence[object]] = [sorted(zip(map(str, type.shape), type.axes, strict=True)) for type in (one, other)]
    states = [(set(type.reduced), set(type.unreduced), set(type.varying)) for type in (one, other)]
    return dims[0] == dims[1] and states[0] == states[1]
