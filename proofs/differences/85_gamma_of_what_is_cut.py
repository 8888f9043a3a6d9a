"""The logarithm of the gamma function does not compile where an array is cut."""

import math

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))

x = jnp.arange(1.0, 5, out_sharding=P("X"))
print("typed:", jax.eval_shape(lax.lgamma, x).sharding.spec)
try:
    found = lax.lgamma(x).tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [math.lgamma(a) for a in range(1, 5)])
raise SystemExit(int("gather indexing" not in repr(found)))
