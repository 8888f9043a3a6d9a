"""jnp.roll of what is reduced, or pending, raises."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
w = jax.reshard(jnp.arange(4.0), P(reduced={"X"}))
try:
    found = jnp.roll(w, 1)
except ValueError as error:
    found = error
right = jnp.roll(jax.reshard(w, P()), 1)
print("JAX:", repr(found)[:100], "right, at a copy:", right)
raise SystemExit(int("pspec[...] is dangerous" not in repr(found) or right.tolist() != [3.0, 0.0, 1.0, 2.0]))
