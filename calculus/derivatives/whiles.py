"""Loops whose end the data decide. Forward, the tangents are carried beside the values: there is no place of a known
size in which the values of all iterations could be kept, so the linear program runs the loop again, from the values
that it started with. For the same reason there is no way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.building import Builder
from calculus.copied import typed_names
from calculus.derivatives.rules import Form, closed, settled, with_tangents
from calculus.linearization import Linearizer, Pushed, Tangent
from calculus.parameters import integer
from calculus.programs import Atom, Equation, Parameters, Program, Value
from calculus.refusals import Place, refuse
from calculus.transposition import Transposer


def _while(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    body, _ = closed(equation, "body_jaxpr")
    test, _ = closed(equation, "cond_jaxpr")
    asked, held = (integer(equation.parameters[name], name) for name in ("cond_nconsts", "body_nconsts"))
    results = walk.known.emit(equation.primitive, primals, equation.parameters, equation.types)
    found, nonzero = settled(walk, body, [tangent is not None for tangent in tangents[asked:]], held, len(results))
    carried = nonzero[held:]
    kept = _handed_on(body, held)
    begun = tangents[asked + held :]
    if not any(flows and number not in kept for number, flows in enumerate(carried)):
        return results, [one if number in kept else None for number, one in enumerate(begun)]

    # Inputs: what is held constant, its tangents, the carries, their tangents. Results: the carries, their tangents.
    both = with_tangents(walk, body, found, nonzero, carried)
    given = len(body.inputs)
    still = sum(nonzero[:held])
    order = [*range(held), *range(given, given + still), *range(held, given), *range(given + still, len(both.inputs))]
    inner = Program(
        (), (), tuple(both.inputs[one] for one in order), tuple(both.input_types[one] for one in order),
        both.equations, both.outputs,
    )  # fmt: skip
    builder = Builder(walk.bench, walk.scope)
    beside = [builder.input(type) for type in inner.input_types[held + still + len(results) :] if type is not None]
    decides = Program(
        (), (), (*test.inputs, *beside), (*test.input_types, *map(builder.type_of, beside)), test.equations,
        test.outputs,
    )  # fmt: skip
    rows: dict[str, Value] = dict(equation.parameters.items_in_order)
    rows |= {"body_jaxpr": inner, "cond_jaxpr": decides, "body_nconsts": held + still}
    flowing = [
        walk.instantiated(tangent, primal) if flows else None
        for tangent, primal, flows in zip(tangents[asked:], primals[asked:], nonzero, strict=True)
    ]
    start = asked + held
    atoms = [
        *primals[:start], *(one for one in flowing[:held] if one is not None),
        *primals[start:], *(one for one in flowing[held:] if one is not None),
    ]  # fmt: skip
    types = [walk.known.type_of(result) for result in results]
    wanted = [*types, *(type for type, flows in zip(types, carried, strict=True) if flows)]
    made = walk.linear.emit(equation.primitive, atoms, Parameters(tuple(rows.items())), wanted)
    pushed = iter(made[len(results) :])
    ends = [next(pushed) if flows else None for flows in carried]
    return results, [begun[number] if number in kept else one for number, one in enumerate(ends)]


def _handed_on(body: Program, held: int) -> frozenset[int]:
    """The carries that every iteration hands on as they are: however often it runs, what comes out is what went in.
    held: how many inputs are no carries."""
    types = typed_names(body)
    same = {
        one.binders[0]: one.inputs[0]
        for one in body.equations
        if one.primitive == "convert_element_type"
        and isinstance(one.inputs[0], str)
        and types.get(one.inputs[0]) is one.types[0]
    }
    found: list[int] = []
    for number, (input, output) in enumerate(zip(body.inputs[held:], body.outputs, strict=True)):
        while output in same:
            output = same[output]
        if output == input:
            found.append(number)
    return frozenset(found)


def _while_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    raise refuse(
        "unmodelled-construct",
        "the derivative of a while loop, in reverse",
        because="how often it runs is decided by the data, so that there is no place of a known size for its residuals",
        help="loop a fixed number of times (scan, or fori_loop with constant bounds), or stop the gradient before it",
        place=Place("primitive"),
    )


WHILES: Final[dict[str, Form]] = {"while": Form(_while, _while_back)}
