"""Conversions that are not additive count as linear."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[0.5, 0.5], [0.5, 0.5]], out_sharding=P("X")))
y = lax.convert_element_type(x, jnp.int32)
got = jax.reshard(y, P()).tolist()
right = np.array([0.5 + 0.5, 0.5 + 0.5]).astype(np.int32).tolist()
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
