"""A program of which only some results are wanted: without the equations, the results of loops and calls, and the
carries of loops that those do not need. A body that does more than compute its results (it writes cells, prints, sends)
is kept whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from calculus.building import Workbench
from calculus.effects import EFFECTFUL
from calculus.loops import scan_parts
from calculus.programs import Equation, Parameters, Program, Programs, Value, body
from calculus.types import RefType

_CALLS: Final = ("jit", "pjit", "closed_call", "core_call", "compute_on", "remat", "remat2", "checkpoint", "shard_map")
_OF_OPERANDS: Final = ("in_shardings", "in_layouts", "donated_invars", "in_specs")
_OF_RESULTS: Final = ("out_shardings", "out_layouts", "out_specs", "out_memory_spaces")

T = TypeVar("T")


class Pruned(NamedTuple):
    """program: what is left: the results that are wanted, of the inputs that they need. inputs: which those are."""

    program: Program
    inputs: tuple[bool, ...]


def pruned(bench: Workbench, program: Program, wanted: Sequence[bool]) -> Pruned:
    """A program without what its wanted results do not need."""
    return bench.once("pruned", program, tuple(wanted), lambda: _pruned(bench, program, wanted))


def _pruned(bench: Workbench, program: Program, wanted: Sequence[bool]) -> Pruned:
    outputs = _chosen(program.outputs, wanted)
    if _effectful(program):
        whole = Program(
            program.constants, program.constant_types, program.inputs, program.input_types, program.equations, outputs,
            program.effects, program.line,
        )  # fmt: skip
        return Pruned(whole, (True,) * (len(program.constants) + len(program.inputs)))
    live = {atom for atom in outputs if isinstance(atom, str)}
    kept: list[Equation] = []
    for equation in reversed(program.equations):
        used = [binder in live for binder in equation.binders]
        if any(used):
            smaller = _smaller(bench, equation, used)
            kept.append(smaller)
            live.update(atom for atom in smaller.inputs if isinstance(atom, str))
    constants, inputs = ([name in live for name in names] for names in (program.constants, program.inputs))
    made = Program(
        _chosen(program.constants, constants), _chosen(program.constant_types, constants),
        _chosen(program.inputs, inputs), _chosen(program.input_types, inputs), tuple(reversed(kept)), outputs,
        program.effects, program.line,
    )  # fmt: skip
    return Pruned(made, (*constants, *inputs))


def _effectful(program: Program) -> bool:
    """Whether a program, beside its bodies, does more than compute."""
    types = [*program.constant_types, *program.input_types, *(type for one in program.equations for type in one.types)]
    return any(isinstance(type, RefType) for type in types) or any(
        equation.cell is not None or equation.primitive in EFFECTFUL for equation in program.equations
    )


def _smaller(bench: Workbench, equation: Equation, used: Sequence[bool]) -> Equation:
    """An equation without the results that nothing uses, where it can do without."""
    if equation.primitive == "cond":
        return _branches(bench, equation, used)
    key = next((name for name in ("jaxpr", "call_jaxpr") if body(equation.parameters.get(name)) is not None), "")
    inner = body(equation.parameters.get(key))
    if inner is None or inner.constants or len(inner.inputs) != len(equation.inputs):
        return equation
    if equation.primitive in _CALLS:
        found = pruned(bench, inner, used)
        rows: dict[str, Value] = {key: found.program}
        for names, flags in ((_OF_OPERANDS, found.inputs), (_OF_RESULTS, used)):
            for name in names:
                value = equation.parameters.get(name)
                if isinstance(value, tuple) and len(value) == len(flags):
                    rows[name] = _chosen(value, flags)
        return _with(equation, rows, found.inputs, used)
    return _loop(bench, equation, inner, used) if equation.primitive == "scan" else equation


def _branches(bench: Workbench, equation: Equation, used: Sequence[bool]) -> Equation:
    """A choice whose branches have the inputs that any of them needs."""
    value = equation.parameters.get("branches")
    branches = [body(one) for one in value.items] if isinstance(value, Programs) else []
    count = len(equation.inputs) - 1
    whole = [one for one in branches if one is not None and not one.constants and len(one.inputs) == count]
    if not branches or len(whole) < len(branches):
        return equation
    founds = [pruned(bench, one, used) for one in whole]
    inputs = [any(found.inputs[position] for found in founds) for position in range(count)]
    smaller = Programs(tuple(_taking(found.program, one, inputs) for found, one in zip(founds, whole, strict=True)))
    return _with(equation, {"branches": smaller}, (True, *inputs), used)


def _taking(program: Program, before: Program, inputs: Sequence[bool]) -> Program:
    """A program that was pruned, with these inputs of the one before."""
    return Program(
        (), (), _chosen(before.inputs, inputs), _chosen(before.input_types, inputs), program.equations,
        program.outputs, program.effects, program.line,
    )  # fmt: skip


def _loop(bench: Workbench, equation: Equation, inner: Program, used: Sequence[bool]) -> Equation:
    """A loop without the carries that no result and no carry that stays needs."""
    from calculus.derivatives.loops import scan_rows

    held, count = scan_parts(equation.parameters, len(equation.inputs), len(equation.binders))
    wanted = [*used]
    while True:
        found = pruned(bench, inner, wanted)
        grown = [one or reads for one, reads in zip(wanted, found.inputs[held : held + count], strict=False)]
        if grown == wanted[:count]:
            break
        wanted[:count] = grown
    if all(wanted) and all(found.inputs):
        return equation
    carries = wanted[:count]
    inputs = (*found.inputs[:held], *carries, *found.inputs[held + count :])  # a carry that is only replaced stays one
    smaller = _taking(found.program, inner, inputs)
    reverse = bool(equation.parameters.get("reverse"))
    rows = scan_rows(equation.parameters, smaller, sum(inputs[:held]), sum(carries), reverse)
    return _with(equation, dict(rows.items_in_order), inputs, wanted)


def _with(equation: Equation, rows: dict[str, Value], inputs: Sequence[bool], results: Sequence[bool]) -> Equation:
    merged = dict(equation.parameters.items_in_order) | rows
    return Equation(
        equation.primitive, Parameters(tuple(merged.items())), _chosen(equation.inputs, inputs),
        _chosen(equation.binders, results), _chosen(equation.types, results), equation.line, equation.comment,
    )  # fmt: skip


def _chosen(items: Sequence[T], flags: Sequence[bool]) -> tuple[T, ...]:
    return tuple(item for item, one in zip(items, flags, strict=True) if one)
