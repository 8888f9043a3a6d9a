"""A region inside a region that finishes a pending sum does not compile."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2))
summed = lambda v: lax.psum(v, "Y")


def inner(g):
    return jax.shard_map(summed, in_specs=P(unreduced={"Y"}), out_specs=P(), axis_names={"Y"})(g)


both = jax.jit(jax.shard_map(inner, in_specs=P("X"), out_specs=P("X"), axis_names={"X"}))
x = jax.reshard(jnp.arange(2.0), P("X", unreduced={"Y"}))
try:
    found = both(x)
except jax.errors.JaxRuntimeError as error:
    found = error
right = jax.jit(inner)(jax.reshard(jnp.arange(2.0), P(unreduced={"Y"})))
print("JAX:", repr(found)[:200], "right, without the outer region:", right)
raise SystemExit(int("dropped unreduced axis" not in repr(found) or right.tolist() != [0, 1]))
