"""A reduction by a function counts what it starts from once per device."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jnp.arange(8.0, out_sharding=P("X"))
got = float(lax.reduce(x, 5.0, lambda a, b: a + b + 0.0, (0,)))
right = float(np.arange(8.0).sum() + 5)
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
