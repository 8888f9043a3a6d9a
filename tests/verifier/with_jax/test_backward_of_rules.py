"""Derivatives of calls with a rule of their own, beside JAX's: traced from the functions, asked for in a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from calculus.refusals import Refused
from tests.verifier.with_jax.compared import (
    INT,
    N,
    OfObjects,
    P,
    W,
    X,
    needs_types,
    refused,
    same_from_objects,
)  # fmt: skip


def test_a_rule_that_need_not_be_the_derivative_is_asked_for() -> None:
    """In a text it is not printed."""
    assert refused(lambda x: jnp.sum(clipped(x, 1.0)), N) == "the derivative of custom_vjp_call clipped"


@jax.custom_vjp
def clipped(x: Any, bound: Any) -> Any:
    """Its rule is not the derivative of its body."""
    return x * 2 + bound


def _clipped(x: Any, bound: Any) -> Any:
    return clipped(x, bound), (jnp.cos(x), bound)


def _unclipped(saved: Any, ct: Any) -> Any:
    cosines, bound = saved
    return jnp.minimum(jnp.maximum(ct, -1.0), bound) * cosines, jnp.sum(ct)


clipped.defvjp(_clipped, _unclipped)


@jax.custom_vjp
def counted(x: Any, n: Any) -> Any:
    return jnp.sin(x), n + 1


counted.defvjp(lambda x, n: (counted(x, n), (x, n)), lambda saved, ct: (ct[0] * saved[0] ** 2 * saved[1], None))


@jax.custom_jvp
def steep(x: Any, y: Any) -> Any:
    return jnp.sin(x) * y


@steep.defjvp
def _steep(primals: Any, tangents: Any) -> Any:
    (x, y), (one, other) = primals, tangents
    return steep(x, y), jnp.where(x > 0, 3 * jnp.cos(x) * one, 0.0) - other * x


@jax.custom_jvp
def flat(x: Any) -> Any:
    return x * 2


flat.defjvp(lambda primals, tangents: (flat(*primals), jnp.zeros_like(tangents[0])))


@jax.custom_jvp
def crooked(x: Any) -> Any:
    return x * 2


crooked.defjvp(lambda primals, tangents: (crooked(*primals), tangents[0] * tangents[0]))


@jax.custom_jvp
def shifted(x: Any) -> Any:
    return x * 2


shifted.defjvp(lambda primals, tangents: (shifted(*primals), tangents[0] + 1.0))

RULES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a vjp": (lambda x: jnp.sum(clipped(x, 0.5) ** 2), (X,)),
    "a vjp of two": (lambda x, b: jnp.sum(clipped(x, b) ** 2), (X, ((), P()))),
    "a vjp with integers": (lambda x, n: jnp.sum(counted(x, n)[0]) * counted(x, n)[1], (X, INT)),
    "a vjp in a loop": (
        lambda x: jnp.sum(lax.scan(lambda c, _: (clipped(c, 0.5), None), x, None, length=3)[0]), (X,)),
    "a vjp in a call that is computed again": (
        lambda x: jnp.sum(jax.checkpoint(lambda x: jnp.sin(clipped(jnp.cos(x), 0.5)))(x)), (X,)),
    "a vjp of a vjp": (lambda x: jnp.sum(clipped(clipped(x, 0.5), jnp.sum(x))), (X,)),
    "a jvp": (lambda x, y: jnp.sum(steep(x, y)), (X, X)),
    "a jvp, one side constant": (lambda x: jnp.sum(steep(x, 2.0) * steep(1.0, x)), (X,)),
    "a jvp in branches": (lambda x, n: jnp.sum(lax.cond(n > 0, lambda x: steep(x, x), jnp.sin, x)), (X, INT)),
    "a jvp of zeros": (lambda x: jnp.sum(flat(x) * x), (X,)),
    "relu": (lambda x: jnp.sum(jax.nn.relu(x) * x), (X,)),
    "silu and logsumexp": (lambda x: jax.nn.logsumexp(jax.nn.silu(x)), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_rules_of_ones_own_are_traced(name: str) -> None:
    function, arguments = RULES[name]
    same_from_objects(function, *arguments)


@pytest.mark.parametrize("function", [crooked, shifted])
def test_a_rule_that_is_not_linear_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(Refused) as caught:
        OfObjects(lambda x: jnp.sum(function(x)), (N,)).gradient()
    assert "which is not linear in the tangents" in caught.value.refusal.message


policies = jax.checkpoint_policies


def layer(x: Any, w: Any) -> Any:
    return jnp.sin(checkpoint_name(jnp.cos(checkpoint_name(x @ w, "product")), "cosine"))


POLICIES: dict[str, Any] = {
    "one name": policies.save_only_these_names("cosine"),
    "the other name": policies.save_only_these_names("product"),
    "all names but one": policies.save_any_names_but_these("cosine"),
    "either of two": policies.save_from_both_policies(
        policies.save_only_these_names("cosine"), policies.dots_with_no_batch_dims_saveable
    ),
    "products": policies.dots_saveable,
}
OFFLOADING: dict[str, Any] = {
    "a name to the host": policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["product"], names_which_can_be_offloaded=["cosine"], offload_src="device",
        offload_dst="pinned_host",
    ),
    "products to the host": policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
}  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
def test_what_a_policy_closes_over_is_read(name: str) -> None:
    checkpointed = jax.checkpoint(layer, policy=POLICIES[name])
    same_from_objects(lambda x, w: jnp.sum(checkpointed(x, w)), X, W)


@needs_types
@pytest.mark.parametrize("name", OFFLOADING)
def test_what_waits_in_another_memory_is_moved_there_and_back(name: str) -> None:
    checkpointed = jax.checkpoint(layer, policy=OFFLOADING[name])
    same_from_objects(lambda x, w: jnp.sum(checkpointed(x, w)), X, W)


def test_a_policy_of_ones_own_is_not_read() -> None:
    checkpointed = jax.checkpoint(layer, policy=lambda *_, **__: True)
    _, bench = OfObjects(lambda x, w: jnp.sum(checkpointed(x, w)), (X, W)).gradient()
    assert bench.assumed == {"which values a policy keeps is not printed; it is taken to keep none"}


@needs_types
def test_rules_inside_a_shard_map_are_traced_where_they_stand() -> None:
    """With what varies around them, and with the axes that they communicate over."""

    @jax.custom_vjp
    def total(x: Any) -> Any:
        return lax.psum(x, "X")

    total.defvjp(lambda x: (total(x), None), lambda _, ct: (lax.pcast(ct, "X", to="varying"),))

    def inside(function: Callable[..., Any], outs: Any, **more: Any) -> Callable[..., Any]:
        mapped: Any = jax.shard_map(function, in_specs=P("X"), out_specs=outs, **more)
        return lambda x: jnp.sum(jnp.sin(mapped(x)))

    for function, outs in ((jax.nn.relu, P("X")), (lambda x: total(jnp.sin(x)), P()), (flat, P("X"))):
        same_from_objects(inside(function, outs), X)
    same_from_objects(inside(lambda x: steep(x, x), P("X"), check_vma=False), X)
