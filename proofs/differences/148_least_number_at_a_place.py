"""A least or greatest number at a place has no gradient where rows are cut and updates lie whole."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
x, updates, places = jnp.ones((4, 8), out_sharding=P("X")), jnp.zeros(4), jnp.full((4, 1), 5)
rows = lax.ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))
least = lambda x: lax.scatter_min(x, places, updates, rows)
print("JAX:", jax.typeof(least(x)))
try:
    found = jax.typeof(jax.grad(lambda x: least(x).sum())(x))
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", str(found)[:200], "right: 1 everywhere, and 0 at the places")
raise SystemExit(int("select `which`" not in str(found)))
