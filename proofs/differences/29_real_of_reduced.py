"""What is linear counts as nonlinear."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda x: lax.real(x).sum()
x = jax.reshard(jnp.arange(1.0, 5) + 2j, P(reduced={"X"}))
right = jax.jit(jax.grad(loss))(jax.reshard(x, P())).tolist()
print("forward:", jax.jit(loss).trace(x).jaxpr.out_avals)
try:
    found = jax.jit(jax.grad(loss))(x)
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("is a non-linear operation" not in repr(found)))
