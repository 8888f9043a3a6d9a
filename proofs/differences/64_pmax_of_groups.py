"""A maximum over groups of devices counts as one over all."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((4,), ("X",)))
most = lambda v: lax.pmax(v, "X", axis_index_groups=[[0, 1], [2, 3]])
y = jax.jit(jax.shard_map(most, in_specs=P("X"), out_specs=P()))(jnp.arange(1.0, 5, out_sharding=P("X")))
got = [shard.data.tolist() for shard in y.addressable_shards]
print("JAX:", got, "right: the same on each device, or refused")
raise SystemExit(int(got[0] == got[3]))
