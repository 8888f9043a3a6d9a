"""Manual mode forgets the states of operands where a primitive has no rule for them."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
U = P(unreduced={"X"})
pend = jax.shard_map(lambda v: lax.pcast(v[0], "X", to="unreduced"), in_specs=P("X"), out_specs=U)
x = pend(jnp.array([1.0, 2], out_sharding=P("X")))
y = jax.jit(jax.shard_map(lambda v: lax.integer_pow(v, 3), in_specs=U, out_specs=P()))(x)
got = [shard.data.tolist() for shard in y.addressable_shards]
right = [(1.0 + 2.0) ** 3] * 2
print("JAX:", got, "right:", right)
raise SystemExit(int(got == right))
