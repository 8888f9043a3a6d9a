"""Gradients: a program linearized, and the linear program transposed, glued into one."""

from __future__ import annotations

from collections.abc import Sequence

from calculus.building import Builder, Workbench
from calculus.copied import assembled, items_of
from calculus.cotangents import cotangent
from calculus.linearization import differentiable, differentiable_inputs, linearize
from calculus.programs import Atom, Program, Variable
from calculus.pruning import pruned
from calculus.refusals import Place, Refused, refuse
from calculus.transposition import Transposer
from calculus.types import ArrayType, Type


def gradient(program: Program, bench: Workbench, wrt: Sequence[int]) -> Program:
    """The program of the gradients of a program's one scalar result with respect to some of its inputs (counted from
    0): its own equations, then the backward ones. The seed is `1.0`. Each gradient has the cotangent type of its input
    (statements A2, A7); one that nothing contributes to is zeros at that type (A12).

    Refuses `shape` where the result is no lone number, `no-cotangent` where an input has none, and what has no
    derivative that is written. The program itself must be well typed.
    """
    builder, residuals, results = _forward(program, bench, wrt)
    types = [builder.type_of(result) for result in results]
    (type,) = types if len(types) == 1 else (None,)
    if not (isinstance(type, ArrayType) and not type.shape and differentiable(type)):
        raise refuse(
            "shape",
            f"the program's results are {', '.join(map(str, types)) or 'none'}",
            because="a gradient is that of one floating number, which has no dims",
            help="give back one number, or ask for the vjp",
            place=Place("output"),
        )
    if type.dtype_class == "c":
        raise refuse(
            "shape",
            f"the program's result is {type}",
            because="a complex result has a gradient only where the program is holomorphic, which nothing says",
            help="give back its real part, or ask for the vjp",
            place=Place("output"),
        )
    plain = builder.literal(1, type.dtype)
    seed = builder.one("reshard", (plain,), None, plain.type)
    return _finished(builder, program, wrt, (builder.at(seed, cotangent(type)),), residuals, ())


def vjp(program: Program, bench: Workbench, wrt: Sequence[int]) -> Program:
    """The program that takes the inputs, and then a cotangent for each result that can have one, to the results and the
    cotangents of some of the inputs. Refuses like `gradient`."""
    builder, residuals, results = _forward(program, bench, wrt)
    seeds = [builder.input(cotangent(type)) if differentiable(type) else None for type in map(builder.type_of, results)]
    return _finished(builder, program, wrt, seeds, residuals, results)


def jvp(program: Program, bench: Workbench, wrt: Sequence[int]) -> Program:
    """The program that takes the inputs, and then a tangent for each of some of them, to the results and the tangents
    of those results that can have one. A tangent has the type of its primal. Refuses like `gradient`."""
    builder, residuals, results = _forward(program, bench, wrt)
    held, types = len(program.constants), _inputs(program)
    inputs = list(builder.types)[: len(types)]
    linearized = linearize(bench, bench.checker.scope, program, _chosen(program, wrt))
    keep = len(builder.items)
    tangents = {index: builder.input(types[held + index]) for index in wrt}
    found = iter(builder.inline(linearized.linear, [*residuals, *(tangents[index] for index in sorted(tangents))]))
    pushed: list[Atom] = []
    for result, flows in zip(results, linearized.nonzero, strict=True):
        type = builder.type_of(result)
        if flows:
            pushed.append(next(found))
        elif differentiable(type):
            assert isinstance(type, ArrayType)
            pushed.append(builder.full(0, type))
    made = builder.program([*inputs, *(tangents[index] for index in wrt)], (*results, *pushed), keep=keep)
    return _with_constants(made, held)


def _inputs(program: Program) -> tuple[Type, ...]:
    return tuple(type for type in (*program.constant_types, *program.input_types) if type is not None)


def _forward(
    program: Program, bench: Workbench, wrt: Sequence[int]
) -> tuple[Builder, tuple[Atom, ...], tuple[Atom, ...]]:
    """The forward program: the builder, the residuals and the results."""
    held = len(program.constants)
    types = _inputs(program)
    differentiable_inputs(types[held:], wrt, "gradient", held)
    nonzero = _chosen(program, wrt)
    linearized = linearize(bench, bench.checker.scope, program, nonzero)
    builder = Builder(bench, bench.checker.scope)
    forward = linearized.forward
    builder.types.update(zip(forward.inputs, types, strict=True))
    builder.again(items_of(forward))
    count = len(forward.outputs) - len(linearized.residuals)
    return builder, forward.outputs[count:], forward.outputs[:count]


def _chosen(program: Program, wrt: Sequence[int]) -> tuple[bool, ...]:
    held, chosen = len(program.constants), frozenset(wrt)
    return tuple([position - held in chosen for position in range(held + len(program.inputs))])


def _finished(
    builder: Builder, program: Program, wrt: Sequence[int], seeds: Sequence[Atom | None], residuals: Sequence[Atom],
    results: Sequence[Atom],
) -> Program:  # fmt: skip
    """The backward equations after the forward ones, and the gradients in the order that was asked for."""
    nonzero = _chosen(program, wrt)
    linearized = linearize(builder.bench, builder.scope, program, nonzero)
    keep = len(builder.items)
    flowing = [seed for seed, flows in zip(seeds, linearized.nonzero, strict=True) if flows]
    linear = linearized.linear
    wanted = linear.inputs[len(residuals) :]
    builder.types.update(zip(wanted, linear.input_types[len(residuals) :], strict=True))  # type: ignore[arg-type]
    walk = _transposed(builder, linear, wanted, flowing)
    found = iter(wanted)
    held, types = len(program.constants), _inputs(program)
    gradients: dict[int, Atom] = {}
    for position, flows in enumerate(nonzero):
        if flows:
            target = cotangent(types[position])
            assert isinstance(target, ArrayType)
            came = walk.cotangents.get(next(found))
            gradients[position - held] = builder.full(0, target) if came is None else came
    count = held + len(program.inputs)
    inputs = list(builder.types)[:count] + [seed for seed in seeds if results and isinstance(seed, str)]
    made = builder.program(inputs, (*results, *(gradients[index] for index in wrt)), keep=keep)
    return _with_constants(made, held)


def _transposed(
    builder: Builder, linear: Program, wanted: Sequence[Variable], flowing: Sequence[Atom | None]
) -> Transposer:  # fmt: skip
    """A linear program gone through backwards. What its results do not need goes first, where it has no way back."""
    before = len(builder.items)
    try:
        walk = Transposer(builder.bench, builder.scope, builder)
        walk.walk(linear, wanted, flowing)
    except Refused as refused:
        lean = pruned(builder.bench, linear, (True,) * len(linear.outputs)).program
        if refused.refusal.code != "unmodelled-construct" or lean.equations == linear.equations:
            raise
        del builder.items[before:]
        walk = Transposer(builder.bench, builder.scope, builder)
        walk.walk(
            Program((), (), linear.inputs, linear.input_types, lean.equations, lean.outputs), wanted, flowing
        )  # fmt: skip
    return walk


def _with_constants(made: Program, held: int) -> Program:
    """A program whose first inputs are constants."""
    head = Program(
        made.inputs[:held], made.input_types[:held], made.inputs[held:], made.input_types[held:], (), made.outputs
    )
    return assembled(head, items_of(made))
