"""What is set in an array has no gradient where rows are cut."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
loss = lambda v: jnp.zeros((4, 4), out_sharding=P(None, "X")).at[jnp.array([0, 2])].set(v).sum()
x = jnp.ones((2, 4), out_sharding=P(None, "X"))
right = np.ones((2, 4)).tolist()
try:
    found = jax.jit(jax.grad(loss))(x)
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("out_sharding" not in repr(found)))
