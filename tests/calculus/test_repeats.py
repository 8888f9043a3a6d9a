"""Runs that a program repeats: found as they are, and derived once to the same program as equation by equation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain, pairwise

import pytest

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.copied import Assembled, reads, size_of, typed_names
from calculus.effects import Pricing, charges
from calculus.equivalence import difference
from calculus.gradients import gradient
from calculus.linearization import linearize
from calculus.pieces import Piece, Unmade
from calculus.programs import Equation, Program
from calculus.recalling import Recalling
from calculus.repeats import SHORTEST, Run, stretches
from grammar.meshes import parse_meshes
from grammar.read import read
from verifier.attribution import Attribution

MESH = "X=2, Y=2"
LAYERS = 5


def layered(layer: Callable[[int, str, str], list[str]], definitions: str = "") -> Program:
    """A loss through layers, each with a weight of its own, and one weight that all of them use."""
    weights = " ".join(f"w{number}:f32[4,4]" for number in range(LAYERS))
    lines, stream = ["a0:f32[8@X,4] = sin x"], "a0"
    for number in range(LAYERS):
        lines += layer(number, stream, f"w{number}")
        stream = lines[-1].partition(":")[0]
    lines.append(f"loss:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] {stream}")
    body = "\n      ".join(lines)
    text = f"{definitions}{{ lambda ; x:f32[8@X,4] v:f32[4] {weights}. let\n      {body}\n    in (loss,) }}"
    return read(text).program


DOT = "dot_general[dimension_numbers=(([1], [0]), ([], [])) out_sharding=None preferred_element_type=float32]"


def dense(number: int, stream: str, weight: str) -> list[str]:
    """Eight equations: the weight of the layer, then that of all, and the stream added."""
    n = f"l{number}"
    return [
        f"{n}a:f32[8@X,4] = {DOT} {stream} {weight}",
        f"{n}b:f32[4] = mul v v",
        f"{n}c:f32[8,4] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(8, 4) sharding=None] {n}b",
        f"{n}d:f32[8@X,4] = mul {n}a {n}c",
        f"{n}e:f32[8@X,4] = tanh {n}d",
        f"{n}f:f32[8@X,4] = mul {n}e 2.0:f32[]",
        f"{n}g:f32[8@X,4] = sub {n}f {stream}",
        f"{n}h:f32[8@X,4] = add {n}g {stream}",
    ]


def crossed(number: int, stream: str, weight: str) -> list[str]:
    """The same, of which every other layer subtracts the other way round."""
    lines = dense(number, stream, weight)
    if number % 2:
        lines[6] = f"l{number}g:f32[8@X,4] = sub {stream} l{number}f"
    return lines


def checked(program: Program) -> Checker:
    checker = Checker(parse_meshes(MESH))
    checker.check(program)
    assert checker.refusals == []
    return checker


def test_layers_are_runs() -> None:
    program = layered(dense)
    found = stretches(program)
    runs = [one for one in found if isinstance(one, Run)]
    assert len(runs) == LAYERS
    assert len({run.shape for run in runs}) == 1
    assert {len(run.equations) for run in runs} == {SHORTEST}
    assert [len(run.shape.results) for run in runs] == [1] * LAYERS
    assert equations(found) == list(program.equations)


def test_what_reads_otherwise_is_not_alike() -> None:
    program = layered(crossed)
    found = stretches(program)
    shapes = [one.shape for one in found if isinstance(one, Run)]
    assert all(first is not second for first, second in pairwise(shapes))
    assert equations(found) == list(program.equations)


def equations(found: Sequence[Run | Sequence[Equation]]) -> list[Equation]:
    return list(chain.from_iterable(one.equations if isinstance(one, Run) else one for one in found))


class Forgetful(dict[Hashable, Piece | Unmade]):
    """A memory that keeps nothing."""

    def __setitem__(self, key: Hashable, piece: Piece | Unmade) -> None:
        pass


@pytest.mark.parametrize("layer", [dense, crossed])
def test_a_run_contributes_what_its_equations_do(layer: Callable[[int, str, str], list[str]]) -> None:
    """One weight is used in all layers, so that its cotangent is summed through all of them; the stream is read
    three times in each."""
    program = layered(layer)
    checker = checked(program)
    wrt = range(len(program.inputs))
    remembering, forgetful = Workbench(checker), Workbench(checker)
    forgetful.pieces = Forgetful()
    found, expected = (gradient(program, bench, wrt) for bench in (remembering, forgetful))
    assert difference(found, expected) == ""
    assert [int(one.line) for one in found.equations] == [int(one.line) for one in expected.equations]


def test_what_was_judged_as_it_was_made_has_the_same_price() -> None:
    program = layered(dense)
    checker = checked(program)
    derived = gradient(program, Workbench(checker), range(len(program.inputs)))
    recalling = Recalling(checker.scope.meshes)
    recalling.scope = checker.scope
    anew = Checker(checker.scope.meshes)
    told = [[(one.sites[-1][1], one.collective) for one in charges(by.check(derived))] for by in (recalling, anew)]
    assert told[0] == told[1]
    assert {collective.kind for _, collective in told[0]} == {"all-reduce", "all-gather"}
    assert recalling.equations == anew.equations


SUMMED = """let summed = { lambda ; a:f32[8@X,4] b:f32[4,4]. let
    c:f32[4] = reduce_sum[axes=(0,) out_sharding=None] a
    d:f32[4,4] = mul b b
  in (c, d) } in
"""


def called(number: int, stream: str, weight: str) -> list[str]:
    """Eight equations: two of a call whose body sums over an axis, one of two results of which one is read."""
    n = f"l{number}"
    return [
        f"{n}a:f32[8@X,4] = {DOT} {stream} {weight}",
        f"{n}b:f32[8@X,4] = sin {n}a",
        f"{n}c:f32[4] {n}d:f32[4,4] = jit[name=summed jaxpr=summed] {n}b {weight}",
        f"{n}e:f32[4] _:f32[4,4] = jit[name=summed jaxpr=summed] {n}b {weight}",
        f"{n}f:f32[4] = mul {n}c {n}e",
        f"{n}g:f32[8,4] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(8, 4) sharding=None] {n}f",
        f"{n}i:f32[8@X,4] = {DOT} {stream} {n}d",
        f"{n}h:f32[8@X,4] = mul {n}g {n}i",
    ]


@pytest.mark.parametrize("layer", [dense, crossed, called])
def test_a_copy_is_its_equations(layer: Callable[[int, str, str], list[str]]) -> None:
    """A program in which copies stand is priced, attributed, cut in stretches and derived from as that of its
    equations is; each of them is one and the same wherever it is looked at."""
    program = layered(layer, SUMMED if layer is called else "")
    checker = checked(program)
    derived = gradient(program, Workbench(checker), range(len(program.inputs)))
    assert isinstance(derived, Assembled) == (layer is not crossed)
    places = [*map(derived.equation, range(size_of(derived)))]
    assert [*map(id, places)] == [*map(id, derived.equations)]
    plain = Program((), (), derived.inputs, derived.input_types, derived.equations, derived.outputs)
    assert [read for _, read in reads(derived, 3, 70)] == [one.inputs for one in derived.equations[3:70]]
    assert typed_names(derived) == typed_names(plain)
    told, known = [], []
    for one in (derived, plain):
        by = Checker(checker.scope.meshes)
        body = by.check(one)
        assert by.refusals == []
        rows = charges(body)
        assert len(rows) > LAYERS
        words = Attribution(body, one)
        told.append([
            (row.sites[0][1], row.collective, row.times, row.inside, words.origin(row), words.destinations(row))
            for row in rows
        ])  # fmt: skip
        known.append([Pricing().live(body, used)[:2] for used in (frozenset((0,)), frozenset((2, 4)))])
    assert told[0] == told[1]
    assert known[0] == known[1]
    again = [linearized(one, checker) for one in (derived, plain)]
    assert difference(*again) == ""


def linearized(program: Program, checker: Checker) -> Program:
    """The linear program of a program in its first input."""
    flows = [place == 0 for place in range(len(program.inputs))]
    return linearize(Workbench(checker), checker.scope, program, flows).linear
