"""Calls with a rule of somebody's own. Where the rule is at hand (`calculus.programs.Code`), it is what counts.

A rule of custom_jvp_call is a program from values and tangents: what of it depends on tangents is the linear program,
and has to be linear in them. A rule of custom_vjp_call is one from values and cotangents. What of it depends on no
cotangent is computed forward; the rest stands in the linear program as a `custom_lin` that says only how it is
transposed. In a text no rule is printed: that of a custom_jvp_call promises to be the derivative of its body, and is
taken to be that, counted as an assumption; that of a custom_vjp_call promises nothing, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from calculus.adjoints import unwritten
from calculus.building import Builder
from calculus.collectives import COLLECTIVES
from calculus.derivatives.rules import Form, closed, flat
from calculus.evaluation import Use
from calculus.linearization import Linearizer, Pushed, Tangent, differentiable
from calculus.parameters import bad
from calculus.primitives import TABLE
from calculus.programs import Atom, Code, Equation, Literal, Program, Variable, body
from calculus.refusals import Place, refuse
from calculus.transposition import Transposer
from calculus.types import ArrayType

_BODIES: Final = ("call_jaxpr", "fun_jaxpr", "jaxpr")


def _rule(equation: Equation, name: str, flows: Sequence[bool]) -> Program | None:
    code = equation.parameters.get(name)
    return code.trace(tuple(flows)) if isinstance(code, Code) else None


def _custom_jvp(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    rule = _rule(equation, "jvp", [tangent is not None for tangent in tangents])
    if rule is not None:
        return _pushed(walk, equation, rule, [*primals, *(one for one in tangents if one is not None)], len(primals))
    program, _ = closed(equation, *_BODIES)
    what = f"{equation.primitive} {equation.parameters.get('name', '')}".strip()
    walk.bench.assumed.add(f"the rule of {what} is not printed, and taken to be that of its body")
    return walk.walk(program, primals, tangents)


def _pushed(walk: Linearizer, call: Equation, rule: Program, given: Sequence[Atom], count: int) -> Pushed:
    """What a rule makes of values (so many of `given`) and of the tangents after them."""
    program = flat(walk, rule)
    names: dict[Variable, Atom] = dict(zip(program.inputs, given, strict=True))
    linear = set(program.inputs[count:])
    zeros: set[Variable] = set()

    def read(atom: Atom) -> Atom:
        return atom if isinstance(atom, Literal) else names[atom]

    def zero(atom: Atom) -> bool:
        return atom.zero if isinstance(atom, Literal) else atom in zeros

    for equation in program.equations:
        depends = not linear.isdisjoint(equation.inputs)
        groups = _groups(equation, read, walk.linear if depends else walk.known)
        if depends:
            flowing = {place for place, atom in enumerate(equation.inputs) if isinstance(atom, str) and atom in linear}
            whole = next((group for group in groups or () if flowing <= {*group}), None)
            beside = [] if whole is None else [place for place in whole if place not in flowing]
            if groups is not None and (whole is None or not all(zero(equation.inputs[place]) for place in beside)):
                raise _not_linear(call)
            linear.update(equation.binders)
        elif any(group and all(zero(equation.inputs[place]) for place in group) for group in groups or ()) or (
            equation.primitive in _MOVES and all(map(zero, equation.inputs))
        ):
            zeros.update(equation.binders)
        builder = walk.linear if depends else walk.known
        builder.line = call.line
        found = builder.emit(
            equation.primitive, [read(atom) for atom in equation.inputs], equation.parameters, equation.types
        )
        names.update(zip(equation.binders, found, strict=True))
    results = program.outputs[: len(call.binders)]
    ends = iter(program.outputs[len(call.binders) :])
    pushed: list[Tangent] = []
    for type in call.types:
        one = next(ends) if type is not None and differentiable(type) else None
        if one is not None and not (isinstance(one, str) and one in linear) and not zero(one):
            raise _not_linear(call)
        pushed.append(read(one) if isinstance(one, str) and one in linear else None)
    return [read(one) for one in results], pushed


_MOVES: Final = frozenset({"reshard", *(name for name, row in COLLECTIVES.items() if row.transpose)})
"""Forms that take zeros to zeros."""


def _groups(equation: Equation, read: Callable[[Atom], Atom], builder: Builder) -> tuple[tuple[int, ...], ...] | None:
    """The operands in which an equation is linear, those that have to be so together beside each other. `None` for a
    form: its own rule decides, when it is transposed."""
    primitive = TABLE.get(equation.primitive)
    if primitive is None:
        return None
    operands = [atom if isinstance(atom, Literal) else builder.type_of(atom) for atom in map(read, equation.inputs)]
    arrays = [type for type in equation.types if isinstance(type, ArrayType)]
    return tuple(map(tuple, Use.of(primitive, equation.parameters, operands, arrays).signature.groups))


def _not_linear(call: Equation) -> Exception:
    return refuse(
        "unmodelled-construct",
        f"the rule of {call.primitive} {call.parameters.get('name', '')}, which is not linear in the tangents".strip(),
        because="a derivative takes a sum of tangents to the sum of what it makes of each",
        help="correct the rule, so that each tangent only meets sums, and products with what is no tangent",
        place=Place("primitive"),
    )


def _custom_vjp(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    flows = [tangent is not None for tangent in tangents]
    rule = _rule(equation, "fwd", flows)
    if rule is None:
        name = equation.parameters.get("name", "")
        raise refuse(
            "unmodelled-construct",
            f"the derivative of {equation.primitive} {name}".rstrip(),
            because="its rule is code that is not printed, and it is there to differ from the derivative of its body",
            help="hand in the function itself, whose rule can be traced; or print the gradient that JAX makes of it",
            place=Place("primitive"),
        )
    program = flat(walk, rule)
    names: dict[Atom, Atom] = dict(zip(program.inputs, primals, strict=False))
    given = program.inputs[len(primals) :]
    late = set(given)
    back: list[Equation] = []
    for one in program.equations:
        if not late.isdisjoint(one.inputs):
            late.update(one.binders)
            back.append(_where(one, equation.line))
            continue
        walk.known.line = equation.line
        found = walk.known.emit(
            one.primitive, [names.get(atom, atom) for atom in one.inputs], one.parameters, one.types
        )
        names.update(zip(one.binders, found, strict=True))
    count = len(equation.binders)
    results = [names.get(atom, atom) for atom in program.outputs[:count]]
    ends = program.outputs[count:]
    used = dict.fromkeys(
        atom for atoms in (*(one.inputs for one in back), ends) for atom in atoms
        if isinstance(atom, str) and atom not in late
    )  # fmt: skip
    inputs = (*used, *given)
    types = dict(zip(program.inputs, program.input_types, strict=True))
    for one in program.equations:
        types.update(zip(one.binders, one.types, strict=True))
    transposed = Program((), (), inputs, tuple(types[name] for name in inputs), tuple(back), ends)
    wanted = [type for type in map(walk.known.type_of, results) if differentiable(type)]
    residuals = [names[name] for name in used]
    made = iter(
        walk.linear.emit(
            "custom_lin",
            [*residuals, *(tangent for tangent in tangents if tangent is not None)],
            {"name": equation.parameters.get("name"), "bwd": transposed, "num_res": len(residuals)},
            wanted,
        )
        if wanted
        else ()
    )
    return results, [next(made) if differentiable(walk.known.type_of(result)) else None for result in results]


def _where(one: Equation, line: int) -> Equation:
    """An equation of a rule, which stands where the call of the rule does."""
    return Equation(one.primitive, one.parameters, one.inputs, one.binders, one.types, line, one.comment, one.cell)


def _custom_lin_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    """The part of the rule that depends on cotangents."""
    rule = body(equation.parameters.get("bwd"))
    if rule is None:
        raise unwritten(equation.primitive, "transpose")
    held = len(rule.inputs) - len(cts)
    if held < 0 or rule.constants or held + len(rule.outputs) != len(equation.inputs):
        said = f"a program from {len(rule.inputs)} values to {len(rule.outputs)}"
        raise bad("bwd", said, "one from what is saved, and cotangents of the results, to those of the operands after")
    given = [walk.instantiated(ct, binder) for ct, binder in zip(cts, equation.binders, strict=True)]
    found = walk.builder.inline(rule, [*equation.inputs[:held], *given])
    for operand, ct in zip(equation.inputs[held:], found, strict=True):
        walk.add(operand, ct)


def _own(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    raise unwritten(equation.primitive, "transpose")


def _linear_only(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    raise unwritten(equation.primitive, "derivative")


CUSTOM: Final[dict[str, Form]] = {
    "custom_jvp_call": Form(_custom_jvp, _own),
    **dict.fromkeys(("custom_vjp_call", "custom_vjp_call_jaxpr"), Form(_custom_vjp, _own)),
    "custom_lin": Form(_linear_only, _custom_lin_back),
}
