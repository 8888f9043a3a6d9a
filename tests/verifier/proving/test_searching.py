"""A search for counterexamples finds those that there are, and none to what is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from calculus.checking import Scope
from calculus.programs import Equation
from calculus.rules import Typing
from verifier.execution.trusting import Trusting
from verifier.ledger import DEVICES, SEARCH, SOLVER, Counterexample, ledger
from verifier.proving import searching
from verifier.proving.obligations import discharge
from verifier.proving.searching import Subject, refutation, searched

MESH = "# mesh: X=2\n"
EVERY = {entry.number: entry for entry in ledger() if entry.counterexample and entry.counterexample.by != DEVICES}
SOLVED = [entry.number for entry in ledger() if entry.counterexample and entry.counterexample.by == SOLVER]


ONE_WAY = "{ lambda ; a:f32[2]{U:X} b:f32[2]. let c:f32[2]{U:X} = mul a b in (c,) }"
"""Refused, and right: its transpose would communicate."""


def refuted(subject: Subject) -> bool:
    """Whether any of some runs goes wrong."""
    random = np.random.default_rng(0)
    return any(subject.tried(subject.drawn(largest, random)) for largest in (1, 4, 64) for _ in range(3))


def inside(
    body: str, operand: str = "f32[2@X]", spec: str = "P('X',)", result: str = "f32[1]", out: str = "P()"
) -> str:
    """Per-device code over X."""
    return f"""{{ lambda ; a:{operand}. let
    b:{result} = shard_map[
      check_vma=True
      in_specs=({spec},)
      jaxpr={{ lambda ; {body} }}
      mesh=AbstractMesh('X': 2, axis_types=(Explicit,))
      newly_manual_axes=frozenset({{'X'}})
      out_specs=({out},)
    ] a
  in (b,) }}"""


def test_nothing_that_is_proved_is_refuted() -> None:
    for entry in ledger():
        if entry.proof is not None:
            subject = Subject(Counterexample(SEARCH, entry.proof.program))
            assert subject.tried(subject.drawn(4, np.random.default_rng(0))) is None, entry.title


@pytest.mark.parametrize(
    "program",
    [
        ONE_WAY,
        # what is cut may be brought together, which no type says
        "{ lambda ; a:f32[4@X]. let b:f32[4@X] = cumsum[axis=0 reverse=False] a in (b,) }",
        "{ lambda ; a:f32[4@X]. let b:f32[4] = sort[dimension=0 is_stable=True num_keys=1] a in (b,) }",
        "{ lambda ; a:f32[4@X]. let b:f32[4] = neg a in (b,) }",
        # typed as what it is: both branches, both states of what is carried
        inside("c:f32[1]{V:X}. let d:f32[1] = psum[axes=('X',) axis_index_groups=None] c in (d,)"),
        inside("c:f32[1]{V:X}. let d:f32[1]{U:X} = vary_unreduced_cast[axes=('X',)] c in (d,)",
               result="f32[1]{U:X}", out="P(unreduced={'X'})"),
        # refused, as groups have no state: and the groups are all devices
        inside("c:f32[1]{V:X}. let d:f32[1] = pmax[axes=('X',) axis_index_groups=((0, 1),)] c in (d,)"),
    ],
)  # fmt: skip
def test_what_is_right_has_no_counterexample(program: str) -> None:
    assert not refuted(Subject(Counterexample(SEARCH, MESH + program)))


def test_what_is_refused_and_right_was_run() -> None:
    """What is one-way, so that the search had the means to refute it."""
    subject = Subject(Counterexample(SEARCH, f"{MESH}{ONE_WAY}"))
    assert subject.doubted
    outcome = subject.run(subject.drawn(4, np.random.default_rng(0)))
    assert len(outcome.results) == 1
    assert outcome.equal


BELOW = """
    d:i32[2,2] = iota[dimension=0 dtype=int32 shape=(2, 2) sharding=None]
    e:i32[2,2] = iota[dimension=1 dtype=int32 shape=(2, 2) sharding=None]
    o:bool[2,2] = gt d e
    p:f32[2,2] = convert_element_type[new_dtype=float32 weak_type=False] o
    q:f32[2,2] = mul p b
    r:f32[2,2] = transpose[permutation=(1, 0)] q
    s:bool[2,2] = eq d e
    t:f32[2,2] = convert_element_type[new_dtype=float32 weak_type=False] s
    u:f32[2,2] = mul t b
    v:f32[2,2] = add q r
    w:f32[2,2] = add v u
"""
"""What a symmetric matrix changes by, of which the lower triangle changes by b."""


def test_a_derivative_that_is_right_has_none() -> None:
    counterexample = EVERY[94].counterexample
    assert counterexample is not None
    said = counterexample.tangents
    first, rest = said.index("    c:f32[2,2]"), said.index("    f:f32[2,2]")
    right = said[:first] + BELOW + said[rest:].replace("] e\n", "] a\n").replace("] g b", "] g w")
    seen = []
    for tangents in (said, right):
        subject = Subject(replace(counterexample, tangents=tangents))
        drawn = [subject.drawn(2, np.random.default_rng(seed)) for seed in range(4)]
        seen.append([subject.tried(inputs) is not None for inputs in drawn])
    assert any(seen[0])
    assert not any(seen[1])


BODIES = frozenset({"scan", "while", "cond", "jit", "closed_call"})


class Doubting(Trusting):
    """Takes loops, branches and calls at their word though they are judged right."""

    seen: ClassVar[set[str]] = set()

    def judge(self, equation: Equation, operands: Any, scope: Scope, key: Any) -> Any:
        typing, inner = super().judge(equation, operands, scope, key)
        if equation.primitive not in BODIES or typing.collectives or None in equation.types:
            return typing, inner
        self.seen.add(equation.primitive)
        return Typing(equation.types), tuple(self._bodies_of(equation, scope))  # type: ignore[arg-type]


def test_bodies_of_what_is_trusted_are_run_as_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "Trusting", Doubting)
    for entry in ledger():
        if entry.proof is not None and any(f" {name}[" in entry.proof.program for name in BODIES):
            subject = Subject(Counterexample(SEARCH, entry.proof.program))
            outcome = subject.run(subject.drawn(4, np.random.default_rng(0)))
            assert not [one.message for one in outcome.problems if one.differs], entry.title
            assert outcome.results or outcome.problems[0].unrunnable
    assert Doubting.seen >= {"scan", "while", "cond", "jit"}


def test_a_gradient_that_is_right_has_none() -> None:
    counterexample = EVERY[142].counterexample
    assert counterexample is not None
    right = counterexample.gradient.replace("div b d", "mul b 1.0:f32[]")
    subject = Subject(replace(counterexample, gradient=right))
    assert len(subject.run({"a": np.arange(4, dtype=np.float32)}).results) == 1
    assert not refuted(subject)
    assert refuted(Subject(counterexample))


def test_what_moves_nothing_moves_nothing() -> None:
    entry = EVERY[72]
    assert entry.counterexample is not None
    free = entry.counterexample.program.replace("b:f32[4@X,2]", "b:f32[4,2]")
    assert not refuted(Subject(replace(entry.counterexample, program=free)))
    other = replace(entry.counterexample, program=free.replace("X=2", "X=2, Y=2"), without=("Y",))
    assert not refuted(Subject(other))


@pytest.mark.parametrize("number", SOLVED)
def test_what_the_solver_refutes_a_run_refutes(number: int) -> None:
    """The two know nothing of each other but what a family is."""
    counterexample = EVERY[number].counterexample
    assert counterexample is not None
    assert searched(Subject(replace(counterexample, by=SEARCH))) is not None


def test_an_entry_whose_counterexample_is_gone_fails() -> None:
    entry = EVERY[116]
    assert entry.counterexample is not None
    right = entry.counterexample.program.replace("c:f32[]{U:X} = add", "c:f32[] = add")
    gone = discharge(refutation(replace(entry, counterexample=replace(entry.counterexample, program=right))))
    assert not gone.holds
    assert "reads back wrong" in gone.objection


def test_what_the_calculus_accepts_is_no_counterexample() -> None:
    """A callback apart, whose types it assumes and says so, it accepts nothing that a run refutes."""
    assert all(Subject(entry.counterexample).doubted for entry in EVERY.values() if entry.counterexample)
    neg = Counterexample(SEARCH, f"{MESH}{{ lambda ; a:f32[2]{{U:X}}. let b:f32[2]{{U:X}} = neg a in (b,) }}")
    assert not Subject(neg).doubted


def run(number: int) -> tuple[str, dict[str, Any]]:
    counterexample = EVERY[number].counterexample
    assert counterexample is not None
    made = searched(Subject(counterexample))
    assert made is not None
    return made.says, {name: array.tolist() for name, array in made.inputs.items()}


def test_counterexamples_are_what_they_say_by_hand() -> None:
    says, held = run(67)  # 0 + 1 + 1 where z = 0; each device carries 1, which is read as 2 in all
    one, other = held["a"]
    assert (one, other) == (0, 0)
    assert says == "b, f32[]{U:X}: 2.0 whole, 4.0 on devices"
    says, held = run(13)
    (first, second), (third, fourth) = np.squeeze(held["a"], -1) if np.ndim(held["a"]) == 3 else held["a"]
    whole = max(first + third, second + fourth)  # pieces along Y, cut along X
    pieces = max(first, second) + max(third, fourth)
    assert whole != pieces
    assert says == f"b, f32[1]{{U:Y}}: at [0] {whole} whole, {pieces} on devices"
    says, held = run(10)
    one, other = (int(piece) for piece in held["a"])
    carried = (one + other) % 2**64 >> 32 != ((one >> 32) + (other >> 32)) % 2**32
    assert carried
    says, held = run(58)
    (one, other), divisor = held["a"], held["b"]
    assert int(one / divisor) + int(other / divisor) != int((one + other) / divisor)
    says, held = run(94)
    point, way = np.array(held["a"]), np.array(held["a along"])
    before, after = (np.linalg.eigvalsh(point + by * way, "L") for by in (-1e-6, 1e-6))
    change = (after - before) / 2e-6
    vectors = np.linalg.eigh((point + point.T) / 2)[1]
    assert not np.allclose(change, np.diag(vectors.T @ way @ vectors), 1e-2)
    assert says.startswith("at a = [[")
    assert "in the direction of a [[" in says
