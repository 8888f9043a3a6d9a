"""What a pure_callback makes of what varies does not vary."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",)))
shape = jax.ShapeDtypeStruct((1,), jnp.float32)
call = lambda v: jax.pure_callback(np.asarray, shape, v)
y = jax.jit(jax.shard_map(call, in_specs=P("X"), out_specs=P()))(jnp.array([1.0, 2], out_sharding=P("X")))
got = [shard.data.tolist() for shard in y.addressable_shards]
print("JAX:", got, "right: the same on each device, or refused")
raise SystemExit(int(got[0] == got[1]))
