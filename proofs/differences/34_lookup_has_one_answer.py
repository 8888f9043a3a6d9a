"""Lookups, convolutions and products of groups ask for a target where there is one answer."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x, i = jnp.arange(8.0), jnp.array([3, 1, 0, 2], out_sharding=P("X"))
try:
    found = x[i].tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", np.arange(8.0)[[3, 1, 0, 2]].tolist())
raise SystemExit(int("out_sharding" not in repr(found)))
