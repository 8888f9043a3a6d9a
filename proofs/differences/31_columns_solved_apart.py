"""Columns that are solved or turned one by one must lie whole."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
d, b = jnp.array([2.0, 2, 2]), jnp.arange(12.0).reshape(3, 4)
low, up = jnp.array([0.0, 1, 1]), jnp.array([1.0, 1, 0])
right = lax.linalg.tridiagonal_solve(low, d, up, b).tolist()
try:
    found = lax.linalg.tridiagonal_solve(low, d, up, jax.reshard(b, P(None, "X"))).tolist()
except (ValueError, jax._src.core.ShardingTypeError) as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("must be unsharded" not in repr(found)))
