"""Changes of placement: linear, each taking a value to itself. Its transpose goes back, between the cotangents' types:
there the chain of free casts runs the other way (statements A24, A27, A47)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.collectives import COLLECTIVES
from calculus.cotangents import cotangent
from calculus.derivatives.rules import Form, linear
from calculus.linearization import Linearizer, Pushed, Tangent
from calculus.parameters import integer, sequence
from calculus.programs import Atom, Equation, Parameters, Value
from calculus.transposition import Transposer
from calculus.types import ArrayType


def _reshard_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """To the cotangent type of what was resharded."""
    (operand,), (ct,) = equation.inputs, cts
    if ct is not None:
        target = cotangent(walk.builder.type_of(operand))
        walk.add(operand, walk.builder.one("reshard", (ct,), None, target))


def _through(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """An assertion about dims: it holds of the cotangent too. What it asserts of pending sums is about the primal."""
    for operand, ct in zip(equation.inputs, cts, strict=True):
        type = equation.types[0]
        if ct is not None and operand in walk.linear:
            pending = isinstance(type, ArrayType) and type.marked
            walk.add(operand, ct if pending else walk.builder.one(equation.primitive, (ct,), equation.parameters))


def _past(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """An identity: each cotangent is that of the operand."""
    for operand, ct in zip(equation.inputs, cts, strict=True):
        walk.add(operand, ct)


def _named(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """A name is for the value; its tangent has none."""
    return walk.known.emit(equation.primitive, primals, equation.parameters, equation.types), tangents


def _collective_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """By the row's transpose, with the parameters that it takes."""
    row = COLLECTIVES[equation.primitive]
    parameters = _turned(equation, row.transpose)
    for operand, ct in zip(equation.inputs, cts, strict=True):
        if ct is not None and operand in walk.linear:
            target = cotangent(walk.builder.type_of(operand))
            walk.add(operand, walk.builder.one(row.transpose, (ct,), parameters, target))


def _turned(equation: Equation, name: str) -> Parameters:
    """The parameters of the transpose of a collective: axes under its own names, dims and permutations turned round."""
    row, goal = COLLECTIVES[equation.primitive], COLLECTIVES[name]
    rows: dict[str, Value] = dict(equation.parameters.items_in_order)
    axes = rows.pop(row.axes)
    if row.axes == goal.axes == "axes":
        return Parameters((("axes", axes),))
    rows[goal.axes] = axes
    for one, other in (("all_gather_dimension", "scatter_dimension"), ("split_axis", "concat_axis")):
        here, there = rows.pop(one, None), rows.pop(other, None)
        rows |= {name: value for name, value in ((one, there), (other, here)) if value is not None}
    if "perm" in rows:
        pairs = [sequence(pair, "perm") for pair in sequence(rows["perm"], "perm")]
        rows["perm"] = tuple((integer(after, "perm"), integer(before, "perm")) for before, after in pairs)
    return Parameters(tuple(sorted(rows.items())))


PLACING: Final[dict[str, Form]] = {
    "reshard": Form(linear, _reshard_back),
    "sharding_constraint": Form(linear, _through),
    "optimization_barrier": Form(linear, _past),
    "name": Form(_named, _past),
    **{name: Form(linear, _collective_back) for name, row in COLLECTIVES.items() if row.transpose},
}
