"""Rematerialised bodies: what the linear body needs it computes again, from the inputs and from what the policy keeps,
moves and gathers included. What is kept leaves the forward body as a residual; where nothing is, its inputs are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calculus.building import Builder
from calculus.derivatives.rules import Form, closed, flat, linear_operands, matched, results_of
from calculus.derivatives.saving import Policy, keeps_inside, policy_of
from calculus.effects import EFFECTFUL
from calculus.linearization import Linearizer, Pushed, Tangent
from calculus.programs import Atom, Equation, Program, Value, Variable
from calculus.transposition import Transposer, transpose

_BODIES: Final = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def _remat(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    program, key = closed(equation, *_BODIES)
    policy = policy_of(equation.parameters.get("policy"))
    if keeps_inside(policy, equation):
        program = flat(walk, program)
    inner = Linearizer(walk.bench, walk.scope)
    inputs = [inner.known.input(walk.known.type_of(primal)) for primal in primals]
    flowing = [None if tangent is None else inner.linear.input(walk.linear.type_of(tangent)) for tangent in tangents]
    ends, pushed = inner.walk(program, inputs, flowing)
    if policy.assumed:
        walk.bench.assumed.add(policy.assumed)

    # The linear body: what it needs, back to what is kept.
    linear = inner.linear.program([], [tangent for tangent in pushed if tangent is not None])
    needed = {atom for one in linear.equations for atom in one.inputs if isinstance(atom, str)}
    needed |= {atom for atom in linear.outputs if isinstance(atom, str)}
    again = Builder(walk.bench, walk.scope)
    again.types = {**inner.known.types, **inner.linear.types}
    kept: dict[Variable, str] = {}
    repeated: list[Equation] = []
    for one in reversed(inner.known.equations):
        if needed.isdisjoint(one.binders):
            continue
        keeps = policy.keeps(one)
        if keeps:
            kept |= {binder: str(keeps) if keeps is not True else "" for binder in one.binders if binder in needed}
            continue
        _inside(walk, policy, one)
        repeated.append(one)
        needed.update(atom for atom in one.inputs if isinstance(atom, str))
    entering = {name: _back(again, name, memory) for name, memory in reversed(kept.items())}
    again.items += [*reversed(repeated), *linear.equations]
    used = [position for position, name in enumerate(inputs) if name in needed]
    given = [one for one in flowing if one is not None]
    body = again.program(
        [*entering.values(), *(inputs[one] for one in used), *given],
        linear.outputs,
    )

    # The forward body: as it is where nothing is kept.
    if entering:
        whole = Program(
            (), (), tuple(inputs), tuple(map(inner.known.type_of, inputs)), _alive(inner.known, [*ends, *entering]),
            (*ends, *entering),
        )  # fmt: skip
        found = walk.known.inline(whole, primals)
        results, saved = found[: len(ends)], found[len(ends) :]
        residuals = [
            walk.known.moved(atom, kept[name]) if kept[name] else atom
            for name, atom in zip(entering, saved, strict=True)
        ]
    else:
        results = walk.known.emit(equation.primitive, primals, equation.parameters, equation.types)
        residuals = []
    rows: dict[str, Value] = dict(equation.parameters.items_in_order) | {key: body, "differentiated": True}
    if isinstance(rows.get("prevent_cse"), (tuple, list)):
        rows["prevent_cse"] = True
    atoms = [*residuals, *(primals[one] for one in used), *(one for one in tangents if one is not None)]
    wanted = results_of(body)
    made = iter(walk.linear.emit(equation.primitive, atoms, rows, wanted) if wanted else ())
    return results, [None if tangent is None else next(made) for tangent in pushed]


def _inside(walk: Linearizer, policy: Policy, equation: Equation) -> None:
    """What is kept inside a loop or behind a boundary would have to leave it: that is not followed, and said."""
    if keeps_inside(policy, equation):
        walk.bench.assumed.add(f"what a policy keeps inside of a {equation.primitive} is taken to be computed again")


def _alive(builder: Builder, wanted: Sequence[Atom]) -> tuple[Equation, ...]:
    """The equations that these values need, and those that do something beside."""
    live = {atom for atom in wanted if isinstance(atom, str)}
    kept = []
    for one in reversed(builder.equations):
        if not live.isdisjoint(one.binders) or one.primitive in EFFECTFUL:
            kept.append(one)
            live.update(atom for atom in one.inputs if isinstance(atom, str))
    return tuple(reversed(kept))


def _back(builder: Builder, name: Variable, memory: str) -> Variable:
    """The name under which what is kept comes in: its own, or that of the copy from which it is made."""
    if not memory:
        return name
    types = Builder(builder.bench, builder.scope)
    types.types = builder.types
    copy = builder.input(types.type_of(types.moved(name, memory)))
    builder.moved(copy, "")
    builder.equations[-1].binders = (name,)
    return copy


def _remat_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    program, key = closed(equation, *_BODIES)
    linear = linear_operands(walk, equation)
    found = transpose(walk.bench, walk.scope, program, linear, [ct is not None for ct in cts])
    known = [atom for atom, one in zip(equation.inputs, linear, strict=True) if not one]
    rows = dict(equation.parameters.items_in_order) | {key: found.program}
    wanted = results_of(found.program)
    given = (*known, *(ct for ct in cts if ct is not None))
    results = walk.builder.emit(equation.primitive, given, rows, wanted) if wanted else ()
    for atom, ct in matched(equation, linear, found.nonzero, results):
        walk.add(atom, ct)


REMATS: Final[dict[str, Form]] = dict.fromkeys(("remat", "remat2", "checkpoint"), Form(_remat, _remat_back))
