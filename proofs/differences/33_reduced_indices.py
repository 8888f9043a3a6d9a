"""Reduced indices are refused."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
i = jax.reshard(jnp.int32(1), P(reduced={"X"}))
loss = lambda x: lax.dynamic_slice(x, (i,), (2,)).sum()
x = jnp.arange(4.0)
print("forward:", jax.jit(loss).trace(x).jaxpr.out_avals)
try:
    found = jax.grad(loss)(x)
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [0.0, 1.0, 1.0, 0.0])
raise SystemExit(int("cannot have unreduced or reduced" not in repr(found)))
