"""vmap over a dim of what is reduced, or pending, raises."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))
w = jax.reshard(jnp.arange(4.0).reshape(2, 2), P(reduced={"X"}))
try:
    found = jax.vmap(jnp.sum)(w)
except ValueError as error:
    found = error
right = jnp.sum(w, 1)
print("JAX:", repr(found)[:100], "right, without vmap:", jax.typeof(right), right)
raise SystemExit(int("pspec[...] is dangerous" not in repr(found) or right.tolist() != [1.0, 5.0]))
