"""A pad looks at its operand and never at what it pads with."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[1.0, 1], [1, 1]], out_sharding=P("X")))
y = lax.pad(x, 7.0, ((0, 1, 0),))
got = jax.reshard(y, P()).tolist()
right = np.pad(np.array([2.0, 2]), (0, 1), constant_values=7).tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
