"""Sharding rules that index a partition spec fail on one that is reduced or unreduced."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jax.reshard(jnp.arange(1.0, 5), P(reduced={"X"}))
try:
    found = lax.cumsum(x).tolist()
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", np.cumsum(np.arange(1.0, 5)).tolist())
raise SystemExit(int("pspec" not in repr(found)))
