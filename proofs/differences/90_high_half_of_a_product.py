"""The high half of a product of integers does not compile on a CPU."""

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jnp.array([1 << 20, 3], dtype=jnp.int32)
try:
    found = lax.mulhi(x, x).tolist()
except jax.errors.JaxRuntimeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [(1 << 40) >> 32, 0])
raise SystemExit(int("Unable to convert" not in repr(found)))
