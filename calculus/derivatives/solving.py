"""Linear systems whose solver somebody else brings, and linear functions whose transpose somebody else brings.

Of A x = b, the tangent solves A ẋ = ḃ - Ȧ x: the same system, with another right side. What the solver depends on
otherwise does not count, for the solution does not depend on it. Backward, the transposed system is solved, by the
transposed solver that is printed beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from calculus.derivatives.rules import Form, closed, results_of
from calculus.linearization import Linearizer, Pushed, Tangent, linearize
from calculus.parameters import bad, integer, required
from calculus.programs import Atom, Call, Equation, Parameters, Program, Quoted, Value
from calculus.refusals import Place, refuse
from calculus.transposition import Transposer
from calculus.types import Type

_PARTS: Final = ("matvec", "vecmat", "solve", "transpose_solve")
_TURNED: Final = {"matvec": "vecmat", "vecmat": "matvec", "solve": "transpose_solve", "transpose_solve": "solve"}


class _System(NamedTuple):
    """lengths: of what each of the four functions closes over, in order. functions: as they are quoted."""

    lengths: dict[str, int]
    functions: Quoted

    @property
    def held(self) -> int:
        return sum(self.lengths.values())

    def part(self, name: str) -> tuple[int, int]:
        """Which operands a function closes over: from, to."""
        ends = [0]
        for key in _PARTS:
            ends.append(ends[-1] + self.lengths[key])
        return dict(zip(_PARTS, pairwise(ends), strict=True))[name]

    def program(self, name: str, count: int) -> Program:
        """A function as a program, on what it closes over and this many right sides, whose types are all printed.
        Refuses `unmodelled-construct` where it is not there, `bad-parameter` where it is something else."""
        found = self.functions.program(name)
        if found is not None:
            types = (*found.input_types, *(type for one in found.equations for type in one.types))
            whole = len(found.outputs) == count or (name != "matvec" and len(found.outputs) > count)
            if None in types or found.constants or not whole or len(found.inputs) != self.lengths[name] + count:
                said = f"a {name} from {len(found.inputs)} values to {len(found.outputs)}"
                raise bad("jaxprs", said, "one from what it closes over, and the sides, to as many")
        if found is None:
            raise refuse(
                "unmodelled-construct",
                f"the derivative of custom_linear_solve whose {name} is not there",
                because="a system is differentiated by what applies it, and transposed by what solves its transpose",
                help=f"bring a {name}",
                place=Place("parameter", name="jaxprs"),
            )
        return found


def _system(equation: Equation) -> _System:
    lengths, functions = (required(equation.parameters, name) for name in ("const_lengths", "jaxprs"))
    if not isinstance(functions, Quoted) or not isinstance(lengths, Call):
        raise refuse(
            "unmodelled-construct",
            "the derivative of custom_linear_solve whose functions are not printed",
            because="a system is differentiated by what applies it",
            help="print jaxprs=_LinearSolveTuple(matvec=..., vecmat=..., solve=..., transpose_solve=...)",
            place=Place("parameter", name="jaxprs"),
        )
    numbers = {name: integer(lengths.keyword(name), "const_lengths") for name in _PARTS}
    if min(numbers.values()) < 0:
        raise bad("const_lengths", str(numbers), "numbers of operands")
    return _System(numbers, functions)


def _solve(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    system = _system(equation)
    results = walk.known.emit(equation.primitive, primals, equation.parameters, equation.types)
    sides = [*tangents[system.held :]]
    count = len(sides)
    start, end = system.part("matvec")
    if any(tangent is not None for tangent in tangents[start:end]):
        applied = system.program("matvec", count)
        flows = [*(tangent is not None for tangent in tangents[start:end]), *(False,) * count]
        found = linearize(walk.bench, walk.scope, applied, flows)
        made = walk.known.inline(found.forward, [*primals[start:end], *results[:count]])
        given = [tangent for tangent in tangents[start:end] if tangent is not None]
        moved = iter(walk.linear.inline(found.linear, [*made[len(applied.outputs) :], *given]))
        for position, does in enumerate(found.nonzero):
            if does:
                less = walk.linear.one("neg", (next(moved),))
                side = sides[position]
                sides[position] = less if side is None else walk.linear.one("add_any", (side, less))
    if all(side is None for side in sides):
        return results, [None] * len(results)
    right = [walk.instantiated(side, result) for side, result in zip(sides, results, strict=False)]
    types = [walk.known.type_of(result) for result in results]
    pushed = walk.linear.emit(equation.primitive, [*primals[: system.held], *right], equation.parameters, types)
    return results, [*pushed[:count], *(None,) * (len(results) - count)]


def _solve_back(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    system = _system(equation)
    held, count = system.held, len(equation.inputs) - system.held
    if any(isinstance(atom, str) and atom in walk.linear for atom in equation.inputs[:held]):
        raise refuse(
            "unmodelled-construct",
            "the transpose of custom_linear_solve in what its functions close over",
            because="the solution is not linear in the system",
            help="differentiate it, and transpose the derivative",
            place=Place("primitive"),
        )
    solver = system.program("transpose_solve", count)
    lengths = {name: system.lengths[_TURNED[name]] for name in _PARTS}
    rows: dict[str, Value] = dict(equation.parameters.items_in_order)
    rows["const_lengths"] = Call("_LinearSolveTuple", (), tuple(lengths.items()))
    rows["jaxprs"] = system.functions.exchanged(_TURNED)
    constants = [atom for name in _PARTS for atom in equation.inputs[slice(*system.part(_TURNED[name]))]]
    right = [walk.instantiated(ct, binder) for ct, binder in zip(cts[:count], equation.binders, strict=False)]
    types: list[Type] = [walk.builder.type_of(one) for one in right]
    more = results_of(solver)[count:]
    found = walk.builder.emit(
        equation.primitive, [*constants, *right], Parameters(tuple(rows.items())), [*types, *more]
    )
    for operand, ct in zip(equation.inputs[held:], found, strict=False):
        walk.add(operand, ct)


def _inlined(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """The derivative of the body."""
    program, _ = closed(equation, "call_jaxpr", "jaxpr", "callee", "call")
    return walk.walk(program, primals, tangents)


def _linear_call(walk: Linearizer, equation: Equation, primals: Sequence[Atom], tangents: Sequence[Tangent]) -> Pushed:
    """The transpose that its author brings is not printed. There is only one, and the callee has it."""
    walk.bench.assumed.add("the transpose of a linear_call is not printed, and taken to be that of its callee")
    return _inlined(walk, equation, primals, tangents)


def _never(walk: Transposer, equation: Equation, cts: Sequence[Atom | None]) -> None:
    raise refuse(
        "unmodelled-construct",
        f"the transpose of {equation.primitive}",
        because="it is differentiated by its body, and leaves none of itself in the linear program",
        help="transpose the linear part of its derivative",
        place=Place("primitive"),
    )


SOLVING: Final[dict[str, Form]] = {
    "custom_linear_solve": Form(_solve, _solve_back),
    "linear_call": Form(_linear_call, _never),
    **dict.fromkeys(("custom_vmap_call", "eval_jaxpr", "call", "composite"), Form(_inlined, _never)),
}
