"""A pending constant is merged with an equal one that is not."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda w: (w * (w + 1.0)).sum()
w = jax.reshard(jnp.arange(4.0), P(reduced={"X"}))
got = jax.reshard(jax.jit(jax.grad(loss))(w), P()).tolist()
right = (2 * np.arange(4.0) + 1).tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
