"""In manual mode, functions that are made of others do not compile of what is reduced."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
R = P(reduced={"X"})
x = jax.reshard(jnp.array([0.25, 0.5]), R)
arcsine = jax.jit(jax.shard_map(lax.asin, in_specs=R, out_specs=R))
print("typed:", jax.eval_shape(arcsine, x).sharding.spec)
try:
    found = arcsine(x).tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", np.arcsin([0.25, 0.5]).tolist())
raise SystemExit(int("cannot be replicated on the same axes" not in repr(found)))
