"""The derivative of the logarithm of a gamma sample loops over what is cut."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda a: jax.random.loggamma(jax.random.key(0), a).sum()
right = jax.make_jaxpr(jax.grad(loss))(jnp.ones((4, 2))).out_avals  # each number has its own derivative
try:
    found = jax.make_jaxpr(jax.grad(loss))(jnp.ones((4, 2), out_sharding=P("X")))
except (ValueError, jax._src.core.ShardingTypeError) as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("Error(" not in repr(found)))
