"""A reshape that permutes partial sums first is finished, and taken for pending still."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]], out_sharding=P("X")))
y = jax.jit(lambda x: lax.reshape(x, (4,), dimensions=(1, 0)))(x)
got = jax.reshard(y, P()).tolist()
right = [1.0 + 5, 3.0 + 7, 2.0 + 6, 4.0 + 8]
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
