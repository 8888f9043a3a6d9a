"""A reduction over windows looks at its operand and never at what it starts from."""

import jax
import jax.numpy as jnp
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))


def windows(v):
    start = lax.axis_index("X").astype(v.dtype)
    return lax.reduce_window(v, start, lambda a, b: a * b + 1, (2,), (2,), "VALID")


y = jax.jit(jax.shard_map(windows, in_specs=P(), out_specs=P()))(jnp.ones(4))  # typed as the same on each device
got = [shard.data.tolist() for shard in y.addressable_shards]
print("JAX:", got, "right: the same on each device, or refused")
raise SystemExit(int(got[0] == got[1]))
