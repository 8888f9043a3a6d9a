"""What an array is padded with has no gradient, where the array has none."""

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda p: lax.pad(jnp.ones(2), p, ((0, 2, 0),)).sum()
x = jnp.float32(1)
right = 2.0
try:
    found = jax.grad(loss)(x)
except TypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("reduce_sum" not in repr(found)))
