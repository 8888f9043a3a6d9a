"""A sum into places has no gradient at an operand that is cut as its updates are."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
rows = lax.ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))
places, u = jnp.ones((4, 1), int), jnp.ones(4, out_sharding=P("X"))
loss = lambda x: lax.scatter_add(x, places, u, rows).sum()
try:
    found = jax.jit(jax.grad(loss))(jnp.ones((4, 8)))
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", np.ones((4, 8)).tolist())
cut = jax.jit(jax.grad(loss))(jnp.ones((4, 8), out_sharding=P("X")))
raise SystemExit(int("Expected cotangent type" not in repr(found) or cut.sum() != 32))
