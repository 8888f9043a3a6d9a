"""A target of a creation is taken at its word."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
y = jnp.arange(4.0, out_sharding=P(unreduced={"X"}))
got = jax.reshard(y, P()).tolist()
right = np.arange(4.0).tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
