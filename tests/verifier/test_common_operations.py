"""Sixty things that people do to a pending sum, f32[2,2]{U:X} on two devices. JAX 0.12.0.1 refuses 38 of them, many
with a word about its own code. Here a linear one is accepted, at the type it must have; of another the rule, the
reason and a repair are named, and the repair is taken.

What is expected is worked out by hand. f of pieces, one by one, is pieces of f of the sum exactly if f is additive, and
so are products with what is reduced (its cotangent waits as well). f32[2,2] is 16 bytes: that is what an all-reduce of
it costs, and what it costs backward if the operand was a copy and is now promised a sum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier

MESH = AbstractMesh((2,), ("X",), axis_types=(AxisType.Explicit,))
WHOLE, PENDING, PROMISED = P(None, None), P(unreduced={"X"}), P(reduced={"X"})
SUMMED = "(all-reduce over X of 16 bytes forward, free backward)"
TWICE = "(all-reduce over X of 16 bytes forward, all-reduce over X of 16 bytes backward)"
FREE = "(free forward, free backward)"
LATER = "(free forward, all-reduce over X of 16 bytes backward)"


def struct(spec: P) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((2, 2), jnp.float32, sharding=NamedSharding(MESH, spec))


U, N, R = struct(PENDING), struct(WHOLE), struct(PROMISED)
POSITIVE = jnp.array([[True, False], [False, True]])

ACCEPTED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "negated": (lambda u: -u, (), "f32[2,2]{U:X}"),
    "twice itself": (lambda u: u + u, (), "f32[2,2]{U:X}"),
    "less itself": (lambda u: u - u, (), "f32[2,2]{U:X}"),
    "times a number": (lambda u: u * 2.0, (), "f32[2,2]{U:X}"),
    "by a number": (lambda u: u / 2.0, (), "f32[2,2]{U:X}"),
    "times what is reduced": (lambda u, r: u * r, (R,), "f32[2,2]{U:X}"),
    "by what is reduced": (lambda u, r: u / r, (R,), "f32[2,2]{U:X}"),
    "chosen from itself": (lambda u: jnp.where(POSITIVE, u, u), (), "f32[2,2]{U:X}"),
    "in bfloat16": (lambda u: u.astype(jnp.bfloat16), (), "bf16[2,2]{U:X}"),
    "summed": (lambda u: u.sum(), (), "f32[]{U:X}"),
    "summed over rows": (lambda u: u.sum(0), (), "f32[2]{U:X}"),
    "its mean": (lambda u: u.mean(), (), "f32[]{U:X}"),
    "its running sum": (lambda u: jnp.cumsum(u, 0), (), "f32[2,2]{U:X}"),
    "transposed": (lambda u: u.T, (), "f32[2,2]{U:X}"),
    "flat": (lambda u: u.reshape(4), (), "f32[4]{U:X}"),
    "its first rows": (lambda u: u[:1], (), "f32[1,2]{U:X}"),
    "its first row": (lambda u: u[0], (), "f32[2]{U:X}"),
    "backwards": (lambda u: u[::-1], (), "f32[2,2]{U:X}"),
    "repeated": (lambda u: jnp.broadcast_to(u, (3, 2, 2)), (), "f32[3,2,2]{U:X}"),
    "with a new dim": (lambda u: u[None], (), "f32[1,2,2]{U:X}"),
    "without a dim": (lambda u: jnp.squeeze(u[:1], 0), (), "f32[2]{U:X}"),
    "stacked on itself": (lambda u: jnp.stack([u, u]), (), "f32[2,2,2]{U:X}"),
    "beside itself": (lambda u: jnp.concatenate([u, u]), (), "f32[4,2]{U:X}"),
    "rolled": (lambda u: jnp.roll(u, 1, 0), (), "f32[2,2]{U:X}"),
    "rows taken": (lambda u: jnp.take(u, jnp.array([1, 0]), axis=0), (), "f32[2,2]{U:X}"),
    "a slice at a place": (lambda u: lax.dynamic_slice(u, (1, 0), (1, 2)), (), "f32[1,2]{U:X}"),
    "a row written": (lambda u: lax.dynamic_update_slice(u, u[1:], (0, 0)), (), "f32[2,2]{U:X}"),
    "taken apart": (lambda u: jnp.split(u, 2)[0], (), "f32[1,2]{U:X}"),
    "times a reduced matrix": (lambda u, r: u @ r, (R,), "f32[2,2]{U:X}"),
    "its trace": (lambda u: jnp.einsum("ii->", u), (), "f32[]{U:X}"),
}


class Refusal(NamedTuple):
    """What is expected where an operation is refused. because: a part of the reason. help: a part of what is offered.
    repair: which arguments to reshard, and to what; or the operation written otherwise. type, bytes: what the repaired
    operation has, and communicates."""

    operation: Callable[..., Any]
    others: tuple[Any, ...]
    because: str
    help: str
    repair: dict[int, P] | Callable[..., Any]
    type: str
    bytes: int
    code: str = "state"


def nonlinear(operation: Callable[..., Any], type: str = "f32[2,2]", *others: Any) -> Refusal:
    """f(x + y) is not f(x) + f(y), so the sum is finished first."""
    because = "f(x + y) is not f(x) + f(y)"
    return Refusal(operation, others, because, f"to f32[2,2] {SUMMED}", {0: WHOLE}, type, 16)


ONCE = "added on every device, it would count once per device"
PAIRS = "a product of two sums has terms that pair pieces of x and y from different devices"
PAYS = "takes a cotangent that is reduced to one that is replicated: a sum across X"
CAST = f"reshard operand 1 to f32[2,2]{{U:X}} {FREE}"


def _chosen(u: Any, zeros: Any = 0.0) -> Any:
    return jnp.where(POSITIVE, u, zeros)


REFUSED: dict[str, Refusal] = {
    "plus a copy": Refusal(lambda u, n: u + n, (N,), ONCE, CAST, {1: PENDING}, "f32[2,2]{U:X}", 0),
    "plus what is reduced": Refusal(lambda u, r: u + r, (R,), ONCE, CAST, {1: PENDING}, "f32[2,2]{U:X}", 0),
    "plus a number": Refusal(lambda u: u + 1.0, (), ONCE, f"to f32[2,2] {SUMMED}", {0: WHOLE}, "f32[2,2]", 16),
    "taken from a copy": Refusal(  # taken is the other repair: JAX 0.10 has no rule for differences of pending sums
        lambda u, n: n - u, (N,), ONCE, f"reshard operand 0 to f32[2,2]{{U:X}} {FREE}", {0: WHOLE}, "f32[2,2]", 16
    ),
    "times a copy": Refusal(
        lambda u, n: u * n, (N,), PAYS, f"reshard operand 1 to f32[2,2]{{R:X}} {LATER}", {1: PROMISED}, "f32[2,2]{U:X}",
        0, "transpose-communicates",
    ),
    "times itself": Refusal(
        lambda u: u * u, (), PAIRS, f"reshard operand 0 to f32[2,2]{{R:X}} {TWICE}",
        lambda u: jax.reshard(u, PROMISED) * u, "f32[2,2]{U:X}", 16,
    ),
    "a matrix product with a copy": Refusal(
        lambda u, n: u @ n, (N,), PAYS, f"reshard operand 1 to f32[2,2]{{R:X}} {LATER}", {1: PROMISED}, "f32[2,2]{U:X}",
        0, "transpose-communicates",
    ),
    "a matrix product with itself": Refusal(
        lambda u: u @ u, (), PAIRS, f"reshard operand 0 to f32[2,2]{{R:X}} {TWICE}",
        lambda u: jax.reshard(u, PROMISED) @ u, "f32[2,2]{U:X}", 16,
    ),
    "chosen from itself and zeros": Refusal(
        _chosen, (), ONCE, CAST, lambda u: _chosen(u, jax.reshard(jnp.zeros((2, 2)), PENDING)), "f32[2,2]{U:X}", 0
    ),
    "under a copy": nonlinear(lambda u, n: n / u, "f32[2,2]", N),
    "squared": nonlinear(lambda u: u**2),
    "its root": nonlinear(jnp.sqrt),
    "exp": nonlinear(jnp.exp),
    "log": nonlinear(jnp.log),
    "cos": nonlinear(jnp.cos),
    "tanh": nonlinear(jnp.tanh),
    "abs": nonlinear(jnp.abs),
    "sign": nonlinear(jnp.sign),
    "relu": nonlinear(jax.nn.relu),
    "the greater of itself and a copy": nonlinear(jnp.maximum, "f32[2,2]", N),
    "greater than zero": nonlinear(lambda u: u > 0.0, "bool[2,2]"),
    "is a number": Refusal(
        jnp.isnan, (), "f(x + y) is not f(x) + f(y)", "reshard operand 0 to f32[2,2] and operand 1 to f32[2,2] ",
        {0: WHOLE}, "bool[2,2]", 16,
    ),
    "between bounds": nonlinear(lambda u: jnp.clip(u, 0.0, 1.0)),
    "rounded down": nonlinear(jnp.floor),
    "in whole numbers": nonlinear(lambda u: u.astype(jnp.int32), "i32[2,2]"),
    "its maximum": nonlinear(lambda u: u.max(), "f32[]"),
    "where its maximum is": Refusal(
        lambda u: u.argmax(), (), "f(x + y) is not f(x) + f(y)", f"to f32[4] {SUMMED}", {0: WHOLE}, "i32[]", 16
    ),
    "its product": nonlinear(lambda u: u.prod(), "f32[]"),
    "sorted": nonlinear(lambda u: jnp.sort(u, 0)),
    "its softmax": nonlinear(jax.nn.softmax),
}  # fmt: skip

OPERATIONS = {
    **{name: f for name, (f, _, _) in ACCEPTED.items()},
    **{name: row.operation for name, row in REFUSED.items()},
}


def test_there_are_sixty() -> None:
    assert len(ACCEPTED) + len(REFUSED) == 60


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_is_linear_is_accepted(name: str) -> None:
    operation, others, type = ACCEPTED[name]
    report = verifier.check(operation, U, *others)
    assert [refusal.message for refusal in report.refusals] == []
    assert (str(report.types["result"]), report.communication) == (type, [])


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_is_refused_with_a_reason_and_a_repair(name: str) -> None:
    row = REFUSED[name]
    report = verifier.check(row.operation, U, *row.others)
    refusal = report.refusals[0]
    assert (report.verdict, refusal.code) == ("refused", row.code)
    assert row.because in refusal.because
    assert row.help in refusal.help
    assert refusal.rule
    assert "test_common_operations.py" in " ".join(refusal.trail) or "jax/" in " ".join(refusal.trail)


@pytest.mark.parametrize("name", REFUSED)
def test_the_repair_is_well_typed(name: str) -> None:
    """At the type that it must have, for what was said: the cast that is free forward is free."""
    row = REFUSED[name]
    repaired = row.repair if callable(row.repair) else functools.partial(_resharded, row.operation, row.repair)
    report = verifier.check(repaired, U, *row.others)
    assert [refusal.message for refusal in report.refusals] == []
    assert str(report.types["result"]) == row.type
    assert [(one.kind, one.axes, one.bytes) for one in report.communication] == [
        ("all-reduce", ("X",), row.bytes)
    ] * bool(row.bytes)


def _resharded(operation: Callable[..., Any], specs: dict[int, P], *arguments: Any) -> Any:
    placed = [jax.reshard(one, specs[index]) if index in specs else one for index, one in enumerate(arguments)]
    return operation(*placed)


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_words_of_jax_leak(name: str) -> None:
    """What we say of an operation is about the program, never about a release's own code."""
    others = ACCEPTED[name][1] if name in ACCEPTED else REFUSED[name].others
    for refusal in verifier.check(OPERATIONS[name], U, *others).refusals:
        said = " ".join((refusal.message, refusal.because, refusal.help))
        assert not any(word in said for word in ("pspec", "file an issue", "not implemented", "assert"))
