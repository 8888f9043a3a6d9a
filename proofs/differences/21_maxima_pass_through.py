"""Pending maxima and minima pass through next to nothing."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U_MAX = P(None, unreduced={"X"}, unreduced_kind=jax.sharding.UnreducedKind.max)
pieces = np.array([[1.0, 5], [3, 2]], np.float32)
x = lax.reduce_max(jnp.array(pieces, out_sharding=P("X")), (0,), out_sharding=U_MAX)
try:
    found = jax.reshard(lax.exp(x), P()).tolist()
except ValueError as error:
    found = error
print("JAX:", repr(found)[:200])
print("right:", np.exp(pieces).max(0).tolist())
raise SystemExit(int("unreduced_kind" not in repr(found)))
