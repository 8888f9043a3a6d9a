"""A sum over windows has no gradient where they cross a cut dim."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda x: (lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID") * jnp.array([1.0, 10])).sum()
x = jnp.arange(4.0, out_sharding=P("X"))
right = jax.jit(jax.grad(loss))(jax.reshard(x, P())).tolist()
try:
    found = jax.jit(jax.grad(loss))(x)
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("padding on sharded dims" not in repr(found)))
