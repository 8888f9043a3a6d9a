"""What stands side by side must be cut alike: a copy is not sliced."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
mask, x = jnp.array([True, False, True, False]), jnp.arange(4.0, out_sharding=P("X"))
try:
    found = lax.select(mask, x, -x).tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [0.0, -1.0, 2.0, -3.0])
raise SystemExit(int("must be scalar or have the same sharding" not in repr(found)))
