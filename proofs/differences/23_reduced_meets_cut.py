"""A reduced operand is not sliced where it meets a cut one."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
x = jax.reshard(jnp.arange(1.0, 5), P(reduced={"X"}))
y = jnp.arange(4.0, out_sharding=P("X"))
try:
    found = (x * y).tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", (np.arange(1.0, 5) * np.arange(4.0)).tolist())
raise SystemExit(int("cannot be sharded/varying on the same axes" not in repr(found)))
