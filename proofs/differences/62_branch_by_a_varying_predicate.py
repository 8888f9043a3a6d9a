"""What a varying predicate chooses does not vary."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
choose = lambda v: lax.cond(v[0] > 1, lambda: jnp.float32(1), lambda: jnp.float32(2))
y = jax.jit(jax.shard_map(choose, in_specs=P("X"), out_specs=P()))(jnp.array([1.0, 2], out_sharding=P("X")))
got = [shard.data.tolist() for shard in y.addressable_shards]
print("JAX:", got, "right: the same on each device, or refused")
raise SystemExit(int(got[0] == got[1]))
