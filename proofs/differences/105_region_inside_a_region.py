"""A region inside a region takes and gives nothing that is pending or reduced along an axis of the outer one."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))
x = jax.reshard(jnp.arange(8.0), P(reduced={"X"}))
inner = jax.shard_map(lax.neg, in_specs=P(), out_specs=P(), axis_names={"Y"})
outer = jax.shard_map(inner, in_specs=P(reduced={"X"}), out_specs=P(reduced={"X"}), axis_names={"X"})
try:
    found = jax.jit(outer)(x).tolist()
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", (-jnp.arange(8.0)).tolist())
raise SystemExit(int("should be equal to the reduced present" not in repr(found)))
