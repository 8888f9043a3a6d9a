"""A reduction's target may not say that the result is reduced."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jax.reshard(jnp.arange(1.0, 5), P(reduced={"X"}))
try:
    found = lax.reduce_sum(x, (0,), out_sharding=P(reduced={"X"})).item()
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", np.arange(1.0, 5).sum())
raise SystemExit(int("cannot be reduced" not in repr(found)))
