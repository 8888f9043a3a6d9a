"""A rounding to few bits counts as linear."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([1.0, 0.0625], out_sharding=P("X")))
y = lax.reduce_precision(x, 8, 3)
got = jax.reshard(y, P()).tolist()
right = float(lax.reduce_precision(jnp.float32(1.0 + 0.0625), 8, 3))
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
