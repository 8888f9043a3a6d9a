"""An untiled all-to-all has no gradient where it splits and joins at different places."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
pair = lambda v: lax.all_to_all(v.reshape(3, 2, 2, 1)[..., 0], "X", 1, 0)
swap = jax.shard_map(lambda v: pair(v[:, :, None][:, :, 0]), in_specs=P("X"), out_specs=P(None, None, "X"))
loss = lambda x: (jnp.arange(24.0).reshape(2, 3, 4) * jax.reshard(swap(x), P())).sum()
x = jnp.arange(24.0).reshape(6, 4)
right = "the gradient of the tiled exchange"
try:
    found = jax.jit(jax.grad(loss))(jax.reshard(x, P("X")))
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("Expected cotangent type" not in repr(found)))
