"""Quotients of integers count as linear."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([1, 1], out_sharding=P("X")))
y = lax.div(x, jax.reshard(jnp.int32(2), P(reduced={"X"})))
got = jax.reshard(y, P()).tolist()
right = (1 + 1) // 2
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
