"""A dim that two axes of unlike sizes cut is spread out at wrong places as pieces of a sum."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((4, 2), ("X", "Y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2))
x = jax.reshard(jnp.arange(8.0), P(("X", "Y")))
pieces = jax.jit(lambda x: jax.reshard(x, P(None, unreduced={"X", "Y"})))(x)
got, right = jax.reshard(pieces, P()).tolist(), x.tolist()
print("JAX:", jax.typeof(pieces), got, "right:", right)
raise SystemExit(int(got == right))
