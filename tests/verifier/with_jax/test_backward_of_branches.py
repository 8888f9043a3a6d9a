"""Devices that take different branches: what they all read has, for each of them, another cotangent, and those are
summed where all devices are. The numbers are those of a gradient that knows no devices: of the sum, over the blocks, of
the branch that the device of a block takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from grammar.meshes import parse_meshes
from grammar.read import read
from tests.laws.evaluation import evaluate
from tests.verifier.with_jax.compared import TYPED, OfObjects, P, Traced, communication
from verifier.texts import check_text

if not TYPED:
    pytest.skip("the older release types no gradients: it has no casts", allow_module_level=True)

Branch = Callable[[Any, Any], Any]


def multiplied(w: Any, x: Any) -> Any:
    return jnp.sum(x * w)


def added(w: Any, x: Any) -> Any:
    return jnp.sum(x + w)


def unused(w: Any, x: Any) -> Any:
    return jnp.sum(x * x)


def bent(w: Any, x: Any) -> Any:
    return jnp.sum(x * jnp.sin(w * jnp.sum(w)))


def looped(w: Any, x: Any) -> Any:
    return jnp.sum(lax.scan(lambda c, _: (jnp.sin(c) * w, c), w, None, length=3)[0] * x)


def looped_over_slices(w: Any, x: Any) -> Any:
    return lax.scan(lambda c, row: (c + jnp.sum(jnp.sin(w) * row), None), jnp.sum(x) * 0, x)[0]


def chosen_again(w: Any, x: Any) -> Any:
    return jnp.sum(x * lax.cond(jnp.sum(w) > 1, lambda w: w * w, jnp.cos, w))


def chosen_apart_again(w: Any, x: Any) -> Any:
    return lax.cond(jnp.sum(x) > 1, bent, added, w, x)


def called(w: Any, x: Any) -> Any:
    return jnp.sum(x * jax.jit(lambda w: jnp.sin(w) * w)(w))


def computed_again(w: Any, x: Any) -> Any:
    return jnp.sum(x * jax.checkpoint(lambda w: jnp.sin(jnp.sin(w)))(w))


def contracted(w: Any, x: Any) -> Any:
    return jnp.sum(x @ jnp.outer(w, w))


@jax.custom_vjp
def squared(w: Any) -> Any:
    return w * w


squared.defvjp(lambda w: (w * w, w), lambda w, ct: (2 * w * ct,))


def ruled_backward(w: Any, x: Any) -> Any:
    return jnp.sum(x * jnp.sin(squared(w)))


def looked_up(w: Any, x: Any) -> Any:
    return jnp.sum(x * w[jnp.minimum(lax.iota("int32", 3) * 2, 2)])


def ruled(w: Any, x: Any) -> Any:
    return jnp.sum(x * jax.nn.softmax(w)) + jnp.sum(jax.nn.relu(w))


BRANCHES: dict[str, tuple[Branch, ...]] = {
    "two stages": (added, multiplied),
    "used in one branch": (unused, multiplied),
    "three stages": (added, bent, unused),
    "not linear": (bent, unused),
    "a loop": (looped, added),
    "a loop over slices": (looped_over_slices, multiplied),
    "a choice that all make alike": (chosen_again, added),
    "a choice that they do not": (chosen_apart_again, multiplied),
    "a call": (called, bent),
    "computed again": (added, computed_again),
    "a contraction": (contracted, added),
    "indices": (looked_up, unused),
    "a rule of its own": (multiplied, ruled),
}


class Way(NamedTuple):
    """How devices choose: what decides in per-device code, and which branch the device of a block takes."""

    decides: Callable[[Any, int], Any]
    taken: Callable[[int, Any, int], int]


WAYS = {
    "by place": Way(lambda x, count: lax.axis_index("X") % count, lambda device, x, count: device % count),
    "by data": Way(
        lambda x, count: (x[0, 0] > 0).astype(jnp.int32) * (count - 1),
        lambda device, x, count: (count - 1) * (x[0, 0] > 0),
    ),
}
WEIGHT = np.array([0.5, -1.0, 2.0], np.float32)
BLOCKS = np.stack([np.linspace(-2, 1, 6), np.linspace(1, 3, 6) ** 2]).reshape(2, 2, 3).astype(np.float32)
MESH = parse_meshes("X=2, Y=2")[0]


def stages(branches: tuple[Branch, ...], way: Way, reduced: bool = False) -> Callable[..., Any]:
    """The sum of what the devices compute, each by the branch that it takes."""

    def each(w: Any, x: Any) -> Any:
        inside = (
            [lambda w, x, f=one: f(lax.pcast(w, "X", to="varying"), x) for one in branches] if reduced else branches
        )
        return lax.psum(lax.switch(way.decides(x, len(branches)), inside, w, x), "X")

    into = P(None, reduced={"X"}) if reduced else P()
    mapped = jax.shard_map(each, in_specs=(into, P("X")), out_specs=P())
    return lambda w, x: mapped(jax.reshard(w, into), x)


def gradient_of(function: Callable[..., Any]) -> tuple[str, list[Any]]:
    """Our gradient, well typed, and what it computes."""
    ours, _ = Traced(function, (((3,), P()), ((4, 3), P("X")))).gradient()
    return ours, evaluate(read(ours).program, [WEIGHT, BLOCKS.reshape(4, 3)], MESH)


def expected(branches: tuple[Branch, ...], way: Way) -> list[Any]:
    """The gradient on one device."""
    taken = [branches[int(way.taken(device, x, len(branches)))] for device, x in enumerate(BLOCKS)]

    def whole(w: Any, x: Any) -> Any:
        return sum(branch(w, block) for branch, block in zip(taken, x.reshape(2, 2, 3), strict=True))

    return [*jax.grad(whole, (0, 1))(jnp.asarray(WEIGHT), jnp.asarray(BLOCKS.reshape(4, 3)))]


def test_a_rule_backward_is_given_what_varies() -> None:
    branches = (ruled_backward, added)
    traced = OfObjects(stages(branches, WAYS["by place"]), (((3,), P()), ((4, 3), P("X"))))
    ours, _ = traced.gradient()
    assert communication(check_text(ours, [MESH], "ours")) == [("all-reduce", ("X",), 12, 1)]
    computed = evaluate(read(ours).program, [WEIGHT, BLOCKS.reshape(4, 3)], MESH)
    for mine, theirs in zip(computed, expected(branches, WAYS["by place"]), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BRANCHES)
def test_what_devices_choose_apart_is_summed_after_the_choice(name: str, way: str) -> None:
    """One sum of three floats, that all devices reach, whichever branch they take."""
    branches = BRANCHES[name]
    ours, computed = gradient_of(stages(branches, WAYS[way]))
    assert communication(check_text(ours, [MESH], "ours")) == [("all-reduce", ("X",), 12, 1)]
    for mine, theirs in zip(computed, expected(branches, WAYS[way]), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)


def test_what_is_reduced_is_cast_free_and_summed_outside() -> None:
    """The cotangent leaves the shard_map in pieces."""
    branches = BRANCHES["two stages"]
    ours, computed = gradient_of(stages(branches, WAYS["by place"], reduced=True))
    assert communication(check_text(ours, [MESH], "ours")) == [("all-reduce", ("X",), 12, 1)]
    (inner,) = (one for one in read(ours).program.equations[-3:] if one.primitive == "shard_map")
    assert [str(type) for type in inner.types] == ["f32[3]{U:X}", "f32[4@X,3]"]
    for mine, theirs in zip(computed, expected(branches, WAYS["by place"]), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)


def test_a_choice_in_a_loop_sums_in_every_iteration() -> None:
    def each(w: Any, x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return c + lax.cond(lax.axis_index("X") == 1, multiplied, added, w, x), None

        return lax.psum(lax.scan(step, lax.pcast(0.0, "X", to="varying"), None, length=3)[0], "X")

    ours, computed = gradient_of(jax.shard_map(each, in_specs=(P(), P("X")), out_specs=P()))
    assert communication(check_text(ours, [MESH], "ours")) == [("all-reduce", ("X",), 12, 3)]
    for mine, theirs in zip(computed, expected((added, multiplied), WAYS["by place"]), strict=True):
        np.testing.assert_allclose(mine, 3 * theirs, 1e-4, 1e-5)


def test_a_choice_that_communicates_over_another_axis_still_does() -> None:
    def total(f: Branch) -> Branch:
        return lambda w, x: lax.psum(f(w, x), "Y")

    def each(w: Any, x: Any) -> Any:
        chosen = lax.cond(lax.axis_index("X") == 1, total(multiplied), total(added), w, x)
        return lax.psum(chosen, "X")

    ours, computed = gradient_of(jax.shard_map(each, in_specs=(P(), P("X")), out_specs=P()))
    assert ("all-reduce", ("X",), 12, 1) in communication(check_text(ours, [MESH], "ours"))
    for mine, theirs in zip(computed, expected((added, multiplied), WAYS["by place"]), strict=True):
        np.testing.assert_allclose(mine, 2 * theirs, 1e-4, 1e-5)


def test_jax_sums_in_the_branch_and_some_devices_wait() -> None:
    """Where one branch uses the weight and one does not, the sum is in one of them: entry 55 of the ledger."""
    traced = Traced(stages(BRANCHES["used in one branch"], WAYS["by place"]), (((3,), P()), ((4, 3), P("X"))))
    report = check_text(traced.text(jax.grad(traced.function)), [MESH], "theirs")
    assert {refusal.code for refusal in report.refusals} == {"divergent-collective"}
