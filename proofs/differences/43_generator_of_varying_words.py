"""In manual mode, generators do not look at what their words vary over."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
bits = lambda key: lax.rng_bit_generator(key, (1,))[1]
key = jnp.arange(8, dtype=jnp.uint32, out_sharding=P("X"))
y = jax.jit(jax.shard_map(bits, in_specs=P("X"), out_specs=P()))(key)  # typed as the same on each device
got = [shard.data.tolist() for shard in y.addressable_shards]
print("JAX:", got, "right: the same on each device, or refused")
raise SystemExit(int(got[0] == got[1]))
