"""A contraction refuses every unreduced operand."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[1.0, 2], [3, 4]], out_sharding=P("X")))
w = jax.reshard(jnp.ones(2), P(reduced={"X"}))
try:
    found = jax.reshard(jnp.dot(x, w), P()).tolist()
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", 1.0 + 3 + 2 + 4)
raise SystemExit(int("cannot be unreduced" not in repr(found)))
