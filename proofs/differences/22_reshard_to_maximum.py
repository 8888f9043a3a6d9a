"""A reshard finishes a pending reduction of one kind and leaves none of another."""

import jax
import jax.numpy as jnp
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U_MAX = P(None, unreduced={"X"}, unreduced_kind=jax.sharding.UnreducedKind.max)
try:
    found = jax.reshard(jax.reshard(jnp.ones(2), U_MAX), P()).tolist()
except (ValueError, NotImplementedError, jax._src.core.ShardingTypeError) as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", [1.0, 1.0])
raise SystemExit(int("unreduced" not in repr(found)))
