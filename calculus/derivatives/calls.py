"""Calls: the body is linearized, the residuals leave it as further results, and the linear body is called with them.
Seeds A3 (what happens in a body is told by its types alone)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.bodies import program_of
from calculus.building import Builder
from calculus.checking import Scope
from calculus.derivatives.rules import Form, closed, linear_operands, matched, placed, results_of, types_in
from calculus.forms import context
from calculus.linearization import Linearizer, Pushed, Tangent, linearize
from calculus.programs import Atom, Equation, Parameters, Program, Value, Word, body
from calculus.transposition import Transposer, transpose
from calculus.types import ArrayType, Type

_BODIES: Final = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_KEPT: Final = ("name", "ctx_mesh", "inline", "keep_unused", "compute_type", "compiler_options_json")
"""Parameters that a derived call has as well."""


def _call(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """What a body carries along stays in it; where the linear body uses it, it leaves as a result."""
    program = program_of(equation, *_BODIES)
    key = next(name for name in _BODIES if body(equation.parameters.get(name)) is not None)
    scope = _inside(walk.scope, walk.known, equation)
    held = len(program.constants)
    nonzero = [*(False,) * held, *(tangent is not None for tangent in tangents)]
    found = linearize(walk.bench, scope, program, nonzero)
    count = len(program.outputs)
    sources = {
        residual: source if source is None or source < 0 else source - held if source >= held else None
        for residual, source in placed(found).items()
    }
    added = [residual for residual, source in sources.items() if source is None]
    inputs, bound = found.forward.inputs, found.forward.input_types
    forward = Program(
        inputs[:held], bound[:held], inputs[held:], bound[held:], found.forward.equations,
        (*found.forward.outputs[:count], *added),
    )  # fmt: skip
    known = types_in(found.forward) if added else {}
    types: list[Type | None] = [*equation.types, *(known[residual] for residual in added)]
    results = walk.known.emit(
        equation.primitive, primals, _with_body(equation.parameters, key, forward, types[count:]), types
    )
    extra = dict(zip(added, results[count:], strict=True))
    residuals = [
        extra[residual] if source is None else primals[source] if source >= 0 else results[-1 - source]
        for residual, source in sources.items()
    ]
    given = [tangent for tangent in tangents if tangent is not None][: len(found.linear.inputs) - len(residuals)]
    primal_types = [walk.known.type_of(result) for result in results[:count]]
    wanted = [type for type, flows in zip(primal_types, found.nonzero, strict=True) if flows]
    rows = _derived(equation.parameters, key, found.linear, wanted)
    pushed = iter(walk.linear.emit(equation.primitive, (*residuals, *given), rows, wanted) if wanted else ())
    return results[:count], [next(pushed) if flows else None for flows in found.nonzero]


def _call_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    program, key = closed(equation, *_BODIES)
    linear = linear_operands(walk, equation)
    flowing = [ct is not None for ct in cts]
    scope = _inside(walk.scope, walk.builder, equation)
    found = transpose(walk.bench, scope, program, linear, flowing)
    known = [atom for atom, one in zip(equation.inputs, linear, strict=True) if not one]
    wanted = results_of(found.program)
    rows = _derived(equation.parameters, key, found.program, wanted)
    if not wanted:
        return
    # what is handed out in another memory has its cotangent there, and the body takes it where it computes
    seeds = [ct for ct in cts if ct is not None]
    held = found.program.input_types[len(found.program.inputs) - len(seeds) :]
    given = (*known, *(walk.builder.at(ct, type) if type else ct for ct, type in zip(seeds, held, strict=True)))
    for atom, ct in matched(
        equation, linear, found.nonzero, walk.builder.emit(equation.primitive, given, rows, wanted)
    ):
        walk.add(atom, ct)


def _inside(scope: Scope, builder: Builder, equation: Equation) -> Scope:
    return builder.checker.scope_on(context(equation, scope), scope)


def _with_body(parameters: Parameters, key: str, program: Program, more: Sequence[Type | None]) -> Parameters:
    """The parameters of a call with further results, of these types."""
    rows: dict[str, Value] = dict(parameters.items_in_order)
    rows[key] = program
    unsaid: dict[str, tuple[Value, ...]] = {
        "out_shardings": (Word("UnspecifiedValue"),) * len(more),
        "out_layouts": (None,) * len(more),
        "out_memory_spaces": _memories(more),
    }
    for name, values in unsaid.items():
        value = rows.get(name)
        if isinstance(value, tuple):
            rows[name] = (*value, *values)
    return Parameters(tuple(rows.items()))


def _derived(parameters: Parameters, key: str, program: Program, types: Sequence[Type]) -> Parameters:
    """The parameters of a call of a derived body, with results of these types: what is asked of the operands is not
    asked of their cotangents; they are computed where their primals are."""
    rows: dict[str, Value] = {name: value for name, value in parameters.items_in_order if name in _KEPT}
    rows[key] = program
    if "out_memory_spaces" in parameters:
        rows["out_memory_spaces"] = _memories(types)
    return Parameters(tuple(rows.items()))


def _memories(types: Sequence[Type | None]) -> tuple[Value, ...]:
    """The memories that results of these types lie in, as JAX writes them."""
    return tuple(
        Word(f"MemorySpace.{(type.memory if isinstance(type, ArrayType) else '').capitalize() or 'Device'}")
        for type in types
    )


_CALL: Final = Form(_call, _call_back)

CALLS: Final[dict[str, Form]] = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "core_call", "compute_on"), _CALL),
}
