"""In manual mode, what follows keys that vary need not vary."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
order = lambda k, v: lax.sort_key_val(k, v)[1]  # likewise jnp.argsort
keys = jnp.array([1, 2, 2, 1], out_sharding=P("X"))  # typed as the same on each device:
y = jax.jit(jax.shard_map(order, in_specs=(P("X"), P()), out_specs=P()))(keys, jnp.array([10, 20]))
got = [shard.data.tolist() for shard in y.addressable_shards]
print("JAX:", got, "right: the same on each device, or refused")
raise SystemExit(int(got[0] == got[1]))
