"""Our backward programs beside JAX's: the gradient that JAX prints of a function has, by our checker, the communication
of the one that we derive from the function's own program; the same types; and is the same program, up to what
`calculus.equivalence` passes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from calculus.building import Workbench
from calculus.checking import Checker
from calculus.equivalence import difference
from calculus.gradients import gradient
from calculus.meshes import Mesh
from calculus.naming import tidy
from calculus.programs import Program
from calculus.types import same
from grammar.meshes import parse_meshes
from grammar.print import print_document
from grammar.read import read
from verifier.report import Report
from verifier.texts import check_text

if jax.__version_info__ < (0, 12):
    pytest.skip("the older JAX types no gradients: it has neither reduced values nor casts", allow_module_level=True)

P = jax.P
MESH = parse_meshes("X=2, Y=2")


class Case(NamedTuple):
    """A function to a number, its arguments (shape, spec), and where our program is written otherwise than JAX's."""

    function: Callable[..., Any]
    arguments: tuple[tuple[tuple[int, ...], Any], ...]
    why: str = ""


def reduced(value: Any) -> Any:
    return jax.reshard(value, P(*(None,) * value.ndim, reduced={"X"}))


def manual(function: Callable[..., Any], ins: Any, outs: Any) -> Callable[..., Any]:
    return jax.shard_map(function, in_specs=ins, out_specs=outs)


def varying(value: Any) -> Any:
    return lax.pcast(value, "X", to="varying")


def layer(h: Any, w: Any) -> tuple[Any, None]:
    return jnp.tanh(h @ w), None


def microbatches(w: Any, batches: Any) -> Any:
    def step(total: Any, batch: Any) -> tuple[Any, None]:
        return total + jax.grad(lambda w: jnp.sum(lax.scan(layer, batch, w)[0] ** 2))(w), None

    return jnp.sum(lax.scan(step, jnp.zeros((3, 4, 4)), batches)[0])


X = (8, 4), P("X")
N = (8, 4), P()
W = (4, 4), P()
LAYERS = (3, 4, 4), P()

# fmt: off
CASES: dict[str, Case] = {
    "a product, one side whole": Case(lambda x, y: jnp.sum(x * y), (X, N)),
    "a bias": Case(lambda x, b: jnp.sum((x + b) ** 2), (X, ((4,), P()))),
    "a bias, broadcast": Case(lambda x, b: jnp.sum(x * b[None, :]), (X, ((4,), P()))),
    "a scale": Case(lambda x, s: jnp.sum(x * s), (X, ((), P()))),
    "a reduced bias": Case(
        lambda x, b: jnp.sum(lax.broadcast_in_dim(reduced(b), (8, 4), (1,), out_sharding=P("X")) * x),
        (X, ((4,), P()))),
    "a contraction over the mesh": Case(
        lambda x, w: jnp.sum(jnp.dot(x, w, out_sharding=P())), (((8, 4), P(None, "X")), ((4, 4), P("X")))),
    "a reduced weight, contracted over the other axis": Case(
        lambda x, w: jnp.sum(jnp.dot(x, reduced(w), out_sharding=P("X", "Y")) ** 2), (((8, 4), P("X", "Y")), W)),
    "batched contractions": Case(
        lambda q, k: jnp.sum(jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k)) ** 2),
        (((8, 2, 4, 3), P("X")), ((8, 2, 5, 3), P("X")))),
    "a tensor-parallel layer": Case(
        lambda x, a, b: jnp.sum(jnp.dot(jax.nn.silu(x @ a), b, out_sharding=P("X")) ** 2),
        (((8, 4), P("X")), ((4, 6), P(None, "Y")), ((6, 4), P("Y")))),
    "a gathered weight": Case(lambda x, w: jnp.sum(jnp.tanh(x @ jax.reshard(w, P()))), (X, ((4, 4), P("X")))),
    "a gathered weight, saved nowhere": Case(
        lambda x, w: jnp.sum(jax.checkpoint(lambda x, w: jnp.sin(x @ jax.reshard(w, P())))(x, w)),
        (X, ((4, 4), P("X")))),
    "a maximum": Case(lambda x: jnp.sum(jnp.max(x, axis=1, keepdims=True) * x), (X,)),
    "a sum over devices of exponentials": Case(jax.nn.logsumexp, (X,)),
    "a choice": Case(lambda x: jnp.sum(jnp.where(x > 0, x, 0.0) * x), (X,)),
    "pieces": Case(lambda x: jnp.sum(jnp.concatenate([x[:, :1], x * x], 1) ** 3), (X,)),
    "a window": Case(lambda x: jnp.sum(lax.cumsum(x, 1)[1:, ::2]), (N,)),
    "padding": Case(lambda x: jnp.sum(jnp.pad(jnp.tanh(x), 1)), (N,)),
    "regrouped dims": Case(lambda x: jnp.sum(lax.reshape(x, (2, 4, 4), out_sharding=P("X")).T ** 2), (X,)),
    "narrower numbers": Case(lambda x: jnp.sum((x.astype(jnp.bfloat16) ** 2).astype(jnp.float32)), (X,)),
    "another placement": Case(lambda x: jnp.sum(jax.reshard(x, P(None, "X")) ** 2), (X,)),
    "a lookup": Case(lambda t: jnp.sum(t[lax.iota("int32", 3) * 2] ** 2), (((16, 4), P()),)),
    "a lookup in a sharded table": Case(
        lambda t: jnp.sum(t[lax.iota("int32", 3) * 2] ** 2), (((16, 4), P(None, "X")),)),
    "calls": Case(lambda x: jnp.sum(jax.jit(lambda x: (jnp.sin(x) * x, x))(x)[0]), (X,)),
    "a custom rule": Case(
        lambda x: jnp.sum(jax.nn.relu(x)), (X,), "the rule is not printed; the body's derivative is taken"),
    "a loop over layers": Case(lambda w, x: jnp.sum(lax.scan(layer, x, w)[0] ** 2), (LAYERS, X)),
    "a loop over reduced layers": Case(lambda w, x: jnp.sum(lax.scan(layer, x, reduced(w))[0] ** 2), (LAYERS, X)),
    "a loop with one weight": Case(
        lambda w, x: jnp.sum(lax.scan(lambda h, _: layer(h, w), x, None, length=3)[0] ** 2), (W, X)),
    "a gather in a loop, hoisted": Case(
        lambda w, x: jnp.sum(lax.scan(lambda h, _: layer(h, jax.reshard(w, P())), x, None, length=3)[0] ** 2),
        (((4, 4), P("X")), X)),
    "a loop with results": Case(
        lambda w, x: jnp.sum(lax.scan(lambda h, w: (jnp.tanh(h @ w), jnp.sin(h)), x, w, reverse=True)[1] ** 2),
        (LAYERS, X)),
    "a loop that is computed again": Case(
        lambda w, x: jnp.sum(lax.scan(jax.checkpoint(layer), x, w)[0] ** 2), (LAYERS, X)),
    "a counted loop": Case(lambda x: lax.fori_loop(0, 3, lambda i, c: c * jnp.sum(x), 1.0), (X,)),
    "a gradient of gradients": Case(microbatches, (LAYERS, ((5, 8, 4), P(None, "X")))),
    "branches": Case(lambda x: jnp.sum(lax.cond(x[0, 0] > 0, jnp.sin, lambda x: x * x, x)), (N,)),
    "branches, one without": Case(
        lambda x, s: jnp.sum(lax.cond(s > 0, jnp.sin, jnp.zeros_like, x)), (X, ((), P()))),
    "branches with a reduced weight": Case(
        lambda x, w, s: jnp.sum(lax.cond(s > 0, lambda x, w: x @ w, lambda x, w: jnp.tanh(x @ w), x, reduced(w))),
        (X, W, ((), P()))),
    "manual: a partial product": Case(
        lambda a, b: jnp.sum(jax.reshard(
            manual(lambda a, b: lax.pcast(a @ b, "X", to="unreduced"), (P(None, "X"), P("X")),
                   P(None, None, unreduced={"X"}))(a, b), P())),
        (((2, 2), P(None, "X")), ((2, 2), P("X")))),
    "manual: a reduced layer": Case(
        lambda w, x: jnp.sum(manual(lambda x, w: jnp.tanh(x @ varying(w)), (P("X"), P(None, None, reduced={"X"})),
                                    P("X"))(x, reduced(w)) ** 2), (W, X)),
    "manual: a replicated layer": Case(
        lambda w, x: jnp.sum(manual(lambda x, w: jnp.tanh(x @ varying(w)), (P("X"), P()), P("X"))(x, w) ** 2), (W, X)),
    "manual: layers in a loop": Case(
        lambda w, x: jnp.sum(manual(lambda w, x: lax.scan(lambda h, w: layer(h, varying(w)), x, w)[0],
                                    (P(None, None, None, reduced={"X"}), P("X")), P("X"))(reduced(w), x)), (LAYERS, X)),
    "manual: psum": Case(lambda x: jnp.sum(manual(lambda x: lax.psum(jnp.sin(x), "X"), P("X"), P())(x) ** 2), (X,)),
    "manual: all_gather": Case(
        lambda x: jnp.sum(manual(lambda x: jnp.sin(lax.all_gather(x, "X", tiled=True)), P("X"), P("X"))(x) ** 2), (X,)),
    "manual: psum_scatter": Case(
        lambda x: jnp.sum(manual(lambda x: jnp.sin(lax.psum_scatter(x, "X", tiled=True)), P("X"), P("X"))(x) ** 2),
        (X,)),
    "manual: ppermute": Case(
        lambda x: jnp.sum(manual(lambda x: jnp.sin(lax.ppermute(x, "X", [(0, 1)])), P("X"), P("X"))(x) ** 2), (X,)),
    "manual: all_to_all": Case(
        lambda x: jnp.sum(manual(lambda x: jnp.sin(lax.all_to_all(x, "X", 1, 0, tiled=True)), P("X"), P("X"))(x)),
        (X,)),
    "manual: a lone number is saved": Case(
        lambda x: jnp.sum(manual(lambda x: jnp.sin(jnp.sum(x))[None], P("X"), P("X"))(x)), (X,)),
}
# fmt: on


def printed(function: Callable[..., Any], arguments: list[Any]) -> str:
    return str(jax.make_jaxpr(function)(*arguments).jaxpr.pretty_print(use_color=False))


def communication(report: Report) -> list[tuple[object, ...]]:
    assert report.verdict == "ok", [refusal.message for refusal in report.refusals]
    return sorted((row.kind, row.axes, row.bytes, row.times) for row in report.communication)


def types_of(program: Program) -> list[Any]:
    types = dict(zip(program.inputs, program.input_types, strict=True))
    for one in program.equations:
        types.update(zip(one.binders, one.types, strict=True))
    return [types[str(atom)] for atom in program.outputs]


@pytest.mark.parametrize("name", CASES)
def test_our_gradient_is_jaxs(name: str) -> None:
    case = CASES[name]
    mesh = jax.make_mesh((2, 2), ("X", "Y"), devices=jax.devices()[:4])
    count = len(case.arguments) - (1 if name.startswith("branches") and len(case.arguments) > 1 else 0)
    with jax.set_mesh(mesh):
        arguments = [
            jax.ShapeDtypeStruct(shape, jnp.float32, sharding=jax.NamedSharding(mesh, spec))
            for shape, spec in case.arguments
        ]
        forward = printed(case.function, arguments)
        theirs = printed(jax.grad(case.function, argnums=tuple(range(count))), arguments)
    one, other = compared(forward, theirs, MESH, count)
    assert (difference(one, other) == "") is not bool(case.why)


def compared(forward: str, theirs: str, meshes: list[Mesh], count: int) -> tuple[Program, Program]:
    """Our gradient of a program with respect to its first inputs, and JAX's: they communicate alike, and their results
    have the same types."""
    program, checker = read(forward).program, Checker(meshes)
    checker.check(program)
    assert not checker.refusals
    ours = print_document(tidy(gradient(program, Workbench(checker), range(count))))
    assert communication(check_text(ours, meshes, "ours")) == communication(check_text(theirs, meshes, "theirs"))
    one, other = read(ours).program, read(theirs).program
    assert all(same(left, right) for left, right in zip(types_of(one), types_of(other), strict=True))
    return one, other


def test_the_gradient_of_a_llama() -> None:
    """The example, on 4096 chips: a scan over rematerialised layers, gathers to reduced, gradients scattered back."""
    from examples import llama

    _, (params, _, _) = llama.gather_each_time()
    leaves, tree = jax.tree.flatten(params)
    sharding = jax.NamedSharding(llama.MESH, P("data", None))
    tokens = jax.ShapeDtypeStruct((llama.BATCH, llama.LENGTH), jnp.int32, sharding=sharding)

    def loss(*arguments: Any) -> Any:
        return llama.loss(jax.tree.unflatten(tree, arguments[:-1]), arguments[-1])

    with jax.sharding.use_abstract_mesh(llama.MESH):
        forward = printed(loss, [*leaves, tokens])
        theirs = printed(jax.grad(loss, argnums=tuple(range(len(leaves)))), [*leaves, tokens])
    one, other = compared(forward, theirs, parse_meshes("data=512, model=8"), len(leaves))
    assert difference(one, other) == ""
