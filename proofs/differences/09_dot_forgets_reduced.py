"""A contraction forgets reduced."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
w = jax.reshard(jnp.arange(4.0).reshape(2, 2), P(reduced={"X"}))
loss = lambda w: jnp.dot(w, w).sum()
print("forward:", jax.jit(loss).trace(w).jaxpr.out_avals)
right = jax.grad(loss)(jax.reshard(w, P())).tolist()
try:
    found = jax.grad(loss)(w)
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("unreduced axes should be equal" not in repr(found)))
