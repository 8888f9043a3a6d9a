"""The promises of the backward program, on programs that are drawn (proofs/transposition.md has the proofs)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.cotangents import cotangent
from calculus.equivalence import difference
from calculus.linearization import Linearized, linearize
from calculus.programs import Equation, Literal, Program
from calculus.transposition import Transposed, transpose
from calculus.types import ArrayType, same
from grammar.meshes import parse_meshes
from grammar.read import read
from tests.laws.evaluation import evaluate
from tests.laws.programs import (
    ALLOWED,
    COUNT,
    Case,
    bodies,
    case,
    cases,
    derived,
    numbers,
    priced,
    type_of,
    types_of,
)
from verifier.examine import examine
from verifier.generated import drawn
from verifier.generated.growing import Grown, Tally
from verifier.generated.moves import SWAPPED


def test_a_well_typed_program_has_a_well_typed_backward_program() -> None:
    """Unless something on the way has no cotangent, or is not written (A13)."""
    assert {one.refused for one in cases() if one.made is None} <= ALLOWED
    for one, made in derived():
        checker = Checker([one.grown.mesh])
        checker.check(made)
        assert checker.refusals == [], one.seed
    assert sum(1 for _ in derived()) > COUNT / 2


_GATHER = "axis_index_groups=None tiled=True axis_size=2 all_gather_dimension=0"
GATHERED = f"""{{ lambda ; a:f32[2,4@(X,Y)]. let
    b:f32[8,2@Y] = shard_map[
      check_vma=True
      in_specs=(P(None, ('X', 'Y')),)
      jaxpr={{ lambda ; c:f32[2,1]{{V:(X,Y)}}. let
          d:f32[4,1]{{V:Y}} = all_gather_invariant[axis_name=('X',) {_GATHER}] c
          e:f32[8,1]{{V:Y}} = all_gather[axis_name=('Y',) {_GATHER}] d
        in (e,) }}
      mesh=AbstractMesh('X': 2, 'Y': 2, axis_types=(Explicit, Explicit))
      newly_manual_axes=frozenset({{'X', 'Y'}})
      out_specs=(P(None, 'Y'),)
    ] a
    f:f32[8,2@Y] = rev[dimensions=(0,)] b
  in (f,) }}"""


def test_a_gather_over_one_of_two_axes_has_a_well_typed_transpose() -> None:
    """The part that a device takes back varies over the other axis too."""
    (mesh,) = parse_meshes("X=2, Y=2")
    one = case(0, Grown(read(GATHERED).program, mesh, Tally()))
    assert one.made is not None
    assert gradients_are_right(one, one.made)


def test_a_cotangent_has_the_type_that_the_primal_determines() -> None:
    """The same primal type, the same cotangent type, in whatever program (A2)."""
    found: dict[ArrayType, set[ArrayType]] = {}
    for one, made in derived():
        types = types_of(made)
        gradients = made.outputs[len(one.program.outputs) :]
        for number, atom in zip(one.wrt, gradients, strict=True):
            primal, gradient = one.program.input_types[number], type_of(atom, types)
            assert isinstance(primal, ArrayType)
            assert isinstance(gradient, ArrayType)
            assert same(gradient, cotangent(primal)), one.seed
            found.setdefault(primal.canonical, set()).add(gradient.canonical)
    assert all(len(gradients) == 1 for gradients in found.values())
    assert len(found) > 100


def test_the_cotangent_map_is_an_involution() -> None:
    tried = set()
    for one in cases():
        for inner, _ in bodies(one.program):
            for type in types_of(inner).values():
                if isinstance(type, ArrayType) and type.dtype == "f32" and type.kind == "sum":
                    there = cotangent(type)
                    assert same(cotangent(there), type)
                    tried.add(type)
    assert len(tried) > 300


def test_summands_of_a_fan_out_agree_and_are_added_where_they_are() -> None:
    """A11: every sum of cotangents is of one type, and none communicates."""
    sums = 0
    for one, made in derived():
        for inner, _ in bodies(made):
            types = types_of(inner)
            for equation in inner.equations:
                if equation.primitive == "add_any":
                    first, second = (type_of(atom, types) for atom in equation.inputs)
                    assert first is not None
                    assert second is not None
                    assert same(first, second)
                    assert same(first, equation.types[0])  # type: ignore[arg-type]
                    sums += 1
        charged = examine(made, Checker([one.grown.mesh])).charges
        assert not any(charge.equation.primitive == "add_any" for charge in charged), one.seed
    assert sums > 200


# --- numbers ---


def gradients_are_right(one: Case, made: Program) -> bool | None:
    """Whether cotangents are those that differences of results say, along a random direction; `None` where the program
    is not smooth there, or its numbers are too large to tell."""
    program, mesh = one.program, one.grown.mesh
    inputs = numbers(program.input_types, one.seed)
    steps = numbers(program.input_types, one.seed + 1)
    with np.errstate(all="ignore"):
        results = evaluate(program, inputs, mesh)
        if not all(np.isfinite(result).all() and np.abs(result).max(initial=0) < 1e4 for result in results):
            return None
        cts = [np.random.default_rng(one.seed).normal(size=result.shape) for result in results]
        found = evaluate(made, [*inputs, *cts], mesh)

        def slope(step: float) -> float:
            ahead, behind = (
                evaluate(program, [value + sign * step * each for value, each in zip(inputs, steps, strict=True)], mesh)
                for sign in (1, -1)
            )
            pairs = zip(cts, ahead, behind, strict=True)
            return sum(float((ct * (after - before)).sum()) for ct, after, before in pairs) / (2 * step)

        coarse, fine = slope(1e-5), slope(5e-6)
    for result, again in zip(results, found, strict=False):
        assert np.allclose(result, again), "the derived program computes other results"
    said = sum(float((steps[at] * each).sum()) for at, each in zip(one.wrt, found[len(results) :], strict=True))
    if not np.isfinite(said):  # atan2 at two zeros
        return None
    scale = max(1.0, abs(fine), abs(said))
    return None if abs(coarse - fine) > 1e-5 * scale else abs(said - fine) < 1e-4 * scale


def test_gradients_are_what_differences_say() -> None:
    """The derived program, evaluated whole, and device by device inside a shard_map."""
    verdicts = Counter((one.seed, gradients_are_right(one, made)) for one, made in derived())
    assert [seed for seed, right in verdicts if right is False] == []
    assert sum(right is True for _, right in verdicts) > 0.85 * len(verdicts)


def test_a_wrong_gradient_is_noticed() -> None:
    """One equation of the backward pass is left out, or another function takes its place."""
    verdicts = Counter[bool | None]()
    for one, made in list(derived())[:40]:
        live = _alive(made, len(one.program.outputs))
        last = next((each for each in reversed(made.equations) if each.primitive in ("neg", "mul", "add_any")), None)
        if last is None or live.isdisjoint(last.binders):
            continue
        other = "copy" if last.primitive == "neg" else "sub"
        changed = Equation(other, last.parameters, last.inputs, last.binders, last.types)
        equations = tuple(changed if each is last else each for each in made.equations)
        wrong = Program((), (), made.inputs, made.input_types, equations, made.outputs)
        verdicts[gradients_are_right(one, wrong)] += 1
    assert verdicts[False] > 15
    assert verdicts[False] > 2 * verdicts[True], verdicts  # some cotangents are zero at these inputs


def _alive(program: Program, results: int) -> set[str]:
    live = {atom for atom in program.outputs[results:] if isinstance(atom, str)}
    for equation in reversed(program.equations):
        if not live.isdisjoint(equation.binders):
            live.update(atom for atom in equation.inputs if isinstance(atom, str))
    return live


# --- parts ---


def test_the_backward_communication_of_a_composition_is_the_sum_of_its_parts() -> None:
    """A3: a program is cut in two; what the transposes of the parts communicate is what that of the whole does. Where a
    number decides for a branch, the whole may know that nothing reads what a part hands out, and does without it."""
    sums = Counter[bool]()
    for one, _ in derived():
        program = one.program
        for at in {len(program.equations) // 3, 2 * len(program.equations) // 3}:
            first, second, between = _parts(program, at)
            flows = {name: position in one.wrt for position, name in enumerate(program.inputs)}
            bench = Workbench(Checker([one.grown.mesh]))
            _, whole = _back(bench, program, flows, None)
            early = _forward(bench, first, flows)
            flows |= dict(zip(between, early.nonzero, strict=True))
            _, after = _back(bench, second, flows, None)
            came = iter(after.nonzero)
            reached = {name for name in second.inputs if flows[name] and next(came)}
            _, before = _back(bench, first, flows, [name in reached for name in between])
            parts = [*_costs(after.program, one), *_costs(before.program, one)]
            costs = _costs(whole.program, one)
            if _decided(program):
                assert Counter(costs) <= Counter(parts), (one.seed, at)
                continue
            assert costs == sorted(parts, key=str), (one.seed, at)
            sums[bool(parts)] += 1
    assert sums[True] > 30


def _decided(program: Program) -> bool:
    """Whether a number decides for a branch, at any depth."""
    return any(
        equation.primitive == "cond" and isinstance(equation.inputs[0], Literal)
        for one, _ in bodies(program)
        for equation in one.equations
    )


def _parts(program: Program, at: int) -> tuple[Program, Program, list[str]]:
    """The first so many equations, and the rest; the names that go between."""
    types = types_of(program)
    early = {name for equation in program.equations[:at] for name in equation.binders}
    used = {*(atom for equation in program.equations[at:] for atom in equation.inputs), *program.outputs}
    between = sorted(early & used, key=str)
    taken = [*between, *program.inputs]
    first = Program((), (), program.inputs, program.input_types, program.equations[:at], tuple(between))
    second = Program(
        (), (), tuple(taken), tuple(types[name] for name in taken), program.equations[at:], program.outputs
    )  # fmt: skip
    return first, second, between


def _forward(bench: Workbench, program: Program, flows: dict[str, bool]) -> Linearized:
    return linearize(bench, bench.checker.scope, program, [flows[name] for name in program.inputs])


def _back(
    bench: Workbench, program: Program, flows: dict[str, bool], reached: list[bool] | None
) -> tuple[Linearized, Transposed]:
    """A program's linear part transposed, for cotangents of all results, or of these."""
    found = _forward(bench, program, flows)
    held = len(found.residuals)
    linear = [False] * held + [True] * (len(found.linear.inputs) - held)
    given = [True] * len(found.nonzero) if reached is None else reached
    flowing = [come for come, flows in zip(given, found.nonzero, strict=True) if flows]
    return found, transpose(bench, bench.checker.scope, found.linear, linear, flowing)


def _costs(program: Program, one: Case) -> list[tuple[object, ...]]:
    examined = examine(program, Checker([one.grown.mesh]))
    assert examined.checker.refusals == [], one.seed
    return priced(examined.charges)


# --- transposing twice ---


def _linear(one: Case) -> tuple[Linearized, Transposed, Transposed] | None:
    """A program's linear part, its transpose, and the transpose of that; `None` where something is zero."""
    bench = Workbench(Checker([one.grown.mesh]))
    scope = bench.checker.scope
    flows = [position in one.wrt for position in range(len(one.program.inputs))]
    found = linearize(bench, scope, one.program, flows)
    held = len(found.residuals)
    count, results = len(found.linear.inputs) - held, len(found.linear.outputs)
    once = transpose(bench, scope, found.linear, [False] * held + [True] * count, [True] * results)
    if not (results and all(once.nonzero)):
        return None
    twice = transpose(bench, scope, once.program, [False] * held + [True] * results, [True] * count)
    return (found, once, twice) if all(twice.nonzero) else None


def test_transposing_twice_computes_the_same() -> None:
    """At the same types, and to the same numbers."""
    same_again = 0
    for one, _ in derived():
        found = _linear(one)
        if found is None:
            continue
        linear, _, twice = found
        assert list(map(str, twice.program.input_types)) == list(map(str, linear.linear.input_types)), one.seed
        types, other = types_of(linear.linear), types_of(twice.program)
        for mine, theirs in zip(linear.linear.outputs, twice.program.outputs, strict=True):
            assert str(type_of(mine, types)) == str(type_of(theirs, other)), one.seed
        inputs = numbers(linear.linear.input_types, one.seed)
        with np.errstate(all="ignore"):
            before = evaluate(linear.linear, inputs, one.grown.mesh)
            after = evaluate(twice.program, inputs, one.grown.mesh)
        for one_way, other_way in zip(before, after, strict=True):
            near = 1e-6 * (1 + np.abs(one_way).max(initial=0))
            assert np.allclose(one_way, other_way, 1e-6, near, equal_nan=True), one.seed
        same_again += 1
    assert same_again > COUNT / 6


def test_transposing_twice_is_the_same_program() -> None:
    """Where transposes swap index lists, up to names, dead code and fused permutations."""
    same_again = 0
    for seed in range(220):
        one = case(seed, drawn(seed, moves=SWAPPED))
        found = _linear(one) if one.made is not None else None
        if found is None:
            continue
        linear, once, twice = found
        if _moves(once.program) > _moves(linear.linear):  # what is cut or gathered unasked is asked for backward
            continue
        assert difference(linear.linear, twice.program) == "", seed
        same_again += 1
    assert same_again >= 40


def _moves(program: Program) -> int:
    return sum(equation.primitive == "reshard" for equation in program.equations)
