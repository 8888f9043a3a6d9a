"""In a partially manual region, a value that is pending or reduced along a manual axis cannot be used."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))
x = jnp.einsum("i->", jnp.array([1.0, 2], out_sharding=P("X")), out_sharding=P(unreduced={"X"}))
U = P(unreduced={"X"})
f = jax.shard_map(lax.neg, in_specs=U, out_specs=U, axis_names={"X"})  # Y stays explicit
try:
    found = jax.reshard(jax.jit(f)(x), P()).item()
except AssertionError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", -(1.0 + 2))
raise SystemExit(int("AssertionError" not in repr(found)))
