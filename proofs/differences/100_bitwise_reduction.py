"""A bitwise reduction of a cut dim of integers does not compile on a CPU."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jnp.array([7, 6, 14, 22], out_sharding=P("X"))
try:
    found = lax.reduce_and(x, (0,)).item()
except jax.errors.JaxRuntimeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", 7 & 6 & 14 & 22)
raise SystemExit(int("Unsupported reduction" not in repr(found)))
