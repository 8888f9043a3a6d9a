"""Programs that JAX types and that read back wrong, on two CPU devices: run by `test_counterexamples.py`, apart,
because devices are counted when JAX starts. Prints, for each, how its entry's title begins, and what is read back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import primitives
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 2)
MESH = jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,))
COPY, PENDING, REDUCED = P(), P(unreduced={"X"}), P(reduced={"X"})


def pieces(*of: Any) -> Any:
    """An array that is pending a sum, of which each device has one of these pieces."""
    stacked = jax.device_put(np.stack([np.asarray(one) for one in of]), NamedSharding(MESH, P("X")))
    return jax.jit(
        jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), mesh=MESH, in_specs=P("X"), out_specs=PENDING)
    )(stacked)


def read(f: Callable[..., Any], *operands: Any) -> list[Any]:
    """What a function of these operands reads back as, once what is pending is finished."""
    found = jax.jit(f)(*operands)
    whole = jax.jit(lambda v: jax.sharding.reshard(v, P()))(found)
    return np.asarray(whole).tolist()  # type: ignore[no-any-return]


def held(f: Callable[..., Any], specs: tuple[Any, ...], *operands: Any) -> list[Any]:
    """What the devices hold of a result that a shard_map gives out as the same on each."""
    found = jax.jit(jax.shard_map(f, mesh=MESH, in_specs=specs, out_specs=P()))(*operands)
    return [np.asarray(shard.data).tolist() for shard in found.addressable_shards]


def main() -> None:
    found: dict[str, list[Any]] = {}
    with jax.set_mesh(MESH):
        one, ten = np.ones(2, np.float32), np.full(2, 10, np.float32)
        which = pieces(np.array([True, False]), np.array([False, True]))
        found["A choice looks"] = read(lax.select_n, which, pieces(one, one), pieces(ten, ten))
        found["A pad"] = read(lambda x: lax.pad(x, np.float32(7), ((0, 1, 0),)), pieces(one, one))
        slicing = lambda x, i: primitives.dynamic_slice_p.bind(x, i, slice_sizes=(1,))  # noqa: E731
        start = pieces(np.int32(1), np.int32(2))
        found["A dynamic slice"] = held(slicing, (COPY, PENDING), jnp.arange(8.0), start)
        target = NamedSharding(MESH, P(None, unreduced={"X"}))
        found["A target of a creation"] = read(lambda: lax.broadcasted_iota(jnp.int32, (4,), 0, out_sharding=target))
        half = np.full(2, 0.5, np.float32)
        found["Conversions"] = read(lambda x: lax.convert_element_type(x, jnp.int32), pieces(half, half))
        found["Manual mode"] = held(lambda v: lax.integer_pow(v, 3), (PENDING,), pieces(np.float32(1), np.float32(2)))
        joined = jax.shard_map(
            lambda a, b: lax.concatenate([a, b], 0), mesh=MESH, in_specs=(COPY, PENDING), out_specs=PENDING
        )
        found["In manual mode, what stands"] = read(joined, jnp.ones(2), pieces(one, 2 * one))
        found["A reduction over windows"] = held(
            lambda v: lax.reduce_window(
                v, lax.axis_index("X").astype(v.dtype), lambda a, b: a * b + 1, (2,), (2,), "VALID"
            ),
            (COPY,),
            jnp.ones(4),
        )
        doubled = jax.jit(lambda w: w + w, in_shardings=NamedSharding(MESH, P()))
        found["A call"] = read(doubled, pieces(2 * one, 2 * one))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
