"""The residuals of a nested manual region name the outer axis."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))
inner = jax.shard_map(lambda u: jnp.sin(u) * u, in_specs=P("Y"), out_specs=P("Y"), axis_names={"Y"})
outer = jax.shard_map(inner, in_specs=P("X"), out_specs=P("X"), axis_names={"X"})
loss = lambda x: outer(x).sum()
x = jnp.arange(4.0, out_sharding=P(("X", "Y")))
right = (np.cos(np.arange(4.0)) * np.arange(4.0) + np.sin(np.arange(4.0))).tolist()
try:
    found = jax.jit(jax.grad(loss))(x)
except (ValueError, TypeError) as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("manual_computation" not in repr(found)))
