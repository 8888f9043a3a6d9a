"""In manual mode, the sorted pieces of a sum count as pieces of the sorted sum."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([[1.0, 0], [0, 3]], out_sharding=P("X")))
y = jax.jit(jax.shard_map(lambda v: lax.top_k(v, 1)[0], in_specs=U, out_specs=U))(x)
got = jax.reshard(y, P()).tolist()
right = [max(1.0 + 0, 0.0 + 3)]
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
