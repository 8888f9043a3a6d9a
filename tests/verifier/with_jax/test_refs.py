"""Programs with Refs as JAX traces them, by both doors: what JAX types as the calculus does is well typed, and where
JAX looks at less, the calculus says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from calculus.checking import Checker
from grammar.meshes import parse_meshes
from verifier.texts import check_text
from verifier.with_jax.convert import convert

pytestmark = pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="0.10.2 has no unreduced values in a jit")

_MESH: Final = AbstractMesh((2,), ("X",), axis_types=(AxisType.Explicit,))


def array(*shape: int, **spec: Any) -> jax.ShapeDtypeStruct:
    """An array's type: the first dim is cut on `dim`, if it is given."""
    first = spec.pop("dim", None)
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(_MESH, P(first, **spec)))


def codes(function: Callable[..., Any], *operands: Any) -> tuple[list[str], list[str]]:
    """The refusals of the traced function, read from its text and as objects."""
    with jax.sharding.use_abstract_mesh(_MESH):
        traced = jax.make_jaxpr(function)(*operands)
    meshes = parse_meshes("X=2")
    checker = Checker(meshes)
    checker.check(convert(traced).program)
    text = check_text(f"{traced}\n", meshes, "the function")
    return [one.code for one in text.refusals], [one.code for one, _ in checker.refusals]


def doubled(x: Any) -> Any:
    cell = jax.new_ref(x)
    cell[...] = cell[...] + cell[...]
    return jax.ref.freeze(cell)


def accumulated(x: Any, xs: Any) -> Any:
    cell = jax.new_ref(x)

    def step(count: Any, row: Any) -> tuple[Any, None]:
        jax.ref.addupdate(cell, ..., row)
        return count + 1, None

    return jax.lax.scan(step, 0, xs)[0], jax.ref.freeze(cell)


def indexed(x: Any) -> Any:
    cell = jax.new_ref(x)
    cell[0] = cell[1] * 2.0
    cell[1:3] += cell[2:4]
    return cell[jnp.array([0, 2])], jax.ref.swap(cell, 3, 1.0)


def by_both_branches(x: Any, which: Any) -> Any:
    cell = jax.new_ref(x)

    def store(value: float) -> Callable[[], None]:
        return lambda: cell.__setitem__(0, value)

    jax.lax.cond(which, store(1.0), store(2.0))
    return cell[...]


def per_device(x: Any) -> Any:
    cell = jax.new_ref(x)

    @jax.shard_map(in_specs=(P("X"),), out_specs=P("X"))
    def body(part: Any) -> Any:
        part[...] = part[...] * jax.lax.axis_index("X")
        return part[0:1]

    return body(cell), cell[...]


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (doubled, [array(4)]),
        (doubled, [array(4, dim="X")]),
        (doubled, [array(4, unreduced={"X"})]),
        (doubled, [array(4, reduced={"X"})]),
        (accumulated, [array(4, unreduced={"X"}), array(3, 4, unreduced={"X"})]),
        (accumulated, [array(4, reduced={"X"}), array(3, 4, reduced={"X"})]),
        (indexed, [array(4)]),
        (by_both_branches, [array(4), jax.ShapeDtypeStruct((), jnp.bool_)]),
        (per_device, [array(4, dim="X")]),
        (jax.grad(lambda x: (doubled(x) ** 2).sum()), [array(4)]),
    ],
    ids=[
        *("replicated", "sharded", "unreduced", "reduced", "pieces in a loop", "copies in a loop", "parts", "branches"),
        *("one per device", "gradient"),
    ],
)
def test_what_jax_types_alike_is_well_typed(function: Callable[..., Any], operands: list[Any]) -> None:
    assert codes(function, *operands) == ([], [])


def stored(x: Any, y: Any) -> Any:
    cell = jax.new_ref(x)
    cell[...] = y
    return cell[...]


def apart(x: Any) -> Any:
    @jax.shard_map(in_specs=(P("X"),), out_specs=P())
    def body(part: Any) -> Any:
        return jax.new_ref(jnp.arange(2.0))[jax.lax.axis_index("X")]

    return body(x)


def now_and_then(x: Any) -> Any:
    @jax.shard_map(in_specs=(P("X"),), out_specs=P())
    def body(part: Any) -> Any:
        cell = jax.new_ref(jnp.arange(2.0))
        jax.lax.cond(jax.lax.axis_index("X") == 0, lambda: cell.__setitem__(0, 1.0), lambda: None)
        return cell[...]

    return body(x)


@pytest.mark.parametrize(
    ("function", "operands", "code"),
    [
        (stored, [array(4), array(4, unreduced={"X"})], "state"),
        (stored, [array(4, reduced={"X"}), array(4)], "transpose-communicates"),
        (stored, [array(4), array(4, dim="X")], "sharding"),
        (apart, [array(4, dim="X")], "hidden-variation"),
        (now_and_then, [array(4, dim="X")], "hidden-variation"),
    ],
)
def test_what_jax_does_not_look_at_is_refused(function: Callable[..., Any], operands: list[Any], code: str) -> None:
    assert codes(function, *operands) == ([code], [code])
