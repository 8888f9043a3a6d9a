"""What is handed to derivatives by hand, at the door of functions. Expected types are the cotangent map's, by hand (a
reduced primal's is unreduced, seeds A2 and A26); the verdicts are those of cases 50, 58 and 62."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import verifier
from calculus.refusals import Refusal
from verifier.with_jax import cotangents
from verifier.with_jax.lines import Frame

MESH = AbstractMesh((2,), ("X",), axis_types=(AxisType.Explicit,))


def struct(*shape: int, spec: P | None = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, P() if spec is None else spec))


PENDING, PROMISED = P(unreduced={"X"}), P(reduced={"X"})
ONE, PIECES = struct(spec=PROMISED), struct(spec=PENDING)
ROW, CUT, COPIES = struct(8, spec=P(None, reduced={"X"})), struct(8, spec=P("X")), struct(8)


def refusals(function: Callable[..., Any], *arguments: Any) -> list[Refusal]:
    return verifier.check(function, *arguments, mesh=MESH).refusals


def ruled(returned: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The product with one, whose backward rule returns something of its own."""
    one = jax.custom_vjp(lambda x: x * 1.0)
    one.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (returned(ct),))
    return lambda x: jnp.sum(one(x))


def pulled(seed: Callable[[], Any], function: Callable[[Any], Any] = lambda x: x + x) -> Callable[[Any], Any]:
    return lambda x: jax.vjp(function, x)[1](seed())[0]


def test_a_pull_back_that_is_started_from_a_number() -> None:
    """Case 62. JAX prints a program that never mentions a pending sum; 1.0 on each of two devices is 2."""
    (refusal,) = refusals(pulled(lambda: 1.0), ONE)
    line = pulled.__code__.co_firstlineno + 1
    assert refusal.code == "inconsistent-type"
    assert refusal.line == line
    assert refusal.trail == (f"at {Frame(__file__, line, '')}",)
    assert refusal.message == (
        "the seed of the pull-back is the same constant on every device, f32[]; a cotangent of f32[]{R:X} is f32[]{U:X}"
    )
    assert refusal.because.startswith("the type of a cotangent is a function of the primal's type (A2): its value is ")
    assert refusal.help == (
        "reshard it to f32[]{U:X} (free forward, free backward): jax.reshard(jnp.asarray(...), P(unreduced={'X'}))"
    )
    repaired = verifier.check(pulled(lambda: jax.reshard(jnp.asarray(1.0), P(unreduced={"X"}))), ONE, mesh=MESH)
    assert (repaired.verdict, str(repaired.types["result"])) == ("ok", "f32[]{U:X}")


def test_a_rule_that_returns_a_number() -> None:
    """Case 62, the last: what the rule is written for is reduced, so its cotangent is pending."""
    (refusal,) = refusals(jax.grad(ruled(lambda ct: 1.0)), ONE)
    assert "the cotangent that the rule <lambda> returns is the same constant on every device" in refusal.message
    assert refusal.message.endswith("a cotangent of f32[]{R:X} is f32[]{U:X}")
    assert refusal.line == ruled.__code__.co_firstlineno + 3
    (refusal,) = refusals(jax.grad(jax.custom_gradient(lambda x: (x * 1.0, lambda ct: 1.0))), ONE)
    assert refusal.message.endswith("a cotangent of f32[]{R:X} is f32[]{U:X}")


WRONG: dict[str, tuple[Callable[..., Any], Any, str, str]] = {
    "transposed": (lambda x: jax.linear_transpose(lambda x: x + x, x)(1.0), ONE, "f32[]", "f32[]{U:X}"),
    "a number that a call is given": (
        lambda x: jax.jit(lambda seed: pulled(lambda: seed)(x))(1.0),
        ONE,
        "f32[]",
        "f32[]{U:X}",
    ),
    "a transpose of one's own": (
        jax.grad(lambda x: jax.custom_derivatives.linear_call(lambda _, x: x + x, lambda _, ct: 1.0, (), x)),
        ONE,
        "f32[]",
        "f32[]{U:X}",
    ),
    "an array": (pulled(lambda: jnp.ones(8)), ROW, "f32[8]", "f32[8]{U:X}"),
    "of numpy": (pulled(lambda: np.ones(8, "f")), ROW, "f32[8]", "f32[8]{U:X}"),
    "whole for cut": (pulled(lambda: jnp.zeros(8), jnp.sin), CUT, "f32[8]", "f32[8@X]"),
    "reduced for pending": (lambda x: jax.linear_transpose(lambda x: -x, x)(x), ROW, "f32[8]{R:X}", "f32[8]{U:X}"),
    "rule, whole for pending": (jax.grad(ruled(lambda ct: jnp.ones(8))), ROW, "f32[8]", "f32[8]{U:X}"),
    "rule, whole for cut": (jax.grad(ruled(lambda ct: jnp.ones(8))), CUT, "f32[8]", "f32[8@X]"),
    "rule, cut for whole": (jax.grad(ruled(lambda ct: jax.reshard(ct, P("X")))), COPIES, "f32[8@X]", "f32[8]"),
    "jvp": (lambda x: jax.jvp(lambda x: x + x, (x,), (1.0,)), PIECES, "f32[]", "f32[]{U:X}"),
    "linearize": (lambda x: jax.linearize(lambda x: x + x, x)[1](1.0), PIECES, "f32[]", "f32[]{U:X}"),
    "copies for reduced": (lambda x: jax.jvp(jnp.sin, (x,), (jnp.ones(8),)), ROW, "f32[8]", "f32[8]{R:X}"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_has_another_type_is_refused(name: str) -> None:
    function, argument, given, wanted = WRONG[name]
    refusal = refusals(function, argument)[0]
    assert refusal.code == "inconsistent-type"
    said, _, of = refusal.message.partition("; ")
    assert said.endswith((f" is {given}", f", {given}"))
    assert of.endswith(f" is {wanted}")
    assert refusal.help.startswith(f"reshard it to {wanted} (")


def test_the_tangent_that_a_rule_returns() -> None:
    doubled = jax.custom_jvp(lambda x: x + x)
    doubled.defjvp(lambda primals, tangents: (primals[0] + primals[0], 2.0))
    (refusal,) = refusals(lambda x: jax.jvp(doubled, (x,), (x,))[1], PIECES)
    assert refusal.message == (
        "the tangent that the rule <lambda> returns is the same constant on every device, f32[]; "
        "a tangent of f32[]{U:X} is f32[]{U:X}"
    )
    assert refusals(lambda x: jax.jvp(doubled, (x,), (x,))[1], ONE) == []  # 2.0 is reduced at will


def test_a_rule_that_forgets_its_sum() -> None:
    """Inside of a shard_map each device has what it contributes to the gradient of what they share. One of the two
    sums is in the types: what is reduced goes back as pieces."""

    def gradient(spec: P, finish: Callable[[Any], Any] = lambda ct: ct) -> Callable[..., Any]:
        product = jax.custom_vjp(lambda x, w: x * w)
        product.defvjp(lambda x, w: (x * w, (x, w)), lambda kept, ct: (ct * kept[1], finish(jnp.sum(ct * kept[0]))))
        mapped = jax.shard_map(product, in_specs=(P("X"), spec), out_specs=P("X"))
        return jax.grad(lambda w, x: jnp.sum(mapped(x, w)))

    (refusal,) = refusals(gradient(P()), struct(), CUT)
    assert refusal.message == (
        "the cotangent that the rule <lambda> returns for argument 1 is f32[]{V:X}; a cotangent of f32[] is f32[]"
    )
    assert refusal.help == "sum what the devices have over X: jax.lax.psum(..., 'X')"
    assert refusals(gradient(P(), lambda ct: jax.lax.psum(ct, "X")), struct(), CUT) == []
    (refusal,) = refusals(gradient(PROMISED), ONE, CUT)
    assert refusal.help.endswith("pieces of a sum over X: jax.lax.pcast(..., 'X', to='unreduced')")
    repaired = gradient(PROMISED, lambda ct: jax.lax.pcast(ct, "X", to="unreduced"))
    assert str(verifier.check(repaired, ONE, CUT, mesh=MESH).types["result"]) == "f32[]{U:X}"


def tree_rule() -> Callable[[Any], Any]:
    """Arguments of every kind: a function, a tree of which one leaf gets nothing, an integer."""
    scaled = jax.custom_vjp(lambda f, tree, count: f(tree["x"]) * tree["w"] * count, nondiff_argnums=(0,))
    scaled.defvjp(
        lambda f, tree, count: (f(tree["x"]) * tree["w"] * count, (tree, count)),
        lambda f, kept, ct: ({"x": ct * kept[0]["w"] * jnp.cos(kept[0]["x"]), "w": None}, None),
    )
    return lambda x: jnp.sum(scaled(jnp.sin, {"x": x, "w": 2.0}, 3))


def keyed() -> Callable[..., Any]:
    """A rule with an argument that has no cotangent."""
    once = jax.custom_vjp(lambda x, key: x * 2.0)
    once.defvjp(lambda x, key: (x * 2.0, key), lambda key, ct: (ct * 2.0, np.zeros((), jax.dtypes.float0)))
    return once


RIGHT: dict[str, tuple[Callable[..., Any], Any]] = {
    "zero is in every state": (pulled(lambda: 0.0), ONE),
    "a number is reduced": (pulled(lambda: 1.0), PIECES),
    "a number of numpy's": (pulled(lambda: np.float32(1.0)), PIECES),
    "an array of the text is cut": (pulled(lambda: np.ones(8, "f")), CUT),
    "rows of an array of the text are cut": (lambda x: jax.vmap(jax.vjp(jnp.sin, x)[1])(np.eye(8, dtype="f"))[0], CUT),
    "another floating dtype": (jax.grad(ruled(lambda ct: ct.astype(jnp.bfloat16))), CUT),
    "an integer result": (
        lambda x: jax.vjp(lambda x: (x + x, jnp.arange(3)), x)[1]((x, np.zeros(3, jax.dtypes.float0))),
        COPIES,
    ),
    "an integer argument": (
        lambda x: jax.jvp(lambda n, x: x * n, (2, x), (np.zeros((), jax.dtypes.float0), x)),
        COPIES,
    ),
    "keys": (jax.grad(lambda x: jnp.sum(keyed()(x, jax.random.key(0)))), CUT),
    "JAX's own seed": (jax.grad(lambda x: jnp.sum(x + x)), ROW),
    "JAX's own rules": (jax.grad(lambda x: jnp.sum(jax.nn.relu(x) * jax.nn.silu(x))), CUT),
    "JAX's own tangents": (jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x)), COPIES),
    "JAX's own basis": (jax.jacrev(jnp.sin), CUT),
    "a rule of trees": (jax.grad(tree_rule()), CUT),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_well_typed_is_not_refused(name: str) -> None:
    function, argument = RIGHT[name]
    report = verifier.check(function, argument, mesh=MESH)
    assert (report.verdict, report.notes) == ("ok", [])


def test_what_jax_has_traced_before_is_looked_at_again() -> None:
    """JAX remembers what it has traced, in and out of a check; the second check sees what the first did."""
    gradient = jax.jit(pulled(lambda: 1.0))
    with jax.sharding.use_abstract_mesh(MESH):
        jax.make_jaxpr(gradient)(ONE)
    assert [len(refusals(gradient, ONE)) for _ in range(2)] == [1, 1]
    looped = refusals(lambda x: jax.lax.fori_loop(0, 3, lambda _, sum: sum + gradient(x), 0.0), ONE)
    assert [refusal.message.partition(" is ")[0] for refusal in looped] == ["the seed of the pull-back"]


def _held() -> Iterator[Any]:
    for module, path, _ in cotangents.PLACES:
        found: Any = __import__(module, fromlist=["_"])
        for name in path.split("."):
            found = getattr(found, name)
        yield found


def test_jax_is_left_as_it_was() -> None:
    before = list(_held())
    assert all(found.__module__ != cotangents.__name__ for found in before)

    def raises(x: Any) -> Any:
        assert list(_held()) != before
        raise KeyError("mine")

    with pytest.raises(KeyError):
        verifier.check(raises, ONE, mesh=MESH)
    refusals(pulled(lambda: 1.0), ONE)
    assert list(_held()) == before


def test_a_release_that_lacks_a_place_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [*cotangents.PLACES, ("jax._src.api", "_nowhere", cotangents.PLACES[0][2])]
    monkeypatch.setattr(cotangents, "PLACES", places)
    report = verifier.check(pulled(lambda: 1.0), ONE, mesh=MESH)
    assert len(report.refusals) == 1
    assert report.notes == [
        "this release of JAX has no jax._src.api._nowhere: what is handed in there is not looked at"
    ]


def test_the_command_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused function has a status of its own, and no backward pass."""
    from click.testing import CliRunner

    from verifier.cli import main

    (tmp_path / "handed.py").write_text(
        "import jax\n"
        "from jax.sharding import PartitionSpec as P\n"
        "def step():\n"
        "    scale = jax.ShapeDtypeStruct((), 'float32', sharding=P(reduced={'X'}))\n"
        "    return lambda scale: jax.vjp(lambda scale: scale + scale, scale)[1](1.0), (scale,)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(main, ["check", "handed:step", "--mesh", "X=2", "--backward"])
    assert result.exit_code == 1
    assert "handed.py:5: unsound: the seed of the pull-back" in result.output
