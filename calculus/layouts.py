"""Layouts: how a device's block lies in that device's memory, one level below shardings. Seeds B39 to B44.

    layout     the order of a block's dims in memory, major to minor: (0, 1) is row-major, (1, 0) column-major
    sharding   which block each device holds: the types' business
    format     the two together

No type mentions a layout, so no judgment depends on one, and changing one moves nothing between devices.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from calculus.bodies import unchanged
from calculus.judgments import need, rule
from calculus.parameters import bad, integer, required, sequence
from calculus.programs import Call, Equation, Literal, Parameters, Value, Word
from calculus.refusals import Place, refuse
from calculus.rules import Typing
from calculus.types import ArrayType, Type
from calculus.uses import Operand, operand_type

if TYPE_CHECKING:
    from calculus.checking import Checker, Scope
    from calculus.effects import Inner

AUTO: Final = "AUTO"
"""The layout that leaves the choice to the compiler."""

Layout: TypeAlias = "tuple[int, ...] | str | None"
"""Dims, major to minor; `AUTO`; or `None`, where nothing is said."""


class Format(NamedTuple):
    """A layout and a sharding (any value that is one), each of which may be left open. Build it with `format_of`."""

    layout: Layout = None
    sharding: object = None


def format_of(layout: Layout = None, sharding: object = None) -> Format:
    """The format with these parts. An explicit layout needs a sharding: it orders the dims of a block, and without a
    sharding there is no block. Refuses `bad-parameter`. Seed B40."""
    if isinstance(layout, tuple) and sharding is None:
        raise refuse(
            "bad-parameter",
            f"the layout {layout} comes without a sharding",
            because="a layout orders the dims of a device's block, and the sharding says what the block is",
            help="say the sharding too, or leave the layout to the compiler",
        )
    return Format(layout, sharding)


def strides(shape: Sequence[int], layout: Sequence[int]) -> tuple[int, ...]:
    """How many elements apart neighbours along each dim lie: the meaning of a layout. Raises `ValueError` where the
    layout does not order the dims."""
    if sorted(layout) != list(range(len(shape))):
        raise ValueError(f"{tuple(layout)} does not order {len(shape)} dims")
    found = [0] * len(shape)
    step = 1
    for dim in reversed(layout):
        found[dim] = step
        step *= shape[dim]
    return tuple(found)


class Handover(enum.Enum):
    """What becomes of an array that is given to a compiled program. Seed B43."""

    AS_IT_IS = "as it is"
    RELAID = "relaid first"
    REFUSED = "refused"


def hand_over(wanted: Layout, given: tuple[int, ...], committed: bool) -> Handover:
    """A compiled program takes an array that has the layout it was compiled for. Another one it copies to that layout
    first, unless the array is committed to where and how it lies: then it is refused. Seed B43."""
    if wanted in (None, AUTO, given):
        return Handover.AS_IT_IS
    return Handover.REFUSED if committed else Handover.RELAID


def read_layout(value: Value, name: str) -> Layout:
    """A printed layout: `Layout(major_to_minor=(0, 1), tiling=None, …)`, `AutoLayout` or `None`. Refuses
    `bad-parameter`."""
    if value is None or (isinstance(value, Word) and value == "UnspecifiedValue"):
        return None
    if isinstance(value, Word) and value in ("AutoLayout", "AUTO", "Layout.AUTO"):
        return AUTO
    if not isinstance(value, Call) or value.name != "Layout":
        raise bad(name, value, "a layout")
    order = value.keyword("major_to_minor") if value.keyword("major_to_minor") is not None else value.arguments[:1]
    return tuple(integer(dim, name) for dim in sequence(order, name))


def _orders(layout: Layout, type: ArrayType, name: str) -> None:
    need(
        not isinstance(layout, tuple) or sorted(layout) == list(range(type.rank)),
        "bad-parameter",
        lambda: f"the layout {layout} does not order the {type.rank} dims of {type}",
        because="a layout names every dim of the block once",
        help=f"list the dims 0 to {type.rank - 1}, major to minor",
        place=Place("parameter", name=name),
    )


_FORMATS: Final = frozenset({"in_shardings", "in_layouts", "out_shardings", "out_layouts"})


def check_formats(parameters: Parameters, operands: Sequence[Operand], results: Sequence[Type | None]) -> None:
    """The formats that a call asks for: explicit layouts order their arrays' dims and have shardings beside them, and
    no layout stands where a sharding is wanted. Refuses `bad-parameter`. Seeds B40, B42."""
    if parameters.keys().isdisjoint(_FORMATS):
        return
    for side, values in (("in", operands), ("out", results)):
        shardings, layouts = (_each(parameters, f"{side}_{what}", len(values)) for what in ("shardings", "layouts"))
        for sharding in shardings:
            if isinstance(sharding, Call) and sharding.name == "Layout":
                raise bad(f"{side}_shardings", "a layout alone", "a sharding, or a format, which is both")
        for value, layout, sharding in zip(values, layouts, shardings, strict=True):
            type = value.type if isinstance(value, Literal) else value
            order = read_layout(layout, f"{side}_layouts")
            format_of(order, sharding if isinstance(sharding, Call) else None)
            if isinstance(type, ArrayType):
                _orders(order, type, f"{side}_layouts")


def _each(parameters: Parameters, name: str, count: int) -> tuple[Value, ...]:
    found = parameters.get(name)
    if not isinstance(found, (tuple, list)):
        return (None,) * count
    need(
        len(found) == count,
        "arity",
        lambda: f"{name} has {len(found)} entries for {count} arrays",
        because="each array has its own",
        place=Place("parameter", name=name),
    )
    return tuple(found)


@rule
def layout_constraint(
    checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope
) -> tuple[Typing, tuple[Inner, ...], bool]:
    """
        Γ ⊢ x : τ      the layout orders the dims of τ
        ────────────────────────────────────────────── layout-constraint
        Γ ⊢ layout_constraint[layout] x : τ

    The value, its type and its place are kept: a device copies within its own memory. So does relayout. Seed B44.
    """
    need(
        len(operands) == len(equation.types) == 1,
        "arity",
        lambda: f"{equation.primitive} has one operand and one result, not {len(operands)} and {len(equation.types)}",
        because="a layout is that of one array",
    )
    type = operand_type(operands[0])
    if not isinstance(type, ArrayType):
        raise refuse("dtype", f"{equation.primitive} of {type}, which is not an array", place=Place("operand", 0))
    name = "dst_layout" if equation.primitive == "relayout" else "layout"
    _orders(read_layout(required(equation.parameters, name), name), type, name)
    unchanged(equation, type, "a layout is no part of a type, and nothing else changes")
    return Typing((type,)), (), True
