"""The two halves of a gradient as programs of their own: a program linearized, and a linear program transposed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from calculus.building import Builder, Workbench
from calculus.gradients import vjp
from calculus.linearization import Linearized, differentiable, differentiable_inputs, linearize
from calculus.programs import Atom, Equation, Program, Reference, Value, Variable, Word, bodies
from calculus.pruning import pruned
from calculus.refusals import Place, Refused, refuse
from calculus.types import ArrayType, Type
from calculus.vanishing import Vanishing, vanishing


class Linearization(NamedTuple):
    """whole: from the inputs, and tangents of some of them, to the results and their tangents; it calls the other two,
    which stand apart in it. forward: from the inputs to the results, then the residuals. linear: from the residuals and
    the tangents of those inputs, in the order in which they were asked for, to the tangents of the results that can
    have one. residuals: how many there are."""

    whole: Program
    forward: Program
    linear: Program
    residuals: int


def linearization(program: Program, bench: Workbench, wrt: Sequence[int]) -> Linearization:
    """A program linearized in some of its inputs (counted from 0). A tangent has the type of its primal; one that
    nothing contributes to is zeros. Refuses what has no derivative that is written, and `no-cotangent`. The program
    itself must be well typed."""
    scope, held = bench.checker.scope, len(program.constants)
    found = linearize(bench, scope, program, _flags(program, wrt))
    types = [type for type in (*program.constant_types, *program.input_types) if type is not None]
    differentiable_inputs(types[held:], wrt, "tangent", held)
    found = _without_zeros(bench, found)
    linear = _linear(bench, program, found, wrt)
    whole = Builder(bench, scope)
    inputs = [whole.input(type) for type in types]
    count = len(found.residuals)
    results = whole.emit("jit", inputs, _called("forward", found.forward), [None] * len(found.forward.outputs))
    tangents = [whole.input(types[held + index]) for index in wrt]
    given = (*results[len(results) - count :], *tangents)
    pushed = whole.emit("jit", given, _called("linear", linear), [None] * len(linear.outputs))
    kept = results[: len(results) - count]
    made = _with_constants(whole.program([*inputs, *tangents], (*kept, *pushed), keep=2), held)
    return Linearization(made, _with_constants(found.forward, held), linear, count)


def _without_zeros(bench: Workbench, found: Linearized) -> Linearized:
    """The same without residuals that are zero: the linear program makes zeros itself, where it can be seen that they
    are."""
    forward, linear, count = found.forward, found.linear, len(found.residuals)
    results = len(forward.outputs) - count
    flags = vanishing(bench, forward, [False] * (len(forward.constants) + len(forward.inputs)))[results:]
    if not any(flags):
        return found
    builder = Builder(bench, bench.checker.scope)
    names: dict[Atom, Atom] = {}
    for name, type, zero in zip(linear.inputs, linear.input_types, flags, strict=False):
        if zero and isinstance(type, ArrayType):
            names[name] = builder.full(0, type)
    equations = [
        Equation(
            one.primitive, one.parameters, tuple(names.get(atom, atom) for atom in one.inputs), one.binders, one.types,
            one.line, one.comment, one.cell,
        )
        for one in linear.equations
    ]  # fmt: skip
    kept = [position for position, name in enumerate(linear.inputs) if name not in names]
    shorter = Program(
        (), (), tuple(linear.inputs[one] for one in kept), tuple(linear.input_types[one] for one in kept),
        (*builder.equations, *equations), tuple(names.get(atom, atom) for atom in linear.outputs),
    )  # fmt: skip
    left = [position for position in range(count) if position in kept]
    outputs = (*forward.outputs[:results], *(forward.outputs[results + one] for one in left))
    before = Program(
        forward.constants, forward.constant_types, forward.inputs, forward.input_types, forward.equations, outputs
    )
    return found._replace(forward=before, residuals=tuple(found.residuals[one] for one in left), linear=shorter)


def _called(name: str, program: Program) -> dict[str, Value]:
    return {"name": Word(name), "jaxpr": Reference(name, program)}


def _linear(bench: Workbench, program: Program, found: Linearized, wrt: Sequence[int]) -> Program:
    """The linear program with its tangents in the order that is asked for, and zeros where nothing comes."""
    held, count = len(program.constants), len(found.residuals)
    builder = Builder(bench, bench.checker.scope)
    types = dict(zip(found.linear.inputs, found.linear.input_types, strict=True))
    builder.types.update((name, type) for name, type in types.items() if type is not None)
    flags = [position for position, flows in enumerate(_flags(program, wrt)) if flows]
    places = dict(zip(flags, found.linear.inputs[count:], strict=True))
    tangents = [places[held + index] for index in wrt]
    builder.again(found.linear.equations)
    came = iter(found.linear.outputs)
    outputs: list[Atom] = []
    for type, flows in zip(_results(found), found.nonzero, strict=True):
        if flows:
            outputs.append(next(came))
        elif isinstance(type, ArrayType) and differentiable(type):
            outputs.append(builder.full(0, type))
    return builder.program((*found.linear.inputs[:count], *tangents), outputs)


def _results(found: Linearized) -> list[Type]:
    from calculus.derivatives.rules import results_of

    types = results_of(found.forward)
    return list(types[: len(types) - len(found.residuals)])


def transposed(program: Program, bench: Workbench, linear: Sequence[int]) -> Program:
    """A program transposed in inputs in which it is linear (counted from 0): from its other inputs, and then a
    cotangent for each result, to the cotangents of those inputs, in the order in which they are given.

    Refuses `not-linear` at the equation that is not: where its derivative depends on those inputs, or where it does not
    vanish with them (a constant is added, or a part of a function that is constant in pieces). So P(x) = L x + c, with
    one L for all x, and c = 0. Refuses what has no derivative that is written, and `no-cotangent`.
    """
    flags = _flags(program, linear)
    whole = vjp(program, bench, linear)
    found = linearize(bench, bench.checker.scope, program, flags)
    count = len(found.forward.outputs) - len(found.residuals)
    _vanishes(bench, found.forward, flags, count)
    made, needed = pruned(bench, whole, [position >= count for position in range(len(whole.outputs))])
    if any(one and used for one, used in zip(flags, needed, strict=False)):
        raise _bent(bench, found, flags, count)
    held = len(program.constants)
    names, types = (*whole.constants, *whole.inputs), (*whole.constant_types, *whole.input_types)
    kept = [position for position in range(len(names)) if position >= len(flags) or not flags[position]]
    inputs, input_types = tuple(names[one] for one in kept), tuple(types[one] for one in kept)
    return _with_constants(Program((), (), inputs, input_types, made.equations, made.outputs), held)


def _vanishes(bench: Workbench, forward: Program, flags: Sequence[bool], count: int) -> None:
    """Refuse a program whose results are not zero where its linear inputs are."""
    wanted = [position < count for position in range(len(forward.outputs))]
    smaller, needed = pruned(bench, forward, wanted)
    zero = [one for one, used in zip(flags, needed, strict=True) if used]
    walk = Vanishing(bench, smaller, zero)
    for equation in smaller.equations:
        walk.equation(equation)
    for index, atom in enumerate(smaller.outputs):
        if not walk.has(atom):
            culprit = _first_constant(bench, smaller, zero, zero)
            if culprit is not None:
                raise _not_linear(culprit, "a linear map takes zero to zero, and this does not")
            raise refuse(
                "not-linear",
                f"result {index} does not depend on the inputs in which the program should be linear",
                because="a linear function is zero where its operand is zero",
                help=_HELP,
                place=Place("output", index),
            )


def _first_constant(
    bench: Workbench, program: Program, zero: Sequence[bool], depends: Sequence[bool]
) -> Equation | None:
    """The first equation that does not vanish although all it is given that depends on the linear inputs does; in a
    body, the one inside."""
    walk = Vanishing(bench, program, zero)
    names = (*program.constants, *program.inputs)
    reached = {name for name, one in zip(names, depends, strict=True) if one}
    for equation in program.equations:
        given = [isinstance(atom, str) and atom in reached for atom in equation.inputs]
        before = [walk.has(atom) for atom in equation.inputs]
        gone = walk.equation(equation)
        if not any(given):
            continue
        reached.update(equation.binders)
        if not gone and all(one for one, flows in zip(before, given, strict=True) if flows):
            for inner, first in _inside(equation):
                found = _first_constant(bench, inner, before[first:], given[first:])
                if found is not None:
                    return found
            return equation
    return None


def _bent(bench: Workbench, found: Linearized, flags: Sequence[bool], count: int) -> Refused:
    """The refusal of a program whose derivative depends on the linear inputs: at the first equation whose does."""
    wanted = [position >= count for position in range(len(found.forward.outputs))]
    forward = pruned(bench, found.forward, wanted).program
    names = (*found.forward.constants, *found.forward.inputs)
    reached: set[Atom] = {name for name, one in zip(names, flags, strict=True) if one}
    for equation in forward.equations:
        if not reached.isdisjoint(equation.inputs):
            reached.update(equation.binders)
    culprit = _first_user(found.linear, reached)
    if culprit is None:  # it is needed for an effect, or by a body that is kept whole
        return refuse(
            "unmodelled-construct",
            "the transpose of a program whose other values cannot be computed without the linear inputs",
            because="a body that does more than compute is kept whole, and it takes them",
            help="keep what is written, printed or sent apart from what is linear",
        )
    return _not_linear(culprit, "its derivative depends on the inputs in which the program should be linear")


def _first_user(program: Program, reached: set[Atom]) -> Equation | None:
    """The first equation that uses one of these values; in a body, the one inside."""
    for equation in program.equations:
        given = [atom in reached for atom in equation.inputs]
        if any(given):
            for inner, first in _inside(equation):
                names: set[Atom] = {name for name, one in zip(inner.inputs, given[first:], strict=True) if one}
                found = _first_user(inner, names)
                if found is not None:
                    return found
            return equation
    return None


def _inside(equation: Equation) -> Iterator[tuple[Program, int]]:
    """The bodies of an equation whose inputs are its operands, from the one at this place on."""
    for _, inner in bodies(equation.parameters):
        first = len(equation.inputs) - len(inner.inputs)
        if first in (0, 1) and not inner.constants:
            yield inner, first


_HELP = "name the inputs in which it is linear, or linearize the program and transpose the linear part"


def _not_linear(equation: Equation, because: str) -> Refused:
    refused = refuse("not-linear", f"the program is not linear at {equation.primitive}", because=because, help=_HELP)
    refused.refusal.line = equation.line
    return refused


def _flags(program: Program, inputs: Sequence[int]) -> tuple[bool, ...]:
    held = len(program.constants)
    return tuple(position - held in inputs for position in range(held + len(program.inputs)))


def _with_constants(program: Program, held: int) -> Program:
    """A program whose first inputs are constants."""
    names: tuple[Variable, ...] = (*program.constants, *program.inputs)
    types = (*program.constant_types, *program.input_types)
    return Program(names[:held], types[:held], names[held:], types[held:], program.equations, program.outputs)
