"""The derivative of pivoted QR factors permutes batches."""

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jnp.arange(8.0).reshape(2, 2, 2)
loss = lambda x: jnp.abs(lax.linalg.qr(x, full_matrices=False, pivoting=True)[1]).sum()
right = jax.make_jaxpr(jax.vmap(jax.grad(loss)))(x).out_avals  # of each matrix for itself
try:
    found = jax.jit(jax.grad(loss))(x)
except TypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("same number of batch dimensions" not in repr(found)))
