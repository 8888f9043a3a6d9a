"""The relation without sharding against JAX itself: 120 combinations of states of 18 primitives, typed on an abstract
mesh. What differs is listed, each with its reason; a difference that goes away fails the test too."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from calculus.linearity import axis_scheme, relation
from calculus.signatures import Signature

#: name -> signature, JAX function of 4x4 operands. No dim is sharded, so that every scheme may be without factors.
PRIMITIVES: dict[str, tuple[Signature, Callable[..., Any]]] = {
    "add": (Signature.parse("x y"), lax.add),
    "sub": (Signature.parse("x y"), lax.sub),
    "mul": (Signature.parse("x | y"), lax.mul),
    "div": (Signature.parse("x / y"), lax.div),
    "neg": (Signature.parse("x"), lax.neg),
    "cos": (Signature.parse("/ x"), lax.cos),
    "transpose": (Signature.parse("x"), lambda x: lax.transpose(x, (1, 0))),
    "reduce_sum": (Signature.parse("x"), lambda x: lax.reduce_sum(x, (0,))),
    "reshape": (Signature.parse("x"), lambda x: lax.reshape(x, (16,))),
    "broadcast_in_dim": (Signature.parse("x"), lambda x: lax.broadcast_in_dim(x, (3, 4, 4), (1, 2))),
    "concatenate": (Signature.parse("xs...").of(2), lambda x, y: lax.concatenate([x, y], 0)),
    "dot_general": (Signature.parse("x | y"), lax.dot),
    "max": (Signature.parse("/ x y"), lax.max),
    "reduce_max": (Signature.parse("/ x"), lambda x: lax.reduce_max(x, (0,))),
    "select_n": (Signature.parse("x y ; which", "which x y"), lax.select_n),
    "cumsum": (Signature.parse("x"), lambda x: lax.cumsum(x, axis=0)),
    "rev": (Signature.parse("x"), lambda x: lax.rev(x, (0,))),
    "slice": (Signature.parse("x"), lambda x: lax.slice(x, (0, 0), (2, 4))),
}

FORGETS = "JAX's contraction drops the mark of a reduced operand, so that its cotangent is summed at once: a gap"
NO_UNREDUCED = "JAX's contraction refuses every unreduced operand, sound or not: a gap"
NO_RULE = "JAX has no rule for marked operands of this primitive: a gap"
PREDICATE = "JAX does not look at the predicate's state: a predicate in pieces chooses wrongly on every device: a hole"

#: (primitive, states) -> (the calculus, JAX 0.12.0.1, why). "" is a refusal.
DIFFERENCES: dict[tuple[str, str], tuple[str, str, str]] = {
    ("dot_general", "NR"): ("", "N", FORGETS),
    ("dot_general", "RN"): ("", "N", FORGETS),
    ("dot_general", "RR"): ("R", "N", FORGETS),
    ("dot_general", "RU"): ("U", "", NO_UNREDUCED),
    ("dot_general", "UR"): ("U", "", NO_UNREDUCED),
    ("select_n", "UNN"): ("", "N", PREDICATE),
    ("select_n", "URR"): ("", "R", PREDICATE),
    ("select_n", "UUU"): ("", "U", PREDICATE),
    ("cumsum", "R"): ("R", "", NO_RULE),
    ("cumsum", "U"): ("U", "", NO_RULE),
    ("rev", "R"): ("R", "", NO_RULE),
    ("rev", "U"): ("U", "", NO_RULE),
}

#: what JAX 0.10.2 does not know yet
OLDER: dict[tuple[str, str], tuple[str, str, str]] = {
    ("sub", "UU"): ("U", "", NO_RULE),
    ("div", "UR"): ("U", "", NO_RULE),
    ("neg", "U"): ("U", "", NO_RULE),
    ("reshape", "R"): ("R", "", NO_RULE),
    ("reshape", "U"): ("U", "", NO_RULE),
    ("reduce_max", "R"): ("R", "", NO_RULE),
}

#: how JAX refuses a state; the first has no public name
REFUSALS = {"ShardingTypeError", "ValueError", "NotImplementedError"}


def jax_says(function: Callable[..., Any], states: str, predicate: bool) -> str:
    explicit = (jax.sharding.AxisType.Explicit,)
    mesh = jax.sharding.AbstractMesh((2,), ("X",), axis_types=explicit)
    marks: dict[str, dict[str, set[str]]] = {"N": {}, "R": {"reduced": {"X"}}, "U": {"unreduced": {"X"}}}
    with jax.sharding.use_abstract_mesh(mesh):
        operands = [
            jax.ShapeDtypeStruct(
                (4, 4),
                jnp.bool_ if predicate and at == 0 else jnp.float32,
                sharding=jax.NamedSharding(mesh, jax.P(None, None, **marks[state])),
            )
            for at, state in enumerate(states)
        ]
        try:
            spec = jax.jit(function).trace(*operands).jaxpr.out_avals[0].sharding.spec
        except Exception as error:
            if type(error).__name__ not in REFUSALS:
                raise
            return ""
    return "U" if "X" in spec.unreduced else "R" if "X" in spec.reduced else "N"


def test_108_of_120_combinations_agree() -> None:
    version = jax.__version_info__[:2]
    expected = DIFFERENCES | (OLDER if version < (0, 12) else {})
    found: dict[tuple[str, str], tuple[str, str]] = {}
    total = 0
    for name, (signature, function) in PRIMITIVES.items():
        q = relation(axis_scheme([""] * signature.arity, ""), signature)
        for states in map("".join, itertools.product("NRU", repeat=signature.arity)):
            total += 1
            ours = q.results(states)
            assert len(ours) < 2, "the relation is a partial function here"
            verdict = "".join(str(state) for state in ours)
            theirs = jax_says(function, states, name == "select_n")
            if verdict != theirs:
                found[name, states] = verdict, theirs
    assert total == 120
    assert found == {case: (ours, theirs) for case, (ours, theirs, _) in expected.items()}
    assert all(why for _, _, why in expected.values())
    if version >= (0, 12):
        assert len(found) == 12


@pytest.mark.parametrize("states", ["NN", "UR"])
def test_the_probe_can_tell(states: str) -> None:
    """The probe is not constant: it sees a replicated and an unreduced product."""
    assert jax_says(lax.mul, states, False) == ("N" if states == "NN" else "U")
