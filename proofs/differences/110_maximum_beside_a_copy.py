"""A pending maximum that leaves a manual region beside a copy cannot be run."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U_MAX = P(None, unreduced={"X"}, unreduced_kind=jax.sharding.UnreducedKind.max)
x = lax.reduce_max(jnp.array([[1.0, 5], [3, 2]], out_sharding=P("X")), (0,), out_sharding=U_MAX)
both = jax.jit(jax.shard_map(lambda w, v: (w, v), in_specs=(P(), U_MAX), out_specs=(P(), U_MAX)))
try:
    found = jax.reshard(both(jnp.ones(2), x)[1], P()).tolist()
except AssertionError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", np.max([[1.0, 5], [3, 2]], 0).tolist())
raise SystemExit(int("Unexpected XLA sharding override" not in repr(found)))
