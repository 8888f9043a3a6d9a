"""What is remembered from one check of JAX's objects to the next: judgments, never verdicts on another program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import P

import verifier
from calculus.meshes import Axis, AxisMode, Mesh
from calculus.primitives import TABLE
from verifier.with_jax.objects import check_objects, forget, remembered


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    forget()


def abstract(**sizes: int) -> jax.sharding.AbstractMesh:
    explicit = (jax.sharding.AxisType.Explicit,) * len(sizes)
    return jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=explicit)


def shaped(mesh: jax.sharding.AbstractMesh, *spec: str | None, **marks: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((8,) * len(spec), jnp.float32, sharding=jax.NamedSharding(mesh, P(*spec, **marks)))


def summed(x: jax.Array) -> jax.Array:
    return jnp.sin(x).sum(0)


def test_a_second_check_says_the_same() -> None:
    x = shaped(abstract(X=2), "X", None)
    first = verifier.check(summed, x)
    assert len(remembered(on_one_axis(2)).objects) > 0
    second = verifier.check(summed, x)
    assert second.to_json() == first.to_json()
    assert [(row.kind, row.bytes) for row in first.communication] == [("all-reduce", 32)]


def on_one_axis(size: int) -> tuple[Mesh, ...]:
    return (Mesh([Axis("X", size, AxisMode.EXPLICIT)]),)


def test_on_another_mesh_nothing_is_known() -> None:
    """The sum over one device needs no communication; what is known of two says nothing about it."""
    with_two = verifier.check(summed, shaped(abstract(X=2), "X", None))
    with_one = verifier.check(summed, shaped(abstract(X=1), "X", None))
    assert len(with_two.communication) == 1
    assert sum(row.wire_total or 0 for row in with_one.communication) == 0


def test_a_refusal_is_said_every_time() -> None:
    mesh = abstract(X=2)
    with jax.sharding.use_abstract_mesh(mesh):
        jaxpr = jax.make_jaxpr(lambda x, y: x + y)(shaped(mesh, None), shaped(mesh, None)).jaxpr
        marked = jax.make_jaxpr(lambda x: x)(shaped(mesh, None, unreduced={"X"})).jaxpr.invars[0]
    (equation,) = jaxpr.eqns
    wrong = jaxpr.replace(invars=[marked, jaxpr.invars[1]], eqns=[equation.replace(invars=[marked, jaxpr.invars[1]])])
    for _ in range(2):
        checker, _checked = check_objects(wrong, on_one_axis(2))
        assert [refusal.code for refusal, _ in checker.refusals] == ["state"]


def test_parameters_are_known_by_their_names() -> None:
    """Two orders of the same values are two judgments: 8 bits of exponent are not 8 of mantissa."""
    with jax.sharding.use_abstract_mesh(abstract(X=2)):
        jaxpr = jax.make_jaxpr(lambda x: jax.lax.reduce_precision(x, 3, 0))(shaped(abstract(X=2), "X")).jaxpr
    (equation,) = jaxpr.eqns
    turned = dict(reversed([(name, value) for name, value in equation.params.items()]))
    turned = {name: equation.params[other] for name, other in zip(turned, equation.params, strict=True)}
    assert list(turned.values()) == list(equation.params.values())
    wrong = jaxpr.replace(eqns=[equation.replace(params=turned)])  # no bit for the exponent
    assert not check_objects(jaxpr, on_one_axis(2))[0].refusals
    assert [refusal.code for refusal, _ in check_objects(wrong, on_one_axis(2))[0].refusals] == ["bad-parameter"]


def test_what_was_derived_is_remembered_of_declared_primitives_alone() -> None:
    """A second program is explained by what was derived of the first; what holds a body is derived anew."""
    mesh = abstract(X=2)

    def new() -> Callable[[jax.Array, jax.Array], jax.Array]:
        return lambda weight, x: jnp.sum(jax.nn.silu(jnp.tanh(x) * weight))

    arguments = shaped(mesh, None), shaped(mesh, "X")
    first = verifier.explain(new(), *arguments).data()
    memory = remembered(on_one_axis(2))
    kept = {**memory.pieces}
    assert any("tanh" in key for key in kept if isinstance(key, tuple))
    assert not any(step.parameters.holding for piece in kept.values() for step in piece.known.steps)
    assert verifier.explain(new(), *arguments).data() == first
    assert memory.pieces == kept


def test_what_is_remembered_was_said_by_the_table_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A declaration that leaves the table or takes another's place changes judgments and derivatives; where
    it is as before, they are as before, though something was derived meanwhile of what was checked earlier."""
    x = shaped(abstract(X=2), "X", None)
    first = verifier.check(lambda x: jnp.sin(x).sum(), x)
    derived = first.backward().text
    assert "cos" in derived
    with monkeypatch.context() as changed:
        changed.delitem(TABLE, "sin")
        assert verifier.check(summed, x).assumed == 1  # as of any kernel that nobody declares
    with monkeypatch.context() as changed:
        changed.setitem(TABLE, "sin", replace(TABLE["sin"], derivative="g"))
        late = first.backward().text
        anew = verifier.check(lambda x: jnp.sin(x).sum(), x).backward().text
        assert "cos" not in late
        assert "cos" not in anew
    assert verifier.check(lambda x: jnp.sin(x).sum(), x).backward().text == derived


def test_a_switch_over_a_number_takes_one_branch() -> None:
    """As of a text: what the other branch alone needs is not computed, and what stands in it does not run."""
    x = shaped(abstract(X=4), "X")

    def step(which: int) -> Any:
        def chosen(x: jax.Array) -> Any:
            other = jax.reshard(x, P(None))
            return jax.lax.switch(jnp.int32(which), [lambda x, y: x, lambda x, y: jax.reshard(y, P("X"))], x, other)

        return [row.kind for row in verifier.check(chosen, x).communication]

    assert (step(0), step(1)) == ([], ["all-gather"])
