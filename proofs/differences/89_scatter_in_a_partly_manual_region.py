"""A reduce-scatter in a partly manual region does not compile."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2, 2), ("X", "Y")))
scatter = lambda v: lax.psum_scatter(v, "X", tiled=True)
f = jax.shard_map(scatter, in_specs=P("X"), out_specs=P("X"), axis_names={"X"})
x = jnp.arange(4.0, out_sharding=P("X"))
try:
    found = jax.jit(f)(x).tolist()
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [0.0 + 2, 1.0 + 3])
raise SystemExit(int("Length of sharding.spec" not in repr(found)))
