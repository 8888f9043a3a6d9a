"""A stack of reduced arrays has no gradient."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda a: jnp.stack([a, a]).sum()
x = jax.reshard(jnp.arange(2.0), P(reduced={"X"}))
right = jax.jit(jax.grad(loss))(jax.reshard(x, P())).tolist()
try:
    found = jax.jit(jax.grad(loss))(x)
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("pspec" not in repr(found)))
