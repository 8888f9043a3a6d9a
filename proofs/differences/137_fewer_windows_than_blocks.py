"""Windows are refused where their number does not divide by what cuts the dim that they look along."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2))
pairs = jax.jit(lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID"))
x = jnp.arange(4.0)
try:
    found = pairs(jax.device_put(x, P(("X", "Y"))))
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
right = pairs(jax.device_put(x, P("X")))
print("right:", right, "of type", jax.typeof(right))
raise SystemExit(int("not divisible by mesh axes" not in repr(found) or right.tolist() != [1, 5]))
