"""An exchange of blocks that are part a transpose and part zeros does not compile on CPUs."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
jax.set_mesh(jax.make_mesh((2,), ("X",), axis_types=(jax.sharding.AxisType.Explicit,)))


def exchanged(block):
    return lax.all_to_all(jnp.pad(block.T, ((0, 0), (0, 2))), "X", 1, 1, tiled=True)


x = np.arange(16.0).reshape(4, 4)
right = np.concatenate([x.T, np.zeros((4, 4))]).tolist()
try:
    both = jax.jit(jax.shard_map(exchanged, in_specs=P("X"), out_specs=P("X")))
    got = np.asarray(both(jax.reshard(jnp.array(x), P("X")))).tolist()
except jax.errors.JaxRuntimeError as error:
    got = str(error)
print("JAX:", str(got)[:160], "right:", right)
raise SystemExit(int(got == right or "different shapes" not in got))
