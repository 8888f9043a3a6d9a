"""A linear call asserts that its residuals have no derivative."""

import jax
import jax.numpy as jnp
from jax.custom_derivatives import linear_call

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))

loss = lambda r: linear_call(lambda r, x: x * r, lambda r, t: t * r, r, jnp.float32(2))
x = jnp.float32(3)
right = 2.0
try:
    found = jax.grad(loss)(x)
except AssertionError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("AssertionError" not in repr(found)))
