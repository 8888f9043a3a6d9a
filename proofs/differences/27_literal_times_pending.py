"""A literal counts as replicated."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[1.0, 2], [3, 4]], out_sharding=P("X")))
try:
    found = jax.reshard(x * 2.0, P()).tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [2.0 * (1 + 3), 2.0 * (2 + 4)])
raise SystemExit(int("should be reduced" not in repr(found)))
