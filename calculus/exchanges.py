"""Exchanges: collectives of several operands, or of two halves. Those of one operand: `calculus.collectives`.

What is started somewhere and waited for elsewhere communicates where it starts. What one device sends and another
receives are two equations with a token between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from calculus.bodies import Formed, unchanged
from calculus.collectives import AWAITED_BY, array_of, collective, in_manual, permutes, whole_axes
from calculus.communication import ALL_TO_ALL, AT_MOST, PERMUTE, over
from calculus.judgments import need, rule
from calculus.parameters import names, required
from calculus.programs import Equation, Literal, Parameters
from calculus.refusals import Place, refuse
from calculus.rules import Typing, agreeing
from calculus.types import TOKEN, ArrayType, Axes, FutureType
from calculus.uses import Operand
from calculus.volumes import volume

if TYPE_CHECKING:
    from calculus.checking import Checker, Scope


@rule
def await_future(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
    Γ ⊢ x : τ, on its way
    ────────────────────── await
    Γ ⊢ all_gather_done x : τ

    That it was started as what is waited for here: `calculus.endings`.
    """
    _counts(equation, operands, 1, 1)
    future = operands[0]
    if not isinstance(future, FutureType):
        raise refuse(
            "dtype",
            f"{equation.primitive} waits for {future}, which is not on its way",
            because="only what has been started can be waited for",
            help=f"give it the result of {equation.primitive.removesuffix('_done')}_start",
            place=Place("operand", 0),
        )
    unchanged(equation, future.inner, "waiting changes nothing")
    checker.ending = True
    return Typing((future.inner,)), (), False


@rule
def broadcast_from(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
    X is manual      x varies over X      i : i32[], the same on every device along X
    i varies over what x varies over
    ───────────────────────────────────────────────────────────────────────────────── broadcast-from
    Γ ⊢ pbroadcast_dynamic[axis_name=X] x i : x's type ▷ a broadcast of x over X
    """
    _counts(equation, operands, 2, 1)
    one = Equation(
        "pbroadcast",
        Parameters((("axis_name", required(equation.parameters, "axis_name")), ("source", 0))),
        equation.inputs[:1],
        equation.binders,
        equation.types,
    )
    typing = collective(one, operands[:1], scope.mesh)
    source = array_of(operands[1], equation.primitive, 1)
    need(
        source.shape == () and source.dtype == "i32",
        "dtype",
        lambda: f"the source is {source}, not an i32[]",
        because="it is the coordinate of one device",
        place=Place("operand", 1),
    )
    whole = typing.types[0]
    assert isinstance(whole, ArrayType)
    axes = names(equation.parameters["axis_name"], "axis_name")
    _agreed(source, whole, axes, "the source", 1)
    if not scope.mesh.tracked:
        checker.assumptions += len(axes)  # that devices agree on the source
    return typing, (), scope.mesh.tracked


@rule
def ragged_exchange(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        X is manual      x and y vary over X and are in one state along every other axis
        the offsets and sizes are rows of integers that vary at most where x does
        ────────────────────────────────────────────────────────────────────────────────── ragged-exchange
        Γ ⊢ ragged_all_to_all[axis_name=X] x y offsets sizes : y's type ▷ an all-to-all of at most x over X

    Rows of x go to places in y on the other devices: what comes out varies, whatever y was.
    """
    _counts(equation, operands, 6, 1)
    name = equation.primitive
    axes = names(required(equation.parameters, "axis_name"), "axis_name")
    for axis in axes:
        in_manual(axis, "axis_name", name, scope.mesh)
    whole_axes(equation)
    arrays = [array_of(operand, name, index) for index, operand in enumerate(operands)]
    source, target = arrays[:2]
    need(
        source.dtype == target.dtype,
        "dtype",
        lambda: f"rows of {source} go to {target}",
        because="a row keeps its dtype",
        place=Place("operand", 1),
    )
    need(
        source.rank >= 1 and source.shape[1:] == target.shape[1:],
        "shape",
        lambda: f"rows of {source} go to {target}",
        because="a row keeps its shape",
        place=Place("operand", 1),
    )
    need(
        not any(source.axes) and not any(target.axes),
        "whole-dim-sharded",
        lambda: f"rows of {source} go to {target}, which are cut on an explicit axis",
        because="places are counted in whole arrays",
        help="reshard them first",
        place=Place("operand", 0),
    )
    if scope.mesh.tracked:
        for index, type in enumerate(arrays[:2]):
            _varies(type, axes, name, index)
        need(
            all(source.state(axis) == target.state(axis) for axis in (*source.mentioned, *target.mentioned))
            and source.kind == target.kind,
            "state",
            lambda: f"rows of {source} go to {target}",
            because="rows of the one stand beside rows of the other, in one state",
            help="cast one of them",
            place=Place("operand", 1),
        )
    count = scope.mesh.size(axes)
    for index, type in enumerate(arrays[2:], 2):
        need(
            type.dtype_class in "iu" and type.rank == 1 and not any(type.axes),
            "dtype",
            lambda index=index, type=type: f"operand {index} of {name} is {type}, not a row of integers",  # type: ignore[misc]
            because="it counts rows, for each device",
            place=Place("operand", index),
        )
        size = type.shape[0]
        if isinstance(size, int) and count is not None and (size == 0 or size % count):
            raise refuse(
                "shape",
                f"operand {index} of {name} has {size} numbers for {count} devices",
                because="each device has as many",
                place=Place("operand", index),
            )
        _agreed(type, source, (), f"operand {index}", index)
    result = agreeing(target, equation.types[0], 0)
    moved = tuple(one._replace(exactness=AT_MOST) for one in over(ALL_TO_ALL, axes, volume(source), scope.mesh))
    return Typing((result,), moved), (), True


@rule
def send(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
    X is manual      x varies over X
    ────────────────────────────────────────────────────────────── send
    Γ ⊢ psend[axis_name=X perm] x : Tok ▷ a permute of x over X
    """
    _counts(equation, operands, 1, 1)
    axes = _between(equation, scope)
    type = array_of(operands[0], equation.primitive, 0)
    if scope.mesh.tracked:
        _varies(type, axes, equation.primitive, 0)
    unchanged(equation, TOKEN, "what is sent arrives elsewhere; here a token says that it was")
    moves = permutes(equation.parameters, scope.mesh.size(axes)) and not isinstance(operands[0], Literal)
    moved = over(PERMUTE, axes, volume(type), scope.mesh) if moves else ()
    return Typing((TOKEN,), moved), (), True


@rule
def receive(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        X is manual      t : Tok      τ varies over X
        ────────────────────────────────────────────────────────────────────── receive
        Γ ⊢ precv[axis_name=X perm out_shape] t : τ ▷ a permute of nothing more

    Not every device receives. That what was sent has this type is assumed. The bytes are counted where they are sent;
    here devices meet.
    """
    _counts(equation, operands, 1, 1)
    axes = _between(equation, scope)
    moves = permutes(equation.parameters, scope.mesh.size(axes))
    printed = equation.types[0]
    if operands[0] != TOKEN or not isinstance(printed, ArrayType):
        raise refuse(
            "dtype",
            f"precv takes {operands[0]} to {printed}",
            because="it takes a token, and its result is an array whose type is printed",
            help="give it the token of a psend, and write the result's type after its name",
            place=Place("operand", 0),
        )
    hidden = [axis for axis in axes if scope.mesh.tracked and axis not in printed.varying]
    if hidden:
        raise refuse(
            "hidden-variation",
            f"precv has the result {printed}, and devices along {', '.join(hidden)} receive different values",
            because="each device receives from another one, or from none",
            help=f"let out_shape vary over {', '.join(hidden)}",
            place=Place("binder", 0),
        )
    checker.assume("precv")
    meet = over(PERMUTE, axes, volume(printed), scope.mesh) if moves else ()
    return Typing((printed,), tuple(one._replace(payload=0, volume=None) for one in meet)), (), False


@rule
def token(checker: Checker, equation: Equation, operands: Sequence[Operand], scope: Scope) -> Formed:
    """
        every operand of after_all is a token
        ───────────────────────────────────── token
        Γ ⊢ after_all t₁ … tₙ : Tok

    A token orders effects and holds nothing. `create_token` makes the first, of nothing or of any value.
    """
    if equation.primitive == "after_all":
        for index, operand in enumerate(operands):
            need(
                operand == TOKEN,
                "dtype",
                lambda index=index, operand=operand: f"operand {index} of after_all is {operand}",  # type: ignore[misc]
                because="it waits for tokens",
                place=Place("operand", index),
            )
    need(
        len(equation.types) == 1,
        "arity",
        lambda: f"{equation.primitive} has {len(equation.types)} results",
        because="it makes one token",
    )
    unchanged(equation, TOKEN, "a token holds nothing")
    return Typing((TOKEN,)), (), True


def _between(equation: Equation, scope: Scope) -> Axes:
    axes = names(required(equation.parameters, "axis_name"), "axis_name")
    for axis in axes:
        in_manual(axis, "axis_name", equation.primitive, scope.mesh)
    return axes


def _varies(type: ArrayType, axes: Axes, name: str, index: int) -> None:
    for axis in axes:
        need(
            type.state(axis) == "V",
            "no-cast",
            lambda axis=axis: f"operand {index} of {name}, {type}, does not vary over {axis}",  # type: ignore[misc]
            because=f"{name} takes what is varying to what is varying",
            help=f"cast it with pvary over {axis}: free here, a psum in the backward pass",
            place=Place("operand", index),
        )


def _agreed(type: ArrayType, whole: ArrayType, axes: Axes, what: str, index: int) -> None:
    """Integers that say where something goes: nothing of them is pending, devices that meet agree on them, and they
    vary over no axis that the value does not."""
    apart = [axis for axis in type.varying if axis in axes]
    if apart:
        over = ", ".join(apart)
        raise refuse(
            "divergent-collective",
            f"{what} is {type}, and devices along {over} must agree on it",
            because="devices that name different sources wait for different ones",
            help=f"make it the same along {over} (pmax over {over})",
            place=Place("operand", index),
        )
    hidden = [axis for axis in type.varying if axis not in whole.varying]
    if hidden:
        over = ", ".join(hidden)
        raise refuse(
            "hidden-variation",
            f"{what} is {type}, and the value is {whole}",
            because=f"devices along {over} would move different things, and the type says they have one value",
            help=f"cast the value with pvary over {over}",
            place=Place("operand", index),
        )
    need(
        not type.unreduced,
        "state",
        lambda: f"{what} is {type}, still unreduced",
        because="each device would go by its own piece of the sum",
        help="finish it first",
        place=Place("operand", index),
    )


def _counts(equation: Equation, operands: Sequence[Operand], takes: int, gives: int) -> None:
    need(
        len(operands) == takes and len(equation.types) == gives,
        "arity",
        lambda: (
            f"{equation.primitive} has {len(operands)} operands and {len(equation.types)} results, not {takes} "
            f"and {gives}"
        ),
        because="a primitive takes the operands that it is declared with",
    )


AWAITED: Final = tuple(dict.fromkeys(AWAITED_BY.values()))
"""What waits for a future."""
