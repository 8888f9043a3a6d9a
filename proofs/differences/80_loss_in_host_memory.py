"""A loss in the host's memory has no gradient."""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda x: jax.device_put((x * x).sum(), jax.memory.Space.Host)
x = jnp.arange(4.0)
right = (2 * np.arange(4.0)).tolist()
try:
    found = jax.grad(loss)(x)
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("<host>" not in repr(found)))
