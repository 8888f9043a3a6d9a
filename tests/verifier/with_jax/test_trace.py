"""What is handed in, the mesh that is meant, and what inputs and outputs are called."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from calculus.meshes import AxisMode
from calculus.refusals import Refused
from grammar.read import read
from verifier.with_jax.convert import convert
from verifier.with_jax.trace import Misuse, trace

LARGE = AbstractMesh((512, 8), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
AUTO = AbstractMesh((512, 8), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def struct(shape: tuple[int, ...], mesh: Any = None, *spec: str | None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=None if mesh is None else NamedSharding(mesh, P(*spec)))


def model(params: Any, x: Any) -> Any:
    return {"y": jnp.sin(x @ params["layers"][0]["wi"])}


def arguments(mesh: Any = None) -> tuple[Any, Any]:
    return {"layers": [{"wi": struct((64, 32), mesh, None, "model")}]}, struct((1024, 64), mesh, "data")


NAMES = ("params['layers'][0]['wi']", "x")


def made_by(function: Any) -> Any:
    return {
        "function": (function, arguments(LARGE)),
        "jitted": (jax.jit(function), arguments(LARGE)),
        "traced": (jax.jit(function).trace(*arguments(LARGE)), ()),
        "program": (jax.make_jaxpr(function)(*arguments(LARGE)), ()),
    }


@pytest.mark.parametrize("form", ["function", "jitted", "traced", "program"])
def test_every_form_of_a_function(form: str) -> None:
    """All give the program that JAX prints, on a mesh of 4096 devices that nobody has."""
    function, args = made_by(model)[form]
    found = trace(function, *args)
    assert convert(found.program) == read(str(jax.make_jaxpr(model)(*arguments(LARGE))))
    assert str(found.mesh) == "data=512, model=8"
    assert found.inputs == NAMES
    assert found.outputs == ("result['y']",)


def test_where_the_mesh_comes_from() -> None:
    assert trace(model, *arguments()).meshes == ()
    assert str(trace(model, *arguments(), mesh="data=4:auto,model=2").mesh) == "data=4:auto, model=2"
    assert str(trace(model, *arguments(), mesh=LARGE).mesh) == "data=512, model=8"
    with jax.sharding.use_abstract_mesh(AUTO):
        assert trace(model, *arguments()).mesh.mode("data") is AxisMode.AUTO
    devices = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(devices):
        assert str(trace(model, *arguments()).mesh) == "data=4, model=2"
    assert str(trace(model, *arguments(), mesh=devices).mesh) == "data=4, model=2"
    assert str(trace(model, *arguments(AUTO)).mesh) == "data=512:auto, model=8:auto"


def test_a_mesh_that_only_the_program_names() -> None:
    def body(x: Any) -> Any:
        return jax.shard_map(total, mesh=AUTO, in_specs=P("data"), out_specs=P())(x)

    def total(x: Any) -> Any:
        return jax.lax.psum(x, "data")

    found = trace(lambda x: jax.lax.map(body, x), struct((3, 1024)))
    assert str(found.mesh) == "data=512:auto, model=8:auto"


def test_a_mesh_in_use_is_in_context() -> None:
    def placed(x: Any) -> Any:
        return x + jnp.ones((1024,), out_sharding=P("data"))

    assert len(trace(placed, struct((1024,), LARGE, "data"), mesh=LARGE).program.eqns) == 2
    assert len(trace(placed, struct((1024,), LARGE, "data")).program.eqns) == 2  # the arguments say it too
    with pytest.raises(ValueError, match="mesh context") as raised:
        trace(placed, jax.ShapeDtypeStruct((1024,), jnp.float32))
    assert "mesh=" in raised.value.__notes__[-1]


def test_specs_without_a_mesh() -> None:
    """JAX places a bare spec only where the mesh in context has devices."""
    bare = jax.ShapeDtypeStruct((1024,), jnp.float32, sharding=P("data"))
    assert str(convert(trace(jnp.sin, bare, mesh=LARGE).program).program.input_types[0]) == "f32[1024@data]"
    with pytest.raises(Misuse, match=r"x has the sharding P\('data'\S*\), and no mesh is given"):
        trace(lambda x: x, bare)


def test_a_jit_keeps_its_shardings() -> None:
    """Those it asks for are parameters of the call, as in the program of a function that calls it."""
    jitted = jax.jit(model, out_shardings=NamedSharding(AUTO, P()), donate_argnums=0)
    found = trace(jitted, *arguments())
    assert convert(found.program) == read(str(jax.make_jaxpr(jitted)(*arguments())))
    assert str(found.mesh) == "data=512:auto, model=8:auto"
    assert found.inputs == NAMES
    assert found.outputs == ("result['y']",)


def test_static_arguments() -> None:
    def function(x: Any, n: int, *rest: Any, flag: bool = True, rate: Any = 0.1) -> Any:
        return [x] * n if flag else x * rate

    x = jnp.ones(3)
    jitted = trace(jax.jit(function, static_argnums=1, static_argnames="flag"), x, 2, flag=True)
    assert (jitted.inputs, jitted.outputs) == (("x",), ("result[0]", "result[1]"))
    plain = trace(function, x, 2, x, flag=False, rate=jnp.float32(1))
    assert (plain.inputs, plain.outputs) == (("x", "rest[0]", "rate"), ("result",))


class Pair(NamedTuple):
    left: Any
    right: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    more: Pair


def test_paths() -> None:
    x = struct((2,))
    found = trace(lambda layer, *, scale: layer, Layer(x, Pair(x, [x])), scale=(x, {"a": x}))
    assert found.inputs == (
        "layer.weight", "layer.more.left", "layer.more.right[0]", "scale[0]", "scale[1]['a']",
    )  # fmt: skip
    assert found.outputs == ("result.weight", "result.more.left", "result.more.right[0]")


def test_leaves_that_are_no_arrays_keep_their_values() -> None:
    found = trace(lambda tree: tree["act"](tree["w"]) * tree["n"], {"act": jnp.sin, "n": 3, "w": struct((2,))})
    assert found.inputs == ("tree['w']",)
    assert [eqn.primitive.name for eqn in found.program.eqns] == ["sin", "mul"]


def test_variables_of_flax() -> None:
    """The path of a flax variable is without the `.value`, in a state and in a module, jitted by flax or not."""
    nnx = pytest.importorskip("flax.nnx", reason="flax is not among the project's dependencies")
    layer = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    graph, state = nnx.split(layer)
    x = struct((4, 2))
    named = ("state['bias']", "state['kernel']", "x")
    assert trace(lambda state, x: nnx.merge(graph, state)(x), state, x).inputs == named
    assert trace(jax.jit(lambda state, x: nnx.merge(graph, state)(x)), state, x).inputs == named
    assert trace(nnx.jit(lambda layer, x: layer(x)), layer, x).inputs == ("layer.bias", "layer.kernel", "x")


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (3, (1,), "type int is not a function"),
        (jax.make_jaxpr(jnp.sin)(1.0), (1.0,), "leave out the arguments"),
        (jax.jit(jnp.sin).lower(1.0), (), "a Lowered has no program"),
    ],
)
def test_misuse(function: Any, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(Misuse, match=message):
        trace(function, *args)


@pytest.mark.parametrize("mesh", [3, "data", {"data": 4}])
def test_a_mesh_that_is_none(mesh: Any) -> None:
    with pytest.raises(Refused) as raised:
        trace(model, *arguments(), mesh=mesh)
    assert raised.value.refusal.code == "bad-mesh"


def test_errors_of_jax_pass_through() -> None:
    with pytest.raises(TypeError, match="contracting dimensions") as raised:
        trace(model, arguments()[0], struct((3, 3)))
    assert "while it traced model" in raised.value.__notes__[-1]
