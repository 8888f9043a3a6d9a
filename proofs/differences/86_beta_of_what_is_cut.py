"""The incomplete beta function does not compile where an array is cut."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
a, x = jnp.ones(4, out_sharding=P("X")), jnp.array([0.0, 0.25, 0.5, 0.75], out_sharding=P("X"))
print("typed:", jax.eval_shape(lax.betainc, a, a, x).sharding.spec)
try:
    found = lax.betainc(a, a, x).tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [0.0, 0.25, 0.5, 0.75])
raise SystemExit(int("select `which`" not in repr(found)))
