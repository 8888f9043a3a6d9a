"""A target of a broadcast is not held against the operand."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
y = jnp.ones(2, out_sharding=P(unreduced={"X"}))
got = jax.reshard(y, P()).tolist()
right = np.ones(2).tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
