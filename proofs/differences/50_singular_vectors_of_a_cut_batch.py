"""The derivative of singular vectors forgets where their batch lies."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jnp.arange(24.0).reshape(4, 3, 2)
loss = lambda x: lax.linalg.svd(x, full_matrices=False)[0][..., 0].sum()
right = jax.make_jaxpr(jax.grad(loss))(x).out_avals  # of the same matrices, all on one device
try:
    found = jax.jit(jax.grad(loss))(jax.reshard(x, P("X")))
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("Incompatible types for broadcasting" not in repr(found)))
