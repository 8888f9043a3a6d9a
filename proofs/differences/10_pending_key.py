"""A pending key."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
seed = pend(jnp.array([1, 2], dtype=jnp.uint32, out_sharding=P("X")))
print("typed:", jax.eval_shape(jax.random.key, seed).sharding.spec, "though keys have no sum")
right = "refused, or the key of 1 + 2"
try:
    found = jax.jit(jax.random.key)(seed)
except jax._src.core.ShardingTypeError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", right)
raise SystemExit(int("cannot accept" not in repr(found)))
