"""A choice looks at the state of its first case only."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
which = pend(jnp.array([[True, False], [False, True]], out_sharding=P("X")))
ones = pend(jnp.array([[1.0, 1], [1, 1]], out_sharding=P("X")))
tens = pend(jnp.array([[10.0, 10], [10, 10]], out_sharding=P("X")))
y = jax.jit(lax.select_n)(which, ones, tens)
got = jax.reshard(y, P()).tolist()
right = np.where([True, True], [10 + 10, 10 + 10], [1 + 1, 1 + 1]).tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
