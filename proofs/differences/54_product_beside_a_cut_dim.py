"""A product along a dim has no gradient where a dim is cut."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda x: x.prod(1).sum()
x = jax.reshard(jnp.arange(1.0, 9).reshape(4, 2), P("X"))
right = jax.jit(jax.grad(loss))(jax.reshard(x, P())).tolist()
print("forward:", jax.jit(loss).trace(x).jaxpr.out_avals)
try:
    found = jax.jit(jax.grad(loss))(x)
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("Error(" not in repr(found)))
