"""A reduction turns a pending sum into a pending maximum, and the other way."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U_MAX = P(None, unreduced={"X"}, unreduced_kind=jax.sharding.UnreducedKind.max)
pieces = jnp.array([[1.0, 5], [3, 2]], out_sharding=P("X"))
x = lax.reduce_max(pieces, (0,), out_sharding=U_MAX)
y = lax.reduce_sum(x, (0,), out_sharding=P(unreduced={"X"}))
got = jax.reshard(y, P()).tolist()
right = np.array([[1.0, 5], [3, 2]]).max(0).sum().tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
