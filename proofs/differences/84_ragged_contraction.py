"""A contraction of ragged groups is typed where rows are cut, and does not compile."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x, w, sizes = jnp.ones((4, 2), out_sharding=P("X")), jnp.ones((2, 2, 3)), jnp.array([1, 3])
numbers = lax.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0])
ragged = jax.jit(lambda x: lax.ragged_dot_general(x, w, sizes, numbers, out_sharding=P("X")))
print("typed:", ragged.trace(x).jaxpr.out_avals)
try:
    found = ragged(x).tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", (np.ones((4, 2)) @ np.ones((2, 3))).tolist())
raise SystemExit(int("select `which`" not in repr(found)))
