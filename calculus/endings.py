"""What ends: cells that are frozen or freed, after which no name stands for them, and collectives that are waited for
by what waits for such. A type says neither, as it is the same before and after. Seed A40."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from calculus.collectives import AWAITED_BY
from calculus.programs import Atom, Equation
from calculus.refusals import Place, Refusal, refuse

if TYPE_CHECKING:
    from calculus.checking import Checked

_ENDS: Final = ("freeze", "free_ref")
_LOOPS: Final = ("scan", "while")


class Ended(NamedTuple):
    """The inputs of a body (constants first) that are cells and end in it, and what is refused, each with its
    equation; `None` for the body's own results."""

    inputs: frozenset[int]
    refusals: list[tuple[Refusal, Equation | None]]


def endings(checked: Checked) -> Ended:
    """Follow the names of a body, in the order of its equations."""
    program = checked.program
    bodies = {effect.at: effect.inner for effect in checked.effects if effect.inner}
    over: dict[Atom, str] = {}
    awaited: dict[Atom, str] = {}
    refusals: list[tuple[Refusal, Equation | None]] = []
    for at, equation in enumerate(program.equations):
        name, inputs = equation.primitive, equation.inputs
        for index, atom in enumerate(inputs):
            if atom in over:
                refusals.append((_after(atom, over[atom], Place("operand", index)), equation))
        if name in _ENDS:
            over |= {atom: name for atom in inputs[:1] if atom != "_"}
        for index in _ended_inside(bodies.get(at, ()), len(inputs)):
            if name in _LOOPS or inputs.count(inputs[index]) > 1:
                refusals.append((_again(inputs[index], name, index), equation))
            over[inputs[index]] = name
        if name in AWAITED_BY:
            awaited |= dict.fromkeys(equation.binders, AWAITED_BY[name])
        elif name.endswith("_done") and inputs and awaited.get(inputs[0], name) != name:
            refusals.append((_other(inputs[0], name, awaited[inputs[0]]), equation))
    for index, atom in enumerate(program.outputs):
        if atom in over:
            refusals.append((_after(atom, over[atom], Place("output", index)), None))
    own = (*program.constants, *program.inputs)
    return Ended(frozenset(position for position, name in enumerate(own) if name in over), refusals)


def _ended_inside(inners, count: int) -> Iterator[int]:  # type: ignore[no-untyped-def]
    found = {inner.operand(position, count) for inner in inners for position in inner.body.ended}
    return (index for index in sorted(found) if 0 <= index < count)


def _after(atom: Atom, by: str, place: Place) -> Refusal:
    return refuse(
        "ended-cell",
        f"{atom} is used, and {by} has ended it",
        because="once what a cell held has been taken over, nothing is read from it or stored in it",
        help=f"move the {by} behind this line",
        place=place,
    ).refusal


def _again(atom: Atom, name: str, index: int) -> Refusal:
    return refuse(
        "ended-cell",
        f"the body of {name} ends {atom}, which it uses once more",
        because="a loop comes to it again, and so does what is given a cell twice",
        help=f"read {atom} inside, and end it after the {name}",
        place=Place("operand", index),
    ).refusal


def _other(atom: Atom, name: str, wanted: str) -> Refusal:
    return refuse(
        "dtype",
        f"{name} waits for {atom}, and {wanted} does",
        because="what has been started as one collective does not end as another",
        help=f"use {wanted}",
        place=Place("operand", 0),
    ).refusal
