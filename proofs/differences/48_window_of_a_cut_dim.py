"""A window that leaves a dim whole has no gradient where the dim is cut."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda x: lax.slice(x, (3,), (4,)).sum()
x = jnp.arange(4.0, out_sharding=P("X"))
right = jax.jit(jax.grad(loss))(jax.reshard(x, P())).tolist()
print("forward:", jax.jit(loss).trace(x).jaxpr.out_avals)
try:
    found = jax.jit(jax.grad(loss))(x)
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("Expected cotangent type" not in repr(found)))
